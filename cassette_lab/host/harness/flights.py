"""Flight records of the real runtime: its trace is acted out before the observer, which alone says what a record is.

The times are the runtime's own.
"""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final

from cassette_lab.contracts import AbortController, ModelRequest, ModelStream, StreamChunk
from cassette_lab.errors import RecordedError
from cassette_lab.event_bus import ASSEMBLE, REQUEST, STREAM, Assembly, Attempt, mark_loop_request, with_initiator
from cassette_lab.flight.model import FlightRecord, Outcome, RecordExtra, Snapshot
from cassette_lab.flight.observer import attach
from cassette_lab.flight.recorder import FlightRecorder
from cassette_lab.host.context import Context
from cassette_lab.jsonio import JsonObject

DEFAULT_CAPACITY: Final = 100_000


async def flights_of(trace: Iterable[JsonObject], *, capacity: int = DEFAULT_CAPACITY) -> Snapshot:
    """The snapshot of a recorder that has seen these events (see ``trace``). The newest records stay within ``capacity``."""
    recorder = _Recorder(capacity)
    async with Context(name="trace") as bus:
        detach = attach(bus, recorder)
        stage = _Stage(bus, recorder)
        for event in trace:
            await stage.act(event)
        snapshot = recorder.snapshot()
        await stage.leave()
        detach()
    return snapshot


class _Recorder(FlightRecorder):
    """A recorder whose clock is that of the event that is acted."""

    event: Mapping[str, Any]

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self._begun: dict[str, int] = {}
        self._times: dict[int, list[float]] = {}

    def tell(self, event: Mapping[str, Any]) -> None:
        """What happens now."""
        self.event = event
        kind, stream = event.get("e"), event.get("stream")
        if kind == "stream":
            self._times[stream] = [_number(event.get("t"))]  # type: ignore[index]
        elif kind == "chunk" and len(times := self._times.get(stream, [])) == 1:  # type: ignore[arg-type]
            times.append(_number(event.get("t")))

    def insert(self, record: FlightRecord) -> None:
        super().insert(self._begin(record))

    def insert_auxiliary(self, record: FlightRecord) -> None:
        super().insert_auxiliary(self._begin(record))

    def settle(self, record_id: str, outcome: Outcome, extra: RecordExtra | None = None) -> bool:
        return super().settle(record_id, self._timed(record_id, outcome), extra)

    def settle_auxiliary(self, record_id: str, outcome: Outcome, extra: RecordExtra) -> bool:
        return super().settle_auxiliary(record_id, self._timed(record_id, outcome), extra)

    def _begin(self, record: FlightRecord) -> FlightRecord:
        self._begun[record.id] = self.event["stream"]
        return record._replace(started_at_ms=int(_number(self.event.get("at"))))

    def _timed(self, record_id: str, outcome: Outcome) -> Outcome:
        began, *first = self._times.get(self._begun.pop(record_id), [0.0])
        return outcome._replace(
            total_ms=_number(self.event.get("t")) - began,
            first_chunk_ms=first[0] - began if first else None,
        )


class _Agent:
    """Stands for an agent of the runtime."""


class _Fed:
    """A model's stream that gives what it was fed."""

    def __init__(self) -> None:
        self.chunks: deque[StreamChunk | BaseException] = deque()

    def __aiter__(self) -> _Fed:
        return self

    async def __anext__(self) -> StreamChunk:
        chunk = self.chunks.popleft()
        if isinstance(chunk, BaseException):
            raise chunk
        return chunk

    async def athrow(self, error: BaseException, /) -> StreamChunk:
        raise error

    async def aclose(self) -> None:
        self.chunks.clear()


class _Stage:
    def __init__(self, bus: Context, recorder: _Recorder) -> None:
        self._bus = bus
        self._recorder = recorder
        self._agents: dict[str, _Agent] = {}
        self._signals: dict[str, AbortController] = {}
        self._streams: dict[Any, tuple[_Fed, ModelStream]] = {}
        self._tools: list[JsonObject] = []

    async def act(self, event: JsonObject) -> None:
        """One event. What is not known is passed over."""
        self._recorder.tell(event)
        kind = event.get("e")
        if kind == "assemble":
            await self._assemble(event)
        elif kind == "request":
            signal = self._signal(event.get("signal"))
            attempt = Attempt(self._agent(event.get("agent")), signal, event.get("session"), event["turn"], event["step"])
            await self._bus.waterfall(REQUEST, attempt, _same)
        elif kind == "stream":
            self._begin(event)
        elif event.get("stream") in self._streams:
            await self._go_on(event)

    async def leave(self) -> None:
        """Close what is still open."""
        for _, stream in self._streams.values():
            await stream.aclose()

    async def _assemble(self, event: JsonObject) -> None:
        told = event.get("assembly") or {}
        assembly = Assembly(
            self._agent(event.get("agent")),
            self._signal(event.get("signal")),
            event.get("session"),
            0,
            0,
            sections=[{"name": item["name"], "text": _masked(item["text"])} for item in told.get("sections") or ()],
            contexts=[{"name": item["name"], "text": _masked(item["text"])} for item in told.get("contexts") or ()],
            tools=[{"name": name} for name in told.get("tools") or ()],
            variables=told.get("variables") or (),
        )
        await self._bus.waterfall(ASSEMBLE, assembly, _same)

    def _begin(self, event: JsonObject) -> None:
        options = dict(event.get("options") or {})
        messages = options.pop("messages", None) or []
        tools = options.pop("tools", None)
        if options.pop("sameTools", False):
            tools = self._tools
        elif tools is not None:
            self._tools = tools = [{**tool, **_shared(tool)} for tool in tools]
        system = options.pop("system", None)
        request = ModelRequest(
            messages,
            tools or (),
            options.pop("provider", None),
            options.pop("model", None),
            options,
            event.get("sessionId"),
            self._signal(event.get("signal")),
            None if system is None else _masked(system),
        )
        if event.get("marked"):
            mark_loop_request(request)
        fed = _Fed()
        with with_initiator(self._agent(event.get("initiator"))):
            self._streams[event.get("stream")] = (fed, self._bus.stream(STREAM, request, lambda _: fed))

    async def _go_on(self, event: JsonObject) -> None:
        fed, stream = self._streams[event.get("stream")]
        kind = event.get("e")
        if kind == "chunk":
            chunk = event["chunk"]
            reason = chunk.get("reason")
            if isinstance(reason, dict) and "code" in reason:
                chunk = {**chunk, "reason": {"kind": reason.get("kind"), "failure": {"code": reason["code"]}}}
            fed.chunks.append(chunk)
            await anext(stream)
            return
        del self._streams[event.get("stream")]
        if kind == "return":
            await stream.aclose()
            return
        raised: BaseException = StopAsyncIteration()
        if kind in ("threw", "throw-in"):
            name = event.get("errorName", "Error")
            raised = _NoError() if name is None else RecordedError("", recorded_name=name)
        fed.chunks.append(raised)
        try:
            await (stream.athrow(raised) if kind == "throw-in" else anext(stream))
        except (StopAsyncIteration, RecordedError, _NoError):
            return

    def _agent(self, name: str | None) -> _Agent | None:
        return None if name is None else self._agents.setdefault(name, _Agent())

    def _signal(self, name: str | None) -> Any:
        return None if name is None else self._signals.setdefault(name, AbortController()).signal


class _NoError(BaseException):
    """What was thrown and is no error."""


def _masked(text: Any) -> str:
    """A text of this length: nothing of it is known."""
    return "x" * text if isinstance(text, int) else str(text)


def _shared(tool: Mapping[str, Any]) -> JsonObject:
    """The schema of a tool (if it has one) in which what is told as ``{"$alias": path}`` is the object at that path."""
    if "parameters" not in tool:
        return {}
    holder: JsonObject = {"parameters": tool["parameters"]}
    root = tool["parameters"]
    waiting: list[Any] = [holder]
    while waiting:
        parent = waiting.pop()
        for key, child in list(parent.items() if isinstance(parent, dict) else enumerate(parent)):
            if isinstance(child, dict) and child.keys() == {"$alias"}:
                parent[key] = functools.reduce(lambda found, step: found[step], child["$alias"], root)
            elif isinstance(child, (dict, list)):
                waiting.append(child)
    return holder


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


async def _same(payload: Any) -> Any:
    await asyncio.sleep(0)
    return payload
