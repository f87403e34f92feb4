"""Vectors of ``replay/``: delays and aborts of a replay, the options at install, the path of the file."""

from __future__ import annotations

import asyncio
import math
import os
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from cassette_lab.cassette.config import CassetteConfig, resolve_file
from cassette_lab.cassette.delays import replay_delays
from cassette_lab.cassette.identity import RequestIdentity
from cassette_lab.cassette.install import install_cassette
from cassette_lab.cassette.lock import WriterLock
from cassette_lab.cassette.model import Cassette, ErrorFacts, Interaction, Outcome, ProviderFacts, StoredRequest, Timing
from cassette_lab.cassette.player import ReplayProvider
from cassette_lab.cassette.topology import TopologyTracker
from cassette_lab.cassette.writer import CassetteWriter, make_header
from cassette_lab.contracts import ROOT_PARENT, AbortController, Capabilities, SubagentRequest, SubagentRun
from cassette_lab.errors import CassetteLabError, ConfigError
from cassette_lab.host.registry import SubagentRegistry
from tests.conformance.case import Case
from tests.conformance.files import vectors
from tests.conformance.identity import assert_equal, error_code

_REQUEST = {"label": "asked", "prompt": [{"type": "text", "text": "ask"}]}


def cases(folder: Path) -> Iterator[Case]:
    """One case for each vector of ``timing.json``, ``install.json`` and ``paths.json``."""
    for vector in vectors(folder / "timing.json"):
        yield Case(f"timing/{vector['id']}", partial(_check_timing, vector))
    for vector in vectors(folder / "install.json"):
        yield Case(f"install/{vector['id']}", partial(_check_install, vector))
    for vector in vectors(folder / "paths.json"):
        yield Case(f"paths/{vector['id']}", partial(_check_path, vector))


def _check_timing(vector: dict[str, Any]) -> None:
    found = asyncio.run(_play(vector))
    for name, value in found.items():
        assert_equal(value, vector[name], name)
    if found["configError"] is not None:
        return
    recorded = Timing("2026-01-01T00:00:00.000Z", vector["startLatencyMs"], vector["durationMs"])
    computed = [_number(vector["computedStartDelayMs"]), _number(vector["computedResultDelayMs"])]
    try:
        delays = list(replay_delays(recorded, vector["timing"], _number(vector["speed"])))
    except ConfigError:
        assert not all(map(math.isfinite, computed)), f"delays that are finite were refused: {computed}"
    else:
        assert delays == computed, f"delays {delays} instead of {computed}"


async def _play(vector: dict[str, Any]) -> dict[str, Any]:
    """What a replay of one call with these recorded times does."""
    found: dict[str, Any] = dict.fromkeys(
        ("configError", "startError", "resultError", "resultStopReason", "startTimersMs", "resultTimersMs", "consumed")
    )
    controller = AbortController()
    timers: list[float] = []
    abort = vector.get("abort")
    assert abort in (None, "before-start", "during-start", "during-result", "dispose"), f"unknown abort {abort}"

    def timer(delay_ms: float, callback: Callable[[], None]) -> Callable[[], None]:
        """Over at once; where the vector aborts during the start, the abort comes instead."""
        timers.append(delay_ms)
        step = controller.abort if abort == "during-start" else callback
        return asyncio.get_running_loop().call_soon(step).cancel

    try:
        provider = ReplayProvider(_cassette(vector), timing=vector["timing"], speed=_number(vector["speed"]), timer=timer)
    except CassetteLabError as error:
        return {**found, "configError": error.code}
    if abort == "before-start":
        controller.abort()
    request = SubagentRequest.from_json(_REQUEST, signal=controller.signal)
    run: SubagentRun | None = None
    try:
        run = await provider.start(request)
    except CassetteLabError as error:
        found["startError"] = error.code
    found["startTimersMs"] = timers
    if run is not None:
        if abort == "during-result":
            controller.abort()
        elif abort == "dispose":
            await run.dispose()
        try:
            found["resultStopReason"] = (await run.result()).stop_reason
        except CassetteLabError as error:
            found["resultError"] = error.code
        await run.dispose()
        found["startTimersMs"], found["resultTimersMs"] = _split(timers, vector)
    found["consumed"] = provider.matcher.consumed == 1
    return found


def _split(timers: list[float], vector: dict[str, Any]) -> tuple[list[float], list[float]]:
    """The timers of the start, which together are its delay, and those after them."""
    left = vector["computedStartDelayMs"]
    count = 0
    while left > 0 and count < len(timers):
        left -= timers[count]
        count += 1
    return timers[:count], timers[count:]


def _cassette(vector: dict[str, Any]) -> Cassette:
    kind = vector["outcomeKind"]
    if kind == "result":
        outcome = Outcome("result", {"output": [], "stopReason": "completed"})
    else:
        outcome = Outcome(kind, error=ErrorFacts("Error", "down", "OFFLINE" if kind == "start-error" else None))
    timing = Timing("2026-01-01T00:00:00.000Z", vector["startLatencyMs"], vector["durationMs"])
    return Cassette(_header(), (_interaction(timing, outcome),))


def _header() -> Any:
    return make_header(ProviderFacts("cassette", "spawn", Capabilities()))


def _interaction(timing: Timing, outcome: Outcome) -> Interaction:
    identity = RequestIdentity(_REQUEST)
    place = TopologyTracker(inherits_parent_context=False).reserve(identity, ROOT_PARENT)
    return Interaction(
        1,
        place.call_key,
        place.parent_key,
        place.parent_context_fingerprint,
        place.request_fingerprint,
        1,
        StoredRequest(metadata=identity.metadata),
        timing,
        outcome.kind != "start-error",
        local=False,
        outcome=outcome,
    )


def _check_install(vector: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory(prefix="cassette-install-") as temporary:
        folder = Path(temporary)
        with CassetteWriter.open(folder / "GOOD", _header()) as writer:
            timing = Timing("2026-01-01T00:00:00.000Z", 0, 0)
            writer.append(_interaction(timing, Outcome("result", {"output": [], "stopReason": "completed"})))
        lock = WriterLock(folder / "locked")
        try:
            found = asyncio.run(_install(vector["config"], folder))
        finally:
            lock.release()
    assert_equal(found, vector["result"], "installing")


async def _install(config: dict[str, Any], folder: Path) -> str:
    providers = SubagentRegistry()
    providers.register(_Upstream())
    if config.get("mode") == "replay":
        config = {"file": "GOOD", **config}
    try:
        handle = await install_cassette(CassetteConfig.from_json(config), providers, cwd=folder)
    except CassetteLabError as error:
        return error_code(error)
    try:
        await handle.dispose()
    except CassetteLabError as error:
        return f"ok; dispose {error_code(error)}"
    return "ok"


class _Upstream:
    """A provider that is there to be recorded from, and never called."""

    name = "real"
    capabilities = Capabilities()
    inherits_parent_context = False

    async def start(self, request: SubagentRequest) -> SubagentRun:
        raise NotImplementedError


def _check_path(vector: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory(prefix="cassette-path-") as folder:
        path = resolve_file(vector["path"], cwd=folder, now=vector["nowIso"], pid=vector["pid"])
        assert_equal(Path(os.path.relpath(path, folder)).as_posix(), vector["resolvedRelativeToCwd"], "path")


def _number(value: Any) -> Any:
    """Numbers that are not finite stand as strings."""
    return float(value) if value in ("NaN", "Infinity", "-Infinity") else value
