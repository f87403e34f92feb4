"""Records, requests and a small host, for tests of flight records."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any

from cassette_lab.contracts import AbortController, ModelRequest, ModelStream, StreamChunk
from cassette_lab.event_bus import ASSEMBLE, REQUEST, STREAM, Assembly, Attempt, mark_loop_request, with_initiator
from cassette_lab.flight.model import FlightRecord, MessageCounts, NamedSize, PromptAssembly, RequestProjection, ToolShape
from cassette_lab.host.context import Context
from cassette_lab.jsonio import JsonObject

DELTA: StreamChunk = {"type": "text-delta", "index": 0, "text": "hello"}
STOP: StreamChunk = {"type": "finish", "reason": {"kind": "stop"}}
PROMPT = PromptAssembly((NamedSize("identity", 10),), (NamedSize("workspace", 20),), ("read_file",), ("cwd",))


def usage(**counts: Any) -> StreamChunk:
    return {"type": "usage", "usage": counts}


def message(role: str = "user", source: str = "user", block: str = "text") -> JsonObject:
    return {"role": role, "source": {"kind": source}, "content": [{"type": block, "text": "private"}]}


def shape(model: str = "m-1") -> RequestProjection:
    counts = MessageCounts(1, {"user": 1}, {"user": 1}, {"text": 1})
    return RequestProjection("mock", model, counts, 10, (ToolShape("read_file", 2),))


def record(name: str = "r1", **members: Any) -> FlightRecord:
    given: dict[str, Any] = {
        "session_id": "s", "turn": 1, "step": 1, "attempt": 1, "started_at_ms": 1_700_000_000_000, "request": shape(),
    }  # fmt: skip
    return FlightRecord(id=name, **{**given, **members})


class Agent:
    """Known by identity."""


async def as_it_is(payload: Any) -> Any:
    return payload


class Host:
    """One agent's run on an event bus, step by step."""

    def __init__(self, bus: Context, session_id: str = "s") -> None:
        self.bus = bus
        self.agent = Agent()
        self.controller = AbortController()
        self.session_id = session_id

    async def assemble(self, **parts: Any) -> None:
        payload = Assembly(self.agent, self.controller.signal, self.session_id, 1, 1, **parts)
        await self.bus.waterfall(ASSEMBLE, payload, as_it_is)

    async def attempt(self, turn: int = 1, step: int = 1) -> None:
        attempt = Attempt(self.agent, self.controller.signal, self.session_id, turn, step)
        await self.bus.waterfall(REQUEST, attempt, as_it_is)

    def request(self, *, marked: bool = True, **members: Any) -> ModelRequest:
        given: dict[str, Any] = {"messages": [message()], "provider": "mock", "model": "m-1"}
        request = ModelRequest(**{**given, "session_id": self.session_id, "signal": self.controller.signal, **members})
        return mark_loop_request(request) if marked else request

    def stream(self, model: Callable[[ModelRequest], ModelStream], **members: Any) -> ModelStream:
        with with_initiator(self.agent):
            return self.bus.stream(STREAM, self.request(**members), model)

    async def ask(self, *chunks: StreamChunk, step: int = 1, **members: Any) -> list[StreamChunk]:
        """A whole step on a model that gives these chunks."""
        await self.attempt(step=step)
        return await read(self.stream(lambda _: answer(chunks), **members))


async def answer(chunks: Sequence[StreamChunk]) -> AsyncGenerator[StreamChunk, None]:
    for chunk in chunks:
        yield chunk


async def read(stream: ModelStream) -> list[StreamChunk]:
    async with aclosing(stream):
        return [chunk async for chunk in stream]
