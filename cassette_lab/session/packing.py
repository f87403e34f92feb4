"""Batches of events as they are stored in format 0: rows of JSON, runs of chunks packed.

A run of at least three deltas becomes one packed row; what a row cannot hold exactly is stored event by event.
Source: session logs, Packed chunk rows, SQLite.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import orjson

from cassette_lab.errors import FormatError
from cassette_lab.jsonio import JsonObject
from cassette_lab.session.chunks import fold_events, pack_row
from cassette_lab.session.lines import LINE_LIMIT_BYTES
from cassette_lab.session.model import ChunkRun, Event, Row

FEWEST_MEMBERS: Final = 3
MOST_MEMBERS: Final = 1_024
MOST_ROW_BYTES: Final = 1 << 20
"""Of a packed row's data."""

_MOST_BYTES_PER_CHARACTER: Final = 6
_BYTES_BESIDE_A_MEMBER: Final = 24


def pack_events(events: Sequence[Event], *, pack: bool = True) -> Iterator[Row]:
    """The rows for a batch: runs of 3 to 1,024 members and at most 1 MiB, everything else as events."""
    if not pack:
        yield from events
        return
    for row in fold_events(events):
        if isinstance(row, ChunkRun):
            yield from _runs(row)
        else:
            yield row


def row_json(row: Row) -> JsonObject:
    """The JSON object of a row."""
    return pack_row(row) if isinstance(row, ChunkRun) else row.to_json()


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
    return b"".join(encode_json(row_json(row)) + b"\n" for row in pack_events(events, pack=pack))


def _runs(run: ChunkRun) -> Iterable[Row]:
    while run.members > MOST_MEMBERS:
        yield from _run(_first(run, MOST_MEMBERS))
        run = run.from_member(MOST_MEMBERS)
    yield from _run(run)


def _run(run: ChunkRun) -> Iterable[Row]:
    if run.members < FEWEST_MEMBERS:
        return run.events()
    size = sum(map(len, run.texts)) * _MOST_BYTES_PER_CHARACTER + run.members * _BYTES_BESIDE_A_MEMBER
    if size > MOST_ROW_BYTES // 2 and len(encode_json(pack_row(run)["data"])) > MOST_ROW_BYTES:
        half = run.members // 2
        return (*_run(_first(run, half)), *_run(run.from_member(half)))
    return (run,)


def _first(run: ChunkRun, members: int) -> ChunkRun:
    return replace(run, gaps=run.gaps[: members - 1], texts=run.texts[:members])
