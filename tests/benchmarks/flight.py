"""What watching costs: shapes of requests, the recorder's own work, a chunk that passes, and a whole request."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial
from typing import Any

from cassette_lab.contracts import AbortSignal, FrozenTools, ModelRequest, ModelStream, StreamChunk
from cassette_lab.event_bus import ASSEMBLE, REQUEST, STREAM, Assembly, Attempt, mark_loop_request, with_initiator
from cassette_lab.flight.model import FlightRecord, Outcome
from cassette_lab.flight.observer import attach
from cassette_lab.flight.projection import Projector
from cassette_lab.flight.recorder import FlightRecorder
from cassette_lab.host.context import Context
from cassette_lab.jsonio import JsonObject
from tests.benchmarks.figures import Bench, figure

_CHUNK: StreamChunk = {"type": "text-delta", "index": 0, "text": "word "}
_FINISH: StreamChunk = {"type": "finish", "reason": {"kind": "stop"}}


@figure("flight")
def flight(bench: Bench) -> None:
    """All of it: projection, insert and settle, a chunk, the whole path of a request."""
    _projection(bench)
    _recording(bench)
    _chunks(bench)
    _whole_path(bench)


def _projection(bench: Bench) -> None:
    rounds = 20 if bench.quick else 500
    message = _message()
    floor = {count: partial(_repeat, partial(_visit, _tools(count)), rounds) for count in (0, 16, 128)}
    for count, limit_us in ((0, 4), (16, 20), (128, 120)):
        request = ModelRequest([message], _tools(count), "p", "m-1", {"maxTokens": 256, "temperature": 0.5})
        project = partial(_repeat, partial(Projector().request, request), rounds)
        times = bench.compare({"floor": floor[count], "project": project})
        _us(bench, f"projection, {count} tools the first time", times["project"] / rounds, limit_us, times["floor"] / rounds)
    frozen = ModelRequest([message], FrozenTools(_tools(128)), "p", "m-1", {"maxTokens": 256, "temperature": 0.5})
    times = bench.compare({"again": partial(_repeat, partial(Projector().request, frozen), rounds)})
    _us(bench, "projection, the loop's own 128 tools again", times["again"] / rounds, 2)
    many = ModelRequest([_message() for _ in range(1_000)], (), "p", "m-1")
    floor_many = partial(_repeat, partial(_visit, many.messages), 20)
    times = bench.compare({"floor": floor_many, "many": partial(_repeat, partial(Projector().request, many), 20)})
    _us(bench, "projection, 1,000 messages", times["many"] / 20, 400, times["floor"] / 20)


def _recording(bench: Bench) -> None:
    count = 200 if bench.quick else 5_000
    shape, _ = Projector().request(ModelRequest([_message()], _tools(4), "p", "m-1"))
    outcome = Outcome("finished", finish="stop", total_ms=12.5, first_chunk_ms=1.5)
    ids = [f"{number:08}" for number in range(count)]

    def record() -> None:
        recorder = FlightRecorder()
        for name in ids:
            recorder.insert(FlightRecord(name, "s", 1, 1, 1, 0, shape))
            recorder.settle(name, outcome)

    def floor() -> None:
        kept: dict[str, FlightRecord] = {}
        for name in ids:
            kept[name] = FlightRecord(name, "s", 1, 1, 1, 0, shape)
            kept[name] = FlightRecord(name, "s", 1, 1, 1, 0, shape, outcome=outcome)
            if len(kept) > 128:
                del kept[next(iter(kept))]

    times = bench.compare({"floor": floor, "record": record})
    _us(bench, "insert and settle", times["record"] / count, 15, times["floor"] / count)


def _chunks(bench: Bench) -> None:
    count = 2_000 if bench.quick else 50_000

    async def read(*, observed: bool) -> None:
        async with Context() as context:
            host = _Host(context)
            if observed:
                attach(context, FlightRecorder())
            await host.request(count)

    runs = {"floor": lambda: asyncio.run(read(observed=False)), "observed": lambda: asyncio.run(read(observed=True))}
    times = bench.compare(runs, 7)
    added = max(0.0, times["observed"] - times["floor"]) / count
    _us(bench, "a chunk, added by the observer", added, 0.6, times["floor"] / count)


def _whole_path(bench: Bench) -> None:
    count = 50 if bench.quick else 1_000

    async def run(*, observed: bool) -> None:
        async with Context() as context:
            host = _Host(context)
            if observed:
                attach(context, FlightRecorder())
            for _ in range(count):
                await host.request(8)

    runs = {"floor": lambda: asyncio.run(run(observed=False)), "observed": lambda: asyncio.run(run(observed=True))}
    times = bench.compare(runs, 7)
    added = max(0.0, times["observed"] - times["floor"]) / count
    _us(bench, "a request of 8 chunks, added on its whole path", added, 60, times["floor"] / count)


class _Host:
    """An agent that assembles, asks and reads, step by step, in one run."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._signal = AbortSignal()
        self._steps = itertools.count(1)
        self._tools = FrozenTools(_tools(16))
        self._parts = [{"name": f"part {number}", "text": "x" * 200} for number in range(8)]

    async def request(self, chunks: int) -> None:
        step = next(self._steps)
        bus = self._context
        assembly = Assembly(self, self._signal, "s", 1, step, self._parts, self._parts[:2], self._tools, {"cwd": "/"})
        await bus.waterfall(ASSEMBLE, assembly, _as_it_is)
        await bus.waterfall(REQUEST, Attempt(self, self._signal, "s", 1, step), _as_it_is)
        request = mark_loop_request(ModelRequest([_message()], self._tools, "p", "m-1", {}, "s", self._signal))

        def model(_: ModelRequest) -> ModelStream:
            return _answer(chunks)

        with with_initiator(self):
            stream = bus.stream(STREAM, request, model)
        async with aclosing(stream):
            async for _chunk in stream:
                pass


async def _answer(chunks: int) -> AsyncGenerator[StreamChunk, None]:
    for _ in range(chunks - 1):
        yield _CHUNK
    yield _FINISH


async def _as_it_is(payload: Any) -> Any:
    return payload


def _message() -> JsonObject:
    return {"role": "user", "source": {"kind": "user"}, "content": [{"type": "text", "text": "look at it"}]}


def _tools(count: int) -> list[JsonObject]:
    return [
        {
            "name": f"tool_{number}",
            "description": "looks",
            "parameters": {"type": "object", "properties": {"query": {"type": "string"}}},
        }
        for number in range(count)
    ]


def _repeat(function: Callable[[], object], times: int) -> None:
    for _ in range(times):
        function()


def _visit(values: Any) -> int:
    """The floor: only to look at each value once."""
    total = 0
    work = [values]
    for value in work:
        total += 1
        if type(value) is dict:
            work.extend(value.values())
        elif type(value) is list:
            work.extend(value)
    return total


def _us(bench: Bench, name: str, seconds: float, limit_us: float, floor_seconds: float | None = None) -> None:
    """The limit is for the figure itself; the floor beside it says how quick the machine is just now."""
    note = "" if floor_seconds is None else f"floor {floor_seconds * 1e6:.3g} µs"
    bench.report(name, seconds * 1e6, unit="µs", limit=limit_us, note=note)
