"""The agent loop: what a turn does, how it ends, and that its log tells all of it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cassette_lab.contracts import AbortController, ModelRequest, StreamChunk
from cassette_lab.errors import AmbiguityError, CassetteLabError, ClosedError, ConfigError, MismatchError
from cassette_lab.event_bus import (
    ASSEMBLE,
    REQUEST,
    RUN_END,
    STREAM,
    Assembly,
    Attempt,
    current_initiator,
    is_loop_request,
)
from cassette_lab.host.agent import Agent
from cassette_lab.host.agent_log import AgentLog
from cassette_lab.host.ambient import current_parent
from cassette_lab.host.context import Context
from cassette_lab.host.llm import answer_with
from cassette_lab.host.models.failures import ModelFailure
from cassette_lab.host.models.scripted import Call, Say, ScriptedModel
from cassette_lab.host.tools import ToolContext
from tests.unit.host_samples import agent, facts_of, logged, patient, replaying, without_ids
from tests.unit.upstreams import play


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def shout(text: str) -> str:
    """Say it louder."""
    return f"{text.upper()} in {threading.current_thread() is not threading.main_thread()}"


def rate_limited(wait_s: float | None = None) -> ModelFailure:
    return ModelFailure("slow down", code="RATE_LIMIT", status=429, retry_after_s=wait_s)


def run_it(work: Any, *prompts: str, **options: Any) -> Any:
    """Run an agent's turns one after the other; its last result."""

    async def scenario() -> Any:
        async with work:
            result = None
            for prompt in prompts or ("go",):
                result = await work.run(prompt, **options)
            return result

    return play(scenario())


def test_a_turn_calls_tools_at_once_and_answers_with_what_they_gave(tmp_path: Path) -> None:
    asked = Say("Let me see.", [Call("add", a=1, b=2), Call("shout", text="hi"), Call("nope"), Call("add", a="x", b=1)])
    work = agent(asked, "It is 3.", tools=[add, shout], sessions=tmp_path, max_tokens=50)
    result = run_it(work)
    assert (result.stop_reason, result.text, result.turn) == ("completed", "It is 3.", 1)
    facts = facts_of(tmp_path, work.session_id)
    assert [(call.name, call.is_error, call.error_code) for call in facts.tool_calls] == [
        ("add", False, None),
        ("shout", False, None),
        ("nope", True, "UNKNOWN_TOOL"),
        ("add", True, "INVALID_ARGS"),
    ]
    texts = [
        entry["content"][0]["content"][0]["text"] for entry in work.session.messages() if entry["source"]["kind"] == "tool"
    ]
    assert texts[:3] == ["3", "HI in True", 'Error: unknown tool "nope"']
    assert texts[3].startswith("Error: invalid arguments: a: ")
    model = work.parts.llm._adapters["scripted"]
    assert isinstance(model, ScriptedModel)
    assert [dict(request.options) for request in model.requests] == [{"maxTokens": 50}] * 2
    assert model.requests[0].tools is model.requests[1].tools  # what an observer computed of them holds


def test_the_log_of_a_run_tells_all_its_facts(tmp_path: Path) -> None:
    noted: list[float] = []
    work = agent(
        Say("One ", error=rate_limited()),
        Say("Working.", [Call("add", a=1, b=2)], reasoning="hm", usage={"inputTokens": 7, "outputTokens": 3}),
        "Three.",
        "Again.",
        tools=[add],
        sessions=tmp_path,
        instructions="Be brief.",
        retry=patient(noted),
    )
    run_it(work, "first", "second")
    facts = facts_of(tmp_path, work.session_id)
    assert facts.problems == ()
    assert facts.surface.problem is None
    assert [(turn.turn, turn.end_kind) for turn in facts.turns] == [(1, "completed"), (2, "completed")]
    assert [(step.turn, step.step, step.is_open) for step in facts.steps] == [(1, 1, False), (1, 2, False), (2, 1, False)]
    calls = [
        (call.turn, call.step, call.attempt, call.settled_as, call.finish_kind, call.error_code) for call in facts.model_calls
    ]
    assert calls == [
        (1, 1, 1, "none", "error", "RATE_LIMIT"),
        (1, 1, 2, "message", "tool-calls", None),
        (1, 2, 1, "message", "stop", None),
        (2, 1, 1, "message", "stop", None),
    ]
    assert {(call.provider, call.model) for call in facts.model_calls} == {("scripted", "scripted-1")}
    assert facts.model_calls[1].requested_by == "llm/retry-started"
    assert [
        (retry.retry, retry.max_retries, retry.delay_ms, retry.error_code, retry.error_status) for retry in facts.retries
    ] == [(1, 5, 500.0, "RATE_LIMIT", 429)]
    assert facts.retries[0].started_at is not None
    assert noted == [0.5]
    assert [(call.name, call.has_result) for call in facts.tool_calls] == [("add", True)]
    assert facts.final_text == "Again."
    assert facts.usage.input_tokens == 3 + 7 + 8 + 10  # words, with those of the failed one
    headers = [event.data for event in logged(tmp_path, work.session_id).events() if event.type == "request/header"]
    assert [header["reason"] for header in headers] == ["initial"]
    assert headers[0]["header"]["system"] == "Be brief."
    assert [tool["name"] for tool in headers[0]["header"]["tools"]] == ["add"]


def test_a_run_replays_from_its_log_to_the_same_messages(tmp_path: Path) -> None:
    async def late(order: int) -> int:
        """The first call is the last to answer."""
        await asyncio.sleep(0.01 * (3 - order))
        return order

    noted: list[float] = []
    calls = [Call("late", order=number) for number in range(3)]
    answers = [
        Say("", error=rate_limited()),
        Say("Hm.", calls, reasoning="why not"),
        Say("unfinished", finish="max-tokens"),
        "ok",
    ]
    work = agent(*answers, tools=[late], sessions=tmp_path, retry=patient(noted))
    run_it(work, "first", "second")
    recorded = logged(tmp_path, work.session_id)
    again = Agent(
        replaying(recorded), provider="scripted", model_name="scripted-1", tools=[late], retry=patient(noted), context=Context()
    )
    run_it(again, "first", "second")
    assert without_ids(again.session.messages()) == without_ids(work.session.messages())
    told = [event.data for event in recorded.events() if event.type == "tool/result"]
    assert [data["message"]["content"][0]["content"][0]["text"] for data in told] == ["0", "1", "2"]  # as they were called
    kinds = [event.type for event in recorded.events()]
    assert kinds == [event.type for event in again.session.events]


def test_a_replay_model_answers_a_whole_host_in_place_of_its_models(tmp_path: Path) -> None:
    work = agent("One.", "Two.", sessions=tmp_path)
    run_it(work, "a", "b")
    context = Context()
    model = replaying(logged(tmp_path, work.session_id))
    answer_with(context, model)
    again = agent(context=context)  # its own model has no answers
    assert run_it(again, "a", "b").text == "Two."
    model.assert_consumed()


@pytest.mark.parametrize(
    ("failure", "waited", "ends"),
    [
        (rate_limited(), [0.5, 1.0], "completed"),
        (rate_limited(7.5), [7.5, 7.5], "completed"),
        (rate_limited(3600), [], "RATE_LIMIT"),
        (ModelFailure("no key", code="AUTH", status=401), [], "AUTH"),
        (ModelFailure("cut", code="STREAM_CLOSED"), [], "STREAM_CLOSED"),
        (ModelFailure("gone", code="TRANSPORT"), [0.5, 1.0], "completed"),
    ],
)
def test_only_what_may_succeed_is_tried_again_and_not_for_ever(
    tmp_path: Path, failure: ModelFailure, waited: list[float], ends: str
) -> None:
    noted: list[float] = []
    work = agent(failure, failure, "ok", sessions=tmp_path, retry=patient(noted, max_retries=2))
    if ends == "completed":
        assert run_it(work).text == "ok"
    else:
        with pytest.raises(ModelFailure) as raised:
            run_it(work)
        assert raised.value is failure
        turn = facts_of(tmp_path, work.session_id).turns[0]
        assert (turn.end_kind, turn.error_code, turn.error_status) == ("error", ends, failure.status)
    assert noted == waited


def test_the_last_failure_ends_the_turn_and_the_agent_can_go_on(tmp_path: Path) -> None:
    noted: list[float] = []
    work = agent(
        *[rate_limited()] * 4, "back again", sessions=tmp_path, retry=patient(noted, max_retries=3, longest_delay_s=0.7)
    )

    async def scenario() -> str:
        async with work:
            with pytest.raises(ModelFailure, match="slow down"):
                await work.run("go")
            return (await work.run("and now?")).text

    assert play(scenario()) == "back again"
    assert noted == [0.5, 0.7, 0.7]
    assert [turn.end_kind for turn in facts_of(tmp_path, work.session_id).turns] == ["error", "completed"]


def test_a_filtered_answer_is_a_refusal() -> None:
    result = run_it(agent(ModelFailure("the provider's filter stopped the answer", code="CONTENT_FILTER")))
    assert result.stop_reason == "refusal"


def test_an_answer_that_has_no_end_is_a_closed_stream(tmp_path: Path) -> None:
    class Cut:
        provider = model = "cut"

        async def stream(self, _: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
            yield {"type": "block-start", "index": 0, "blockType": "text"}
            yield {"type": "text-delta", "index": 0, "text": "half"}

    work = Agent(Cut(), sessions=tmp_path, context=Context())
    with pytest.raises(ModelFailure) as raised:
        run_it(work)
    assert raised.value.code == "STREAM_CLOSED"
    call = facts_of(tmp_path, work.session_id).model_calls[0]
    assert (call.finish_kind, call.error_code, call.text_chars) == ("error", "STREAM_CLOSED", 4)


def test_a_fault_of_a_model_is_raised_and_logged(tmp_path: Path) -> None:
    work = agent(ValueError("a bug"), sessions=tmp_path)
    with pytest.raises(ValueError, match="a bug"):
        run_it(work)
    turn = facts_of(tmp_path, work.session_id).turns[0]
    assert (turn.end_kind, turn.error_code) == ("error", "UNKNOWN")
    with pytest.raises(ConfigError, match="no answer left"):
        run_it(agent())


def test_max_tokens_ends_the_turn_and_drops_the_tool_calls(tmp_path: Path) -> None:
    work = agent(Say("I will call", [Call("add", a=1, b=2)], finish="max-tokens"), tools=[add], sessions=tmp_path)
    result = run_it(work)
    assert (result.stop_reason, result.text) == ("max-tokens", "I will call")
    facts = facts_of(tmp_path, work.session_id)
    assert facts.turns[0].end_kind == "max-tokens"
    assert facts.tool_calls == ()
    assert [block["type"] for block in work.session.messages()[-1]["content"]] == ["text"]


def test_a_turn_has_a_limit_of_steps(tmp_path: Path) -> None:
    work = agent(*[Call("add", a=1, b=2)] * 4, tools=[add], max_steps=3, sessions=tmp_path)
    with pytest.raises(CassetteLabError) as raised:
        run_it(work)
    assert raised.value.code == "STEP_LIMIT"
    assert facts_of(tmp_path, work.session_id).turns[0].error_code == "STEP_LIMIT"


async def _cancel_while_it_speaks(folder: Path) -> Agent:
    work = agent(Say("one two three four", pace_s=0.02), "resumed", sessions=folder)
    async with work:
        task = asyncio.create_task(work.run("go"))
        await asyncio.sleep(0.05)
        task.cancel()
        started = time.perf_counter()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.perf_counter() - started < 1
        assert (await work.run("go on")).text == "resumed"
    return work


def test_cancelling_the_caller_aborts_the_turn_and_keeps_what_was_said(tmp_path: Path) -> None:
    work = play(_cancel_while_it_speaks(tmp_path))
    facts = facts_of(tmp_path, work.session_id)
    assert [(turn.end_kind, turn.end_cause) for turn in facts.turns] == [("aborted", "user"), ("completed", None)]
    first = facts.model_calls[0]
    assert (first.interrupted, first.settled_as, first.finish_kind) == (True, "message", None)
    assert work.session.messages()[1]["content"][0]["text"].startswith("one")
    assert not any(step.is_open for step in facts.steps)


async def _cancel_while_tools_run(folder: Path) -> tuple[Agent, list[str]]:
    happened: list[str] = []

    async def slow(name: str) -> str:
        """Take long."""
        try:
            await asyncio.sleep(30)
        finally:
            await asyncio.sleep(0.01)
            happened.append(f"cleaned {name}")
        return name

    async def quick() -> str:
        """Be quick."""
        happened.append("quick")
        return "done"

    work = agent([Call("quick"), Call("slow", name="a"), Call("slow", name="b")], tools=[slow, quick], sessions=folder)
    async with work:
        task = asyncio.create_task(work.run("go"))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    return work, happened


def test_tools_clean_up_when_the_run_is_cancelled_and_their_results_say_so(tmp_path: Path) -> None:
    work, happened = play(_cancel_while_tools_run(tmp_path))
    assert sorted(happened) == ["cleaned a", "cleaned b", "quick"]
    facts = facts_of(tmp_path, work.session_id)
    assert [(call.is_error, call.error_code) for call in facts.tool_calls] == [
        (False, None),
        (True, "ABORTED"),
        (True, "ABORTED"),
    ]
    assert (facts.turns[0].end_kind, facts.turns[0].end_cause) == ("aborted", "user")


async def _cancel_before_tools_begin(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Agent:
    work = agent(Call("add", a=1, b=2), "again", tools=[add], sessions=folder)
    async with work:
        flush = AgentLog.flush
        task = asyncio.create_task(work.run("go"))

        async def interrupted(log: AgentLog) -> None:
            monkeypatch.setattr(AgentLog, "flush", flush)
            task.cancel()
            await flush(log)

        monkeypatch.setattr(AgentLog, "flush", interrupted)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await work.run("go on")).text == "again"
    return work


def test_every_call_has_a_result_also_where_no_tool_has_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = play(_cancel_before_tools_begin(tmp_path, monkeypatch))
    facts = facts_of(tmp_path, work.session_id)
    assert [(call.is_error, call.error_code) for call in facts.tool_calls] == [(True, "ABORTED")]
    assert [turn.end_kind for turn in facts.turns] == ["aborted", "completed"]


async def _abort_at_the_very_end(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    controller = AbortController()
    async with agent("done", sessions=folder) as work:
        flush = AgentLog.flush

        async def interrupted(log: AgentLog) -> None:
            monkeypatch.setattr(AgentLog, "flush", flush)
            controller.abort("too late")
            await flush(log)

        monkeypatch.setattr(AgentLog, "flush", interrupted)
        return work, await work.run("go", signal=controller.signal)


def test_an_abort_after_the_last_word_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work, result = play(_abort_at_the_very_end(tmp_path, monkeypatch))
    assert (result.stop_reason, result.text) == ("completed", "done")
    assert facts_of(tmp_path, work.session_id).turns[0].end_kind == "completed"


async def _stubborn_tool(folder: Path) -> tuple[Agent, float]:
    async def stubborn() -> str:
        """Do not stop."""
        for _ in range(20):
            try:
                await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                continue
        return "at last"

    work = agent(Call("stubborn"), tools=[stubborn], sessions=folder)
    async with work:
        task = asyncio.create_task(work.run("go"))
        await asyncio.sleep(0.05)
        started = time.perf_counter()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return work, time.perf_counter() - started


def test_the_clean_up_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cassette_lab.host.tasks.CLEAN_UP_S", 0.2)
    work, seconds = play(_stubborn_tool(tmp_path))
    assert 0.15 < seconds < 0.8
    assert facts_of(tmp_path, work.session_id).turns[0].end_kind == "aborted"


async def _abort_by_signal(folder: Path) -> tuple[Agent, Any]:
    controller = AbortController()
    seen: list[Any] = []

    async def stop(context: ToolContext) -> str:
        """Stop it all."""
        seen.append(context.signal)
        controller.abort("enough")
        await asyncio.sleep(30)
        return "never"

    work = agent(Say("Now.", [Call("stop")]), tools=[stop], sessions=folder)
    async with work:
        result = await work.run("go", signal=controller.signal)
        assert seen[0].reason == "enough"
        before = await work.run("go", signal=controller.signal)
    assert before.stop_reason == "aborted"
    return work, result


def test_an_aborted_signal_ends_the_turn_with_a_result(tmp_path: Path) -> None:
    work, result = play(_abort_by_signal(tmp_path))
    assert (result.stop_reason, result.text) == ("aborted", "Now.")
    assert [turn.end_kind for turn in facts_of(tmp_path, work.session_id).turns] == ["aborted", "aborted"]


async def _disposed_while_it_runs(folder: Path) -> Agent:
    work = agent(Say("long", delay_s=30), sessions=folder)
    task = asyncio.create_task(work.run("go"))
    await asyncio.sleep(0.02)
    await asyncio.gather(work.dispose(), work.dispose())
    assert (await task).stop_reason == "aborted"
    with pytest.raises(ClosedError, match="is disposed"):
        await work.run("more")
    return work


def test_disposing_an_agent_stops_it_and_frees_its_session(tmp_path: Path) -> None:
    work = play(_disposed_while_it_runs(tmp_path))
    turn = facts_of(tmp_path, work.session_id).turns[0]
    assert (turn.end_kind, turn.end_cause) == ("aborted", "disposed")
    again = agent("here again", sessions=tmp_path, resume=work.session_id)
    assert run_it(again, "hello").turn == 2
    facts = facts_of(tmp_path, work.session_id)
    assert [turn.end_kind for turn in facts.turns] == ["aborted", "completed"]
    headers = [event.data["reason"] for event in logged(tmp_path, work.session_id).events() if event.type == "request/header"]
    assert headers == ["initial", "resume"]


async def _one_turn_at_a_time() -> None:
    async with agent(Say("a", delay_s=0.05)) as work:
        task = asyncio.create_task(work.run("go"))
        await asyncio.sleep(0.01)
        with pytest.raises(ConfigError, match="not over yet"):
            await work.run("me, too")
        await task


def test_an_agent_runs_one_turn_at_a_time() -> None:
    play(_one_turn_at_a_time())


@pytest.mark.parametrize("kind", [MismatchError, AmbiguityError, ClosedError])
def test_what_says_that_a_cassette_and_the_run_have_parted_ends_the_run(tmp_path: Path, kind: type[CassetteLabError]) -> None:
    async def calls() -> str:
        """Call a subagent that is not recorded."""
        raise kind("no such call")

    work = agent([Call("add", a=1, b=2), Call("calls")], "never said", tools=[add, calls], sessions=tmp_path)
    with pytest.raises(kind):
        run_it(work)
    assert [call.is_error for call in facts_of(tmp_path, work.session_id).tool_calls] == [False, True]


def test_any_other_failure_of_a_tool_is_told_to_the_model(tmp_path: Path) -> None:
    def broken() -> str:
        """Break."""
        raise LookupError("nothing there")

    work = agent(Call("broken"), "I see.", tools=[broken], sessions=tmp_path)
    assert run_it(work).text == "I see."
    assert work.session.messages()[2]["content"][0]["content"][0]["text"] == "Error: LookupError: nothing there"
    assert facts_of(tmp_path, work.session_id).tool_calls[0].error_name == "LookupError"


async def _events() -> None:
    context = Context()
    heard: list[Any] = []

    async def assemble(payload: Assembly, go_on: Any) -> Assembly:
        heard.append((ASSEMBLE, payload.turn, payload.step, payload.session_id, current_initiator()))
        payload = replace(
            payload,
            sections=[*payload.sections, {"name": "more", "text": "And polite."}],
            contexts=[{"name": "day", "text": "Monday"}],
        )
        done: Assembly = await go_on(payload)
        return done

    async def request(payload: Attempt, go_on: Any) -> Attempt:
        heard.append((REQUEST, payload.turn, payload.step, payload.agent))
        done: Attempt = await go_on()
        return done

    def stream(call: ModelRequest, go_on: Any) -> Any:
        heard.append((STREAM, is_loop_request(call), call.system, call.signal, current_initiator()))
        return go_on()

    context.on(ASSEMBLE, assemble)
    context.on(REQUEST, request)
    context.on(STREAM, stream)
    context.on(RUN_END, lambda *facts: heard.append((RUN_END, *facts)))
    noted: list[float] = []
    work = agent(
        rate_limited(), Call("add", a=1, b=1), "2", context=context, instructions="Be brief.", tools=[add], retry=patient(noted)
    )
    async with work:
        await work.run("go")
        assert [fact[0] for fact in heard] == [ASSEMBLE, REQUEST, STREAM, REQUEST, STREAM, ASSEMBLE, REQUEST, STREAM, RUN_END]
        assert heard[0] == (ASSEMBLE, 1, 1, work.session_id, work)
        assert heard[5] == (ASSEMBLE, 1, 2, work.session_id, work)
        assert heard[1] == (REQUEST, 1, 1, work)
        signal = heard[2][3]
        assert heard[2] == heard[4] == heard[7] == (STREAM, True, "Be brief.\n\nAnd polite.", signal, work)
        assert heard[8] == (RUN_END, work, signal)
        assert current_initiator() is None
        told = [message for message in work.session.messages() if message["source"]["kind"] == "plugin"]
        assert [message["content"][0]["text"] for message in told] == ["Monday"]  # once, for it did not change


def test_the_loop_tells_the_host_of_each_step_each_attempt_and_its_end() -> None:
    play(_events())


async def _ambient() -> None:
    seen: list[Any] = []

    async def look() -> str:
        """Look around."""
        seen.append(current_parent())
        return "seen"

    async with agent(Call("look"), "ok", tools=[look]) as work:
        await work.run("go")
        assert (seen[0].id, seen[0].agent) == ("root", work)
        assert current_parent().id == "root"
        assert current_parent() is not seen[0]


def test_what_a_tool_calls_belongs_to_the_agent() -> None:
    play(_ambient())


def test_an_agent_refuses_what_is_no_model() -> None:
    with pytest.raises(ConfigError, match="LlmAdapter"):
        Agent("gpt")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="not a class"):
        Agent(ScriptedModel)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="max_steps is a whole number, 0 or more, not -1"):
        Agent(ScriptedModel(), max_steps=-1)
