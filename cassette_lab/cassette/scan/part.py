"""A range of a cassette's lines: proven by the block where possible, else line by line; as record batches.

Lines that the block tier leaves go to the reader's line tiers, all of a block together. Each tier accepts only what the
next one would. None of them words an error here: what cannot be accepted is a ``DoubtError``, and the exact reader says why.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from cassette_lab.cassette.columns import interactions_batch
from cassette_lab.cassette.model import Interaction, RequestStorage
from cassette_lab.cassette.reader import read_interaction
from cassette_lab.cassette.scan.blocks import Block, DoubtError, Positions, read_blocks
from cassette_lab.cassette.scan.grammar import walk
from cassette_lab.cassette.scan.proof import Hexadecimal, equal_hashes, prove
from cassette_lab.cassette.scan.rows import proven_batch
from cassette_lab.cassette.schema import RecordError
from cassette_lab.jsonio.text import decode_utf8, is_blank


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
    for block in read_blocks(file, start, stop):
        _add_block(part, block, storage, bodies=bodies)
    return part


def _add_block(part: Part, block: Block, storage: RequestStorage, *, bodies: bool) -> None:
    first_line = part.line_count + 1
    part.line_count += block.line_count
    found = walk(block, storage)
    proof = prove(block, found)
    batches = [proven_batch(block, found, proof, first_line, bodies=bodies)] if len(proof.rows) else []
    if len(proof.rows) == len(block.starts):
        _append(part, batches, proof.hashes, proof.previous_hashes)
        return
    others, interactions = _other_lines(block, np.setdiff1d(np.arange(len(block.starts)), proof.rows), storage, first_line)
    order = np.argsort(np.concatenate([proof.rows, others]))
    if interactions:
        batch, raw_texts = interactions_batch(interactions, bodies=bodies)
        batches.append(batch)
        place = np.argsort(order)[len(proof.rows) :] + part.row_count
        for name, values in raw_texts.items():
            part.raw_texts.setdefault(name, {}).update((int(place[row]), value) for row, value in values.items())
    hashes = np.array([each.hash[7:].encode() for each in interactions], "S64")
    previous_hashes = np.array([each.previous_hash[7:].encode() for each in interactions], "S64")
    if len(batches) > 1:
        batches = [pa.concat_batches(batches).take(pa.array(order))]
    _append(
        part,
        batches,
        np.concatenate([proof.hashes, hashes])[order],
        np.concatenate([proof.previous_hashes, previous_hashes])[order],
    )


def _other_lines(
    block: Block, rows: Positions, storage: RequestStorage, first_line: int
) -> tuple[Positions, list[Interaction]]:
    """Lines one by one: those that are not blank, and what they say. The chain is left to the caller."""
    kept, interactions = [], []
    for row in rows.tolist():
        line = block.line(row)
        if not line.startswith(b"{") and is_blank(decode_utf8(line)):
            continue
        try:
            interactions.append(read_interaction(line, storage, None, first_line + int(block.lines[row]) - 1))
        except RecordError:
            raise DoubtError from None
        kept.append(row)
    return np.array(kept, np.int64), interactions


def _append(part: Part, batches: list[pa.RecordBatch], hashes: Hexadecimal, previous_hashes: Hexadecimal) -> None:
    if not batches:
        return
    previous_hash = f"sha256:{previous_hashes[0].decode()}"
    if not equal_hashes(previous_hashes[1:], hashes[:-1]).all() or (part.last_hash and previous_hash != part.last_hash):
        raise DoubtError
    part.previous_hash = part.previous_hash or previous_hash
    part.last_hash = f"sha256:{hashes[-1].decode()}"
    part.batches += batches
    part.row_count += len(hashes)
