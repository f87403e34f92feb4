"""The messages of a session as the turns that both wire formats are made of.

Formats 0 to 3 keep a tool's result as a block of a user message, format 4 as a message of its own (session logs, Event types);
here both are a turn of the role ``tool``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from cassette_lab.host.models.failures import ModelFailure
from cassette_lab.jsonio import JsonObject

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class Turn:
    """What one party says: content blocks. ``source`` says where a message comes from; only a tool's turn has a call id."""

    role: Role
    blocks: Sequence[JsonObject]
    source: Mapping[str, Any] = field(default_factory=dict)
    call_id: str = ""
    is_error: bool = False


def turns(messages: Iterable[Mapping[str, Any]]) -> Iterator[Turn]:
    """The turns of these messages, in order. Raises ``ModelFailure`` (``INVALID_REQUEST``) for what is no message."""
    for message in messages:
        if not isinstance(message, Mapping):
            raise invalid_request("a message is an object")
        role, blocks, source = message.get("role"), _blocks(message.get("content")), message.get("source")
        source = source if isinstance(source, Mapping) else {}
        if role == "tool":
            yield Turn("tool", blocks, source, str(message.get("toolCallId", "")), message.get("isError") is True)
        elif role in ("system", "developer"):
            yield Turn("system", blocks, source)
        elif role == "assistant":
            yield Turn("assistant", blocks, source)
        elif role == "user":
            yield from _user_turns(blocks, source)
        else:
            raise invalid_request("a message has the role user, assistant, tool, system or developer")


def text_of(blocks: Iterable[JsonObject]) -> str:
    """The texts of these blocks, joined; other blocks are refused (``ModelFailure``, ``INVALID_REQUEST``)."""
    texts = []
    for block in blocks:
        if block.get("type") != "text" or not isinstance(block.get("text"), str):
            raise invalid_request("this model takes text only")
        texts.append(block["text"])
    return "".join(texts)


def invalid_request(message: str) -> ModelFailure:
    """A request that this model cannot be asked."""
    return ModelFailure(message, code="INVALID_REQUEST")


def _user_turns(blocks: Sequence[JsonObject], source: Mapping[str, Any]) -> Iterator[Turn]:
    rest = []
    for block in blocks:
        if block.get("type") == "tool-result":
            call_id = str(block.get("toolCallId", ""))
            yield Turn("tool", _blocks(block.get("content")), source, call_id, block.get("isError") is True)
        else:
            rest.append(block)
    if rest:
        yield Turn("user", rest, source)


def _blocks(content: Any) -> Sequence[JsonObject]:
    if content is None:
        return []
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    if isinstance(content, (list, tuple)) and all(isinstance(block, Mapping) for block in content):
        return content
    raise invalid_request("the content of a message is a text or an array of blocks")
