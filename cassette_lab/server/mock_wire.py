"""What a mock model says, as the events of chat completions and of Messages."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cassette_lab.jsonio import JsonObject
from cassette_lab.session.usage import Usage


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A tool that the model calls; arguments that are a text are sent as they are. Without an id it gets one."""

    name: str
    arguments: JsonObject | str
    id: str | None = None


DEFAULT_USAGE: Final = Usage(input_tokens=100, output_tokens=10, cache_read_tokens=64, cache_write_tokens=0)


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer, in this order: reasoning, text, calls of tools. It streams word by word, ``pace_s`` seconds apart.

    ``finish`` is ``stop``, ``tool-calls`` or ``max-tokens``, which follows from the rest if it is not given; any other word
    goes out as it is.
    """

    text: str = ""
    reasoning: str = ""
    tools: Sequence[ToolUse] = ()
    usage: Usage = DEFAULT_USAGE
    finish: str | None = None
    pace_s: float = 0.0

    @property
    def finish_kind(self) -> str:
        """How it ends."""
        return self.finish or ("tool-calls" if self.tools else "stop")


def chat_events(said: Answer) -> Iterator[bytes]:
    """The answer as a streamed chat completion."""
    identity = {"id": "chatcmpl-mock", "object": "chat.completion.chunk", "created": 0, "model": "mock"}

    def event(delta: JsonObject, finish: str | None = None) -> bytes:
        return sse({**identity, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    yield event({"role": "assistant", "content": ""})
    for word in words(said.reasoning):
        yield event({"reasoning_content": word})
    for word in words(said.text):
        yield event({"content": word})
    for place, tool in enumerate(said.tools):
        function = {"name": tool.name, "arguments": ""}
        yield event({"tool_calls": [{"index": place, "id": _call_id(tool), "type": "function", "function": function}]})
        for part in _parts(_arguments(tool)):
            yield event({"tool_calls": [{"index": place, "function": {"arguments": part}}]})
    kind = said.finish_kind
    yield event({}, {"tool-calls": "tool_calls", "max-tokens": "length"}.get(kind, kind))
    usage = said.usage
    prompt = (usage.input_tokens or 0) + (usage.cache_read_tokens or 0) + (usage.cache_write_tokens or 0)
    counts: JsonObject = {
        "prompt_tokens": prompt,
        "completion_tokens": usage.output_tokens or 0,
        "total_tokens": prompt + (usage.output_tokens or 0),
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens or 0},
    }
    if usage.reasoning_tokens is not None:
        counts["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
    yield sse({**identity, "choices": [], "usage": counts})
    yield b"data: [DONE]\n\n"


def message_events(said: Answer) -> Iterator[bytes]:
    """The answer as a streamed message."""

    def event(kind: str, **members: Any) -> bytes:
        return f"event: {kind}\n".encode() + sse({"type": kind, **members})

    counts = {
        "input_tokens": said.usage.input_tokens or 0,
        "cache_read_input_tokens": said.usage.cache_read_tokens or 0,
        "cache_creation_input_tokens": said.usage.cache_write_tokens or 0,
        "output_tokens": 1,
    }
    message = {"id": "msg_mock", "type": "message", "role": "assistant", "model": "mock", "content": [], "usage": counts}
    yield event("message_start", message=message)
    index = itertools.count()
    for kind, text in (("thinking", said.reasoning), ("text", said.text)):
        if text:
            place = next(index)
            block: JsonObject = {"type": kind, kind: "", **({"signature": ""} if kind == "thinking" else {})}
            yield event("content_block_start", index=place, content_block=block)
            for word in words(text):
                yield event("content_block_delta", index=place, delta={"type": f"{kind}_delta", kind: word})
            yield event("content_block_stop", index=place)
    for tool in said.tools:
        place = next(index)
        block = {"type": "tool_use", "id": _call_id(tool), "name": tool.name, "input": {}}
        yield event("content_block_start", index=place, content_block=block)
        for part in _parts(_arguments(tool)):
            yield event("content_block_delta", index=place, delta={"type": "input_json_delta", "partial_json": part})
        yield event("content_block_stop", index=place)
    reason = {"stop": "end_turn", "tool-calls": "tool_use", "max-tokens": "max_tokens"}.get(said.finish_kind, said.finish_kind)
    output = {"output_tokens": said.usage.output_tokens or 0}
    yield event("message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage=output)
    yield event("message_stop")


def sse(document: JsonObject) -> bytes:
    """One event without a name."""
    return b"data: " + json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n\n"


def words(text: str) -> list[str]:
    """The pieces in which a text streams: words with the space before them."""
    return re.findall(r"\s*\S+|\s+$", text)


_PART: Final = 12
_ids = itertools.count(1)


def _call_id(tool: ToolUse) -> str:
    return tool.id or f"call_mock_{next(_ids)}"


def _arguments(tool: ToolUse) -> str:
    return tool.arguments if isinstance(tool.arguments, str) else json.dumps(tool.arguments)


def _parts(text: str) -> list[str]:
    return [text[start : start + _PART] for start in range(0, len(text), _PART)]
