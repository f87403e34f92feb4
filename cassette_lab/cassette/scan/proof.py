"""What spelling cannot prove of a line: values in range, rules between members, and both SHA-256 sums."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from cassette_lab.cassette.model import OUTCOME_KINDS
from cassette_lab.cassette.scan.blocks import Block, Mask, Positions
from cassette_lab.cassette.scan.cursor import Span
from cassette_lab.cassette.scan.grammar import Walk
from cassette_lab.cassette.scan.numbers import Decimals, Integers, decimals, integers

T = TypeVar("T", np.int64, np.float64)

HASH_MEMBER_BYTES: Final = len(',"hash":""') + len("sha256:") + 64

Hexadecimal = npt.NDArray[np.bytes_]


@dataclass
class Proof:
    """Lines that are proven (``rows``, rising), and what was worked out on the way.

    ``integers`` and ``decimals`` have one element for each line of the block (0 where a line has no such value);
    ``hashes``, ``previous_hashes`` and ``outcome_hashes`` one for each proven line, 64 hex digits. What the previous
    hashes should be is for the caller to say.
    """

    rows: Positions
    integers: dict[str, Integers]
    decimals: dict[str, Decimals]
    hashes: Hexadecimal
    previous_hashes: Hexadecimal
    outcome_hashes: Hexadecimal


def prove(block: Block, walk: Walk) -> Proof:
    """Finish the proof of the lines that came through the walk."""
    good = walk.good
    texts = block.fixed(64)
    for name in ("parent_context_fingerprint", "request_fingerprint", "previous_hash"):
        rows = np.flatnonzero(good)
        good[rows] = _are_hexadecimal(texts[walk.digests[name][rows] + 7])
    whole = {name: _scattered(integers, block, span, good) for name, span in walk.integers.items()}
    real = {name: _scattered(decimals, block, span, good) for name, span in walk.decimals.items()}
    good &= (whole["sequence"] >= 1) & (whole["occurrence"] >= 1)
    good &= real["duration_ms"] >= real["start_latency_ms"]
    published = walk.flags["published"]
    good &= published ^ (walk.outcome_kind == OUTCOME_KINDS.index("start-error"))
    good &= published | ~walk.flags["local"]
    rows = np.flatnonzero(good)
    written = texts[walk.digests["hash"][rows] + 7]
    same = equal_hashes(_line_hashes(block, rows, walk.hash_member), written)
    rows = rows[same]
    return Proof(
        rows,
        whole,
        real,
        written[same],
        texts[walk.digests["previous_hash"][rows] + 7],
        _hashes(block, walk.outcome_start[rows], walk.outcome_stop[rows]),
    )


def _scattered(
    read: Callable[[Block, Positions, Positions], tuple[npt.NDArray[T], Mask]], block: Block, span: Span, good: Mask
) -> npt.NDArray[T]:
    """Read the values of a span in lines that are still good; one element a line. What cannot be read is no longer good."""
    chosen = good[span.rows]
    rows = np.arange(len(good))[span.rows][chosen]
    values, valid = read(block, span.start[chosen], span.stop[chosen])
    good[rows] = valid
    scattered = np.zeros(len(good), values.dtype)
    scattered[rows] = values
    return scattered


def equal_hashes(ones: Hexadecimal, others: Hexadecimal) -> Mask:
    """Which elements are the same."""
    same = ones.view(np.uint64) == others.view(np.uint64)
    return np.logical_and.reduce(same.reshape(-1, 8), axis=1) if not same.all() else np.ones(len(ones), np.bool_)


def _are_hexadecimal(texts: Hexadecimal) -> Mask:
    characters = texts.view(np.uint8).reshape(-1, 64)
    right = (characters - np.uint8(ord("0")) <= 9) | (characters - np.uint8(ord("a")) <= 5)
    return np.logical_and.reduce(right, axis=1) if not right.all() else np.ones(len(texts), np.bool_)


def _line_hashes(block: Block, rows: Positions, hash_member: Positions) -> Hexadecimal:
    """SHA-256 of each line without its hash member."""
    view, sha256, digests = memoryview(block.buffer), hashlib.sha256, []
    for start, cut, stop in zip(
        block.starts[rows].tolist(), hash_member[rows].tolist(), block.stops[rows].tolist(), strict=True
    ):
        line = sha256(view[start:cut])
        line.update(view[cut + HASH_MEMBER_BYTES : stop])
        digests.append(line.digest())
    return _hexadecimal(digests)


def _hashes(block: Block, start: Positions, stop: Positions) -> Hexadecimal:
    view, sha256 = memoryview(block.buffer), hashlib.sha256
    return _hexadecimal([sha256(view[a:b]).digest() for a, b in zip(start.tolist(), stop.tolist(), strict=True)])


def _hexadecimal(digests: list[bytes]) -> Hexadecimal:
    return np.frombuffer(b"".join(digests).hex().encode(), "S64")
