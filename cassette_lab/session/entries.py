"""What a replay script is made of: one entry for each model call, and one script for each recorded session.

Chunks that a log stores as packed rows stay packed here and are made when they are asked for: a script of a long
session then takes no more memory than its log.

Source: session logs, Stream replay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar, Protocol, TypeAlias, overload

from cassette_lab.contracts import StreamChunk
from cassette_lab.jsonio import JsonObject
from cassette_lab.session.model import ChunkRun


@dataclass(frozen=True, slots=True)
class Deltas:
    """Deltas that follow each other and differ in one text only: ``head`` is the first, ``name`` what the text is called."""

    head: StreamChunk
    name: str
    texts: list[str]

    def __iter__(self) -> Iterator[StreamChunk]:
        for text in self.texts:
            yield {**self.head, self.name: text}


Piece: TypeAlias = StreamChunk | Deltas | ChunkRun


class Chunks(Sequence[StreamChunk]):
    """The chunks of one call, in order. Each is a plain JSON object, made when it is read."""

    __slots__ = ("_length", "_pieces")

    def __init__(self, pieces: Iterable[Piece] = ()) -> None:
        self._pieces = list(pieces)
        self._length: int | None = None

    def __iter__(self) -> Iterator[StreamChunk]:
        for piece in self._pieces:
            if isinstance(piece, ChunkRun):
                yield from map(piece.chunk, piece.texts)
            elif isinstance(piece, Deltas):
                yield from piece
            else:
                yield piece

    def __len__(self) -> int:
        if self._length is None:
            self._length = sum(len(piece.texts) if isinstance(piece, (ChunkRun, Deltas)) else 1 for piece in self._pieces)
        return self._length

    @overload
    def __getitem__(self, index: int) -> StreamChunk: ...
    @overload
    def __getitem__(self, index: slice) -> list[StreamChunk]: ...
    def __getitem__(self, index: int | slice) -> StreamChunk | list[StreamChunk]:
        if isinstance(index, slice):
            return list(self)[index]
        if not -len(self) <= index < len(self):
            raise IndexError("there are not so many chunks")
        return next(islice(self, index % len(self), None))

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, (Chunks, list, tuple)) else NotImplemented

    def __hash__(self) -> int:
        return hash(len(self))

    def __repr__(self) -> str:
        return f"<Chunks: {len(self)}>"


class Delta(Protocol):
    """A delta with its members as attributes; only that of a tool call has a ``call_id``."""

    kind: Any
    index: Any
    text: Any
    call_id: Any
    name: Any


class CallChunks:
    """Collects the chunks of one call. Deltas that are alike share what they have in common."""

    __slots__ = ("_delta", "_last", "_pieces", "_texts")

    def __init__(self) -> None:
        self._pieces: list[Piece] = []
        self._last: Deltas | None = None
        self._delta: Delta | None = None
        self._texts: list[str] = []

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def add(self, chunk: StreamChunk | ChunkRun) -> bool:
        """The next chunk or run of chunks. Returns whether it is the last one: a ``finish``."""
        if type(chunk) is not dict:
            self._put(chunk)
            return False
        kind = chunk.get("type")
        if kind == "text-delta" or kind == "reasoning-delta":  # noqa: PLR1714 - a set would hash the value, which may be any
            name = "text"
            is_plain = len(chunk) == 3 and "text" in chunk and "index" in chunk
        elif kind == "tool-call-delta":
            name = "argumentsDelta"
            is_plain = (
                name in chunk
                and "index" in chunk
                and type(chunk.get("id")) is str
                and len(chunk) == (5 if type(chunk.get("name")) is str else 4)
            )
        else:
            self._put(chunk)
            return bool(kind == "finish")
        last = self._last
        if not is_plain:
            self._put(chunk)
        elif (
            last is not None
            and (head := last.head)["index"] is chunk["index"]  # what is not the same object may be 1 and 1.0
            and head["type"] == kind
            and (name == "text" or (head["id"] == chunk["id"] and head.get("name") == chunk.get("name")))
        ):
            last.texts.append(chunk[name])
        else:
            self._last, self._delta = Deltas(chunk, name, [chunk[name]]), None
            self._pieces.append(self._last)
        return False

    def add_delta(self, delta: Delta) -> None:
        """The next chunk, which is a delta."""
        before = self._delta
        if (
            before is not None
            and before.kind == delta.kind
            and before.index == delta.index
            and before.call_id == delta.call_id
            and before.name == delta.name
        ):
            self._texts.append(delta.text)
            return
        first: StreamChunk = {"type": delta.kind, "index": delta.index}
        if delta.call_id is not None:
            first["id"] = delta.call_id
        if delta.name is not None:
            first["name"] = delta.name
        name = "text" if delta.call_id is None else "argumentsDelta"
        first[name] = delta.text
        self._delta, self._texts = delta, [delta.text]
        self._last = Deltas(first, name, self._texts)
        self._pieces.append(self._last)

    def _put(self, piece: Piece) -> None:
        self._last = self._delta = None
        self._pieces.append(piece)

    def close(self) -> Chunks:
        """All of them. The next one begins a new call."""
        chunks = Chunks(self._pieces)
        self._pieces, self._last, self._delta = [], None, None
        return chunks


@dataclass(frozen=True, slots=True)
class ChunksEntry:
    """A call that streams these chunks and ends."""

    kind: ClassVar[str] = "chunks"
    chunks: Sequence[StreamChunk]

    def to_json(self) -> JsonObject:
        """As an override document writes it."""
        return {"kind": self.kind, "chunks": list(self.chunks)}


@dataclass(frozen=True, slots=True)
class ThrowEntry:
    """A call that streams these chunks and then raises with ``message`` and ``code``."""

    kind: ClassVar[str] = "throw"
    chunks: Sequence[StreamChunk]
    message: str
    code: str

    def to_json(self) -> JsonObject:
        """As an override document writes it."""
        return {"kind": self.kind, "chunks": list(self.chunks), "message": self.message, "code": self.code}


@dataclass(frozen=True, slots=True)
class HangEntry:
    """A call that begins to answer, creates the empty file ``ready_file`` (if there is one) and waits to be cancelled."""

    kind: ClassVar[str] = "hang"
    ready_file: str | None = None

    def to_json(self) -> JsonObject:
        """As an override document writes it."""
        return {"kind": self.kind} if self.ready_file is None else {"kind": self.kind, "readyFile": self.ready_file}


ReplayEntry: TypeAlias = ChunksEntry | ThrowEntry | HangEntry


@dataclass(frozen=True, slots=True)
class SessionScript:
    """The calls of one recorded session, in order.

    ``created_at`` is in epoch milliseconds. ``first_message`` are the texts of the first user message of the session's
    own part, by which ``binding="content"`` knows it; ``None`` if it has none. ``names`` are the provider and the model that
    its first request went to, where the log says so.
    """

    recorded_id: str
    created_at: float
    entries: Sequence[ReplayEntry]
    primary: bool
    first_message: tuple[str, ...] | None = field(default=None, repr=False)
    names: tuple[str, str] | None = field(default=None, repr=False)

    def to_json(self) -> JsonObject:
        """The script as plain JSON."""
        return {
            "recordedId": self.recorded_id,
            "createdAt": self.created_at,
            "entries": [entry.to_json() for entry in self.entries],
            "primary": self.primary,
        }


def message_texts(message: Any) -> tuple[str, ...]:
    """The texts of a message's content, block by block; a content that is one string counts as one block."""
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return (content,)
    if not isinstance(content, list):
        return ()
    return tuple(
        block["text"]
        for block in content
        if isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str)
    )
