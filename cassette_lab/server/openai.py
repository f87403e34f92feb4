"""The chat completions protocol: a request's members in, the pieces of a recorded answer out.

Source: OpenAI API reference, Chat Completions (``chat.completion``, ``chat.completion.chunk``, errors);
``reasoning_content`` is what providers of reasoning models add to a message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cassette_lab.contracts import StreamChunk
from cassette_lab.errors import CassetteLabError, MismatchError, RecordedError
from cassette_lab.jsonio import JsonObject, JsonSyntaxError, as_integer, parse
from cassette_lab.session.usage import Usage, read_usage

SERVED_MODEL: Final = "replay"
"""The one model that is listed. A request may name any other: the recording answers, whatever the name."""


class RequestError(CassetteLabError):
    """A request that is no chat completion; ``status`` is the HTTP status of the answer."""

    code = "INVALID_REQUEST"

    def __init__(self, message: str, *, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class ChatCall:
    """What a request asks for."""

    messages: Sequence[JsonObject]
    tools: Sequence[JsonObject]
    model: str
    session_id: str | None
    is_streamed: bool
    include_usage: bool


def read_call(body: bytes, session_id: str | None = None) -> ChatCall:
    """The call in a request's body. Without a session id its ``user`` is one; if there is none, it is nobody's.

    Raises ``RequestError``, whose sentence shows nothing of the body but names of members.
    """
    try:
        members = parse(body)
    except JsonSyntaxError as error:
        raise RequestError(f"the body is no JSON ({error})") from None
    if not isinstance(members, dict):
        raise RequestError("the body is no JSON object")
    messages, tools = (_objects(members.get(name), name) for name in ("messages", "tools"))
    if not messages:
        raise RequestError("there are no messages")
    if as_integer(members.get("n", 1)) != 1 and members["n"] is not None:
        raise RequestError("n is not 1: a recorded call has one answer")
    user, model, options = members.get("user"), members.get("model"), members.get("stream_options")
    if session_id is None and user is not None and not isinstance(user, str):
        raise RequestError("user is no string")
    session_id = session_id or user or None
    if session_id is not None and len(session_id) > _LONGEST_ID:
        raise RequestError(f"the session id has more than {_LONGEST_ID} characters")
    return ChatCall(
        messages,
        tools,
        model if isinstance(model, str) and model else SERVED_MODEL,
        session_id,
        is_streamed=members.get("stream") is True,
        include_usage=isinstance(options, dict) and options.get("include_usage") is True,
    )


_LONGEST_ID: Final = 512


def _objects(value: Any, name: str) -> list[JsonObject]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise RequestError(f"{name} is no array of objects")
    return value


@dataclass(frozen=True, slots=True)
class Failure:
    """An answer that is an error: its HTTP status, and the ``error`` object of its body."""

    status: int
    message: str
    type: str
    code: str | None = None

    def to_json(self) -> JsonObject:
        """The body."""
        return {"error": {"message": self.message, "type": self.type, "param": None, "code": self.code}}


def failure_of(error: CassetteLabError) -> Failure:
    """What a client gets to see of an error: what was recorded, a call that was not recorded (409), or a request's fault."""
    if isinstance(error, RequestError):
        return Failure(error.status, error.message, "invalid_request_error", error.code)
    if isinstance(error, RecordedError):
        return _recorded_failure({"message": error.message, "code": error.code})
    if isinstance(error, MismatchError):
        reason = error.diagnostic.get("reason") if isinstance(error.diagnostic, dict) else None
        return Failure(409, str(error), "replay_mismatch", reason or error.code)
    return Failure(500, str(error), "replay_error", error.code)


def _recorded_failure(facts: Mapping[str, Any]) -> Failure:
    """The failure of a provider. A status that the log has is given again; else the code tells it, as far as it does."""
    message, code, status = facts.get("message"), facts.get("code"), as_integer(facts.get("status"))
    code = code if isinstance(code, str) else None
    if status is None or not 400 <= status <= 599:
        status = _STATUS_OF_CODE.get(code or "", 502)
    return Failure(status, message if isinstance(message, str) else "the recorded call failed", "recorded_error", code)


_STATUS_OF_CODE: Final = {"AUTH": 401, "RATE_LIMIT": 429, "CONTENT_FILTER": 400, "SERVER": 500}


@dataclass(slots=True)
class _ToolCall:
    place: int
    id: str
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class Answer:
    """Takes the chunks of a recorded call, gives the deltas of a streamed answer, and keeps the whole one."""

    def __init__(self) -> None:
        self.finish_reason: str | None = None
        self.usage: Usage | None = None
        self._failure: Failure | None = None
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._calls: dict[tuple[int | None, str | None], _ToolCall] = {}
        self._streamed: set[int | None] = set()

    @property
    def failure(self) -> Failure | None:
        """After the last chunk: how the recorded call failed, if it did, or that it has no end."""
        if self._failure is None and self.finish_reason is None:
            return Failure(502, "the recorded answer ends without a finish", "recorded_error", "MISSING_FINISH")
        return self._failure

    def add(self, chunk: StreamChunk) -> JsonObject | None:
        """The delta that this chunk makes; None where it makes none.

        A block that came without deltas, as those of a summary do, is one delta at its end.
        """
        kind, index = chunk.get("type"), as_integer(chunk.get("index"))
        if kind == "block-start":
            self._streamed.discard(index)
        elif kind == "block-end":
            block = chunk.get("block")
            if index not in self._streamed and isinstance(block, dict):
                return self._delta(block.get("type"), index, block, "arguments")
        elif kind == "usage":
            self.usage = read_usage(chunk.get("usage")) or self.usage
        elif kind == "finish":
            self._end(chunk.get("reason"))
        elif isinstance(kind, str):
            self._streamed.add(index)
            return self._delta(kind.removesuffix("-delta"), index, chunk, "argumentsDelta")
        return None

    def message(self) -> JsonObject:
        """The whole message."""
        message: JsonObject = {"role": "assistant", "content": "".join(self._content) if self._content else None}
        if self._reasoning:
            message["reasoning_content"] = "".join(self._reasoning)
        if self._calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": "".join(call.arguments)}}
                for call in self._calls.values()
            ]
        return message

    def _delta(self, kind: Any, index: int | None, members: Mapping[str, Any], arguments: str) -> JsonObject | None:
        if kind == "tool-call":
            return self._tool_delta(index, members, _text(members.get(arguments)))
        text = _text(members.get("text"))
        if not text or kind not in ("text", "reasoning"):
            return None
        (self._content if kind == "text" else self._reasoning).append(text)
        return {"content" if kind == "text" else "reasoning_content": text}

    def _tool_delta(self, index: int | None, members: Mapping[str, Any], arguments: str) -> JsonObject | None:
        call_id, name = _text(members.get("id")), _text(members.get("name"))
        call = self._calls.get((index, call_id or None))
        delta: JsonObject = {}
        if call is None:
            place = len(self._calls)
            call = self._calls[index, call_id or None] = _ToolCall(place, call_id or f"call_{place}")
            delta = {"index": place, "id": call.id, "type": "function", "function": {"name": name, "arguments": arguments}}
        elif arguments or (name and not call.name):
            delta = {"index": call.place, "function": {"arguments": arguments}}
            if name and not call.name:
                delta["function"]["name"] = name
        call.name = call.name or name
        call.arguments.append(arguments)
        return {"tool_calls": [delta]} if delta else None

    def _end(self, reason: Any) -> None:
        facts = reason if isinstance(reason, dict) else {"kind": reason}
        kind = _text(facts.get("kind"))
        if kind in ("error", "aborted"):
            failure = facts.get("failure")
            self._failure = _recorded_failure(failure if isinstance(failure, dict) else {"code": kind.upper()})
        self.finish_reason = _FINISH_REASONS.get(kind, kind or "stop")


_FINISH_REASONS: Final = {"tool-calls": "tool_calls", "max-tokens": "length", "refusal": "content_filter"}


def usage_document(usage: Usage) -> JsonObject:
    """``usage`` as the protocol counts: what came from a cache is part of the prompt. A count nobody knows is 0 or left out."""
    prompt = (usage.input_tokens or 0) + (usage.cache_read_tokens or 0) + (usage.cache_write_tokens or 0)
    completion = usage.output_tokens or 0
    document: JsonObject = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion if usage.total_tokens is None else usage.total_tokens,
    }
    if usage.cache_read_tokens is not None:
        document["prompt_tokens_details"] = {"cached_tokens": usage.cache_read_tokens}
    if usage.reasoning_tokens is not None:
        document["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
    return document


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
