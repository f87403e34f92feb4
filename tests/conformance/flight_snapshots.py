"""Vectors of ``snapshots/``: traces of what a recorder saw, driven through the observer on a host's event bus.

Nothing of a record is computed here: agents, signals and streams are made as the trace says, and read as it says. Not compared:
ids, times, and failures of subscribers in the one trace that is about them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from cassette_lab.contracts import AbortSignal, ModelRequest, ModelStream, StreamChunk
from cassette_lab.errors import RecordedError
from cassette_lab.event_bus import ASSEMBLE, REQUEST, STREAM, Attempt, mark_loop_request, with_initiator
from cassette_lab.flight.members import snapshot_from_json
from cassette_lab.flight.observer import attach
from cassette_lab.flight.recorder import FlightRecorder
from cassette_lab.host.context import Context
from cassette_lab.jsonio import JsonObject
from tests.conformance.case import Case
from tests.conformance.flight_files import document
from tests.conformance.flight_projection import assembly, model_request
from tests.conformance.identity import assert_equal

_TRACE = ".trace.json"
_MASKED = "masked"


def cases(folder: Path) -> Iterator[Case]:
    """One case for each trace, and one for each snapshot: it is read, and written as it was."""
    for path in sorted(folder.iterdir()):
        name, dot, rest = path.name.removesuffix(".gz").partition(".")
        if dot + rest == _TRACE:
            yield Case(f"{name}/trace", partial(_check_trace, folder, name))
        elif dot + rest == ".flight.json":
            yield Case(f"{name}/file", partial(_check_file, folder, name))


def _check_file(folder: Path, name: str) -> None:
    value = document(folder / f"{name}.flight.json")
    assert_equal(snapshot_from_json(value).to_json(), value, "snapshot")


def _check_trace(folder: Path, name: str) -> None:
    trace = document(folder / f"{name}{_TRACE}")
    expected = document(folder / f"{name}.flight.json")
    found = asyncio.run(play(trace))
    assert_equal(_masked(found, expected), _masked(expected, expected), "snapshot")


async def play(trace: Mapping[str, Any]) -> JsonObject:
    """The snapshot of a recorder that sees what the trace tells."""
    async with Context() as context:
        recorder = FlightRecorder(trace["capacity"])
        context.effect(attach(context, recorder))
        host = _Host(context)
        snapshot = None
        for event in trace["events"]:
            if event["e"] == "snapshot":
                snapshot = recorder.snapshot().to_json()
            else:
                await host.act(event)
        return recorder.snapshot().to_json() if snapshot is None else snapshot


class _Host:
    """The agents, signals and streams of a trace."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._agents: dict[str, _Agent] = {}
        self._signals: dict[str, AbortSignal] = {}
        self._streams: dict[int, tuple[_Scripted, ModelStream]] = {}

    async def act(self, event: Mapping[str, Any]) -> None:
        kind = event["e"]
        agent = self._agent(event.get("agent"))
        signal = self._signal(event.get("signal"))
        if kind == "assemble":
            payload = assembly(event["assembly"], agent=agent, signal=signal)
            await self._context.waterfall(ASSEMBLE, payload, _as_it_is)
        elif kind == "request":
            attempt = Attempt(agent, signal, event["session"], event["turn"], event["step"])
            await self._context.waterfall(REQUEST, attempt, _as_it_is)
        elif kind == "stream":
            self._make(event, signal)
        else:
            await self._read(kind, event)

    def _make(self, event: Mapping[str, Any], signal: AbortSignal | None) -> None:
        request = model_request(event["options"], session_id=event["sessionId"], signal=signal)
        if event["marked"]:
            mark_loop_request(request)
        script = _Scripted()

        def model(_: ModelRequest) -> ModelStream:
            return script

        with with_initiator(self._agent(event["initiator"])):
            self._streams[event["stream"]] = (script, self._context.stream(STREAM, request, model))

    async def _read(self, kind: str, event: Mapping[str, Any]) -> None:
        script, stream = self._streams[event["stream"]]
        if kind == "chunk":
            script.chunk = event["chunk"]
            assert await stream.__anext__() is script.chunk, "another chunk than the model's"
        elif kind == "done":
            script.error = StopAsyncIteration()
            assert await anext(aiter(stream), None) is None, "a chunk after the end"
        elif kind in {"threw", "next-threw"}:
            script.error, script.at_once = _error(event.get("errorName", "Error")), kind == "next-threw"
            await _raises(stream.__anext__, script.error)
        elif kind == "return":
            await stream.aclose()
            assert script.closed, "the model's stream was not closed"
        else:
            assert kind == "throw-in", f"unknown event {kind}"
            error = ValueError("thrown in")
            await _raises(partial(stream.athrow, error), error)

    def _agent(self, name: str | None) -> _Agent | None:
        return None if name is None else self._agents.setdefault(name, _Agent())

    def _signal(self, name: str | None) -> AbortSignal | None:
        return None if name is None else self._signals.setdefault(name, AbortSignal())


class _Agent:
    """Known by identity."""


class _Scripted:
    """A model's stream that gives the chunk, or raises what, it is told."""

    def __init__(self) -> None:
        self.chunk: StreamChunk = {}
        self.error: BaseException | None = None
        self.at_once = False
        self.closed = False

    def __aiter__(self) -> AsyncIterator[StreamChunk]:
        return self

    def __anext__(self) -> Any:
        if self.at_once and self.error is not None:
            raise self.error
        return self._next()

    async def _next(self) -> StreamChunk:
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        return self.chunk

    async def athrow(self, error: BaseException, /) -> StreamChunk:
        await asyncio.sleep(0)
        raise error

    async def aclose(self) -> None:
        await asyncio.sleep(0)
        self.closed = True


class _NotAnError(BaseException):
    """Something that was thrown and is no error."""


def _error(name: str | None) -> BaseException:
    """An error of that name; without a name something that is none."""
    return _NotAnError() if name is None else RecordedError("x", recorded_name=name)


async def _raises(act: Any, error: BaseException) -> None:
    try:
        await act()
    except BaseException as raised:
        if raised is not error:
            raise
        return
    raise AssertionError("the model's exception did not come through")


async def _as_it_is(payload: Any) -> Any:
    return payload


def _masked(snapshot: JsonObject, expected: JsonObject) -> JsonObject:
    """Without what cannot be the same in two runs; whether it is there at all has to be."""
    health = dict(snapshot["health"])
    if expected["health"]["subscriberFailures"]:
        health["subscriberFailures"] = _MASKED
    records = []
    for record in snapshot["records"]:
        outcome = {name: _MASKED if name in {"firstChunkMs", "totalMs"} else value for name, value in record["outcome"].items()}
        records.append({**record, "id": _MASKED, "startedAt": _MASKED, "outcome": outcome})
    return {**snapshot, "health": health, "records": records}
