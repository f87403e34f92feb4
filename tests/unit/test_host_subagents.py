"""Children of agents: who owns a run, what a spawned and a forked child begin with, and how a model delegates."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cassette_lab.contracts import AbortController, Capabilities, SubagentRequest, SubagentRun
from cassette_lab.errors import AbortError, ConfigError, ExistingFileError, MismatchError
from cassette_lab.host import record, replay
from cassette_lab.host.agent import Agent
from cassette_lab.host.context import Context
from cassette_lab.host.driving import drive
from cassette_lab.host.function import run_subagent
from cassette_lab.host.local import AgentCall
from cassette_lab.host.models.failures import ModelFailure
from cassette_lab.host.models.scripted import Call, Say, ScriptedModel
from cassette_lab.host.registry import REGISTRY
from cassette_lab.host.retrying import RetryPolicy
from cassette_lab.host.subagents import start_child
from cassette_lab.session.links import link
from cassette_lab.session.model import SessionHeader
from cassette_lab.session.replay_model import ReplayModel
from cassette_lab.session.scripts import script_of_log
from cassette_lab.session.store_jsonl import JsonlStore, JsonlWriter
from tests.unit.host_samples import agent, facts_of, logged, without_ids
from tests.unit.upstreams import Upstream, play


def task(work: Agent, text: str = "child: go", **members: Any) -> AgentCall:
    prompt = [{"type": "text", "text": text}]
    return AgentCall(prompt=prompt, label="helper", parent=work.as_parent(), agent=work, **members)


def ids(folder: Path) -> list[str]:
    return [header.id for header in JsonlStore(folder).headers()]


# Who owns a run


async def _start_fails(folder: Path) -> None:
    class Full(JsonlStore):
        def create(self, header: SessionHeader) -> JsonlWriter:
            if header.origin is not None:
                raise ExistingFileError("the disk is full")
            return super().create(header)

    async with agent("hello", sessions=Full(folder)) as work:
        before = dict(work.context._effects)
        with pytest.raises(ExistingFileError, match="disk is full"):
            start_child(work, task(work), "spawn")
        assert work.context._effects == before
        with pytest.raises(ConfigError, match="no model answers"):
            await work.delegate("go", agent_options={"provider": "other"})
        assert work.context._effects == before
        assert not ids(folder)
        assert (await work.run("go")).text == "hello"


def test_a_start_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    play(_start_fails(tmp_path))


async def _published(folder: Path) -> None:
    async with agent(Say("child's answer", delay_s=0.02), sessions=folder) as work:
        provider = REGISTRY.get("spawn")
        assert provider is not None
        run = await provider.start(task(work))
        assert isinstance(run, SubagentRun)
        assert run.local_agent is not None
        assert run.local_agent.header == {"origin": "subagent", "delegationDepth": 1}
        waiter = asyncio.create_task(run.result())
        await asyncio.sleep(0)
        waiter.cancel()
        first, second = await asyncio.gather(run.result(), run.result())
        assert first is second
        assert (first.output, first.stop_reason) == ([{"type": "text", "text": "child's answer"}], "completed")
        await asyncio.gather(run.dispose(), run.dispose())
        await run.dispose()
        assert waiter.cancelled()
        facts = facts_of(folder, str(run.local_agent.id))
        assert facts.turns[0].end_kind == "completed"
        again = JsonlStore(folder).resume(str(run.local_agent.id))  # its session is free
        again.writer.close()


def test_many_may_wait_for_a_run_and_it_is_disposed_once(tmp_path: Path) -> None:
    play(_published(tmp_path))


async def _aborted(folder: Path) -> None:
    async with agent(*[Say("slow", delay_s=30)] * 3, sessions=folder) as work:
        early = AbortController()
        early.abort()
        with pytest.raises(AbortError):
            start_child(work, task(work, signal=early.signal), "spawn")
        assert not ids(folder)
        for pause_s in (0.0, 0.02):  # before the child has begun, and while it works
            controller = AbortController()
            async with start_child(work, task(work, signal=controller.signal), "spawn") as run:
                await asyncio.sleep(pause_s)
                controller.abort("enough")
                result = await run.result()
                assert (result.output, result.stop_reason) == ([], "aborted")
                assert run.local_agent is not None
                turn = facts_of(folder, str(run.local_agent.id)).turns[0]
                assert (turn.end_kind, turn.end_cause) == ("aborted", "parent")
        run = start_child(work, task(work), "spawn")
        await asyncio.sleep(0.01)
        await run.dispose()
        assert (await run.result()).stop_reason == "aborted"


def test_an_abort_before_the_start_refuses_it_and_one_after_it_is_a_result(tmp_path: Path) -> None:
    play(_aborted(tmp_path))


async def _parent_goes(folder: Path) -> None:
    work = agent(Say("slow", delay_s=30), sessions=folder)
    run = start_child(work, task(work), "spawn")
    await asyncio.sleep(0.01)
    await work.dispose()
    assert (await run.result()).stop_reason == "aborted"
    await run.dispose()


def test_children_go_with_their_parent(tmp_path: Path) -> None:
    play(_parent_goes(tmp_path))


def test_a_run_that_nobody_disposes_is_told() -> None:
    async def scenario() -> None:
        async with agent("x") as work:
            runs = [start_child(work, task(work), "spawn")]
            await runs[0].result()
            with pytest.warns(ResourceWarning, match="was never disposed"):
                runs.clear()

    play(scenario())


async def _cancelled_caller(folder: Path) -> None:
    async with agent(Say("slow", delay_s=30), sessions=folder) as work:
        waiting = asyncio.create_task(work.delegate("go"))
        await asyncio.sleep(0.02)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        (child,) = [session_id for session_id in ids(folder) if session_id != work.session_id]
        assert facts_of(folder, child).turns[0].end_kind == "aborted"


def test_cancelling_who_delegates_stops_the_child(tmp_path: Path) -> None:
    play(_cancelled_caller(tmp_path))


async def _failures() -> None:
    failure = ModelFailure("the endpoint failed", code="SERVER", status=500)
    async with agent(failure, ValueError("a bug"), retry=RetryPolicy(max_retries=0)) as work:
        result = await work.delegate("go")
        assert result.stop_reason == "error"
        assert result.extra == {"error": {"message": "the endpoint failed", "code": "SERVER", "status": 500}}
        with pytest.raises(ValueError, match="a bug"):
            await work.delegate("go")


def test_a_failing_model_is_a_result_and_a_bug_is_raised() -> None:
    play(_failures())


# What a child begins with


async def _spawn(folder: Path) -> tuple[Agent, str]:
    model = ScriptedModel(
        {"first": ["one"], "second": [Call("subagent", description="helper", prompt="child: go"), "two"], "child": ["done"]}
    )
    async with Agent(
        model, sessions=folder, subagents="spawn", persona="Bob", instructions="Be kind.", context=Context()
    ) as work:
        await work.run("first")
        await work.run("second")
    (child,) = [session_id for session_id in ids(folder) if session_id != work.session_id]
    return work, child


def test_a_spawned_child_begins_with_nothing(tmp_path: Path) -> None:
    work, child = play(_spawn(tmp_path))
    log = logged(tmp_path, child)
    assert (log.header.parent_session, log.header.origin, log.header.delegation_depth) == (work.session_id, "subagent", 1)
    assert log.header.seed_length is None
    assert "session/end-seed" not in [event.type for event in log.events()]
    facts = facts_of(tmp_path, child)
    assert (facts.inherited_events, len(facts.turns), facts.turns[0].turn) == (0, 1, 1)
    assert facts.descriptor is not None
    assert (facts.descriptor.mode, facts.descriptor.provider, facts.descriptor.label) == ("one-shot", "spawn", "helper")
    linked = link([facts_of(tmp_path, work.session_id), facts]).links[child]
    assert linked.call is not None
    assert (linked.call.name, linked.linked_by) == ("subagent", "label")


async def _fork(folder: Path) -> tuple[Agent, list[str]]:
    asked = Call("subagent_fork", description="helper", prompt="child: what did I say?")
    model = ScriptedModel(
        {"zero": [asked, "zero done"], "first": ["one"], "second": [asked, "two"], "child": ["you said first"]}
    )
    async with Agent(model, sessions=folder, subagents=["spawn", "fork"], context=Context()) as work:
        await work.run("zero")
        await work.run("first")
        await work.run("second")
    return work, [session_id for session_id in ids(folder) if session_id != work.session_id]


def test_a_forked_child_begins_with_its_parents_completed_turns(tmp_path: Path) -> None:
    work, (early, late) = play(_fork(tmp_path))
    first = logged(tmp_path, early)  # a fork of the first turn is not seeded
    assert first.header.seed_length is None
    assert first.boundary == 0
    parent, child = list(logged(tmp_path, work.session_id).events()), logged(tmp_path, late)
    seed = child.header.seed_length
    assert seed is not None
    own = list(child.events())[seed:]
    assert list(child.events())[:seed] == parent[:seed]
    assert parent[seed - 1].type == "turn/end"
    assert parent[seed - 1].data["turn"] == 2
    assert [event.type for event in own][:4] == ["session/end-seed", "subagent/descriptor", "turn/start", "step/start"]
    header = next(event for event in own if event.type == "request/header")
    assert header.data["reason"] == "resume"
    facts = facts_of(tmp_path, late)
    assert [(turn.turn, turn.inherited) for turn in facts.turns] == [(1, True), (2, True), (3, False)]
    assert facts.usage.output_tokens == 3


def test_the_script_of_a_forked_child_has_none_of_its_parents_calls(tmp_path: Path) -> None:
    work, (_, late) = play(_fork(tmp_path))
    script = script_of_log(logged(tmp_path, late))
    assert len(script.entries) == 1
    texts = [chunk["text"] for chunk in script.entries[0].chunks if chunk["type"] == "text-delta"]  # type: ignore[union-attr]
    assert "".join(texts) == "you said first"
    assert len(script_of_log(logged(tmp_path, work.session_id), primary=True).entries) == 5


async def _replayed(folder: Path, work: Agent, children: list[str]) -> Agent:
    logs = [logged(folder, session_id) for session_id in [work.session_id, *children]]
    model = ReplayModel([script_of_log(log, primary=not number) for number, log in enumerate(logs)])
    again = Agent(model, provider="scripted", model_name="scripted-1", subagents=["spawn", "fork"], context=Context())
    async with again:
        for prompt in ("zero", "first", "second"):
            await again.run(prompt)
    model.assert_consumed()
    return again


async def _recorded_parent(folder: Path) -> str:
    asked = Call("subagent", description="helper", prompt="child: help")
    model = ScriptedModel({"ask": [asked, "done"], "child": ["helped"]})
    work = Agent(model, sessions=folder, subagents="spawn", context=Context())
    async with record(folder / "c.cassette.jsonl"), work:
        await work.run("ask")
    return work.session_id


async def _replayed_parent(folder: Path, model: ReplayModel, **names: Any) -> str:
    async with replay(folder / "c.cassette.jsonl"), Agent(model, subagents="spawn", context=Context(), **names) as work:
        return (await work.run("ask")).text


def test_a_replayed_parent_has_the_names_that_its_cassette_knows(tmp_path: Path) -> None:
    session_id = play(_recorded_parent(tmp_path))
    model = ReplayModel.from_files(f"{tmp_path}#{session_id}")
    assert (model.provider, model.model) == ("scripted", "scripted-1")
    assert play(_replayed_parent(tmp_path, model)) == "done"
    with pytest.raises(MismatchError, match="the provider 'scripted' and the model 'other' now"):
        play(_replayed_parent(tmp_path, ReplayModel.from_files(f"{tmp_path}#{session_id}"), model_name="other"))


def test_a_family_of_sessions_replays_to_the_same_messages(tmp_path: Path) -> None:
    work, children = play(_fork(tmp_path))
    again = play(_replayed(tmp_path, work, children))
    assert without_ids(again.session.messages()) == without_ids(work.session.messages())


# What a request may ask for


async def _asked(folder: Path) -> None:
    def one() -> str:
        """One."""
        return "1"

    def two() -> str:
        """Two."""
        return "2"

    big, small = ScriptedModel("x", model="big"), ScriptedModel(*["y"] * 5, model="small", provider="cheap")
    async with Agent(big, tools=[one, two], persona="Bob", instructions="Be kind.", sessions=folder, context=Context()) as work:
        work.parts.llm.register("cheap", small)
        await work.delegate(
            "go",
            agent_options={"provider": "cheap", "model": "small", "temperature": 0.5},
            tool_filter={"deny": ["one"]},
            persona="Ann",
        )
        request = small.requests[0]
        assert (request.model, request.provider, dict(request.options)) == ("small", "cheap", {"temperature": 0.5})
        assert [tool["name"] for tool in request.tools] == ["two"]
        assert request.system == "Ann\n\nBe kind."
        with pytest.raises(ConfigError, match="allows three, which the parent does not have") as raised:
            await work.delegate("go", tool_filter={"allow": ["three"]})
        assert raised.value.code == "SUBAGENT_REFUSED"


def test_a_child_gets_the_model_tools_and_persona_that_were_asked_for(tmp_path: Path) -> None:
    play(_asked(tmp_path))


def test_a_child_may_owe_a_value() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    async def scenario() -> Any:
        async with agent(Call("structured_output", n=4)) as work:
            return await work.delegate("go", output_schema=schema)

    result = play(scenario())
    assert (result.structured, result.output, result.stop_reason) == ({"n": 4}, [], "completed")


async def _depth() -> tuple[list[Any], Agent]:
    deeper = Call("subagent", description="deeper", prompt="go deeper")
    model = ScriptedModel(lambda request: deeper if request.messages[-1]["source"]["kind"] == "user" else "that was it")
    async with Agent(model, subagents="spawn", max_depth=2, context=Context()) as work:
        await work.run("go deeper")
        return model.requests, work


def test_children_of_children_end_at_the_limit_of_depth() -> None:
    requests, _ = play(_depth())
    assert len({request.session_id for request in requests}) == 3
    told = [
        block["content"][0]["text"]
        for request in requests
        for message in request.messages
        for block in message["content"]
        if block["type"] == "tool-result"
    ]
    assert told[0] == "Error: CassetteError: subagent depth 3 exceeds maxDepth 2"
    assert told[1:] == ["that was it", "that was it"]


async def _unsupported() -> None:
    upstream = Upstream()
    with pytest.raises(ConfigError, match="'real' does not support persona") as raised:
        await drive(upstream, SubagentRequest([{"type": "text", "text": "x"}], persona="Bob"))
    assert raised.value.code == "SUBAGENT_UNSUPPORTED"
    assert not upstream.requests
    assert upstream.capabilities == Capabilities(persona=False)
    with pytest.raises(ConfigError, match="fork is for the agents of this process"):
        await run_subagent(SubagentRequest([{"type": "text", "text": "x"}]), provider="fork")


def test_what_a_provider_cannot_do_is_refused_before_it_starts() -> None:
    play(_unsupported())


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (
            Say("half a", finish="max-tokens"),
            "Error: the subagent reached its limit of tokens before it was done\nIts answer up to then:\nhalf a",
        ),
        (ModelFailure("no key", code="AUTH"), "Error: the subagent failed (AUTH)"),
        (ModelFailure("filtered", code="CONTENT_FILTER"), "Error: the subagent was refused by the model"),
        (ValueError("a bug"), "Error: ValueError: a bug"),
    ],
)
def test_a_model_is_told_how_its_subagent_ended(answer: Any, told: str) -> None:
    async def scenario() -> str:
        model = ScriptedModel({"root": [Call("subagent", description="d", prompt="child"), "ok"], "child": [answer]})
        async with Agent(model, subagents="spawn", context=Context()) as work:
            await work.run("root")
            return str(work.session.messages()[2]["content"][0]["content"][0]["text"])

    assert play(scenario()) == told
