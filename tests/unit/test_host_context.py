"""The host's context: services, four modes of events, and effects that are undone when it goes."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from cassette_lab.contracts import ModelRequest, StreamChunk
from cassette_lab.errors import ClosedError, ConfigError
from cassette_lab.event_bus import EventBus
from cassette_lab.host.context import Context

Next = Callable[..., Any]


def test_a_context_is_an_event_bus() -> None:
    bus: EventBus = Context()
    assert bus is not None


def test_emit_calls_every_listener_whatever_one_raises(caplog: pytest.LogCaptureFixture) -> None:
    context, heard = Context(), []

    def bad(word: str) -> None:
        heard.append(f"bad {word}")
        raise ValueError("no")

    context.on("news", bad)
    context.on("news", lambda word: heard.append(f"late {word}"))
    context.on("news", lambda word: heard.append(f"early {word}"), prepend=True)
    with caplog.at_level(logging.ERROR, "cassette_lab.host"):
        context.emit("news", "x")
    assert heard == ["early x", "bad x", "late x"]
    assert "a listener of news failed" in caplog.text


def test_a_listener_that_is_taken_back_is_called_no_more_and_twice_is_harmless() -> None:
    context, heard = Context(), []

    def listener() -> None:
        heard.append(1)

    undo = context.on("x", listener)
    context.on("x", listener)
    undo()
    undo()
    context.emit("x")
    assert heard == [1]
    assert context.listeners("x") == 1


async def _serial() -> None:
    context, heard = Context(), []

    async def silent() -> None:
        heard.append("silent")

    async def answers() -> str:
        await asyncio.sleep(0)
        return "answer"

    context.on("ask", silent)
    assert await context.serial("ask") is None
    context.on("ask", answers)
    context.on("ask", lambda: heard.append("never"))
    assert await context.serial("ask") == "answer"
    assert heard == ["silent", "silent"]


def test_serial_ends_with_the_first_answer() -> None:
    asyncio.run(_serial())


async def _waterfall() -> None:
    context = Context()

    async def outer(payload: list[str], go_on: Next) -> list[str]:
        return [*await go_on([*payload, "outer"]), "outer again"]

    async def same(_: list[str], go_on: Next) -> Any:
        return await go_on()

    async def final(payload: list[str]) -> list[str]:
        return [*payload, "final"]

    assert await context.waterfall("w", ["start"], final) == ["start", "final"]
    context.on("w", same)
    context.on("w", outer, prepend=True)
    assert await context.waterfall("w", ["start"], final) == ["start", "outer", "final", "outer again"]


def test_a_waterfall_runs_from_the_outermost_listener_to_the_final_one() -> None:
    asyncio.run(_waterfall())


async def _chunks(*texts: str) -> AsyncGenerator[StreamChunk, None]:
    for text in texts:
        yield {"text": text}


async def _stream() -> None:
    context, order = Context(), []

    def final(request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        order.append("final")
        return _chunks(*(str(message["text"]) for message in request.messages))

    def wrapping(_: ModelRequest, go_on: Next) -> Any:
        order.append("wrapping")
        return go_on(ModelRequest([{"text": "other"}]))

    request = ModelRequest([{"text": "mine"}])
    assert [chunk["text"] async for chunk in context.stream("s", request, final)] == ["mine"]
    undo = context.on("s", wrapping)
    order.clear()
    stream = context.stream("s", request, final)
    assert order == ["wrapping", "final"]  # at the call, before the first chunk
    assert [chunk["text"] async for chunk in stream] == ["other"]
    undo()
    context.on("s", lambda _request, _go_on: _chunks("answered"))
    order.clear()
    assert [chunk["text"] async for chunk in context.stream("s", request, final)] == ["answered"]
    assert order == []


def test_a_listener_of_a_stream_wraps_or_answers_it() -> None:
    asyncio.run(_stream())


def test_what_a_stream_listener_raises_reaches_the_caller_at_the_call() -> None:
    context = Context()

    def bad(_: ModelRequest, __: Next) -> Any:
        raise ValueError("no stream")

    context.on("s", bad)
    with pytest.raises(ValueError, match="no stream"):
        context.stream("s", ModelRequest([]), lambda _: _chunks())


def test_services_are_found_in_the_nearest_context() -> None:
    context = Context()
    context.provide("llm", "mine")
    child = context.child()
    assert child.get("llm") == "mine"
    withdraw = child.provide("llm", "the child's")
    assert (child.get("llm"), context.get("llm")) == ("the child's", "mine")
    withdraw()
    assert child.get("llm") == "mine"
    with pytest.raises(ConfigError, match="has a service 'llm' already"):
        context.provide("llm", "again")
    with pytest.raises(ConfigError, match="no service 'clock'"):
        child.get("clock")
    assert child.get("clock", None) is None


async def _dispose() -> None:
    context, order = Context(), []
    context.effect(lambda: order.append("first"))
    child = context.child()
    child.on("x", order.append)

    async def slow() -> None:
        await asyncio.sleep(0.01)
        order.append("slow, of the child")

    child.effect(slow)
    early = context.effect(lambda: order.append("early"))
    early()
    early()
    context.effect(lambda: order.append("last"))
    await asyncio.gather(context.dispose(), context.dispose())
    await context.dispose()
    assert order == ["early", "last", "slow, of the child", "first"]
    assert context.listeners("x") == 0
    assert child.disposed
    with pytest.raises(ClosedError, match="is disposed"):
        context.on("x", order.append)


def test_disposal_undoes_in_reverse_once_and_whoever_asks_waits_for_its_end() -> None:
    asyncio.run(_dispose())


async def _child_goes_alone() -> None:
    context = Context()
    heard: list[int] = []
    async with context.child() as child:
        child.on("x", heard.append)
        context.emit("x", 1)
    context.emit("x", 2)
    assert heard == [1]
    assert not context._effects  # it does not keep children that are gone
    await context.dispose()


def test_a_child_that_is_disposed_leaves_nothing_behind() -> None:
    asyncio.run(_child_goes_alone())


async def _failures() -> None:
    context, order = Context(), []

    def fails() -> None:
        raise ValueError("cannot")

    async def disposes_its_own_context() -> None:
        await context.dispose()

    context.effect(lambda: order.append("undone"))
    context.effect(fails)
    context.child().effect(disposes_its_own_context)
    with pytest.raises(ValueError, match="cannot"):
        await context.dispose()
    assert order == ["undone"]
    several = Context()
    several.effect(fails)
    several.effect(fails)
    with pytest.raises(BaseExceptionGroup, match="2 effects"):
        await several.dispose()


def test_what_cannot_be_undone_is_raised_after_all_the_rest_is_undone() -> None:
    asyncio.run(_failures())


async def _cancelled() -> None:
    context, order = Context(), []
    started = asyncio.Event()

    async def slow() -> None:
        started.set()
        await asyncio.sleep(0.02)
        order.append("slow")

    context.effect(lambda: order.append("first"))
    context.effect(slow)
    waiter = asyncio.create_task(context.dispose())
    await started.wait()
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    await context.dispose()
    assert order == ["slow", "first"]


def test_a_disposal_goes_on_where_one_who_waits_for_it_is_cancelled() -> None:
    asyncio.run(_cancelled())


def test_contexts_that_own_each_other_end_whoever_is_disposed_first() -> None:
    async def scenario() -> list[str]:
        undone: list[str] = []
        one, two, three = Context(name="one"), Context(name="two"), Context(name="three")
        for context, other in ((one, two), (two, three), (three, one)):
            context.effect(functools.partial(undone.append, context.name))
            context.effect(other.dispose)
        await asyncio.gather(one.dispose(), two.dispose(), three.dispose())
        return undone

    assert sorted(asyncio.run(asyncio.wait_for(scenario(), 5))) == ["one", "three", "two"]


def test_an_async_listener_of_an_emitted_event_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async def listen() -> None:
        pass

    context, heard = Context(), list[str]()
    context.on("news", listen)
    context.on("news", lambda: heard.append("plain"))
    context.emit("news")
    assert heard == ["plain"]
    assert "a listener of an emitted event is a plain function" in caplog.text
