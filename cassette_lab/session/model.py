"""What a session log says, as it is stored: a header, events, and runs of chunks that stay packed.

Nothing here is derived: turns, calls and usage are made from these rows elsewhere. JSON names are camelCase on disk and
snake_case here; ``to_json`` gives the former. Source: session logs, Header line, Event envelope, Packed chunk rows.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from cassette_lab.jsonio import JsonObject
from cassette_lab.jsonio.text import show
from cassette_lab.words import plural

NEWEST_FORMAT: Final = 4
"""Formats 0 up to this one are read."""

CHUNK_TYPE: Final = "assistant/chunk"
_SHOWN_CHARACTERS: Final = 80
Encoding: TypeAlias = Literal["jsonl", "zstd", "sqlite"]
DeltaKind: TypeAlias = Literal["text-delta", "reasoning-delta", "tool-call-delta"]


@dataclass(frozen=True, slots=True)
class SessionHeader:
    """The first line of a log. ``created_at`` is in epoch ms; None is a member that the file does not have.

    ``seed_length`` (formats 0 and 1) counts the leading events that a fork took over from its parent; ``is_seeded``
    (formats 2 and later) says that there are such events, and a marker in the log where they end.
    """

    version: int
    id: str
    created_at: int | float | None = None
    delegation_depth: int | None = None
    cwd: str | None = None
    parent_session: str | None = None
    origin: str | None = None
    agent_preset: str | None = None
    seed_length: int | None = None
    is_seeded: bool | None = None

    def to_json(self) -> JsonObject:
        """The members of the header line, in the writer's order, absent ones left out."""
        members: JsonObject = {
            "type": "session",
            "version": self.version,
            "id": self.id,
            "createdAt": self.created_at,
            "isSeeded": self.is_seeded,
            "cwd": self.cwd,
            "parentSession": self.parent_session,
            "seedLength": self.seed_length,
            "origin": self.origin,
            "delegationDepth": self.delegation_depth,
            "agentPreset": self.agent_preset,
        }
        return {name: value for name, value in members.items() if value is not None}


class Event(NamedTuple):
    """One event. ``time`` is in epoch ms and may step back; ``data`` is shared with the log, not a copy.

    ``source_event_seqs`` is what the file says, ranges ``[first, last]`` unexpanded (``sources`` expands them); None where
    it is absent, as ``surface_op`` is. ``ignorable``: whoever does not know the type may pass the event by.
    """

    type: str
    seq: int
    time: int | float
    data: JsonObject
    ignorable: bool = False
    source_event_seqs: list[Any] | None = None
    surface_op: Any = None

    def sources(self) -> list[int]:
        """The seqs this event cites, ranges expanded. Raises ``ValueError`` where one is no earlier seq."""
        return expand_seqs(self.source_event_seqs or (), self.seq)

    def to_json(self) -> JsonObject:
        """The event's members, absent ones left out."""
        members: JsonObject = {"type": self.type, "seq": self.seq, "time": self.time, "data": self.data}
        if self.ignorable:
            members["ignorable"] = True
        if self.source_event_seqs is not None:
            members["sourceEventSeqs"] = self.source_event_seqs
        if self.surface_op is not None:
            members["surfaceOp"] = self.surface_op
        return members


@dataclass(frozen=True, slots=True)
class ChunkRun:
    """Consecutive deltas of one block of a model's answer, packed: one row of the file, or many alike that were folded.

    ``texts`` has one entry for each member and is never joined, for the boundaries are data. ``gaps`` are the differences
    of the members' times in ms (one less than members; may be negative). ``call_id`` and ``name`` belong to tool-call
    deltas; a name of None is absent. ``packed``: the file has it as one row, else each member was a row of its own.
    In a stream of format 2 and later ``seq0`` is the seq of the event that holds the stream.
    """

    kind: DeltaKind
    turn: int | float
    step: int | float
    index: int | float
    seq0: int
    time0: int
    gaps: array[int]
    texts: Sequence[str]
    call_id: str | None = None
    name: str | None = None
    packed: bool = True

    @property
    def members(self) -> int:
        """How many deltas this is."""
        return len(self.gaps) + 1

    @property
    def stored_rows(self) -> int:
        """How many rows of the file this is."""
        return 1 if self.packed else len(self.gaps) + 1

    @property
    def next_seq(self) -> int:
        """The seq behind the last member."""
        return self.seq0 + len(self.gaps) + 1

    @property
    def last_time(self) -> int:
        """The last member's time in epoch ms."""
        return self.time0 + sum(self.gaps)

    @property
    def extent(self) -> tuple[int, int]:
        """The members' earliest and latest time in epoch ms."""
        if self.gaps and min(self.gaps) < 0:
            times = list(self.times())
            return min(times), max(times)
        return self.time0, self.last_time

    def times(self) -> Iterator[int]:
        """The members' times in epoch ms."""
        time = self.time0
        yield time
        for gap in self.gaps:
            time += gap
            yield time

    def chunk(self, text: str) -> JsonObject:
        """The chunk of one member."""
        if self.kind != "tool-call-delta":
            return {"type": self.kind, "index": self.index, "text": text}
        members: JsonObject = {"type": self.kind, "index": self.index, "id": self.call_id}
        if self.name is not None:
            members["name"] = self.name
        members["argumentsDelta"] = text
        return members

    def chunks(self) -> Iterator[tuple[int, JsonObject]]:
        """The members as (time in epoch ms, chunk)."""
        return zip(self.times(), map(self.chunk, self.texts), strict=True)

    def events(self) -> Iterator[Event]:
        """The members as ``assistant/chunk`` events."""
        for seq, (time, chunk) in enumerate(self.chunks(), self.seq0):
            yield Event(CHUNK_TYPE, seq, time, {"turn": self.turn, "step": self.step, "chunk": chunk})

    def first_members(self, count: int) -> ChunkRun:
        """Only the first ``count`` members of this run (1 or more)."""
        gaps, texts = self.gaps[: count - 1], self.texts[:count]
        key = self.kind, self.turn, self.step, self.index, self.seq0, self.time0
        return ChunkRun(*key, gaps, texts, self.call_id, self.name, self.packed)

    def from_member(self, count: int) -> ChunkRun:
        """This run without its first ``count`` members (fewer than all)."""
        if not count:
            return self
        return ChunkRun(
            self.kind,
            self.turn,
            self.step,
            self.index,
            self.seq0 + count,
            self.time0 + sum(self.gaps[:count]),
            self.gaps[count:],
            self.texts[count:],
            self.call_id,
            self.name,
            self.packed,
        )


Row: TypeAlias = Event | ChunkRun


@dataclass(frozen=True, slots=True)
class Physical:
    """How the log lies on disk. Sizes in bytes; None is a fact that this encoding does not have.

    ``frames`` are the whole zstd frames, ``torn_frame_bytes`` the compressed bytes behind them, ``text_bytes`` what was
    decoded, ``torn_line_bytes`` the text behind its last line feed.
    """

    encoding: Encoding
    size_bytes: int
    text_bytes: int | None = None
    torn_line_bytes: int | None = None
    frames: int | None = None
    torn_frame_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """Something about a log that a reader should know and that did not stop the reading.

    ``code`` is a stable word: ``TORN_TAIL`` (an unfinished end was left out), ``BROKEN_TAIL`` (so were rows at the end that
    do not follow), ``UNKNOWN_TYPE`` (not known here, and not marked as ignorable), ``OTHER_FORMAT`` (file name and header
    differ), ``OPEN_PREFIX`` (a fork's inherited events do not end in what is there), ``OLDER_GENERATION`` (the end of this
    log was left out, and an older generation of the session lies beside it).
    """

    code: str
    message: str
    line: int | None = None
    frame: int | None = None


@dataclass(frozen=True, slots=True)
class SessionLog:
    """One session as it was read. ``path`` is the file (for SQLite the store; ``header.id`` then names the session).

    ``rows`` hold every event once, in order, seq 0 first; chunks of a run stay packed. ``boundary`` is the seq of the first
    event that is the session's own: before it stands what a fork inherited. ``torn_bytes`` are the bytes at the file's end
    that were not whole (of a zstd file the last frame, also where its lines could be saved). ``row_count`` counts the rows of
    the file that were kept, ``missing_seqs`` and ``missing_times`` those that had none (position and 0 stand in: a time of 0
    is unknown). ``has_times``: some row has a time; test fixtures often have none.
    """

    header: SessionHeader
    rows: Sequence[Row]
    physical: Physical
    event_count: int
    row_count: int
    boundary: int
    path: str | None = None
    problems: Sequence[Problem] = ()
    torn_bytes: int = 0
    missing_seqs: int = 0
    missing_times: int = 0
    has_times: bool = False
    unknown_types: Mapping[str, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        """A line, without anything that was said: a log may be as long as a book."""
        told = [f"format {self.header.version}", plural(self.event_count, "event")]
        if self.boundary:
            told.append(f"{self.boundary:,} of them inherited")
        if self.problems:
            told.append(plural(len(self.problems), "problem"))
        return show(f"<SessionLog {self.header.id[:_SHOWN_CHARACTERS]}: {', '.join([*told, *filter(None, [self.path])])}>")

    def events(self, start: int = 0) -> Iterator[Event]:
        """Every event from seq ``start`` on, runs expanded one by one."""
        return events_of(self.rows_from(start))

    def own_events(self) -> Iterator[Event]:
        """The events behind the inherited prefix."""
        return self.events(self.boundary)

    def own_rows(self) -> Iterator[Row]:
        """The rows behind the inherited prefix; a run that the boundary cuts is given without its inherited members."""
        return self.rows_from(self.boundary)

    def rows_from(self, seq: int) -> Iterator[Row]:
        """The rows from ``seq`` on; a run that begins before it is cut."""
        return rows_from(self.rows, seq)


def events_of(rows: Iterable[Row]) -> Iterator[Event]:
    """The events that rows hold, runs expanded one by one."""
    for row in rows:
        if isinstance(row, Event):
            yield row
        else:
            yield from row.events()


def rows_from(rows: Iterable[Row], seq: int) -> Iterator[Row]:
    """Those of ``rows`` from ``seq`` on; a run that begins before it is given without its earlier members."""
    left = iter(rows)
    for row in left:
        if isinstance(row, Event):
            if row.seq < seq:
                continue
            yield row
        else:
            if row.next_seq <= seq:
                continue
            yield row.from_member(max(0, seq - row.seq0))
        break
    yield from left


def expand_seqs(cited: Sequence[Any], before: int) -> list[int]:
    """Seqs as a file cites them, with inclusive ranges ``[first, last]`` expanded; each must be lower than ``before``.

    Raises ``ValueError`` for anything else; never builds more than ``before`` numbers for one range.
    """
    seqs: list[int] = []
    for item in cited:
        first, last = item if isinstance(item, (list, tuple)) and len(item) == 2 else (item, item)
        if type(first) is float and first.is_integer():
            first = int(first)
        if type(last) is float and last.is_integer():
            last = int(last)
        if type(first) is not int or type(last) is not int or not 0 <= first <= last < before:
            raise ValueError(f"a source of event {before} is no earlier event")
        seqs.extend(range(first, last + 1))
        if len(seqs) > before:
            raise ValueError(f"event {before} cites an event twice")
    return seqs
