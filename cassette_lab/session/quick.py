"""The commonest rows of a log, a delta in a row of its own or a packed run, decoded without what JSON would make of them.

Only what the exact way accepts is accepted, and in the same meaning: exactly the members of such a row, whole numbers spelled
as such, no lone surrogates. Everything else is left to the exact way. Formats 0 and 1.
Source: session logs, Packed chunk rows.
"""

from __future__ import annotations

from array import array
from typing import Annotated, ClassVar, Final, TypeAlias

import msgspec

from cassette_lab.jsonio import MAX_SAFE_INTEGER
from cassette_lab.session.chunks import KIND_OF_ROW
from cassette_lab.session.model import ChunkRun, DeltaKind

DELTA_START: Final = b'{"type":"assistant/chunk",'
PACKED_STARTS: Final = tuple(b'{"type":"%s",' % kind.encode() for kind in KIND_OF_ROW)
"""How such lines are written. Only a hint: one that starts otherwise, or is another chunk, is read the exact way."""

Integer: TypeAlias = Annotated[int, msgspec.Meta(ge=-MAX_SAFE_INTEGER, le=MAX_SAFE_INTEGER)]
"""A whole number, spelled as such, that every reader of JSON keeps."""


class TextDelta(msgspec.Struct, tag="text-delta", forbid_unknown_fields=True, gc=False):
    """A piece of text."""

    kind: ClassVar[DeltaKind] = "text-delta"
    call_id: ClassVar[None] = None
    name: ClassVar[None] = None
    index: Integer
    text: str


class ReasoningDelta(msgspec.Struct, tag="reasoning-delta", forbid_unknown_fields=True, gc=False):
    """A piece of reasoning."""

    kind: ClassVar[DeltaKind] = "reasoning-delta"
    call_id: ClassVar[None] = None
    name: ClassVar[None] = None
    index: Integer
    text: str


class ToolCallDelta(msgspec.Struct, tag="tool-call-delta", forbid_unknown_fields=True, gc=False):
    """A piece of a tool call's arguments."""

    kind: ClassVar[DeltaKind] = "tool-call-delta"
    index: Integer
    call_id: str = msgspec.field(name="id")
    text: str = msgspec.field(name="argumentsDelta")
    name: str = None  # type: ignore[assignment] # absent, which JSON null is not


class _Data(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    turn: Integer
    step: Integer
    chunk: TextDelta | ReasoningDelta | ToolCallDelta


class DeltaRow(msgspec.Struct, tag="assistant/chunk", forbid_unknown_fields=True, gc=False):
    """A row that is one delta. Its chunk has a ``kind``, an ``index``, a ``text``, a ``call_id`` and a ``name`` (or None)."""

    seq: Integer
    time: Integer
    data: _Data


class _TextRun(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    call_id: ClassVar[None] = None
    name: ClassVar[None] = None
    turn: Integer
    step: Integer
    index: Integer
    dt: list[int]
    texts: list[str]


class _ToolCallRun(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    turn: Integer
    step: Integer
    index: Integer
    dt: list[int]
    call_id: str = msgspec.field(name="id")
    texts: list[str] = msgspec.field(name="args")
    name: str = None  # type: ignore[assignment] # absent, which JSON null is not


class TextChunks(msgspec.Struct, tag="text-chunks", forbid_unknown_fields=True, gc=False):
    """A packed row of text."""

    kind: ClassVar[DeltaKind] = "text-delta"
    seq0: Integer
    time0: Integer
    data: _TextRun


class ReasoningChunks(msgspec.Struct, tag="reasoning-chunks", forbid_unknown_fields=True, gc=False):
    """A packed row of reasoning."""

    kind: ClassVar[DeltaKind] = "reasoning-delta"
    seq0: Integer
    time0: Integer
    data: _TextRun


class ToolCallChunks(msgspec.Struct, tag="tool-call-chunks", forbid_unknown_fields=True, gc=False):
    """A packed row of a tool call's arguments."""

    kind: ClassVar[DeltaKind] = "tool-call-delta"
    seq0: Integer
    time0: Integer
    data: _ToolCallRun


DELTAS: Final = frozenset({TextDelta, ReasoningDelta, ToolCallDelta})
PackedRow: TypeAlias = TextChunks | ReasoningChunks | ToolCallChunks
PACKED_ROWS: Final = frozenset({TextChunks, ReasoningChunks, ToolCallChunks})
NotQuick: Final = (msgspec.MsgspecError, RecursionError)
"""What decoding any other line raises; the latter where it is nested deeply."""
decode_delta: Final = msgspec.json.Decoder(DeltaRow).decode
decode_row: Final = msgspec.json.Decoder(DeltaRow | PackedRow).decode
_decode_packed: Final = msgspec.json.Decoder(PackedRow).decode


def packed_run(line: bytes) -> ChunkRun | None:
    """The run of a packed row; None for any other line, or a row that the exact way has to look at."""
    try:
        return run_of(_decode_packed(line))
    except NotQuick:
        return None


def run_of(row: PackedRow) -> ChunkRun | None:
    """The run that a packed row holds; None for a row that the exact way has to look at."""
    data = row.data
    dt, texts, time0 = data.dt, data.texts, row.time0
    if row.seq0 < 0 or len(dt) != len(texts) - 1:
        return None
    if dt:
        earliest, latest = min(dt), max(dt)
        if abs(time0) + len(dt) * max(latest, -earliest) > MAX_SAFE_INTEGER:
            return None  # perhaps too far from time 0
    return ChunkRun(row.kind, data.turn, data.step, data.index, row.seq0, time0, array("q", dt), texts, data.call_id, data.name)
