"""The ordinary rows of a log with only what tables without bodies need of them: the rest is passed over, not built.

Decoding checks the whole line all the same: what it passes over is JSON, too. An event's ``data`` then has the members that the
derivation looks at and no others, each of the one type that has a meaning there; a line where one is of another type, or
that has an unusual member where it could matter, is left to the exact way. So what is derived is the same either way.
Texts that are not built may hold broken UTF-8, as they may in the exact way, which puts replacement characters there.
Source: session logs, Event types; the derivation (``calls``, ``turns``, ``tools``, ``relations``, ``nodes``).
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any, ClassVar, Final, Literal, Required, TypeAlias, TypedDict

import msgspec

from cassette_lab.session.model import CHUNK_TYPE, ChunkRun, Event
from cassette_lab.session.quick import (
    Integer,
    PackedRow,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
)
from cassette_lab.session.stretches import Stretch
from cassette_lab.session.usage import Usage


class _Array(msgspec.Struct, array_like=True, gc=False):
    """Any array."""


class _BlockStart(msgspec.Struct, tag="block-start", gc=False):
    pass


class _BlockEnd(msgspec.Struct, tag="block-end", gc=False):
    pass


class UsageChunk(msgspec.Struct, tag="usage", gc=False):
    """What a call cost so far."""

    usage: Usage


class Finish(msgspec.Struct, tag="finish", gc=False):
    """The end of a call."""

    reason: dict[str, str]  # kept as it is, so nothing may be left out


class _ChunkData(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    turn: Integer
    step: Integer
    chunk: TextDelta | ReasoningDelta | ToolCallDelta | _BlockStart | _BlockEnd | UsageChunk | Finish


class ChunkRow(msgspec.Struct, tag=CHUNK_TYPE, forbid_unknown_fields=True, gc=False):
    """A row that is one chunk of any kind (formats 0 and 1)."""

    seq: int
    time: Integer
    data: _ChunkData


class EventRow(msgspec.Struct, rename="camel", gc=False):
    """An event, to be used as an ``Event`` is. What it cites matters only where it replaces something: the exact way."""

    type: ClassVar[str]
    seq: int
    time: Integer
    data: Any
    surface_op: Literal["append"] | None = None
    source_event_seqs: _Array | None = None
    ignorable: bool | None = None


SkimmedRow: TypeAlias = Event | EventRow | ChunkRun | Stretch
"""What the derivation gets of a skimmed log."""


class _Step(TypedDict, total=False):
    turn: Integer
    step: Integer


class _TurnEnd(TypedDict, total=False):
    turn: Integer
    reason: dict[str, str]  # an inner object would say whose fault it was: in more than one way


class _Source(TypedDict, total=False):
    kind: str
    senderSessionId: str


class _UserMessage(TypedDict, total=False):
    source: _Source


class _Model(TypedDict, total=False):
    provider: str
    model: str


class _Config(TypedDict, total=False):
    config: _Model


class _Header(TypedDict, total=False):
    header: _Config


class _Block(TypedDict, total=False):
    type: str
    text: str


class _Message(TypedDict, total=False):
    content: list[msgspec.Raw]  # only the last one's is looked at


class _AssistantMessage(_Step, total=False):
    message: _Message
    usage: Usage
    interrupted: bool


class _ToolCall(_Step, total=False):
    callId: str
    name: str
    arguments: str


class _ResultBlock(_Block, total=False):
    toolCallId: str
    callId: str
    isError: bool
    content: list[_Block]


class _ResultIds(TypedDict, total=False):
    toolCallId: str
    callId: str
    isError: bool
    content: list[_ResultBlock]


class _ResultMessage(_ResultIds):
    role: str  # with one the message is not empty, which would mean something else


class _Error(TypedDict, total=False):
    name: str
    code: str


class _ToolResult(TypedDict, total=False):
    message: Required[_ResultMessage]
    error: _Error


_ANY_FORMAT: Final[dict[str, Any]] = {
    "turn/start": _Step,
    "turn/end": _TurnEnd,
    "step/start": _Step,
    "step/end": _Step,
    "user/message": _UserMessage,
    "request/header": _Header,
    "request/context": _Model,
    "tool/call": _ToolCall,
    "tool/result": _ToolResult,
}
_WITHOUT_STREAMS: Final[dict[str, Any]] = {**_ANY_FORMAT, "assistant/message": _AssistantMessage}


def _decoder(kinds: dict[str, Any], *others: Any) -> Callable[[bytes], Any]:
    rows = [
        msgspec.defstruct(kind, [("data", data)], bases=(EventRow,), namespace={"type": kind}, tag=kind, gc=False)
        for kind, data in kinds.items()
    ]
    return msgspec.json.Decoder(functools.reduce(operator.or_, [*rows, *others])).decode


_decode_any_format: Final = _decoder(_ANY_FORMAT)
_decode_without_streams: Final = _decoder(_WITHOUT_STREAMS, PackedRow, ChunkRow)


def skimming_decoder(version: int) -> Callable[[bytes], Any]:
    """What decodes the ordinary rows of a format. It raises ``NotQuick`` for all others.

    Later formats keep streams in messages, which are read the exact way.
    """
    return _decode_without_streams if version < 2 else _decode_any_format
