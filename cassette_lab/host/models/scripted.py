"""A model whose answers are written in Python: for tests, demonstrations and notebooks without a key."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, TypeAlias

from cassette_lab.contracts import ModelRequest, StreamChunk
from cassette_lab.errors import ConfigError
from cassette_lab.host.models.blocks import StreamedBlock
from cassette_lab.jsonio import JsonObject, canonical
from cassette_lab.jsonio.text import show


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call of an answer: ``Call("search", query="cats")``. ``arguments`` as a text are sent as they stand."""

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)

    def __init__(self, name: str, arguments: Mapping[str, Any] | str | None = None, /, **more: Any) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "arguments", arguments if isinstance(arguments, str) else {**(arguments or {}), **more})

    @property
    def text(self) -> str:
        """The arguments as a model writes them."""
        return self.arguments if isinstance(self.arguments, str) else canonical(dict(self.arguments)).decode()


@dataclass(frozen=True, slots=True)
class Say:
    """One answer: ``reasoning``, ``text`` and tool ``calls``, in this order.

    ``delay_s`` is waited before the first chunk, ``pace_s`` before each further one. ``finish`` is the finish reason's kind;
    by default what fits. ``error`` is raised in its place, after everything else. ``usage`` is by default a count of words: of
    all that was asked, and of all that is said.
    """

    text: str = ""
    calls: Sequence[Call] = ()
    reasoning: str = ""
    delay_s: float = 0.0
    pace_s: float = 0.0
    finish: str | None = None
    usage: JsonObject | None = None
    error: BaseException | None = None


AnswerLike: TypeAlias = "str | Call | Say | BaseException | Sequence[Call]"
Answering: TypeAlias = Callable[[ModelRequest], "AnswerLike | Awaitable[AnswerLike]"]


class ScriptedModel:
    """An ``LlmAdapter`` that says what it is told to.

    ``answers``: texts, ``Call``s, ``Say``s and exceptions, one for each model call in order; or one function (plain or async)
    from the request to an answer; or one mapping from what a prompt begins with to such lists: the newest prompt counts, and
    each session has the list anew. ``delay_s`` is waited before each answer. ``requests`` are all that it was asked.
    Out of answers, a call raises ``ConfigError``.
    """

    def __init__(
        self,
        *answers: AnswerLike | Answering | Mapping[str, Sequence[AnswerLike]],
        provider: str = "scripted",
        model: str = "scripted-1",
        delay_s: float = 0.0,
    ) -> None:
        self.provider = provider
        self.model = model
        self.requests: list[ModelRequest] = []
        self._delay_s = delay_s
        self._function: Answering | None = None
        self._by_prompt: Mapping[str, Sequence[AnswerLike]] | None = None
        self._answers: list[Any] = list(answers)
        only = answers[0] if len(answers) == 1 else None
        if isinstance(only, Mapping):
            self._by_prompt = only
        elif callable(only):
            self._function = only
        self._cursors: dict[tuple[str | None, str], Iterator[AnswerLike]] = {}
        self._in_order = iter(self._answers)
        self._words: dict[int, tuple[JsonObject, int]] = {}

    def __repr__(self) -> str:
        return f"<scripted model {self.model}, {len(self.requests)} calls>"

    def stream(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        """The next answer, chunk by chunk."""
        self.requests.append(request)
        return self._chunks(request, self._next(request))

    async def _chunks(self, request: ModelRequest, answer: Any) -> AsyncGenerator[StreamChunk, None]:
        if inspect.isawaitable(answer):
            answer = await answer
        say = _as_say(answer)
        await _pause(self._delay_s + say.delay_s)
        for chunk in say_chunks(say, f"call-{len(request.messages)}", asked=self._words_asked(request)):
            if chunk["type"] != "finish" or say.error is None:
                yield chunk
            await _pause(say.pace_s)
        if say.error is not None:
            raise say.error

    def _words_asked(self, request: ModelRequest) -> int:
        """How many words a request has. Messages come again with every request: each is counted once."""
        words, counted = len((request.system or "").split()), self._words
        for message in request.messages:
            if id(message) not in counted:  # it is kept, so that no other message gets its id
                counted[id(message)] = message, sum(len(text.split()) for text in _texts_of(message))
            words += counted[id(message)][1]
        return words

    def _next(self, request: ModelRequest) -> Any:
        if self._function is not None:
            return self._function(request)
        cursor = self._in_order
        if self._by_prompt is not None:
            prompt = _newest_prompt(self._by_prompt, request)
            cursor = self._cursors.setdefault((request.session_id, prompt), iter(self._by_prompt.get(prompt, ())))
        answer = next(cursor, None)
        if answer is None:
            return ConfigError(
                f"the scripted model has no answer left for call {len(self.requests)} ({_asked(request)}); write one more"
            )
        return answer


def say_chunks(say: Say, call_id: str, *, asked: int | None = None) -> Iterator[StreamChunk]:
    """The chunks of an answer; its tool calls are ``<call_id>-1``, ``-2`` and so on. ``asked``: words of the request."""
    texts = [(kind, text) for kind, text in (("reasoning", say.reasoning), ("text", say.text)) if text]
    for index, (kind, text) in enumerate(texts):
        block = StreamedBlock(index, kind)
        yield block.start()
        yield from map(block.add, _PIECES.findall(text))
        yield block.end()
    for number, call in enumerate(say.calls, 1):
        block = StreamedBlock(len(texts) + number - 1, "tool-call", f"{call_id}-{number}", call.name, given=call.text)
        yield block.start()
        yield block.add(call.text, with_name=True)
        yield block.end()
    said = sum(len(text.split()) for text in (say.reasoning, say.text, *(f"{call.name} {call.text}" for call in say.calls)))
    counted = {"outputTokens": said} if asked is None else {"inputTokens": asked, "outputTokens": said}
    yield {"type": "usage", "usage": say.usage or counted}
    yield {"type": "finish", "reason": {"kind": say.finish or ("tool-calls" if say.calls else "stop")}}


_PIECES: Final = re.compile(r"\s*\S+|\s+")
_SHOWN_CHARACTERS: Final = 80


def _as_say(answer: Any) -> Say:
    if isinstance(answer, Say):
        return answer
    if isinstance(answer, str):
        return Say(answer)
    if isinstance(answer, Call):
        return Say(calls=[answer])
    if isinstance(answer, BaseException):
        raise answer
    if isinstance(answer, Sequence) and all(isinstance(each, Call) for each in answer):
        return Say(calls=answer)
    raise ConfigError(f"an answer is a text, a Call, a Say or an exception, not {type(answer).__name__}")


def _newest_prompt(prompts: Iterable[str], request: ModelRequest) -> str:
    """The newest of these that a user's message begins with; else a text that is none of them."""
    for message in reversed(request.messages):
        texts = [block.get("text") for block in message["content"]] if message.get("role") == "user" else []
        for prompt in prompts:
            if any(isinstance(text, str) and text.startswith(prompt) for text in texts):
                return prompt
    return ""


def _texts_of(message: JsonObject) -> Iterator[str]:
    """All texts of a message, of its tool calls and results, too."""
    content = message.get("content")
    blocks: list[Any] = list(content) if isinstance(content, (list, tuple)) else [{"text": content}]
    for block in blocks:
        if isinstance(block, Mapping):
            blocks += block["content"] if isinstance(block.get("content"), list) else []
            yield from (text for name in ("text", "name", "arguments") if isinstance(text := block.get(name), str))


def _asked(request: ModelRequest) -> str:
    """The beginning of what it was asked last."""
    texts = chain.from_iterable(map(_texts_of, reversed(request.messages)))
    text = show(" ".join(next(texts, request.system or "").split()))
    shown = text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 1]}…"
    return f"asked {shown!r}"


async def _pause(seconds: float) -> None:
    if seconds:
        await asyncio.sleep(seconds)
