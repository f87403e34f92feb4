"""Recording runs of the real harness into a folder, and running them again from there.

A recording is a folder with ``sessions`` (the logs, as the runtime wrote them), ``trace.jsonl`` (what the plugin told) and
``run.flight.json`` (the flight records). A replay needs no key and no network: the model's answers come from the logs, and the
tools run.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from cassette_lab.errors import ConfigError
from cassette_lab.flight.model import Snapshot
from cassette_lab.flight.reader import save_snapshot
from cassette_lab.host.harness.flights import flights_of
from cassette_lab.host.harness.recorded import SESSIONS, TRACE
from cassette_lab.host.harness.runtime import Harness, HarnessRun, working_folder
from cassette_lab.host.harness.script import Departure, HarnessScript, load_script
from cassette_lab.host.harness.trace import TraceWriter, read_trace
from cassette_lab.jsonio import JsonObject

FLIGHTS: Final = "run.flight.json"
_HOME: Final = ".home"
_DEAD_URL: Final = "http://127.0.0.1:9/v1"


class HarnessRecording:
    """A recording that is being made; ``flights`` is there at its end."""

    def __init__(self, folder: Path, harness: Harness) -> None:
        self.folder = folder
        self.harness = harness
        self.flights: Snapshot | None = None

    async def run(self, prompt: str | Sequence[JsonObject], *, session_id: str | None = None) -> HarnessRun:
        """As ``Harness.run``."""
        return await self.harness.run(prompt, session_id=session_id)


class HarnessReplay:
    """A recorded run that is run again. ``departures`` say where it is not as it was."""

    def __init__(self, folder: Path, harness: Harness, script: HarnessScript) -> None:
        self.folder = folder
        self.harness = harness
        self._script = script

    async def run(self, prompt: str | Sequence[JsonObject], *, session_id: str | None = None) -> HarnessRun:
        """As ``Harness.run``; sessions that are given no id get the same ones as in the recording."""
        return await self.harness.run(prompt, session_id=session_id)

    @property
    def departures(self) -> list[Departure]:
        """Where the run departed so far: another request, a call or session too many, or too few."""
        return self._script.departures()

    def assert_as_recorded(self) -> None:
        """Raise ``MismatchError`` unless the run was the recorded one."""
        self._script.assert_as_recorded()


@asynccontextmanager
async def record_harness(folder: str | Path, **options: Any) -> AsyncIterator[HarnessRecording]:
    """Record what is run into ``folder``, which is new or empty. Options are those of ``HarnessOptions``.

    Whatever ends the block, what was recorded until then is kept. Raises ``ConfigError`` for a folder that has something in
    it, and what ``Harness`` raises.
    """
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError("a harness run is recorded into a new or empty folder; name another, or remove it", path=folder)
    folder.mkdir(parents=True, exist_ok=True)
    home = folder / _HOME
    trace = TraceWriter(folder / TRACE)
    harness = Harness(home, plugin=trace.hear, **options)
    recording = HarnessRecording(folder, harness)
    try:
        yield recording
    finally:
        await harness.close()
        trace.close()
        if (home / SESSIONS).is_dir():
            shutil.move(home / SESSIONS, folder / SESSIONS)
        shutil.rmtree(home, ignore_errors=True)
        recording.flights = await flights_of(read_trace(folder / TRACE))
        save_snapshot(recording.flights, folder / FLIGHTS)


@asynccontextmanager
async def replay_harness(folder: str | Path, *, strict: bool = False, **options: Any) -> AsyncIterator[HarnessReplay]:
    """Run a recording again: the same prompts, in the block, meet the recorded answers. Nothing is written into ``folder``.

    Options are those of ``HarnessOptions``; the model and the rest should be those of the recording. With ``strict`` the end
    of the block raises ``MismatchError`` if the run departed. Raises what ``load_script`` and ``Harness`` raise.
    """
    folder = Path(folder)
    script = load_script(folder, cwd=working_folder(options.get("cwd")))
    options = {**options, "base_url": _DEAD_URL, "api_key_env": None}
    harness = Harness(plugin=script.hear, replay=True, **options)
    replay = HarnessReplay(folder, harness, script)
    try:
        yield replay
    finally:
        await harness.close()
    if strict:
        replay.assert_as_recorded()
