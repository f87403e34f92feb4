"""Recording runs of the real harness into a folder, and running them again from there.

A recording is a folder with ``sessions`` (the logs, as the runtime wrote them), ``trace.jsonl`` (what the plugin told) and
``run.flight.json`` (the flight records). A replay needs no key and no network: the model's answers come from the logs, and the
tools run.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, Self, TypeAlias, TypeVar, get_args

from cassette_lab.errors import CassetteLabError, ConfigError
from cassette_lab.flight.model import Snapshot
from cassette_lab.flight.reader import save_snapshot
from cassette_lab.host.harness import current
from cassette_lab.host.harness.flights import flights_of
from cassette_lab.host.harness.options import harness_options, with_option_names
from cassette_lab.host.harness.process import need_runtime
from cassette_lab.host.harness.recorded import SESSIONS, TRACE, is_logged, route_of
from cassette_lab.host.harness.runtime import Harness, HarnessRun, working_folder
from cassette_lab.host.harness.script import Departure, HarnessScript, load_script
from cassette_lab.host.harness.trace import TraceWriter, read_trace
from cassette_lab.jsonio import JsonObject

FLIGHTS: Final = "run.flight.json"
SETTLE_TIMEOUT_S: Final = 60.0
_HOME: Final = ".home"
_DEAD_URL: Final = "http://127.0.0.1:9/v1"

T = TypeVar("T", bound="HarnessTape")

WriteMode: TypeAlias = Literal["create", "truncate"]


@dataclass(frozen=True, slots=True)
class HarnessStatus:
    """How far a recording or replay is: prompts that were given, and are ``running``, sessions that were met, model calls.

    ``total_calls`` are those of the recording, in a replay.
    """

    mode: Literal["record", "replay"]
    folder: Path
    prompts: int
    running: int
    sessions: int
    calls: int
    total_calls: int
    elapsed_s: float


class HarnessTape(ABC):
    """A run of the harness that is recorded or replayed, from ``open`` to ``close``. ``harness`` is the live one.

    ``runs`` are the prompts that ended so far.
    """

    mode: ClassVar[Literal["record", "replay"]]

    def __init__(self, folder: str | Path, options: dict[str, Any]) -> None:
        self.folder = Path(folder)
        self.options = harness_options(options)  # what is unknown is told here
        self._given = options
        self._harness: Harness | None = None
        self._prompts = 0
        self._running = 0
        self.runs: list[HarnessRun] = []
        self._idle = asyncio.Event()
        self._interrupted = asyncio.Event()
        self._closing = asyncio.Lock()
        self._opened_at = self._closed_at = 0.0

    def __repr__(self) -> str:
        state = "not open" if self._harness is None else "closed" if self.closed else "open"
        return f"<{self.mode} of a harness run, {self.folder}, {state}>"

    @property
    def harness(self) -> Harness:
        """The live harness. Raises ``ConfigError`` before it is open."""
        if self._harness is None:
            raise ConfigError(f"this {self.mode} is not open yet", path=self.folder)
        return self._harness

    @property
    def path(self) -> Path:
        """The recording's folder."""
        return self.folder

    @property
    def closed(self) -> bool:
        """Whether it was open and is no more."""
        return self._closed_at > 0

    def open(self) -> Self:
        """Begin; the runtime starts with the first prompt. Raises what the subclass raises, and where there is no runtime."""
        self._harness = self._begin()
        self._opened_at = time.monotonic()
        current.enter(self)
        return self

    def bind(self) -> Callable[[], None]:
        """Make it what ``harness()`` finds in this context, and in what starts from here on. Returns what undoes it."""
        return current.bind(self)

    async def run(self, prompt: str | Sequence[JsonObject], *, session_id: str | None = None) -> HarnessRun:
        """As ``Harness.run``; in a replay, sessions that are given no id get the same ones as in the recording."""
        self._prompts += 1
        self._running += 1
        try:
            run = await self.harness.run(prompt, session_id=session_id)
            self.runs.append(run)
            return run
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()

    def status(self) -> HarnessStatus:
        """What has happened so far."""
        sessions, calls, total = self._counts()
        elapsed_s = (self._closed_at or time.monotonic()) - self._opened_at if self._opened_at else 0.0
        return HarnessStatus(self.mode, self.folder, self._prompts, self._running, sessions, calls, total, elapsed_s)

    def interrupt(self) -> None:
        """Let ``close`` wait no longer for prompts that are out: they end with the runtime."""
        self._interrupted.set()

    async def close(self, error: BaseException | None = None) -> None:
        """End the runtime and all that it started, and what began with ``open``; ``error`` is what the work failed with.

        Without an error it waits for prompts that are out, at most ``SETTLE_TIMEOUT_S``.
        """
        async with self._closing:
            if self.closed or self._harness is None:
                return
            current.leave(self)
            try:
                if error is None and self._running:
                    await self._settled()
            finally:
                await self._close(self._harness, error)

    async def _settled(self) -> None:
        self._idle.clear()
        waits = {asyncio.create_task(event.wait()) for event in (self._idle, self._interrupted)}
        try:
            await asyncio.wait(waits, timeout=SETTLE_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _close(self, harness: Harness, error: BaseException | None) -> None:
        try:
            await harness.close()
        finally:
            self._closed_at = time.monotonic()
            await self._end(error)

    @abstractmethod
    def _begin(self) -> Harness: ...

    @abstractmethod
    async def _end(self, error: BaseException | None) -> None: ...

    @abstractmethod
    def _counts(self) -> tuple[int, int, int]: ...


class HarnessRecording(HarnessTape):
    """A recording that is being made; ``flights`` is there at its end."""

    mode = "record"

    @with_option_names
    def __init__(self, folder: str | Path, *, write_mode: WriteMode = "create", **options: Any) -> None:
        super().__init__(folder, options)
        if write_mode not in get_args(WriteMode):
            raise ConfigError(f"the write mode of a harness run is create or truncate, not {write_mode!r}", field="write_mode")
        self.flights: Snapshot | None = None
        self._write_mode = write_mode
        self._trace: TraceWriter | None = None
        self._sessions: set[Any] = set()
        self._calls = 0

    def _begin(self) -> Harness:
        replaced = self._replaced()
        need_runtime()
        for path in replaced:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        self.folder.mkdir(parents=True, exist_ok=True)
        harness = Harness(self.folder / _HOME, plugin=self._hear, **self._given)
        self._trace = TraceWriter(self.folder / TRACE)
        return harness

    def _replaced(self) -> list[Path]:
        """What has to go before the recording begins. Raises ``ConfigError`` where that is not ours to remove."""
        if not self.folder.exists():
            return []
        there = list(self.folder.iterdir()) if self.folder.is_dir() else None
        if there and self._write_mode == "truncate":
            others = sorted({path.name for path in there} - {SESSIONS, TRACE, FLIGHTS, _HOME})
            if not others:
                return there
            raise ConfigError(f"there is more in this folder than a recording ({others[0]}); name another", path=self.folder)
        if there is None or there:
            raise ConfigError(
                "a harness run is recorded into a new or empty folder; name another, or replace the recording that is there "
                "(write mode truncate)",
                path=self.folder,
            )
        return []

    def _hear(self, event: JsonObject) -> None:
        if self._trace is not None:
            self._trace.hear(event)
        if event.get("e") == "stream" and is_logged(event):
            self._sessions.add(event.get("sessionId"))
            self._calls += 1

    async def _end(self, error: BaseException | None) -> None:
        """Keep what was recorded, whatever ended it; where no session was begun, nothing."""
        del error
        if self._trace is not None:
            self._trace.close()
        home = self.folder / _HOME
        if (home / SESSIONS).is_dir():
            shutil.move(home / SESSIONS, self.folder / SESSIONS)
        shutil.rmtree(home, ignore_errors=True)
        if (self.folder / SESSIONS).is_dir():
            self.flights = await flights_of(read_trace(self.folder / TRACE))
            save_snapshot(self.flights, self.folder / FLIGHTS)
        else:
            (self.folder / TRACE).unlink(missing_ok=True)
            with suppress(OSError):  # what is not empty is somebody's
                self.folder.rmdir()

    def _counts(self) -> tuple[int, int, int]:
        return len(self._sessions), self._calls, self._calls


class HarnessReplay(HarnessTape):
    """A recorded run that is run again. ``departures`` say where it is not as it was."""

    mode = "replay"

    @with_option_names
    def __init__(self, folder: str | Path, *, strict: bool = False, **options: Any) -> None:
        super().__init__(folder, options)
        self._strict = strict
        self._script = HarnessScript([])

    @property
    def departures(self) -> list[Departure]:
        """Where the run departed so far: another request, a call or session too many, or too few."""
        return self._script.departures()

    def assert_as_recorded(self) -> None:
        """Raise ``MismatchError`` unless the run was the recorded one."""
        self._script.assert_as_recorded()

    def _begin(self) -> Harness:
        script = load_script(self.folder, cwd=working_folder(self.options.cwd))
        need_runtime()
        self._script = script
        options = {**route_of(self.folder), **self._given, "base_url": _DEAD_URL, "api_key_env": None}
        return Harness(plugin=script.hear, replay=True, **options)

    async def _end(self, error: BaseException | None) -> None:
        if self._strict and error is None:
            self.assert_as_recorded()

    def _counts(self) -> tuple[int, int, int]:
        sessions = self._script.sessions.values()
        played = sum(session.live_id is not None for session in sessions)
        return played, sum(session.cursor for session in sessions), sum(len(session.calls) for session in sessions)


@with_option_names
@asynccontextmanager
async def record_harness(
    folder: str | Path, *, write_mode: WriteMode = "create", **options: Any
) -> AsyncIterator[HarnessRecording]:
    """Record what is run into ``folder``, which is new or empty. Options are those of ``HarnessOptions``.

    ``write_mode="truncate"`` replaces a recording that is there. Whatever ends the block, what was recorded until then is
    kept. Raises ``ConfigError`` for a folder that has something else in it, and what ``Harness`` raises.
    """
    async with _entered(HarnessRecording(folder, write_mode=write_mode, **options)) as recording:
        yield recording


@with_option_names
@asynccontextmanager
async def replay_harness(folder: str | Path, *, strict: bool = False, **options: Any) -> AsyncIterator[HarnessReplay]:
    """Run a recording again: the same prompts, in the block, meet the recorded answers. Nothing is written into ``folder``.

    Options are those of ``HarnessOptions``; the model is that of the recording unless you name one. With ``strict`` the end
    of the block raises ``MismatchError`` if the run departed. Raises what ``load_script`` and ``Harness`` raise.
    """
    async with _entered(HarnessReplay(folder, strict=strict, **options)) as replay:
        yield replay


@asynccontextmanager
async def _entered(tape: T) -> AsyncIterator[T]:
    tape.open()
    unbind = tape.bind()
    try:
        yield tape
    except BaseException as error:
        unbind()
        try:
            await tape.close(error)
        except CassetteLabError as failure:
            error.add_note(f"At the end of the {tape.mode}: {failure}")
        raise
    unbind()
    await tape.close()
