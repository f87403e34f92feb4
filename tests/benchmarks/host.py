"""What the agent loop itself costs a step: a model that answers at once, a tool that returns at once, a log that is on disk.

A step with a tool is synced twice: before the tool runs, for what it does may not be undone, and when the step is over.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from cassette_lab.host.agent import Agent
from cassette_lab.host.context import Context
from cassette_lab.host.models.scripted import Call, Say, ScriptedModel
from cassette_lab.session.store_jsonl import JsonlStore
from tests.benchmarks.figures import Bench, figure

STEPS = 20
"""Of one turn; the last one is only text."""
TURNS = 10
DELTAS = 50
LIMIT_MS = 2.0

_TEXT = "word " * DELTAS


async def noop(number: int) -> int:
    """Return the number."""
    return number


def _answers(turns: int) -> list[str | Say]:
    step: Sequence[str | Say] = [*(Say(_TEXT, [Call("noop", number=number)]) for number in range(STEPS - 1)), _TEXT]
    return [answer for _ in range(turns) for answer in step]


async def _seconds_a_step(store: JsonlStore | None, turns: int) -> tuple[float, float]:
    """The median turn, by its steps, and what of it the disk took to sync.

    Each turn is in a session of its own, after a first one that does not count.
    """
    times = []
    for turn in range(turns + 1):
        async with Agent(ScriptedModel(*_answers(1)), tools=[noop], sessions=store, context=Context()) as agent:
            with _synced() as synced:
                start = time.perf_counter()
                await agent.run("go")
                seconds = time.perf_counter() - start
            if turn:
                times.append((seconds / STEPS, sum(synced) / STEPS))
    return sorted(times)[len(times) // 2]


@contextmanager
def _synced() -> Iterator[list[float]]:
    """The seconds of every sync."""
    real, seconds = os.fsync, list[float]()

    def fsync(fd: Any) -> None:
        start = time.perf_counter()
        real(fd)
        seconds.append(time.perf_counter() - start)

    os.fsync = fsync
    try:
        yield seconds
    finally:
        os.fsync = real


@figure("host")
def host(bench: Bench) -> None:
    """A step with 52 chunks and one tool call, logged in a folder and in memory."""
    turns = 2 if bench.quick else TURNS
    with tempfile.TemporaryDirectory(dir=bench.folder) as folder, JsonlStore(folder) as store:
        durable, synced = asyncio.run(_seconds_a_step(store, turns))
    note = f"{DELTAS} deltas, one tool call; {synced * 1000:.2f} ms of it in two syncs"
    bench.report("a step of the agent loop, its log on disk", durable * 1000, unit="ms", limit=LIMIT_MS, note=note)
    memory, _ = asyncio.run(_seconds_a_step(None, turns))
    bench.report("a step of the agent loop, its log in memory", memory * 1000, unit="ms", limit=LIMIT_MS)
