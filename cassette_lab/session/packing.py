"""Events as they are stored in format 0: rows, runs of chunks packed.

A run of at least three deltas becomes one packed row; what a row cannot hold exactly is stored event by event. Rows are made
while events are logged, so that storing a batch has little left to do. Source: session logs, Packed chunk rows, SQLite.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import orjson

from cassette_lab.errors import FormatError
from cassette_lab.jsonio import JsonObject
from cassette_lab.session.chunks import delta_key, folded_run, pack_row
from cassette_lab.session.lines import LINE_LIMIT_BYTES
from cassette_lab.session.model import CHUNK_TYPE, ChunkRun, Event, Row

FEWEST_MEMBERS: Final = 3
MOST_MEMBERS: Final = 1_024
MOST_ROW_BYTES: Final = 1 << 20
"""Of a packed row's data."""

Delta: TypeAlias = tuple[tuple[Any, ...], str]
"""What the members of a run have in common, and the text of one of them."""


class Packer:
    """How a store keeps rows. ``encode`` gives a row in the store's form, and the size of its JSON in bytes.

    Without ``pack`` every event is a row of its own.
    """

    def __init__(self, encode: Callable[[Row], tuple[Any, int]], *, pack: bool = True) -> None:
        self.encode = encode
        self.pack = pack

    def rows(self, events: Sequence[Event]) -> list[Any]:
        """The events in the store's form. Raises ``FormatError`` for one that is too large."""
        if isinstance(events, Batch) and events.packer is self:
            return events.rows
        return Packing(self, 0, events).close()


class Packing:
    """The rows of events that come one by one: deltas that are alike and follow each other become runs.

    ``start`` is the first event's seq.
    """

    def __init__(self, packer: Packer, start: int, events: Iterable[Event] = ()) -> None:
        self.packer = packer
        self.start = start
        self._rows: list[Any] = []
        self._key: tuple[Any, ...] | None = None
        self._seq0 = 0
        self._times: list[int] = []
        self._texts: list[str] = []
        for event in events:
            delta = delta_of(event)
            self.add(event, delta, self.encode(event, delta))

    def encode(self, event: Event, delta: Delta | None) -> Any:
        """An event in the store's form; None for a delta that will be a run's. Raises ``FormatError``; nothing is added."""
        if delta is not None and self.packer.pack and len(delta[1]) < MOST_ROW_BYTES:
            return None
        return self.packer.encode(event)[0]

    def add(self, event: Event, delta: Delta | None, row: Any) -> None:
        """One more event, with its ``delta_of`` and what ``encode`` gave."""
        if row is not None or delta is None:
            self.close()
            self._rows.append(row)
            return
        key, text = delta
        if key != self._key or len(self._texts) == MOST_MEMBERS:
            self.close()
            self._key, self._seq0, self._times, self._texts = key, event.seq, [], []
        self._times.append(int(event.time))
        self._texts.append(text)

    def close(self) -> list[Any]:
        """The rows so far; the next event begins another one."""
        if self._key is not None:
            run = folded_run(self._key, self._seq0, self._times, self._texts)
            self._key = None
            self._rows += self._encoded(run)
        return self._rows

    def _encoded(self, run: ChunkRun) -> Iterator[Any]:
        members = run.members
        if members < FEWEST_MEMBERS:
            for event in run.events():
                yield self.packer.encode(event)[0]
            return
        row, size = self.packer.encode(run)
        if size <= MOST_ROW_BYTES:
            yield row
        else:
            yield from self._encoded(run.first_members(members // 2))
            yield from self._encoded(run.from_member(members // 2))


class Batch(list[Event]):
    """Events that follow each other, to be stored together, and the rows that were made of them."""

    def __init__(self, events: Iterable[Event], packing: Packing) -> None:
        super().__init__(events)
        self.packer = packing.packer
        self.rows = packing.close()


def delta_of(event: Event) -> Delta | None:
    """What a delta has in common with the others of its run, and its text (``delta_key``); None for any other event."""
    kind, _, time, data, ignorable, sources, operation = event
    if kind != CHUNK_TYPE or type(time) is not int or ignorable is not False or sources is not None or operation is not None:
        return None
    return delta_key(data)


def encode_json(value: Any) -> bytes:
    """JSON text in UTF-8, members in their order; lone surrogates escaped. Raises ``FormatError`` beyond 256 MiB."""
    try:
        text = orjson.dumps(value)
    except orjson.JSONEncodeError:  # lone surrogates, depth, great numbers
        text = json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")
    if len(text) >= LINE_LIMIT_BYTES:
        raise FormatError(f"the event has {len(text):,} bytes, more than a log may hold in one ({LINE_LIMIT_BYTES:,})")
    return text


def encode_line(row: Row) -> tuple[bytes, int]:
    """A row's line without its end, and its size in bytes."""
    line = encode_json(row_json(row))
    return line, len(line)


def row_json(row: Row) -> JsonObject:
    """The JSON object of a row."""
    if isinstance(row, ChunkRun):
        return pack_row(row)
    kind, seq, time, data, ignorable, sources, operation = row
    if ignorable or sources is not None or operation is not None:
        return row.to_json()
    return {"type": kind, "seq": seq, "time": time, "data": data}  # the same, sooner


def join_lines(lines: Sequence[bytes]) -> bytes:
    """Lines as they are stored, each with its end."""
    return b"\n".join((*lines, b""))


def encode_lines(events: Sequence[Event]) -> bytes:
    """The lines of a batch."""
    return join_lines(Packer(encode_line).rows(events))
