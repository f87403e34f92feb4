"""The recorder on a real host: an agent's loop, its retries, children and aborts, beside what its session log says."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cassette_lab.errors import CassetteLabError
from cassette_lab.event_bus import STREAM
from cassette_lab.flight.model import FlightRecord
from cassette_lab.flight.observer import attach
from cassette_lab.flight.recorder import FlightRecorder
from cassette_lab.host import record as recording
from cassette_lab.host.agent import Agent
from cassette_lab.host.context import Context
from cassette_lab.host.models.failures import ModelFailure
from cassette_lab.host.models.scripted import Call, Say, ScriptedModel
from tests.unit.host_samples import facts_of, patient


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def flown(folder: Path, *answers: Any, **options: Any) -> tuple[Agent, FlightRecorder]:
    """An agent that ran one prompt to its end, and the recorder that saw it."""
    recorder = FlightRecorder()

    async def run() -> Agent:
        async with Context() as context:
            context.effect(attach(context, recorder))
            model = ScriptedModel(*answers)
            async with Agent(model, context=context, sessions=folder, retry=patient([]), **options) as agent:
                await agent.run("do it")
            return agent

    return asyncio.run(run()), recorder


def place(record: FlightRecord) -> tuple[str, int, int, int]:
    return (record.session_id, record.turn, record.step, record.attempt)


def test_every_call_in_the_log_has_its_record(tmp_path: Path) -> None:
    answers = (ModelFailure("busy", code="RATE_LIMIT"), Call("add", a=1, b=2), ModelFailure("busy", code="SERVER"), "It is 3.")
    agent, recorder = flown(tmp_path, *answers, tools=[add])
    records = list(reversed(recorder.query()))
    calls = facts_of(tmp_path, agent.session_id).model_calls
    assert [place(record) for record in records] == [(agent.session_id, call.turn, call.step, call.attempt) for call in calls]
    assert (
        [record.extra.error_code for record in records]
        == [call.error_code for call in calls]
        == ["RATE_LIMIT", None, "SERVER", None]
    )
    for record, call in zip(records, calls, strict=True):
        usage = record.outcome.usage
        assert (usage is None) == (call.usage is None)
        assert usage is None or call.usage is None or usage.output_tokens == call.usage.output_tokens
        assert record.known_assembly is not None
        assert [tool.name for tool in record.request.tools] == ["add"]
    assert [record.prompt_assembly is not None for record in records] == [True, False, True, False]
    assert recorder.health().active == recorder.health().correlation_misses == recorder.health().projection_failures == 0


def test_an_abort_is_told_as_one(tmp_path: Path) -> None:
    recorder = FlightRecorder()

    async def run() -> None:
        async with Context() as context:
            context.effect(attach(context, recorder))
            agent = Agent(ScriptedModel(Say("a long story", pace_s=30)), context=context, sessions=tmp_path)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(agent.run("tell"), 0.2)
            await agent.dispose()

    asyncio.run(run())
    (record,) = recorder.query()
    assert record.outcome.kind in {"threw", "incomplete"}
    assert record.extra.aborted in {"user", "timeout"}
    assert recorder.health().active == 0


def test_a_cassette_that_closes_is_told_from_a_user(tmp_path: Path) -> None:
    recorder = FlightRecorder()

    async def run() -> None:
        async with Context() as context:
            context.effect(attach(context, recorder))
            agent = Agent(ScriptedModel(Say("a long story", pace_s=30)), context=context, sessions=tmp_path / "sessions")
            cassette = recording(tmp_path / "story.jsonl", settle_timeout_s=0.1).open()
            task = asyncio.create_task(agent.delegate("tell"))
            await asyncio.sleep(0.05)
            with pytest.raises(CassetteLabError, match="1 call still ran at the end"):
                await cassette.close()
            assert (await task).stop_reason == "aborted"

    asyncio.run(run())
    assert [flight.extra.aborted for flight in recorder.query()] == ["dispose"]


def test_children_have_sessions_of_their_own(tmp_path: Path) -> None:
    script = {
        "do it": [[Call("subagent", description="c", prompt=f"count {number}") for number in (1, 2)], "done"],
        "count": ["three"],
    }
    agent, recorder = flown(tmp_path, script, subagents="spawn")
    sessions = [record.session_id for record in recorder.query()]
    assert len(set(sessions)) == 3
    assert sessions.count(agent.session_id) == 2
    assert all(record.outcome.kind == "finished" for record in recorder.query())
    assert recorder.health().correlation_misses == 0


def test_a_host_is_the_same_with_and_without(tmp_path: Path) -> None:
    watched, _ = flown(tmp_path / "watched", Call("add", a=1, b=2), "It is 3.", tools=[add])

    async def run() -> Agent:
        async with Context() as context:
            model = ScriptedModel(Call("add", a=1, b=2), "It is 3.")
            async with Agent(model, context=context, sessions=tmp_path / "plain", tools=[add]) as agent:
                await agent.run("do it")
            assert context.listeners(STREAM) == 0
            return agent

    plain = asyncio.run(run())

    def told(folder: Path, agent: Agent) -> list[Any]:
        facts = facts_of(folder, agent.session_id)
        return [(call.turn, call.step, call.finish_kind, call.usage, call.chunks) for call in facts.model_calls]

    assert told(tmp_path / "watched", watched) == told(tmp_path / "plain", plain)
