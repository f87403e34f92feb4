"""``OpenAIChat``: any endpoint that speaks OpenAI chat completions, streamed.

Source: OpenAI API reference, Chat Completions (streaming, errors); ``reasoning_content`` (DeepSeek, vLLM), ``reasoning``
(OpenRouter, Ollama) and ``prompt_cache_hit_tokens`` (DeepSeek) are what others add.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from cassette_lab.contracts import ModelRequest, StreamChunk
from cassette_lab.host.models.blocks import StreamedBlock
from cassette_lab.host.models.connections import cut_off
from cassette_lab.host.models.conversation import Turn, invalid_request, text_of, turns
from cassette_lab.host.models.endpoint import DEFAULT_TIMEOUTS, Endpoint, Timeouts, document_of
from cassette_lab.host.models.failures import ModelFailure, malformed, token_count
from cassette_lab.jsonio import JsonObject, as_integer

OPENAI_BASE_URL: Final = "https://api.openai.com/v1"
DEFAULT_KEY_ENV: Final = "OPENAI_API_KEY"


class OpenAIChat:
    """An ``LlmAdapter`` for ``POST {base_url}/chat/completions``.

    ``api_key_env`` names the environment variable with the key (None: no key is sent; only the default one may be missing,
    and only where the endpoint is on this machine). Such an endpoint is told the session's id (``x-session-id``), by which
    ``serve-replay`` tells sessions apart.
    A request's own model goes before ``model``. ``extra_body`` are members that every request gets, for instance
    ``{"max_completion_tokens": 4096}``. ``sends_reasoning`` gives earlier reasoning back (``reasoning_content``), which
    some endpoints want and others refuse.

    Of a request's options it knows ``system``, ``maxTokens``, ``temperature``, ``topP``, ``stop``, ``seed``,
    ``reasoningEffort``, ``toolChoice``, ``parallelToolCalls`` and ``responseFormat``; others are passed over.
    Raises ``ConfigError`` for a ``base_url`` that cannot be; whatever goes wrong with a call comes from its stream
    (``ModelFailure``, ``AbortError``).
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str = OPENAI_BASE_URL,
        api_key_env: str | None = DEFAULT_KEY_ENV,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
        extra_body: Mapping[str, Any] | None = None,
        sends_reasoning: bool = False,
    ) -> None:
        self.model = model
        is_optional = api_key_env == DEFAULT_KEY_ENV
        self._endpoint = Endpoint(base_url, "chat/completions", api_key_env, timeouts=timeouts, is_key_optional=is_optional)
        self._extra_body = dict(extra_body or {})
        self._sends_reasoning = sends_reasoning

    def __repr__(self) -> str:
        return f"OpenAIChat({self.model!r}, base_url={self._endpoint.base_url!r})"

    def stream(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        """The answer, as it arrives. Text and reasoning are one block each; all end together, before usage and finish."""
        return self._stream(request)

    async def _stream(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        answer = _Answer()
        answering = self._endpoint.events(self._document(request), request.signal, session_id=request.session_id)
        async with aclosing(answering) as events:
            async for event in events:
                if event.data.strip() == "[DONE]":
                    break
                for chunk in answer.add(document_of(event)):
                    yield chunk
        for chunk in answer.end():
            yield chunk

    def _document(self, request: ModelRequest) -> JsonObject:
        options = request.options
        messages = list(_system(request.system or options.get("system")))
        for turn in turns(request.messages):
            messages += _message(turn, sends_reasoning=self._sends_reasoning)
        document: JsonObject = {
            "model": request.model or self.model,
            "messages": messages,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if request.tools:
            document["tools"] = [_tool(tool) for tool in request.tools]
        for name, wire_name in _OPTIONS.items():
            value = options.get(name)
            if value is not None and value != []:
                document[wire_name] = value
        document.update(self._extra_body)
        return document


_OPTIONS: Final = {
    "maxTokens": "max_tokens",
    "temperature": "temperature",
    "topP": "top_p",
    "stop": "stop",
    "seed": "seed",
    "reasoningEffort": "reasoning_effort",
    "toolChoice": "tool_choice",
    "parallelToolCalls": "parallel_tool_calls",
    "responseFormat": "response_format",
}


# The request


def _system(text: Any) -> Iterator[JsonObject]:
    if isinstance(text, str) and text:
        yield {"role": "system", "content": text}


def _message(turn: Turn, *, sends_reasoning: bool) -> list[JsonObject]:
    if turn.role == "tool":
        return [{"role": "tool", "tool_call_id": turn.call_id, "content": text_of(turn.blocks)}]
    if turn.role == "system":
        return list(_system(text_of(turn.blocks)))
    if turn.role == "user":
        if all(block.get("type") == "text" for block in turn.blocks):
            return [{"role": "user", "content": text_of(turn.blocks)}]
        return [{"role": "user", "content": [_part(block) for block in turn.blocks]}]
    by_type: dict[Any, list[JsonObject]] = {}
    for block in turn.blocks:
        by_type.setdefault(block.get("type"), []).append(block)
    message: JsonObject = {"role": "assistant", "content": text_of(by_type.pop("text", [])) or None}
    reasoning = by_type.pop("reasoning", [])
    if reasoning and sends_reasoning:
        message["reasoning_content"] = "".join(str(block.get("text", "")) for block in reasoning)
    calls = by_type.pop("tool-call", [])
    if calls:
        message["tool_calls"] = [_called(block) for block in calls]
    if by_type:
        raise invalid_request("this model takes text, reasoning and tool calls from an assistant")
    return [message] if message["content"] or calls else []


def _part(block: JsonObject) -> JsonObject:
    kind, data, media_type = block.get("type"), block.get("data"), block.get("mediaType")
    if kind in ("text", "image_url"):
        return block
    if kind == "image" and isinstance(data, str) and isinstance(media_type, str):
        return {"type": "image_url", "image_url": {"url": f"data:{media_type};base64,{data}"}}
    raise invalid_request("this model takes text and images (mediaType and base64 data) from a user")


def _called(block: JsonObject) -> JsonObject:
    function = {"name": block.get("name"), "arguments": block.get("arguments") or "{}"}
    return {"id": block.get("id"), "type": "function", "function": function}


def _tool(tool: JsonObject) -> JsonObject:
    if tool.get("type") == "function":
        return tool
    function = {"name": tool.get("name"), "parameters": tool.get("parameters") or {"type": "object", "properties": {}}}
    if tool.get("description"):
        function["description"] = tool["description"]
    return {"type": "function", "function": function}


# The answer


@dataclass(slots=True)
class _Block(StreamedBlock):
    given_id: str = ""


class _Answer:
    """Takes the events of an answer, and gives its chunks."""

    def __init__(self) -> None:
        self._blocks: list[_Block] = []
        self._texts: dict[str, _Block] = {}
        self._calls: dict[int, _Block] = {}
        self._usage: JsonObject | None = None
        self._finish: str | None = None
        self._events = 0

    def add(self, document: JsonObject) -> Iterator[StreamChunk]:
        """The chunks of one event."""
        self._events += 1
        usage = document.get("usage")
        if isinstance(usage, dict):
            self._usage = read_usage(usage)
        choices = document.get("choices") or []
        if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
            raise malformed("choices is no array of objects")
        for choice in choices[:1]:
            yield from self._delta(choice.get("delta") or {})
            finish = choice.get("finish_reason")
            if isinstance(finish, str):
                self._finish = finish

    def _delta(self, delta: Any) -> Iterator[StreamChunk]:
        if not isinstance(delta, dict):
            raise malformed("a delta is no object")
        reasoning = delta.get("reasoning_content") or delta.get("reasoning")
        for kind, text in (("reasoning", reasoning), ("text", delta.get("content")), ("text", delta.get("refusal"))):
            if text is None or text == "":
                continue
            if not isinstance(text, str):
                raise malformed(f"{kind} is no text")
            block = self._texts.get(kind)
            if block is None:
                block = self._texts[kind] = self._new(kind)
                yield block.start()
            yield block.add(text)
        calls = delta.get("tool_calls") or []
        if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
            raise malformed("tool_calls is no array of objects")
        for call in calls:
            yield from self._call(call)

    def _call(self, call: JsonObject) -> Iterator[StreamChunk]:
        function = call.get("function") or {}
        call_id, place = call.get("id") or "", as_integer(call.get("index"))
        if not isinstance(function, dict) or not isinstance(call_id, str):
            raise malformed("a tool call is no object with an id and a function")
        name, arguments = function.get("name") or "", function.get("arguments") or ""
        if not isinstance(name, str) or not isinstance(arguments, str):
            raise malformed("a tool call's name or arguments are no text")
        if place is None:  # some endpoints send none: an id begins a call, and what has none goes on with the last
            place = max(self._calls, default=-1) + (1 if call_id or not self._calls else 0)
        block = self._calls.get(place)
        if block is None or (call_id and block.given_id != call_id):  # some send index 0 for every call
            taken = {other.call_id for other in self._blocks}
            block = self._calls[place] = self._new("tool-call")
            block.given_id, block.call_id, block.name = call_id, call_id or f"call_{block.index}", name
            if block.call_id in taken:  # some give calls of one function one id
                block.call_id += f"_{block.index}"
            yield block.start()
            is_named = bool(name)
        else:
            is_named = bool(name and not block.name)
            block.name = block.name or name
            if not arguments and not is_named:
                return
        yield block.add(arguments, with_name=is_named)

    def _new(self, kind: str) -> _Block:
        block = _Block(len(self._blocks), kind)
        self._blocks.append(block)
        return block

    def end(self) -> Iterator[StreamChunk]:
        """The last chunks. An answer with a finish reason is whole, also when its ``[DONE]`` is missing."""
        if self._finish is None:
            raise cut_off(self._events)
        kind = _FINISH_KINDS.get(self._finish, "stop")
        if kind == "content-filter":
            raise ModelFailure("the provider's filter stopped the answer", code="CONTENT_FILTER")
        if kind == "server":
            raise ModelFailure("the provider ran out of resources while it answered", code="SERVER")
        if not self._blocks and kind != "max-tokens":
            raise ModelFailure("the answer is empty", code="EMPTY_RESPONSE")
        if self._calls and kind == "stop":
            kind = "tool-calls"
        if any(not block.name for block in self._blocks if block.kind == "tool-call"):
            raise malformed("a tool call has no name")
        for block in self._blocks:
            yield block.end()
        if self._usage is not None:
            yield {"type": "usage", "usage": self._usage}
        yield {"type": "finish", "reason": {"kind": kind}}


_FINISH_KINDS: Final = {
    "stop": "stop",
    "tool_calls": "tool-calls",
    "function_call": "tool-calls",
    "length": "max-tokens",
    "content_filter": "content-filter",
    "insufficient_system_resource": "server",
}


def read_usage(usage: Mapping[str, Any]) -> JsonObject:
    """The counts of a session log, which are disjoint: ``inputTokens`` are those that no cache had a part in.

    Reasoning tokens are part of the output. A count that is missing, or no count, stays unknown.
    """
    prompt, completion = token_count(usage.get("prompt_tokens")), token_count(usage.get("completion_tokens"))
    cache_read = _first(_detail(usage, "prompt", "cached_tokens"), token_count(usage.get("prompt_cache_hit_tokens")))
    cache_write = _detail(usage, "prompt", "cache_write_tokens")
    counts = {
        "inputTokens": None if prompt is None else max(0, prompt - (cache_read or 0) - (cache_write or 0)),
        "outputTokens": completion,
        "cacheReadTokens": cache_read,
        "cacheWriteTokens": cache_write,
        "reasoningTokens": _detail(usage, "completion", "reasoning_tokens"),
        "totalTokens": None if prompt is None or completion is None else prompt + completion,
    }
    return {name: count for name, count in counts.items() if count is not None}


def _detail(usage: Mapping[str, Any], of: str, name: str) -> int | None:
    details = usage.get(f"{of}_tokens_details")
    return token_count(details.get(name)) if isinstance(details, dict) else None


def _first(*counts: int | None) -> int | None:
    return next((count for count in counts if count is not None), None)
