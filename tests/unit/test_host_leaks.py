"""Hosts come and go, and leave nothing behind: no task, no listener, no thread, no stream, no open file."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from pathlib import Path
from typing import Any

from cassette_lab.contracts import ModelRequest
from cassette_lab.event_bus import ASSEMBLE, REQUEST, RUN_END, STREAM
from cassette_lab.host.agent import Agent
from cassette_lab.host.context import HOST, Context
from cassette_lab.host.models.scripted import Call, Say, ScriptedModel
from cassette_lab.session.store_jsonl import JsonlStore
from tests.unit.upstreams import play

CYCLES = 100


def shout(text: str) -> str:
    """Say it louder, in a thread."""
    return text.upper()


async def _pass(_: Any, go_on: Any) -> Any:
    return await go_on()


async def _cycle(store: JsonlStore, kept: list[weakref.ref[Any]], closed: list[str]) -> None:
    context = Context()
    for name in (ASSEMBLE, REQUEST):
        context.on(name, _pass)
    context.on(STREAM, lambda _, go_on: go_on())
    context.on(RUN_END, lambda *_: None)
    model = ScriptedModel(Call("shout", text="hi"), "done", "the child's", Say("a long answer that nobody reads to its end"))
    agent = Agent(model, tools=[shout], sessions=store, context=context)
    assert (await agent.run("go")).text == "done"
    assert (await agent.delegate("go")).output[0]["text"] == "the child's"
    stream = agent.parts.llm.stream(ModelRequest([], provider="scripted"))
    await anext(aiter(stream))
    kept += [weakref.ref(context), weakref.ref(agent), weakref.ref(stream)]
    await context.dispose()
    assert [chunk async for chunk in stream] == []  # it was closed
    closed.append(agent.session_id)


def _open_files() -> int:
    """How many this process has open; 0 where the system does not say."""
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.is_dir() else 0


async def _cycles(folder: Path) -> list[weakref.ref[Any]]:
    kept: list[weakref.ref[Any]] = []
    closed: list[str] = []
    with JsonlStore(folder) as store:
        await _cycle(store, kept, closed)
        files = _open_files()
        threads = threading.active_count()
        for _ in range(CYCLES - 1):
            await _cycle(store, kept, closed)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert threading.active_count() <= threads + 8  # the loop's own pool, which does not grow
        gc.collect()
        assert _open_files() <= files
    assert len(set(closed)) == CYCLES
    return kept


def test_a_hundred_hosts_leave_nothing_behind(tmp_path: Path) -> None:
    before = threading.active_count()
    shared = {name: HOST.listeners(name) for name in (ASSEMBLE, REQUEST, STREAM, RUN_END)}
    kept = play(_cycles(tmp_path), seconds=60)
    assert threading.active_count() <= before
    gc.collect()
    assert [reference for reference in kept if reference() is not None] == []
    assert {name: HOST.listeners(name) for name in shared} == shared


async def _forgotten() -> weakref.ref[Agent]:
    agent = Agent(ScriptedModel("done"))  # in the host that all share, and never disposed
    await agent.run("go")
    return weakref.ref(agent)


def test_an_agent_that_is_forgotten_is_not_kept_by_the_shared_host() -> None:
    before = len(HOST._effects)
    reference = play(_forgotten())
    gc.collect()
    assert reference() is None
    assert len(HOST._effects) == before


async def _threads_end(folder: Path) -> None:
    async with Agent(
        ScriptedModel(Call("shout", text="hi"), "done"), tools=[shout], sessions=folder, context=Context()
    ) as agent:
        await agent.run("go")


def test_threads_end_with_the_event_loop(tmp_path: Path) -> None:
    before = threading.active_count()
    play(_threads_end(tmp_path))
    assert threading.active_count() <= before
