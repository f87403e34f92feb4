"""A range of a cassette's lines: proven by the block where possible, else line by line; as record batches.

Lines that the block tier leaves go to the reader's line tiers, all of a block together. Each tier accepts only what the
next one would. None of them words an error here: what cannot be accepted is a ``DoubtError``, and the exact reader says why.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cassette_lab.cassette.columns import RawTexts, interactions_batch
from cassette_lab.cassette.model import Interaction, RequestStorage
from cassette_lab.cassette.reader import read_interaction
from cassette_lab.cassette.scan.blocks import Block, DoubtError, Positions, read_blocks
from cassette_lab.cassette.scan.grammar import walk
from cassette_lab.cassette.scan.proof import Hexadecimal, equal_hashes, prove
from cassette_lab.cassette.scan.rows import proven_batch
from cassette_lab.cassette.schema import RecordError
from cassette_lab.jsonio.text import decode_utf8, is_blank, split_lines

FEW_BYTES: Final = 1 << 17
"""Up to here a range is read line by line: a block takes some milliseconds, however little is in it."""


@dataclass
class Part:
    """Verified calls of a range of lines, chained among themselves.

    ``previous_hash`` is what the first record names as the one before, ``last_hash`` the last record's own (empty without
    records). ``line_count`` counts blank lines too. In ``line`` and ``raw_texts`` the part's lines and rows are counted.
    """

    batches: list[pa.RecordBatch] = field(default_factory=list)
    previous_hash: str = ""
    last_hash: str = ""
    line_count: int = 0
    row_count: int = 0
    raw_texts: dict[str, dict[int, Any]] = field(default_factory=dict)


def scan_part(file: io.FileIO, start: int, stop: int, storage: RequestStorage, *, bodies: bool) -> Part:
    """Verify the lines between two byte positions where lines begin; ``DoubtError`` if they cannot all be accepted."""
    part = Part()
    if stop - start > FEW_BYTES:
        for block in read_blocks(file, start, stop):
            _add_block(part, block, storage, bodies=bodies)
    else:
        file.seek(start)
        data = file.read(stop - start)
        part.line_count = data.count(b"\n")
        _add(part, _read(split_lines(data), storage, bodies=bodies))
    return part


@dataclass(frozen=True)
class _Rows:
    """Some rows and, for each, where it stands and the hashes that chain it (64 hex digits)."""

    lines: Positions
    batch: pa.RecordBatch | None
    hashes: Hexadecimal
    previous_hashes: Hexadecimal
    raw_texts: RawTexts = field(default_factory=dict)


def _add_block(part: Part, block: Block, storage: RequestStorage, *, bodies: bool) -> None:
    lines = block.lines + part.line_count
    found = walk(block, storage)
    proof = prove(block, found)
    batch = proven_batch(block, found, proof, part.line_count + 1, bodies=bodies) if len(proof.rows) else None
    part.line_count += block.line_count
    rows = _Rows(lines[proof.rows], batch, proof.hashes, proof.previous_hashes)
    if len(proof.rows) < len(lines):
        left = np.setdiff1d(np.arange(len(lines)), proof.rows).tolist()
        others = _read(((int(lines[row]), block.line(row)) for row in left), storage, bodies=bodies)
        rows = _merged(rows, others)
    _add(part, rows)


def _read(lines: Iterable[tuple[int, bytes]], storage: RequestStorage, *, bodies: bool) -> _Rows:
    """Rows of numbered lines, read one by one; blank lines give none. The chain is left to the caller."""
    interactions: list[Interaction] = []
    for number, line in lines:
        if not line.startswith(b"{") and is_blank(decode_utf8(line)):
            continue
        try:
            interactions.append(read_interaction(line, storage, None, number))
        except RecordError:
            raise DoubtError from None
    batch, raw_texts = interactions_batch(interactions, bodies=bodies) if interactions else (None, {})
    return _Rows(
        np.array([each.line for each in interactions], np.int64),
        batch,
        np.array([each.hash[7:].encode() for each in interactions], "S64"),
        np.array([each.previous_hash[7:].encode() for each in interactions], "S64"),
        raw_texts,
    )


def _merged(ones: _Rows, others: _Rows) -> _Rows:
    """The rows of both in the order of their lines. Only the others can have raw texts."""
    if ones.batch is None or others.batch is None:
        return ones if others.batch is None else others
    lines = np.concatenate([ones.lines, others.lines])
    order = np.argsort(lines)
    place = np.argsort(order)[len(ones.lines) :].tolist()
    return _Rows(
        lines[order],
        pa.Table.from_batches([ones.batch, others.batch]).take(pa.array(order)).combine_chunks().to_batches()[0],
        np.concatenate([ones.hashes, others.hashes])[order],
        np.concatenate([ones.previous_hashes, others.previous_hashes])[order],
        {name: {place[row]: value for row, value in values.items()} for name, values in others.raw_texts.items()},
    )


def _add(part: Part, rows: _Rows) -> None:
    """Put rows behind those of the part, if they continue its chain."""
    if rows.batch is None:
        return
    previous_hash = f"sha256:{rows.previous_hashes[0].decode()}"
    if not equal_hashes(rows.previous_hashes[1:], rows.hashes[:-1]).all() or (part.last_hash not in ("", previous_hash)):
        raise DoubtError
    part.previous_hash = part.previous_hash or previous_hash
    part.last_hash = f"sha256:{rows.hashes[-1].decode()}"
    part.batches.append(rows.batch)
    for name, values in rows.raw_texts.items():
        part.raw_texts.setdefault(name, {}).update((part.row_count + row, value) for row, value in values.items())
    part.row_count += len(rows.lines)
