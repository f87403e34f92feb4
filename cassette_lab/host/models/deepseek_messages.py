"""``DeepSeekMessages``: the Messages protocol of DeepSeek's endpoint, which is what the real harness speaks.

Blocks end in place, one after the other. Thinking comes with a signature that a later request gives back; it travels in the
``replayState`` of the finish chunk, which the harness keeps in the message's source.

Source: Anthropic Messages API (streaming), as the runtime 0.2 speaks it; session logs, Chunk kinds.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from cassette_lab.contracts import ModelRequest, StreamChunk
from cassette_lab.host.models.blocks import StreamedBlock
from cassette_lab.host.models.connections import cut_off
from cassette_lab.host.models.conversation import Turn, invalid_request, text_of, turns
from cassette_lab.host.models.endpoint import DEFAULT_TIMEOUTS, Endpoint, Timeouts, document_of
from cassette_lab.host.models.failures import ModelFailure, malformed, token_count
from cassette_lab.jsonio import JsonObject, JsonSyntaxError, as_integer, parse

DEEPSEEK_BASE_URL: Final = "https://api.deepseek.com/anthropic/v1"
DEFAULT_KEY_ENV: Final = "DEEPSEEK_API_KEY"
DEFAULT_MAX_TOKENS: Final = 32_768


class DeepSeekMessages:
    """An ``LlmAdapter`` for ``POST {base_url}/messages``.

    ``api_key_env`` names the environment variable with the key (None: no key is sent; only the default one may be missing,
    and only where the endpoint is on this machine). A request's own model goes before ``model``; ``extra_body`` are members
    that every request gets.

    Of a request's options it knows ``system``, ``maxTokens``, ``temperature``, ``stop``, ``reasoningEffort`` (``off``,
    ``low``, ``high``, ``max``) and ``toolChoice``; others are passed over. Raises ``ConfigError`` for a ``base_url`` that
    cannot be; whatever goes wrong with a call comes from its stream (``ModelFailure``, ``AbortError``).
    """

    def __init__(
        self,
        model: str = "deepseek-v4-flash",
        *,
        base_url: str = DEEPSEEK_BASE_URL,
        api_key_env: str | None = DEFAULT_KEY_ENV,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
        extra_body: Mapping[str, Any] | None = None,
    ) -> None:
        self.model = model
        self._endpoint = Endpoint(
            base_url,
            "messages",
            api_key_env,
            key_header="x-api-key",
            key_prefix="",
            timeouts=timeouts,
            headers={"anthropic-version": "2023-06-01"},
            is_key_optional=api_key_env == DEFAULT_KEY_ENV,
        )
        self._extra_body = dict(extra_body or {})

    def __repr__(self) -> str:
        return f"DeepSeekMessages({self.model!r}, base_url={self._endpoint.base_url!r})"

    def key_failure(self) -> ModelFailure | None:
        """What a call would raise for want of a key; None where there is one, or none is needed."""
        return self._endpoint.credential_failure()

    def stream(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        """The answer, as it arrives."""
        return self._stream(request)

    async def _stream(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        model = request.model or self.model
        answer, received = _Answer(model), 0
        async with aclosing(self._endpoint.events(self._document(request, model), request.signal)) as events:
            async for event in events:
                received += 1
                for chunk in answer.add(document_of(event)):
                    yield chunk
                if answer.is_whole:
                    return
        raise cut_off(received)

    def _document(self, request: ModelRequest, model: str) -> JsonObject:
        options = request.options
        said = request.system or options.get("system")
        system: list[str] = [said] if said else []
        document: JsonObject = {
            "model": model,
            "messages": _messages(turns(request.messages), model, system),
            "max_tokens": options.get("maxTokens") or DEFAULT_MAX_TOKENS,
            "stream": True,
        }
        if system:
            document["system"] = "\n\n".join(system)
        if request.tools:
            document["tools"] = [_tool(tool) for tool in request.tools]
        effort = options.get("reasoningEffort")
        if effort is not None:
            document["thinking"] = {"type": "disabled" if effort == "off" else "enabled"}
            if effort != "off":
                document["output_config"] = {"effort": effort}
        for name, wire_name in (("temperature", "temperature"), ("stop", "stop_sequences"), ("toolChoice", "tool_choice")):
            if options.get(name) is not None:
                document[wire_name] = options[name]
        document.update(self._extra_body)
        return document


# The request


def _messages(conversation: Iterator[Turn], model: str, system: list[str]) -> list[JsonObject]:
    """The messages; what the system says goes into ``system``. Users and tools take turns with assistants."""
    messages: list[JsonObject] = []
    for turn in conversation:
        if turn.role == "system":
            system.append(text_of(turn.blocks))
            continue
        role = "assistant" if turn.role == "assistant" else "user"
        if turn.role == "tool":
            content = [_result(turn)]
        else:
            content = (
                _assistant(turn, model)
                if role == "assistant"
                else [_given(block) for block in turn.blocks if not _empty(block)]
            )
        if not content:
            continue
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] += content
        else:
            messages.append({"role": role, "content": content})
    for message in messages:  # the results of tools have to come first
        message["content"].sort(key=lambda block: message["role"] == "user" and block["type"] != "tool_result")
    return messages


def _result(turn: Turn) -> JsonObject:
    content = [_given(block) for block in turn.blocks if not _empty(block)]
    return {"type": "tool_result", "tool_use_id": turn.call_id, "content": content, "is_error": turn.is_error}


def _given(block: JsonObject) -> JsonObject:
    kind, data, media_type = block.get("type"), block.get("data"), block.get("mediaType")
    if kind == "text" and isinstance(block.get("text"), str):
        return {"type": "text", "text": block["text"]}
    if kind == "image" and isinstance(data, str) and isinstance(media_type, str):
        return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}
    raise invalid_request("this model takes text and images (mediaType and base64 data) from a user or a tool")


def _empty(block: JsonObject) -> bool:
    return block.get("type") == "text" and not block.get("text")


def _assistant(turn: Turn, model: str) -> list[JsonObject]:
    signatures = _signatures(turn, model)
    content = []
    for position, block in enumerate(turn.blocks):
        kind = block.get("type")
        if kind == "reasoning":
            signature = signatures[position]
            thinking: JsonObject = {"type": "thinking", "thinking": str(block.get("text", ""))}
            content.append(thinking if signature is None else {**thinking, "signature": signature})
        elif kind == "tool-call":
            called = {"id": block.get("id"), "name": block.get("name"), "input": _input(block.get("arguments"))}
            content.append({"type": "tool_use", **called})
        elif kind != "text":
            raise invalid_request("this model takes text, reasoning and tool calls from an assistant")
        elif not _empty(block):
            content.append({"type": "text", "text": block.get("text")})
    return content


def _signatures(turn: Turn, model: str) -> Sequence[str | None]:
    """The signature of each block, from the state that the same model gave with its answer."""
    state = turn.source.get("replayState")
    unknown = [None] * len(turn.blocks)
    if not isinstance(state, Mapping) or not isinstance(state.get("response"), Mapping):
        return unknown
    blocks = state.get("blocks")
    response = state["response"]
    if response.get("kind") != _STATE_KIND or response.get("model") != model or not isinstance(blocks, Sequence):
        return unknown
    if len(blocks) != len(turn.blocks) or not all(isinstance(block, Mapping) for block in blocks):
        return unknown
    return [value if isinstance(value := block.get("signature"), str) else None for block in blocks]


_STATE_KIND: Final = "deepseek-messages"


def _input(arguments: Any) -> JsonObject:
    """A tool's arguments as the object that the protocol wants; what the model wrote wrongly is none."""
    try:
        value = parse(arguments) if isinstance(arguments, str) else arguments
    except JsonSyntaxError:
        value = None
    return value if isinstance(value, dict) else {}


def _tool(tool: JsonObject) -> JsonObject:
    schema = tool.get("parameters") or {"type": "object", "properties": {}}
    return {"name": tool.get("name"), "description": tool.get("description") or "", "input_schema": schema}


# The answer


@dataclass(slots=True)
class _Block(StreamedBlock):
    signature: str | None = None
    is_open: bool = True

    def state(self) -> JsonObject:
        return {"type": self.kind} if self.signature is None else {"type": self.kind, "signature": self.signature}


class _Answer:
    """Takes the events of an answer, and gives its chunks. Unknown kinds of events are passed over."""

    def __init__(self, model: str) -> None:
        self.is_whole = False
        self._model = model
        self._has_begun = False
        self._blocks: dict[int, _Block] = {}
        self._counts: dict[str, int] = {}
        self._finish: str | None = None

    def add(self, event: JsonObject) -> Iterator[StreamChunk]:
        """The chunks of one event."""
        kind = str(event.get("type"))
        if kind == "message_start":
            self._has_begun = True
            self._count(_object(event.get("message"), "message").get("usage"))
            return
        if kind not in _EVENTS:
            return
        if not self._has_begun:
            raise malformed("there is no message_start")
        if kind == "content_block_start":
            yield from self._start(event)
        elif kind == "content_block_delta":
            yield from self._delta(self._open(event), _object(event.get("delta"), "delta"))
        elif kind == "content_block_stop":
            block = self._open(event)
            block.is_open = False
            yield block.end()
        elif kind == "message_delta":
            reason = _object(event.get("delta"), "delta").get("stop_reason")
            self._finish = reason if isinstance(reason, str) else self._finish
            self._count(event.get("usage"))
        else:
            yield from self._end()

    def _start(self, event: JsonObject) -> Iterator[StreamChunk]:
        place, native = as_integer(event.get("index")), _object(event.get("content_block"), "content_block")
        if place is None or place in self._blocks:
            raise malformed("a block has no index, or one that was there already")
        kind = _BLOCK_KINDS.get(str(native.get("type")))
        if kind is None:
            raise malformed("a block is neither text nor thinking nor tool_use")
        block = self._blocks[place] = _Block(len(self._blocks), kind)
        yield block.start()
        if kind == "tool-call":
            block.call_id, block.name = _text(native.get("id")), _text(native.get("name"))
            if not block.call_id or not block.name:
                raise malformed("a tool_use has no id or no name")
            block.given = json.dumps(native.get("input") or {})
            yield block.add("", with_name=True)
            return
        if isinstance(native.get("signature"), str):
            block.signature = native["signature"]
        text = _text(native.get("text" if kind == "text" else "thinking", ""))
        if text:
            yield block.add(text)

    def _delta(self, block: _Block, delta: JsonObject) -> Iterator[StreamChunk]:
        kind = delta.get("type")
        if kind == "signature_delta" and block.kind == "reasoning":
            block.signature = (block.signature or "") + _text(delta.get("signature"))
        elif kind == "input_json_delta" and block.kind == "tool-call":
            yield block.add(_text(delta.get("partial_json")))
        elif (kind, block.kind) in (("text_delta", "text"), ("thinking_delta", "reasoning")):
            yield block.add(_text(delta.get("text" if block.kind == "text" else "thinking")))
        else:
            raise malformed("a delta does not belong to its block")

    def _open(self, event: JsonObject) -> _Block:
        block = self._blocks.get(-1 if (place := as_integer(event.get("index"))) is None else place)
        if block is None or not block.is_open:
            raise malformed("a delta or stop belongs to no open block")
        return block

    def _count(self, usage: Any) -> None:
        """The counts so far; later ones replace earlier ones."""
        for wire_name, name in _COUNTS.items():
            count = token_count(usage.get(wire_name)) if isinstance(usage, dict) else None
            if count is not None:
                self._counts[name] = count

    def _end(self) -> Iterator[StreamChunk]:
        kind = _FINISH_KINDS.get(self._finish or "")
        if kind is None or any(block.is_open for block in self._blocks.values()):
            raise malformed("it stops without a known stop reason, or within a block")
        if kind == "content-filter":
            raise ModelFailure("the provider's filter stopped the answer", code="CONTENT_FILTER")
        if kind == "context":
            raise ModelFailure("the conversation is longer than the model's context window", code="CONTEXT_WINDOW_EXCEEDED")
        blocks = self._blocks.values()
        if not blocks and kind == "stop":
            raise ModelFailure("the answer is empty", code="EMPTY_RESPONSE")
        if kind != "max-tokens" and not all(_is_object(block.to_json()["arguments"]) for block in blocks if block.name):
            raise malformed("the arguments of a tool call are no JSON object")
        if self._counts:
            parts = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")
            yield {"type": "usage", "usage": {**self._counts, "totalTokens": sum(self._counts.get(name, 0) for name in parts)}}
        self.is_whole = True
        state = {"response": {"kind": _STATE_KIND, "version": 1, "model": self._model}, "blocks": [b.state() for b in blocks]}
        yield {"type": "finish", "reason": {"kind": kind}, "replayState": state}


_EVENTS: Final = frozenset(
    {"content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop"}
)
_BLOCK_KINDS: Final = {"text": "text", "thinking": "reasoning", "tool_use": "tool-call"}
_COUNTS: Final = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "cache_read_input_tokens": "cacheReadTokens",
    "cache_creation_input_tokens": "cacheWriteTokens",
}
_FINISH_KINDS: Final = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "tool_use": "tool-calls",
    "max_tokens": "max-tokens",
    "refusal": "content-filter",
    "model_context_window_exceeded": "context",
}


def _object(value: Any, name: str) -> JsonObject:
    if not isinstance(value, dict):
        raise malformed(f"{name} is no object")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise malformed("a text is none")
    return value


def _is_object(text: str) -> bool:
    try:
        return isinstance(parse(text), dict)
    except JsonSyntaxError:
        return False
