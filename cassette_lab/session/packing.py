"""Batches of events as they are stored in format 0: rows of JSON, runs of chunks packed.

A run of at least three deltas becomes one packed row; what a row cannot hold exactly is stored event by event. Rows are made
while events are logged, so that storing them has little left to do. Source: session logs, Packed chunk rows, SQLite.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Sequence
from operator import sub
from typing import Any, Final, TypeAlias

import orjson

from cassette_lab.errors import FormatError
from cassette_lab.jsonio import JsonObject
from cassette_lab.session.chunks import delta_key, pack_row
from cassette_lab.session.lines import LINE_LIMIT_BYTES
from cassette_lab.session.model import CHUNK_TYPE, ChunkRun, Event, Row

FEWEST_MEMBERS: Final = 3
MOST_MEMBERS: Final = 1_024
MOST_ROW_BYTES: Final = 1 << 20
"""Of a packed row's data."""

_MOST_BYTES_PER_CHARACTER: Final = 6
_BYTES_BESIDE_A_MEMBER: Final = 24


Delta: TypeAlias = tuple[tuple[Any, ...], str]
"""What the members of a run have in common, and the text of one of them."""


class Folding:
    """The rows of events that come one by one: deltas that are alike and follow each other become runs.

    ``start`` is the first event's seq. An event comes with its ``delta_of``. A run has at most 1,024 members.
    """

    def __init__(self, start: int = 0) -> None:
        self.start = start
        self._rows: list[Row] = []
        self._key: tuple[Any, ...] | None = None
        self._seq0 = 0
        self._times: list[int] = []
        self._texts: list[str] = []

    def add(self, event: Event, delta: Delta | None) -> None:
        """One more event."""
        if delta is None:
            self.close()
            self._rows.append(event)
            return
        key, text = delta
        if key != self._key or len(self._texts) == MOST_MEMBERS:
            self.close()
            self._key, self._seq0, self._times, self._texts = key, event.seq, [], []
        self._times.append(int(event.time))
        self._texts.append(text)

    def close(self) -> list[Row]:
        """The rows so far; the next event begins another one."""
        if self._key is not None:
            kind, turn, step, index, call_id, name = self._key
            times = self._times
            gaps = array("q", map(sub, times[1:], times))
            run = ChunkRun(kind, turn, step, index, self._seq0, times[0], gaps, self._texts, call_id, name, packed=False)
            self._rows.append(run)
            self._key = None
        return self._rows


class Batch(list[Event]):
    """Events to be stored together, and the rows that they were folded into."""

    def __init__(self, events: Sequence[Event], rows: Sequence[Row] | None = None) -> None:
        super().__init__(events)
        self.rows = fold_events(events) if rows is None else rows


def delta_of(event: Event) -> Delta | None:
    """What a delta has in common with the others of its run, and its text (``delta_key``); None for any other event."""
    kind, _, time, data, ignorable, sources, operation = event
    if kind != CHUNK_TYPE or type(time) is not int or ignorable is not False or sources is not None or operation is not None:
        return None
    return delta_key(data)


def fold_events(events: Iterable[Event]) -> list[Row]:
    """Events in rows: deltas that are alike and follow each other as runs, everything else as it is."""
    folding = Folding()
    for event in events:
        folding.add(event, delta_of(event))
    return folding.close()


def pack_events(events: Sequence[Event], *, pack: bool = True) -> Sequence[Row]:
    """The rows for a batch: runs of 3 to 1,024 members and at most 1 MiB, everything else as events."""
    if not pack:
        return events
    rows: list[Row] = []
    for row in events.rows if isinstance(events, Batch) else fold_events(events):
        if isinstance(row, ChunkRun):
            rows += _run(row)
        else:
            rows.append(row)
    return rows


def row_json(row: Row) -> JsonObject:
    """The JSON object of a row."""
    if isinstance(row, ChunkRun):
        return pack_row(row)
    kind, seq, time, data, ignorable, sources, operation = row
    if ignorable or sources is not None or operation is not None:
        return row.to_json()
    return {"type": kind, "seq": seq, "time": time, "data": data}  # the same, sooner


def encode_json(value: Any) -> bytes:
    """JSON text in UTF-8, members in their order; lone surrogates escaped. Raises ``FormatError`` beyond 256 MiB."""
    try:
        text = orjson.dumps(value)
    except orjson.JSONEncodeError:  # lone surrogates, depth, great numbers
        text = json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")
    if len(text) >= LINE_LIMIT_BYTES:
        raise FormatError(f"the event has {len(text):,} bytes, more than a log may hold in one ({LINE_LIMIT_BYTES:,})")
    return text


def encode_lines(events: Sequence[Event], *, pack: bool = True) -> bytes:
    """The lines of a batch."""
    lines = [encode_json(row_json(row)) for row in pack_events(events, pack=pack)]
    return b"\n".join([*lines, b""])


def _run(run: ChunkRun) -> Iterable[Row]:
    if run.members < FEWEST_MEMBERS:
        return run.events()
    size = sum(map(len, run.texts)) * _MOST_BYTES_PER_CHARACTER + run.members * _BYTES_BESIDE_A_MEMBER
    if size > MOST_ROW_BYTES // 2 and len(encode_json(pack_row(run)["data"])) > MOST_ROW_BYTES:
        half = run.members // 2
        return (*_run(run.first_members(half)), *_run(run.from_member(half)))
    return (run,)
