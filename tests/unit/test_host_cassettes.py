"""Agents and cassettes: what models delegate is recorded, keeps its place, and is answered in any order."""

from __future__ import annotations

import asyncio
import hashlib
import random
from pathlib import Path
from typing import Any

import pytest

from cassette_lab.cassette.identity import slug
from cassette_lab.cassette.model import Cassette
from cassette_lab.cassette.reader import read_cassette
from cassette_lab.contracts import ModelRequest
from cassette_lab.errors import ConfigError, MismatchError
from cassette_lab.host.agent import Agent
from cassette_lab.host.context import Context
from cassette_lab.host.contexts import record, replay
from cassette_lab.host.function import subagent
from cassette_lab.host.models.scripted import Call, Say, ScriptedModel
from cassette_lab.jsonio import JsonObject, canonical
from tests.unit.host_samples import without_ids
from tests.unit.upstreams import play

CHILDREN, GRANDCHILDREN = 20, 25


def sha(value: Any) -> str:
    return "sha256:" + hashlib.sha256(canonical(value)).hexdigest()


def oracle_key(parent: str, label: str, session: JsonObject, occurrence: int = 1) -> str:
    """The key of a call, from the rules of the format alone."""
    options = {"provider": "scripted", "model": "scripted-1"}
    request = {"label": label, "maxDepth": 3, "prompt": [{"type": "text", "text": f"task {label}"}]}
    context = sha({"kind": "dsh-subagent/parent-context", "value": {"options": options, "session": session}})
    pair = sha({"parentContextFingerprint": context, "requestFingerprint": sha(request)})
    return f"{parent}/{slug(label)}-{pair.removeprefix('sha256:')[:12]}~{occurrence}"


def delegations(labels: list[str]) -> list[Call]:
    return [Call("subagent", description=label, prompt=f"task {label}") for label in labels]


def family(seed: int, *, shuffled: bool = False) -> Agent:
    """A root that delegates to children at once, each of which delegates to as many again; all wait at random."""
    dice = random.Random(seed)  # noqa: S311 - no secret

    async def answer(request: ModelRequest) -> Any:
        await asyncio.sleep(dice.random() * 0.02)
        said = request.messages[-1]
        if said["source"]["kind"] == "tool":
            results = [
                message["content"][0]["content"][0]["text"]
                for message in request.messages
                if message["source"]["kind"] == "tool"
            ]
            return f"{len(results)} answers, the last: {results[-1]}"
        task = said["content"][0]["text"].removeprefix("task ")
        if task == "root":
            labels = [f"child {number}" for number in range(CHILDREN)]
        elif task.startswith("child"):
            labels = [f"{task} of {number}" for number in range(GRANDCHILDREN)] if " of " not in task else []
        if not labels:
            return f"done {task}"
        if shuffled:
            dice.shuffle(labels)
        return Say("", delegations(labels))

    return Agent(ScriptedModel(answer), subagents="spawn", context=Context())


async def _recorded(file: Path) -> list[JsonObject]:
    async with record(file), family(1) as work:
        result = await work.run("task root")
        assert result.text.startswith(f"{CHILDREN} answers")
    return work.session.messages()


async def _replayed(file: Path, **options: Any) -> Any:
    async with replay(file, nested="covered") as cassette, family(2, **options) as work:
        result = await work.run("task root")
    return work.session.messages(), result, cassette.status()


def test_500_subagents_at_depth_2_have_the_keys_that_an_oracle_computes_and_replay_shuffled(tmp_path: Path) -> None:
    file = tmp_path / "family.cassette.jsonl"
    messages = play(_recorded(file))
    interactions = read_cassette(file).interactions
    root = {"delegationDepth": 0}
    wanted = {}
    for child in range(CHILDREN):
        key = oracle_key("root", f"child {child}", root)
        wanted[key] = "root"
        for grandchild in range(GRANDCHILDREN):
            label = f"child {child} of {grandchild}"
            wanted[oracle_key(key, label, {"delegationDepth": 1, "origin": "subagent"})] = key
    assert {each.call_key: each.parent_key for each in interactions} == wanted
    assert len(interactions) == CHILDREN * (1 + GRANDCHILDREN)
    again, result, status = play(_replayed(file))
    assert without_ids(again) == without_ids(messages)
    _, result, status = play(_replayed(file, shuffled=True))
    assert result.text.startswith(f"{CHILDREN} answers")
    assert (status.consumed, status.covered) == (CHILDREN, CHILDREN * GRANDCHILDREN)


# Nested and concurrent, and replayed in another order


def three(order: int) -> Agent:
    labels = ["one", "two", "three"][::order]
    model = ScriptedModel(
        {
            "task root": [Say("", delegations(labels)), "all done"],
            "task one": [Say("", delegations(["below"])), Say("one says", delay_s=0.02)],
            "task two": [Say("two says", delay_s=0.01)],
            "task three": ["three says"],
            "task below": ["from below"],
        }
    )
    return Agent(model, subagents="spawn", context=Context())


FACTORIES = [None, *([asyncio.eager_task_factory] if hasattr(asyncio, "eager_task_factory") else [])]


async def _three(cassette: Any, order: int, factory: Any = None) -> dict[str, str]:
    asyncio.get_running_loop().set_task_factory(factory)
    async with cassette, three(order) as work:
        await work.run("task root")
        calls = {
            block["id"]: block
            for message in work.session.messages()
            for block in message["content"]
            if block["type"] == "tool-call"
        }
        return {
            calls[block["toolCallId"]]["arguments"]: block["content"][0]["text"]
            for message in work.session.messages()
            for block in message["content"]
            if block["type"] == "tool-result"
        }


@pytest.mark.parametrize("factory", FACTORIES)  # with Python 3.12 and later, also tasks that run as soon as they are made
def test_a_recorded_run_with_nested_and_concurrent_children_replays_in_reversed_order_and_verifies(
    tmp_path: Path, factory: Any
) -> None:
    file = tmp_path / "three.cassette.jsonl"
    live = play(_three(record(file), 1, factory))
    cassette = read_cassette(file)  # verified: the hash chain, the schema, the rules between records
    by_label = {each.request.metadata.label: each for each in cassette.interactions if each.request.metadata is not None}
    assert by_label["below"].parent_key == by_label["one"].call_key
    assert [each.outcome.kind for each in cassette.interactions] == ["result"] * 4
    assert play(_three(replay(file, nested="covered"), -1, factory)) == live


async def _lost(file: Path) -> None:
    model = ScriptedModel({"task root": [Say("", delegations(["one", "four"])), "done"]})
    async with (
        replay(file, nested="covered", assert_consumed=False),
        Agent(model, subagents="spawn", context=Context()) as work,
    ):
        await work.run("task root")


def test_a_call_that_is_not_recorded_ends_the_run_instead_of_being_told_to_the_model(tmp_path: Path) -> None:
    file = tmp_path / "three.cassette.jsonl"
    play(_three(record(file), 1))
    with pytest.raises(MismatchError):
        play(_lost(file))


# Failures, forks, and functions between agents


async def _refused(cassette: Any) -> list[str]:
    deeper = Say("", [Call("subagent", description="deep", prompt="task deep")])
    async with cassette, Agent(ScriptedModel(deeper, "I see."), subagents="spawn", max_depth=0, context=Context()) as work:
        await work.run("go")
        return [block["content"][0]["text"] for block in work.session.messages()[2]["content"]]


def test_a_refused_child_is_told_in_the_same_words_when_it_is_replayed(tmp_path: Path) -> None:
    file = tmp_path / "refused.cassette.jsonl"
    live = play(_refused(record(file)))
    assert live == ["Error: CassetteError: subagent depth 1 exceeds maxDepth 0"]
    assert [each.outcome.kind for each in read_cassette(file).interactions] == ["start-error"]
    assert play(_refused(replay(file))) == live


async def _forked(cassette: Any, remembered: str = "seven") -> list[str]:
    asked = Say("", [Call("subagent_fork", description="recall", prompt="What was it?")])
    model = ScriptedModel({"Remember": ["I will."], "Ask": [asked, "Told."], "What was it?": ["It was seven."]})
    async with cassette, Agent(model, subagents="fork", context=Context()) as work:
        await work.run(f"Remember {remembered}.")
        await work.run("Ask a fork.")
        return [
            block["content"][0]["text"]
            for message in work.session.messages()
            for block in message["content"]
            if block["type"] == "tool-result"
        ]


def test_forks_are_recorded_with_what_they_inherit(tmp_path: Path) -> None:
    file = tmp_path / "fork.cassette.jsonl"
    live = play(_forked(record(file, upstream_provider="fork")))
    assert live == ["It was seven."]
    header: Cassette = read_cassette(file)
    assert header.header.provider.upstream == "fork"
    assert header.header.provider.inherits_parent_context
    assert play(_forked(replay(file))) == live
    with pytest.raises(MismatchError):  # another history is another call
        play(_forked(replay(file, assert_consumed=False), remembered="eight"))


def test_one_cassette_is_of_one_provider(tmp_path: Path) -> None:
    file = tmp_path / "c.cassette.jsonl"
    with pytest.raises(ConfigError, match="records from 'spawn', not from 'fork'"):
        play(_forked(record(file)))


async def _mixed(cassette: Any) -> tuple[str, list[str]]:
    live: list[str] = []

    @subagent("lookup")
    async def lookup(word: str) -> str:
        live.append(word)
        return word.upper()

    @subagent("review")
    async def review(text: str) -> str:
        live.append(text)
        model = ScriptedModel({"review": [Say("", delegations(["helper"])), f"reviewed {text}"], "task helper": ["helped"]})
        async with Agent(model, subagents="spawn", context=Context()) as inner:
            return (await inner.run("review it")).text

    model = ScriptedModel([Call("lookup", word="hi"), Call("review", text="draft")], "Both.")
    async with cassette, Agent(model, tools=[lookup, review], context=Context()) as work:
        result = await work.run("go")
        texts = [
            block["content"][0]["text"]
            for message in work.session.messages()
            for block in message["content"]
            if block["type"] == "tool-result"
        ]
    return f"{result.text} {texts}", live


def test_functions_and_agents_call_each_other_under_one_cassette(tmp_path: Path) -> None:
    file = tmp_path / "mixed.cassette.jsonl"
    told, live = play(_mixed(record(file)))
    assert told == "Both. ['HI', 'reviewed draft']"
    assert live == ["hi", "draft"]
    calls = {
        each.request.metadata.label: each for each in read_cassette(file).interactions if each.request.metadata is not None
    }
    assert set(calls) == {"lookup", "review", "helper"}
    assert calls["lookup"].parent_key == calls["review"].parent_key == "root"
    assert calls["helper"].parent_key == calls["review"].call_key
    again, live = play(_mixed(replay(file, nested="covered")))
    assert (again, live) == (told, [])
