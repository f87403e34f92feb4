"""What a cassette costs a call: recording from an upstream that answers at once, and answering from a file at once."""

from __future__ import annotations

import asyncio
import itertools
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from cassette_lab.cassette.config import CassetteConfig
from cassette_lab.cassette.install import open_cassette
from cassette_lab.contracts import Capabilities, SubagentProvider, SubagentRequest, SubagentResult
from cassette_lab.host.registry import SubagentRegistry
from tests.benchmarks.figures import Bench, figure

CALLS = 2_000
RUNS = 7
CONCURRENCIES = (16, 1)

_RESULT = SubagentResult(
    output=[{"type": "text", "text": "Nothing of note in this module; the list below says what was looked at. " * 10}],
    stop_reason="completed",
)
_QUESTION = "Look at every function of this module and say what is wrong with it. " * 10


class _InstantRun:
    """A run that has ended when it starts."""

    id = "instant"
    local_agent = None

    async def result(self) -> SubagentResult:
        return _RESULT

    async def dispose(self) -> None:
        pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


class _InstantProvider:
    name = "instant"
    capabilities = Capabilities()
    inherits_parent_context = False

    async def start(self, request: SubagentRequest) -> _InstantRun:  # noqa: ARG002 - it answers everything alike
        return _InstantRun()


@figure("recording")
def recording(bench: Bench) -> None:
    """Record and replay the same calls, by turns, 16 at once and one after the other."""
    calls = CALLS // 10 if bench.quick else CALLS
    requests = [
        SubagentRequest(
            prompt=[{"type": "text", "text": f"Module {number}. {_QUESTION}"}],
            label="audit",
            agent_options={"provider": "scripted", "model": "small"},
        )
        for number in range(calls)
    ]
    files = (bench.folder / f"recording-{number}.cassette.jsonl" for number in itertools.count())
    times: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for _, concurrency in itertools.product(range(2 if bench.quick else RUNS), CONCURRENCIES):
        file = next(files)
        for name, seconds in asyncio.run(_both_ways(file, requests, concurrency)).items():
            times.setdefault((name, concurrency), []).append((seconds[0] / calls * 1e6, seconds[1] / calls * 1e6))
        file.unlink()
    for name, what, limits in (("record", "recording", (80, 100)), ("replay", "replaying", (35, 35))):
        for concurrency, limit in zip(CONCURRENCIES, limits, strict=True):
            wall, cpu = zip(*times[name, concurrency], strict=True)
            bench.report(
                f"{what} a call, {concurrency} at once",
                statistics.median(wall),
                unit="µs",
                limit=limit,
                note=f"best run {min(wall):.0f} µs; of CPU time {statistics.median(cpu):.0f} µs",
            )


async def _both_ways(file: Path, requests: list[SubagentRequest], concurrency: int) -> dict[str, tuple[float, float]]:
    """Seconds, wall and CPU, to record these calls, and to replay them; opening and closing the file are left out."""
    providers = SubagentRegistry()
    providers.register(_InstantProvider())
    seconds: dict[str, tuple[float, float]] = {}
    for config in (
        CassetteConfig(file=file, upstream_provider="instant"),
        CassetteConfig(mode="replay", file=file, upstream_provider="instant"),
    ):
        handle = open_cassette(config, providers)
        waiting = iter(requests)
        start, cpu_start = time.perf_counter(), time.process_time()
        await asyncio.gather(*(_worker(handle.provider, waiting) for _ in range(concurrency)))
        seconds[config.mode] = (time.perf_counter() - start, time.process_time() - cpu_start)
        await handle.dispose()
    return seconds


async def _worker(provider: SubagentProvider, waiting: Iterator[SubagentRequest]) -> None:
    for request in waiting:
        run = await provider.start(request)
        await run.result()
        await run.dispose()
