from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cassette_lab.errors import ConfigError, MismatchError, RecordedError
from cassette_lab.server.openai import Answer, RequestError, failure_of, read_call, usage_document
from cassette_lab.session.usage import Usage, read_usage

STOP = {"type": "finish", "reason": {"kind": "stop"}}


def body(**members: Any) -> bytes:
    return json.dumps({"messages": [{"role": "user", "content": "hi"}], **members}).encode()


def played(*chunks: dict[str, Any]) -> tuple[Answer, list[Any]]:
    answer = Answer()
    deltas = [answer.add(chunk) for chunk in chunks]
    return answer, [delta for delta in deltas if delta is not None]


def tool(index: Any, arguments: str, **members: Any) -> dict[str, Any]:
    return {"type": "tool-call-delta", "index": index, "argumentsDelta": arguments, **members}


def test_the_session_is_the_header_else_the_user_else_nobody() -> None:
    assert read_call(body(user="u"), "s").session_id == "s"
    assert read_call(body(user="u")).session_id == "u"
    assert read_call(body(user="u"), "").session_id == "u"
    assert read_call(body(user="")).session_id is None
    assert read_call(body()).session_id is None


def test_what_a_call_asks_for() -> None:
    call = read_call(body(model="m", stream=True, stream_options={"include_usage": True}, tools=[{"type": "function"}], n=1))
    assert (call.model, call.is_streamed, call.include_usage, call.tools) == ("m", True, True, [{"type": "function"}])
    call = read_call(body(model=None, stream="yes", stream_options=[], tools=None, n=None))
    assert (call.model, call.is_streamed, call.include_usage, call.tools) == ("replay", False, False, [])


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "the body is no JSON"),
        (b"{", "the body is no JSON"),
        (b"[" * 100_000, "the body is no JSON"),
        (b"\xff\xfe", "the body is no JSON"),
        (b"[]", "the body is no JSON object"),
        (b"{}", "there are no messages"),
        (body(messages=[]), "there are no messages"),
        (body(messages="hi"), "messages is no array of objects"),
        (body(messages=["hi"]), "messages is no array of objects"),
        (body(tools={"a": 1}), "tools is no array of objects"),
        (body(n=2), "n is not 1"),
        (body(n=True), "n is not 1"),
        (body(user=7), "user is no string"),
        (body(user="u" * 513), "the session id has more than 512 characters"),
    ],
)
def test_a_request_that_is_none_is_refused_in_a_sentence(data: bytes, sentence: str) -> None:
    with pytest.raises(RequestError, match=f"^{sentence}"):
        read_call(data)


def test_texts_and_reasoning() -> None:
    answer, deltas = played(
        {"type": "block-start", "index": 0, "blockType": "reasoning"},
        {"type": "reasoning-delta", "index": 0, "text": "hm"},
        {"type": "block-end", "index": 0, "block": {"type": "reasoning", "text": "hm"}},
        {"type": "block-start", "index": 1, "blockType": "text"},
        {"type": "text-delta", "index": 1, "text": ""},
        {"type": "text-delta", "index": 1, "text": "ye"},
        {"type": "text-delta", "index": 1, "text": "s"},
        {"type": "block-end", "index": 1, "block": {"type": "text", "text": "yes"}},
        STOP,
    )
    assert deltas == [{"reasoning_content": "hm"}, {"content": "ye"}, {"content": "s"}]
    assert answer.message() == {"role": "assistant", "content": "yes", "reasoning_content": "hm"}
    assert (answer.finish_reason, answer.failure) == ("stop", None)


def test_tool_calls_are_numbered_and_named_once() -> None:
    answer, deltas = played(
        tool(1, "", id="a", name="read"),
        tool(1, '{"p":', id="a", name="read"),
        tool(2, "{}", id="b"),
        tool(2, "", id="b", name="list"),
        tool(1, "1}", id="a"),
        tool(1, "", id="a"),
        {"type": "finish", "reason": {"kind": "tool-calls"}},
    )
    assert [delta["tool_calls"][0] for delta in deltas] == [
        {"index": 0, "id": "a", "type": "function", "function": {"name": "read", "arguments": ""}},
        {"index": 0, "function": {"arguments": '{"p":'}},
        {"index": 1, "id": "b", "type": "function", "function": {"name": "", "arguments": "{}"}},
        {"index": 1, "function": {"arguments": "", "name": "list"}},
        {"index": 0, "function": {"arguments": "1}"}},
    ]
    assert answer.message() == {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "read", "arguments": '{"p":1}'}},
            {"id": "b", "type": "function", "function": {"name": "list", "arguments": "{}"}},
        ],
    }
    assert answer.finish_reason == "tool_calls"


def test_a_block_without_deltas_comes_at_its_end() -> None:
    call = {"type": "tool-call", "id": "a", "name": "read", "arguments": "{}"}
    answer, deltas = played(
        {"type": "block-start", "index": 0, "blockType": "text"},
        {"type": "block-end", "index": 0, "block": {"type": "text", "text": "summary"}},
        {"type": "block-end", "index": 1, "block": call},
        STOP,
    )
    assert [*map(list, deltas)] == [["content"], ["tool_calls"]]
    assert answer.message()["content"] == "summary"
    assert answer.message()["tool_calls"][0]["function"] == {"name": "read", "arguments": "{}"}


@pytest.mark.parametrize(
    ("reason", "finish"),
    [({"kind": "max-tokens"}, "length"), ("stop", "stop"), ({"kind": "refusal"}, "content_filter"), ({"kind": "new"}, "new")],
)
def test_ends(reason: Any, finish: str) -> None:
    answer, _ = played({"type": "finish", "reason": reason})
    assert (answer.finish_reason, answer.failure) == (finish, None)


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        ({"message": "no", "code": "AUTH"}, 401),
        ({"message": "no", "code": "RATE_LIMIT"}, 429),
        ({"message": "no", "code": "SERVER", "status": 503}, 503),
        ({"message": "no", "code": "SERVER", "status": 200}, 500),
        ({"message": "no", "code": "STREAM_CLOSED"}, 502),
        ({"message": "no"}, 502),
    ],
)
def test_an_end_that_is_a_failure(failure: dict[str, Any], status: int) -> None:
    answer, _ = played({"type": "finish", "reason": {"kind": "error", "failure": failure}})
    assert answer.failure is not None
    assert (answer.failure.status, answer.failure.message, answer.failure.code) == (status, "no", failure.get("code"))


def test_an_answer_that_does_not_end_is_a_failure() -> None:
    answer, _ = played({"type": "text-delta", "index": 0, "text": "a"})
    assert answer.failure is not None
    assert answer.failure.code == "MISSING_FINISH"


def test_usage_counts_caches_as_prompt() -> None:
    usage = read_usage(
        {"inputTokens": 3, "outputTokens": 5, "cacheReadTokens": 7, "cacheWriteTokens": 11, "reasoningTokens": 2}
    )
    assert usage is not None
    assert usage_document(usage) == {
        "prompt_tokens": 21,
        "completion_tokens": 5,
        "total_tokens": 26,
        "prompt_tokens_details": {"cached_tokens": 7},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }
    assert usage_document(Usage()) == {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


def test_errors_have_a_status_that_fits() -> None:
    errors = [
        MismatchError("gone", diagnostic={"reason": "script-exhausted"}),
        MismatchError("gone"),
        RecordedError("slow down", code="RATE_LIMIT"),
        ConfigError("broken"),
        RequestError("huge", status=413),
    ]
    assert [(failure.status, failure.code) for failure in map(failure_of, errors)] == [
        (409, "script-exhausted"),
        (409, "CASSETTE_MISMATCH"),
        (429, "RATE_LIMIT"),
        (500, "INVALID_CONFIG"),
        (413, "INVALID_REQUEST"),
    ]


VALUES: st.SearchStrategy[Any] = (
    st.none() | st.integers() | st.text(max_size=3) | st.just([]) | st.just({"a": 1}) | st.floats(allow_nan=False)
)
CHUNKS = st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            ["block-start", "text-delta", "reasoning-delta", "tool-call-delta", "block-end", "usage", "finish"]
        )
    },
    optional=dict.fromkeys(("index", "text", "id", "name", "argumentsDelta", "block", "usage", "reason"), VALUES),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(CHUNKS, max_size=8))
def test_members_of_any_type_make_an_answer_that_json_can_hold(chunks: list[dict[str, Any]]) -> None:
    answer, deltas = played(*chunks)
    json.dumps([deltas, answer.message(), answer.finish_reason], allow_nan=False)
