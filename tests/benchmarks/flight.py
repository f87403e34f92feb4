"""What watching costs: shapes of requests, the recorder's own work, a chunk that passes, and a whole request.

These are microseconds: of many short turns the least counts, which is the one that nothing else of the machine came into.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
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
    rounds = 50
    message = _message()
    for count, limit_us in ((0, 4), (16, 20), (128, 120)):
        tools = _tools(count)
        request = ModelRequest([message], tools, "p", "m-1", {"maxTokens": 256, "temperature": 0.5})
        project = partial(_repeat, partial(Projector().request, request), rounds)
        least = _least(bench, {"floor": partial(_repeat, partial(_visit, [message, tools]), rounds), "": project})
        _us(bench, f"projection, {count} tools the first time", least[""] / rounds, limit_us, least["floor"] / rounds)
    frozen = ModelRequest([message], FrozenTools(_tools(128)), "p", "m-1", {"maxTokens": 256, "temperature": 0.5})
    again = partial(_repeat, partial(Projector().request, frozen), rounds)
    least = _least(bench, {"floor": partial(_repeat, partial(_visit, [message]), rounds), "": again})
    _us(bench, "projection, the loop's own 128 tools again", least[""] / rounds, 2, least["floor"] / rounds)
    messages = [_message() for _ in range(1_000)]
    many = partial(Projector().request, ModelRequest(messages, (), "p", "m-1"))
    least = _least(bench, {"floor": partial(_visit, messages), "": many})
    _us(bench, "projection, 1,000 messages", least[""], 400, least["floor"])


def _recording(bench: Bench) -> None:
    shape, _ = Projector().request(ModelRequest([_message()], _tools(4), "p", "m-1"))
    outcome = Outcome("finished", finish="stop", total_ms=12.5, first_chunk_ms=1.5)
    ids = [f"{number:08}" for number in range(200)]

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

    least = _least(bench, {"floor": floor, "": record})
    _us(bench, "insert and settle", least[""] / len(ids), 15, least["floor"] / len(ids))


def _chunks(bench: Bench) -> None:
    count = 2_000
    added, floor = asyncio.run(_added(bench, lambda host: host.request(count)))
    _us(bench, "a chunk, added by the observer", added / count, 0.6, floor / count)


def _whole_path(bench: Bench) -> None:
    added, floor = asyncio.run(_added(bench, lambda host: host.request(8)))
    _us(bench, "a request of 8 chunks, added on its whole path", added, 60, floor)


async def _added(bench: Bench, act: Callable[[_Host], Awaitable[None]]) -> tuple[float, float]:
    """Seconds that an observer adds to what a host does, and the seconds without it."""
    least = {False: math.inf, True: math.inf}
    async with Context() as plain, Context() as watched:
        attach(watched, FlightRecorder())
        hosts = {False: _Host(plain), True: _Host(watched)}
        for _ in range(20 if bench.quick else 400):
            for observed, host in hosts.items():
                start = time.perf_counter()
                await act(host)
                least[observed] = min(least[observed], time.perf_counter() - start)
    return max(0.0, least[True] - least[False]), least[False]


def _least(bench: Bench, functions: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """The least seconds of each function; they take turns."""
    least = dict.fromkeys(functions, math.inf)
    for _ in range(10 if bench.quick else 200):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            least[name] = min(least[name], time.perf_counter() - start)
    return least


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


def _us(bench: Bench, name: str, seconds: float, limit_us: float, floor_seconds: float) -> None:
    """The limit is for the figure itself; the floor beside it says how quick the machine is."""
    bench.report(name, seconds * 1e6, unit="µs", limit=limit_us, note=f"floor {floor_seconds * 1e6:.3g} µs")
