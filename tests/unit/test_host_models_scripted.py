"""Answers written in Python, the service that finds a model by its provider, and when a failed call is made again."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from typing import Any

import pytest

from cassette_lab.contracts import LlmAdapter, ModelRequest, StreamChunk
from cassette_lab.errors import ConfigError
from cassette_lab.host.answer import Answer, failure_of_finish
from cassette_lab.host.context import Context
from cassette_lab.host.llm import Llm
from cassette_lab.host.models.failures import ModelFailure
from cassette_lab.host.models.scripted import Call, Say, ScriptedModel
from cassette_lab.host.retrying import RetryPolicy
from tests.unit.upstreams import play


def asked(*texts: str, session: str | None = None) -> ModelRequest:
    messages = [{"role": "user", "content": [{"type": "text", "text": text}]} for text in texts]
    return ModelRequest(messages, provider="scripted", session_id=session)


async def _read(model: LlmAdapter, request: ModelRequest) -> list[StreamChunk]:
    async with aclosing(model.stream(request)) as stream:
        return [chunk async for chunk in stream]


def read(model: LlmAdapter, request: ModelRequest | None = None) -> Answer:
    answer = Answer()
    for chunk in play(_read(model, request or asked("go"))):
        answer.add(chunk)
    return answer


def text(answer: Answer) -> str:
    return "".join(block["text"] for block in answer.content() if block["type"] == "text")


def test_an_answer_is_streamed_in_the_chunks_of_a_session_log() -> None:
    say = Say("Two words", [Call("look", what="x")], reasoning="hm")
    assert [chunk["type"] for chunk in play(_read(ScriptedModel(say), asked("go")))] == [
        *("block-start", "reasoning-delta", "block-end"),
        *("block-start", "text-delta", "text-delta", "block-end"),
        *("block-start", "tool-call-delta", "block-end"),
        *("usage", "finish"),
    ]
    answer = read(ScriptedModel(say))
    assert answer.content() == [
        {"type": "reasoning", "text": "hm"},
        {"type": "text", "text": "Two words"},
        {"type": "tool-call", "id": "call-1-1", "name": "look", "arguments": '{"what":"x"}'},
    ]
    assert (answer.finish_kind, answer.usage) == ("tool-calls", {"inputTokens": 1, "outputTokens": 5})


def test_half_a_stream_says_as_much_as_it_has_said() -> None:
    say = Say("Two words", [Call("look", what="x")])
    answer = Answer()
    for chunk in play(_read(ScriptedModel(say), asked("go")))[:2]:
        answer.add(chunk)
    assert answer.content() == [{"type": "text", "text": "Two"}]
    assert answer.finish_kind is None


def test_answers_come_in_order_and_are_texts_calls_or_failures() -> None:
    failure = ModelFailure("no", code="SERVER")
    model = ScriptedModel("one", Call("a"), [Call("a"), Call("b", "{raw")], failure, Say("half", error=failure))
    assert text(read(model)) == "one"
    assert [call["name"] for call in read(model).tool_calls()] == ["a"]
    assert [call["arguments"] for call in read(model).tool_calls()] == ["{}", "{raw"]
    for _ in range(2):
        with pytest.raises(ModelFailure):
            read(model)
    with pytest.raises(ConfigError, match=r"no answer left for call 6 \(asked 'go'\); write one more"):
        read(model)
    assert len(model.requests) == 6


def test_a_function_answers_too_also_an_async_one() -> None:
    async def later(request: ModelRequest) -> str:
        await asyncio.sleep(0)
        return f"{len(request.messages)} later"

    assert text(read(ScriptedModel(lambda request: f"{len(request.messages)} now"), asked("a", "b"))) == "2 now"
    assert text(read(ScriptedModel(later), asked("a"))) == "1 later"
    with pytest.raises(ConfigError, match="an answer is a text, a Call, a Say or an exception, not int"):
        read(ScriptedModel(lambda _: 3))  # type: ignore[arg-type,return-value]


def test_sessions_take_the_answers_of_their_newest_prompt() -> None:
    model = ScriptedModel({"first": ["1", "2"], "second": ["3"]})
    assert text(read(model, asked("first thing", session="a"))) == "1"
    assert text(read(model, asked("first thing", session="b"))) == "1"
    assert text(read(model, asked("first thing", session="a"))) == "2"
    assert text(read(model, asked("first thing", "second thing", session="a"))) == "3"
    with pytest.raises(ConfigError, match="no answer left"):
        read(model, asked("third", session="a"))


def test_an_answer_takes_its_time() -> None:
    started = time.perf_counter()
    read(ScriptedModel(Say("a b", delay_s=0.02, pace_s=0.01), delay_s=0.02))
    assert time.perf_counter() - started >= 0.04 + 4 * 0.01


def test_the_service_finds_a_model_by_its_provider() -> None:
    llm = Llm(Context())
    with pytest.raises(ConfigError, match="no model answers for the provider 'scripted'; there is none"):
        llm.stream(asked("go"))
    model = ScriptedModel("here")
    unregister = llm.register("scripted", model)
    llm.register("scripted", model)
    with pytest.raises(ConfigError, match="registered for the provider 'scripted' already"):
        llm.register("scripted", ScriptedModel())
    assert llm.providers == ("scripted",)
    assert text(read(llm, asked("go"))) == "here"
    unregister()
    unregister()
    assert not llm.providers


def test_waits_double_up_to_a_limit_and_the_provider_may_ask_for_another() -> None:
    policy = RetryPolicy(max_retries=5, first_delay_s=1, longest_delay_s=3)
    busy = ModelFailure("busy", code="RATE_LIMIT")
    assert [policy.delay_s(busy, retry) for retry in range(1, 7)] == [1, 2, 3, 3, 3, None]
    assert policy.delay_s(ModelFailure("busy", code="RATE_LIMIT", retry_after_s=7), 1) == 7
    assert policy.delay_s(ModelFailure("busy", code="RATE_LIMIT", retry_after_s=61), 1) is None
    assert policy.delay_s(ModelFailure("no", code="AUTH"), 1) is None
    assert policy.key == '["normal",5,["EMPTY_RESPONSE","RATE_LIMIT","SERVER","TIMEOUT","TRANSPORT"],1000,3000,0.0]'
    jittery = RetryPolicy(first_delay_s=1, jitter=0.5)
    waits = [jittery.delay_s(busy, 1) or 0 for _ in range(50)]
    assert 1 <= min(waits) < max(waits) <= 1.5


@pytest.mark.parametrize(
    ("name", "value"), [("max_retries", -1), ("max_retries", 1.5), ("jitter", -0.1), ("first_delay_s", float("nan"))]
)
def test_a_retry_policy_refuses_what_cannot_be(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=name):
        RetryPolicy(**{name: value})


def test_a_finish_that_is_a_failure_says_which() -> None:
    facts = {"message": "slow down", "code": "RATE_LIMIT", "status": 429, "providerRetryAfterMs": 1500}
    failure = failure_of_finish({"kind": "error", "failure": facts})
    assert failure.to_json() == facts
    assert failure.retryable
    assert failure_of_finish({"kind": "aborted"}).to_json() == {
        "message": "the model's answer ended with an error",
        "code": "UNKNOWN",
    }
