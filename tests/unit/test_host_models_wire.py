"""What goes to an endpoint, and what its answer is in chunks of a session log."""

from __future__ import annotations

import asyncio
import copy
import json
import math
import random
from contextlib import aclosing
from typing import Any

import pytest

from cassette_lab.contracts import LlmAdapter, ModelRequest, StreamChunk
from cassette_lab.host.answer import Answer as LoopAnswer
from cassette_lab.host.models.deepseek_messages import DeepSeekMessages
from cassette_lab.host.models.deepseek_messages import _Answer as MessagesAnswer
from cassette_lab.host.models.failures import ModelFailure, failure_of_answer, retry_after_seconds
from cassette_lab.host.models.openai_chat import OpenAIChat, read_usage
from cassette_lab.host.models.openai_chat import _Answer as ChatAnswer
from cassette_lab.jsonio import JsonObject
from cassette_lab.server.mock_model import Answer, MockModel, MockRequest, Reply, ToolUse
from cassette_lab.server.mock_wire import chat_events, message_events, sse
from cassette_lab.session.usage import Usage

TOOL = {
    "name": "look_up",
    "description": "Look a thing up.",
    "parameters": {"type": "object", "properties": {"x": {"type": "string"}}},
}
CALL = {"type": "tool-call", "id": "c1", "name": "look_up", "arguments": '{"x": "y"}'}
THOUGHT = {"type": "reasoning", "text": "Hm."}
STATE = {
    "response": {"kind": "deepseek-messages", "version": 1, "model": "m"},
    "blocks": [{"type": "reasoning", "signature": "s1"}, {"type": "text"}, {"type": "tool-call"}],
}
CONVERSATION: list[JsonObject] = [
    {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
    {"role": "user", "content": [{"type": "text", "text": "Hello "}, {"type": "text", "text": "there."}], "id": "u1"},
    {
        "role": "assistant",
        "content": [THOUGHT, {"type": "text", "text": "I look."}, CALL],
        "source": {"kind": "model", "model": "m", "replayState": STATE},
    },
]
RESULT_0 = {
    "role": "user",
    "content": [{"type": "tool-result", "toolCallId": "c1", "content": [{"type": "text", "text": "42"}], "isError": True}],
}
RESULT_4 = {"role": "tool", "toolCallId": "c1", "content": [{"type": "text", "text": "42"}], "isError": True}
NEXT = {"role": "user", "content": "And now?"}


def call(model: Any, request: ModelRequest, said: Any = None) -> tuple[list[StreamChunk], MockRequest]:
    """The chunks of an answer, and the request as it came in."""

    async def run(adapter: LlmAdapter) -> list[StreamChunk]:
        async with aclosing(adapter.stream(request)) as stream:
            return [chunk async for chunk in stream]

    with MockModel([said or Answer("Fine.")]) as server:
        chunks = asyncio.run(run(model("m", base_url=server.base_url, api_key_env=None)))
        return chunks, server.requests[0]


def chat_reply(*deltas: JsonObject, finish: str | None = "stop") -> Reply:
    choices = [*({"delta": delta} for delta in deltas), *([{"delta": {}, "finish_reason": finish}] if finish else [])]
    return Reply([*(sse({"choices": [choice]}) for choice in choices), b"data: [DONE]\n\n"])


def chat(*deltas: JsonObject, finish: str | None = "stop") -> list[StreamChunk]:
    return call(OpenAIChat, ModelRequest([NEXT]), chat_reply(*deltas, finish=finish))[0]


def blocks(chunks: list[StreamChunk]) -> list[Any]:
    return [chunk["block"] for chunk in chunks if chunk["type"] == "block-end"]


class TestChatRequest:
    @pytest.mark.parametrize("result", [RESULT_0, RESULT_4])
    def test_a_conversation(self, result: JsonObject) -> None:
        options = {
            "system": "You are a clock.",
            "maxTokens": 9,
            "temperature": 0,
            "stop": ["."],
            "reasoningEffort": "low",
            "purpose": "x",
        }
        _, sent = call(OpenAIChat, ModelRequest([*CONVERSATION, result, NEXT], [TOOL], options=options))
        function = {"name": "look_up", "arguments": '{"x": "y"}'}
        assert sent.path == "/v1/chat/completions"
        assert sent.document == {
            "model": "m",
            "messages": [
                {"role": "system", "content": "You are a clock."},
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Hello there."},
                {
                    "role": "assistant",
                    "content": "I look.",
                    "tool_calls": [{"id": "c1", "type": "function", "function": function}],
                },
                {"role": "tool", "tool_call_id": "c1", "content": "42"},
                {"role": "user", "content": "And now?"},
            ],
            "tools": [{"type": "function", "function": TOOL}],
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": 9,
            "temperature": 0,
            "stop": ["."],
            "reasoning_effort": "low",
        }

    def test_reasoning_goes_back_where_it_is_wanted(self) -> None:
        def model(name: str, **options: Any) -> OpenAIChat:
            return OpenAIChat(name, sends_reasoning=True, extra_body={"n": 1}, **options)

        _, sent = call(model, ModelRequest(CONVERSATION, model="other"))
        assert sent.document["messages"][-1]["reasoning_content"] == "Hm."
        assert (sent.document["n"], sent.document["model"]) == (1, "other")

    def test_an_image(self) -> None:
        image = {"type": "image", "mediaType": "image/png", "data": "AAAA"}
        _, sent = call(OpenAIChat, ModelRequest([{"role": "user", "content": [image]}]))
        assert sent.document["messages"][0]["content"] == [
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
        ]

    @pytest.mark.parametrize("model", [OpenAIChat, DeepSeekMessages])
    @pytest.mark.parametrize(
        "message",
        [
            {"role": "robot", "content": "x"},
            {"role": "user", "content": 7},
            {"role": "user", "content": [{"type": "smell"}]},
            {"role": "assistant", "content": [{"type": "smell"}]},
        ],
    )
    def test_what_cannot_be_asked_is_a_failure_of_the_stream(self, model: Any, message: JsonObject) -> None:
        with pytest.raises(ModelFailure) as caught:
            call(model, ModelRequest([message]))
        assert (caught.value.code, caught.value.retryable) == ("INVALID_REQUEST", False)

    def test_a_lone_surrogate_of_a_recorded_text(self) -> None:
        _, sent = call(OpenAIChat, ModelRequest([{"role": "user", "content": "\ud83d"}]))
        assert sent.document["messages"][0]["content"] == "\ud83d"


class TestMessagesRequest:
    @pytest.mark.parametrize("result", [RESULT_0, RESULT_4])
    def test_a_conversation(self, result: JsonObject) -> None:
        options = {"system": "You are a clock.", "maxTokens": 9, "stop": ["."], "reasoningEffort": "max"}
        _, sent = call(DeepSeekMessages, ModelRequest([*CONVERSATION, NEXT, result], [TOOL], options=options))
        assert sent.path == "/v1/messages"
        assert sent.headers["anthropic-version"] == "2023-06-01"
        assert sent.document == {
            "model": "m",
            "system": "You are a clock.\n\nBe brief.",
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "Hello "}, {"type": "text", "text": "there."}]},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "Hm.", "signature": "s1"},
                        {"type": "text", "text": "I look."},
                        {"type": "tool_use", "id": "c1", "name": "look_up", "input": {"x": "y"}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "c1",
                            "content": [{"type": "text", "text": "42"}],
                            "is_error": True,
                        },
                        {"type": "text", "text": "And now?"},
                    ],
                },
            ],
            "tools": [{"name": "look_up", "description": "Look a thing up.", "input_schema": TOOL["parameters"]}],
            "max_tokens": 9,
            "stop_sequences": ["."],
            "thinking": {"type": "enabled"},
            "output_config": {"effort": "max"},
            "stream": True,
        }

    def test_a_signature_is_the_models_own(self) -> None:
        _, sent = call(DeepSeekMessages, ModelRequest(CONVERSATION, model="another"))
        assert sent.document["messages"][-1]["content"][0] == {"type": "thinking", "thinking": "Hm."}


class TestChatAnswer:
    def test_every_kind_of_block_and_the_usage(self) -> None:
        usage = Usage(input_tokens=30, output_tokens=9, cache_read_tokens=12, cache_write_tokens=0, reasoning_tokens=4)
        said = Answer("A b.", "R s", [ToolUse("f", {"a": 1}, "t1"), ToolUse("g", "", "t2")], usage)
        chunks, _ = call(OpenAIChat, ModelRequest([NEXT]), said)
        assert blocks(chunks) == [
            {"type": "reasoning", "text": "R s"},
            {"type": "text", "text": "A b."},
            {"type": "tool-call", "id": "t1", "name": "f", "arguments": '{"a": 1}'},
            {"type": "tool-call", "id": "t2", "name": "g", "arguments": "{}"},
        ]
        assert chunks[-2:] == [
            {
                "type": "usage",
                "usage": {"inputTokens": 30, "outputTokens": 9, "cacheReadTokens": 12, "reasoningTokens": 4, "totalTokens": 51},
            },
            {"type": "finish", "reason": {"kind": "tool-calls"}},
        ]
        assert [chunk["index"] for chunk in chunks if chunk["type"] == "block-start"] == [0, 1, 2, 3]

    def test_calls_that_arrive_by_turns(self) -> None:
        def part(index: int | None, text: str, **more: Any) -> JsonObject:
            place = {} if index is None else {"index": index}
            return {"tool_calls": [{**place, **more, "function": {"name": more.get("id", ""), "arguments": text}}]}

        expected = [("a", '{"n": 1}'), ("b", '{"n": 2}')]
        for first, second in ((0, 1), (None, None), (0, 0)):  # some endpoints send no index, or always the same
            deltas = [part(first, '{"n"', id="a"), part(first, ": 1}"), part(second, '{"n"', id="b"), part(second, ": 2}")]
            assert [(block["name"], block["arguments"]) for block in blocks(chat(*deltas))] == expected
        deltas = [part(0, '{"n"', id="a"), part(1, '{"n"', id="b"), part(0, ": 1}"), part(1, ": 2}")]
        assert [(block["name"], block["arguments"]) for block in blocks(chat(*deltas))] == expected

    def test_a_call_without_an_id_gets_one(self) -> None:
        chunks = chat({"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": "{}"}}]})
        assert blocks(chunks)[0]["id"] == "call_0"
        assert chunks[-1]["reason"] == {"kind": "tool-calls"}

    def test_calls_that_share_an_id_get_ids_of_their_own(self) -> None:
        first, second = (
            {"tool_calls": [{"index": index, "id": "f", "function": {"name": "f", "arguments": '{"a":'}}]} for index in (0, 1)
        )
        rest = [{"tool_calls": [{"index": index, "id": "f", "function": {"arguments": f"{index}}}"}}]} for index in (0, 1)]
        told = [(block["id"], block["arguments"]) for block in blocks(chat(first, second, *rest))]
        assert told == [("f", '{"a":0}'), ("f_1", '{"a":1}')]

    def test_the_other_name_of_reasoning(self) -> None:
        assert blocks(chat({"reasoning": "Hm"}, {"content": "So."}))[0] == {"type": "reasoning", "text": "Hm"}

    @pytest.mark.parametrize(
        ("finish", "kind"), [("stop", "stop"), ("length", "max-tokens"), ("tool_calls", "tool-calls"), ("eos", "stop")]
    )
    def test_finish_reasons(self, finish: str, kind: str) -> None:
        assert chat({"content": "x"}, finish=finish)[-1] == {"type": "finish", "reason": {"kind": kind}}

    @pytest.mark.parametrize(
        "delta",
        [
            {"content": 7},
            {"tool_calls": 7},
            {"tool_calls": [7]},
            {"tool_calls": [{"index": 0, "id": "a", "function": {"arguments": "{}"}}]},
            [7],
        ],
    )
    def test_what_is_no_answer(self, delta: Any) -> None:
        with pytest.raises(ModelFailure, match="breaks its protocol"):
            chat(delta)

    def test_resources_that_ran_out(self) -> None:
        with pytest.raises(ModelFailure) as caught:
            chat({"content": "x"}, finish="insufficient_system_resource")
        assert caught.value.code == "SERVER"

    @pytest.mark.parametrize(
        ("usage", "counts"),
        [
            ({}, {}),
            ({"prompt_tokens": 10, "completion_tokens": 2}, {"inputTokens": 10, "outputTokens": 2, "totalTokens": 12}),
            (
                {"prompt_tokens": 10, "completion_tokens": 2, "prompt_cache_hit_tokens": 8, "prompt_cache_miss_tokens": 2},
                {"inputTokens": 2, "outputTokens": 2, "cacheReadTokens": 8, "totalTokens": 12},
            ),
            (
                {
                    "prompt_tokens": 10,
                    "completion_tokens": -1,
                    "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 5},
                },
                {"inputTokens": 1, "cacheReadTokens": 4, "cacheWriteTokens": 5},
            ),
            ({"prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": 9}}, {"inputTokens": 0, "cacheReadTokens": 9}),
            ({"prompt_tokens": "3", "prompt_tokens_details": None}, {}),
        ],
    )
    def test_counts_are_disjoint(self, usage: JsonObject, counts: JsonObject) -> None:
        assert read_usage(usage) == counts


class TestMessagesAnswer:
    def test_blocks_end_in_place(self) -> None:
        usage = Usage(input_tokens=30, output_tokens=9, cache_read_tokens=12, cache_write_tokens=5)
        chunks, _ = call(DeepSeekMessages, ModelRequest([NEXT]), Answer("A b.", "R", [ToolUse("f", {}, "t1")], usage))
        assert [chunk["type"] for chunk in chunks if not chunk["type"].endswith("delta")] == [
            *["block-start", "block-end"] * 3,
            "usage",
            "finish",
        ]
        assert chunks[-2]["usage"] == {
            "inputTokens": 30, "outputTokens": 9, "cacheReadTokens": 12, "cacheWriteTokens": 5, "totalTokens": 56,
        }  # fmt: skip
        assert chunks[-1] == {
            "type": "finish",
            "reason": {"kind": "tool-calls"},
            "replayState": {
                "response": {"kind": "deepseek-messages", "version": 1, "model": "m"},
                "blocks": [{"type": "reasoning", "signature": ""}, {"type": "text"}, {"type": "tool-call"}],
            },
        }

    def test_a_signature_that_comes_in_pieces(self) -> None:
        def event(kind: str, **members: Any) -> bytes:
            return sse({"type": kind, **members})

        events = [
            event("ping"),
            event("message_start", message={"usage": {"input_tokens": 1}}),
            event("content_block_start", index=4, content_block={"type": "thinking", "thinking": "Hm"}),
            event("content_block_delta", index=4, delta={"type": "signature_delta", "signature": "ab"}),
            event("content_block_delta", index=4, delta={"type": "signature_delta", "signature": "cd"}),
            event("content_block_stop", index=4),
            event("message_delta", delta={"stop_reason": "max_tokens"}, usage={"output_tokens": 7}),
            event("something_new"),
            event("message_stop"),
        ]
        chunks, _ = call(DeepSeekMessages, ModelRequest([NEXT]), Reply(events))
        assert blocks(chunks) == [{"type": "reasoning", "text": "Hm"}]
        assert chunks[-1]["replayState"]["blocks"] == [{"type": "reasoning", "signature": "abcd"}]
        assert chunks[-2]["usage"] == {"inputTokens": 1, "outputTokens": 7, "totalTokens": 8}

    def test_broken_arguments_fail_unless_they_were_cut(self) -> None:
        said = Answer(tools=[ToolUse("f", '{"a": ')])
        with pytest.raises(ModelFailure, match="arguments") as caught:
            call(DeepSeekMessages, ModelRequest([NEXT]), said)
        assert caught.value.code == "MALFORMED_RESPONSE"
        cut = Answer(tools=[ToolUse("f", '{"a": ')], finish="max-tokens")
        assert call(DeepSeekMessages, ModelRequest([NEXT]), cut)[0][-1]["reason"] == {"kind": "max-tokens"}

    @pytest.mark.parametrize(
        "events",
        [
            [{"type": "message_stop"}],
            [{"type": "message_start"}],
            [{"type": "message_start", "message": {}}, {"type": "message_stop"}],
            [{"type": "message_start", "message": {}}, {"type": "content_block_stop", "index": 0}],
            [
                {"type": "message_start", "message": {}},
                {"type": "content_block_start", "index": 0, "content_block": {"type": "odd"}},
            ],
            [
                {"type": "message_start", "message": {}},
                {"type": "message_delta", "delta": {"stop_reason": "odd"}},
                {"type": "message_stop"},
            ],
        ],
    )
    def test_what_is_no_message(self, events: list[JsonObject]) -> None:
        with pytest.raises(ModelFailure, match="breaks its protocol"):
            call(DeepSeekMessages, ModelRequest([NEXT]), Reply([sse(event) for event in events]))


class TestFailures:
    @pytest.mark.parametrize(
        ("header", "seconds"),
        [
            (None, None),
            ("3", 3),
            (" 1.5 ", 1.5),
            ("0", None),
            ("-1", None),
            ("soon", None),
            ("99999999", 86_400),
            ("Wed, 21 Oct 2015 07:28:00 GMT", None),
        ],
    )
    def test_retry_after(self, header: str | None, seconds: float | None) -> None:
        assert retry_after_seconds(header) == seconds

    @pytest.mark.parametrize(
        "document", [None, 7, [], {}, {"error": "text"}, {"error": {"type": 3, "code": [], "message": {}}}]
    )
    def test_any_document_is_a_failure(self, document: Any) -> None:
        assert failure_of_answer(document, status=418).code == "INVALID_REQUEST"
        assert failure_of_answer(document).code == "SERVER"

    def test_only_words_of_a_provider_are_shown(self) -> None:
        error = {"type": "invalid_request_error", "code": "sk-ABC123", "message": "your key sk-ABC123 …"}
        shown = str(failure_of_answer({"error": error}, status=400))
        assert "invalid_request_error" in shown
        assert "ABC123" not in shown

    def test_a_log_keeps_the_harness_names(self) -> None:
        failure = failure_of_answer({"error": {"type": "rate_limit_error"}}, status=429, retry_after="1")
        members = failure.to_json()
        assert json.dumps(members)
        assert members == {"message": failure.message, "code": "RATE_LIMIT", "status": 429, "providerRetryAfterMs": 1000}


ODD: list[Any] = [None, True, -1, 2**70, math.inf, "", "x", "\ud800", [], {}, [{}], [None], {"type": "text"}]


def mutated(document: Any, dice: random.Random) -> Any:
    """The document with something odd in one place."""
    changed = place = copy.deepcopy(document)
    while True:
        key = dice.choice(list(place) if isinstance(place, dict) else range(len(place)))
        if not isinstance(place[key], (dict, list)) or not place[key] or dice.random() < 0.3:
            place[key] = dice.choice(ODD)
            return changed
        place = place[key]


@pytest.mark.parametrize(("events", "make"), [(chat_events, ChatAnswer), (message_events, lambda: MessagesAnswer("m"))])
def test_an_answer_that_is_odd_anywhere_is_an_answer_or_a_failure(events: Any, make: Any) -> None:
    said = Answer("Hello a b", "think x", [ToolUse("f", {"a": 1}, "t1"), ToolUse("g", {}, "t2")])
    documents = [json.loads(event.split(b"data: ", 1)[1]) for event in events(said) if b"[DONE]" not in event]
    ends = set()
    for seed in range(800):
        dice = random.Random(seed)  # noqa: S311 - no secret
        answer, whole = make(), LoopAnswer()
        place = dice.randrange(len(documents))
        odd = mutated(documents[place], dice)
        try:
            for number, document in enumerate(documents):
                for chunk in answer.add(odd if number == place else document):
                    whole.add(json.loads(json.dumps(chunk, allow_nan=False)))
            for chunk in answer.end() if events is chat_events else ():
                whole.add(chunk)
            ends.add(whole.finish_kind)
        except ModelFailure as failure:
            ends.add(failure.code)
    assert {"tool-calls", "MALFORMED_RESPONSE"} <= ends
