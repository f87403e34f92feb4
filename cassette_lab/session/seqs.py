"""Lists of cited seqs as SQLite schema 17 keeps them: unsigned varints, the first absolute, the rest zigzag differences.

A difference d becomes 2d where it is 0 or more, else 2|d| - 1. There is one spelling only: no varint is longer than needed.
Source: session logs, SQLite.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from cassette_lab.jsonio import MAX_SAFE_INTEGER

_MOST_BITS: Final = 63


def encode_seqs(seqs: Iterable[int]) -> bytes:
    """The bytes of a list of seqs; an empty list has none."""
    out = bytearray()
    previous = 0
    for number, seq in enumerate(seqs):
        difference = seq - previous
        value = seq if not number else 2 * difference if difference >= 0 else -2 * difference - 1
        previous = seq
        while value > 0x7F:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        out.append(value)
    return bytes(out)


def decode_seqs(data: bytes) -> list[int]:
    """The list that the bytes say. Raises ``ValueError`` for bytes that ``encode_seqs`` never gives."""
    seqs: list[int] = []
    value = shift = 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        if byte & 0x80:
            shift += 7
            if shift > _MOST_BITS:
                raise ValueError("a varint is too long")
            continue
        if not byte and shift:
            raise ValueError("a varint is longer than needed")
        seq = (seqs[-1] + (-(value >> 1) - 1 if value & 1 else value >> 1)) if seqs else value
        if not 0 <= seq <= MAX_SAFE_INTEGER:
            raise ValueError("a seq is negative or beyond 2^53 - 1")
        seqs.append(seq)
        value = shift = 0
    if shift:
        raise ValueError("the last varint is not whole")
    return seqs
