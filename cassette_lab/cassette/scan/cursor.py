"""A cursor in every line of a block at once, moving over one grammar.

Every line has a position and a proof so far (``good``). A step either moves all lines or some of them (``rows``). What a
step finds is not what it should be: those lines are no longer good, and where they go then does not matter.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

import numpy as np

from cassette_lab.cassette.scan.blocks import Block, Mask, Positions

Rows: TypeAlias = "slice | Positions"
"""Which lines: all of them, or the sorted indices of some."""

ALL: Final = slice(None)
NONE: Final = np.empty(0, np.int64)


def some(rows: Rows) -> bool:
    """Whether there are any."""
    return isinstance(rows, slice) or len(rows) > 0


class Span(NamedTuple):
    """Where a value lies in each line of ``rows``: byte positions, ``stop`` excluded."""

    rows: Rows
    start: Positions
    stop: Positions


NOWHERE: Final = Span(NONE, NONE, NONE)


class Cursor:
    """Positions ``at`` and proofs ``good``, one of each a line."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.at = block.starts.copy()
        self.good: Mask = ~block.odd
        self._next_quote = block.first_quotes.copy()
        self._last_quote = len(block.quotes) - 1

    def literal(self, text: bytes, rows: Rows = ALL) -> None:
        """``text`` must stand here; go behind it."""
        self.good[rows] &= self.block.equal(text, self.at[rows])
        self._go(text, rows)

    def optional(self, text: bytes, rows: Rows = ALL) -> tuple[Rows, Rows]:
        """The lines where ``text`` stands here, which go behind it, and the others, which stay."""
        here = self.block.equal(text, self.at[rows])
        present, absent = _divide(rows, here)
        self._go(text, present)
        return present, absent

    def string(self, rows: Rows = ALL, *, least: int = 0) -> Span:
        """Inside a string: go to the quote that closes it. ``least`` is 1 where it may not be empty."""
        start = self.at[rows].copy()
        stop = self._quote(rows)
        self.good[rows] &= stop >= start + least
        self.at[rows] = stop
        return Span(rows, start, stop)

    def number(self, rows: Rows = ALL) -> Span:
        """A number as the last value before the next member: go to its end (what is in it, is not looked at)."""
        start = self.at[rows].copy()
        quote = self._quote(rows)
        closed = self.block.bytes[quote - 2] == _CLOSE
        stop = quote - 1 - closed
        self.good[rows] &= stop > start
        self.at[rows] = stop
        return Span(rows, start, stop)

    def flag(self) -> Mask:
        """``true`` or ``false``, in every line."""
        yes = self.block.equal(b"true", self.at)
        self.good &= yes | self.block.equal(b"false", self.at)
        self.at += np.where(yes, 4, 5)
        return yes

    def digest(self) -> Positions:
        """``sha256:`` and 64 characters to the closing quote, in every line. Whether they are hex is not looked at."""
        start = self.at.copy()
        self.good &= self.block.equal(b"sha256:", start)
        self.at = self._quote(ALL)
        self.good &= self.at == start + 71
        return start

    def still_good(self, rows: Rows) -> Rows:
        """Those of the lines whose proof still holds."""
        return _divide(rows, self.good[rows])[0]

    def jump(self, rows: Positions, to: Positions) -> None:
        """Go to positions that were found some other way."""
        self.at[rows] = to
        self._next_quote[rows] = np.searchsorted(self.block.quotes, to)

    def _quote(self, rows: Rows) -> Positions:
        return self.block.quotes[np.minimum(self._next_quote[rows], self._last_quote)]

    def _go(self, text: bytes, rows: Rows) -> None:
        self.at[rows] += len(text)
        self._next_quote[rows] += text.count(b'"')


_CLOSE = ord("}")


def _divide(rows: Rows, chosen: Mask) -> tuple[Rows, Rows]:
    if chosen.all():
        return rows, NONE
    if isinstance(rows, slice):
        return np.flatnonzero(chosen), np.flatnonzero(~chosen)
    return rows[chosen], rows[~chosen]
