"""Consecutive chunks of one model call in a skimmed log as one row: no object for any of them, and only what counts.

Source: session logs, Packed chunk rows; Event types, chunk kinds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import msgspec

from cassette_lab.jsonio import JsonObject
from cassette_lab.session.model import DeltaKind
from cassette_lab.session.usage import Usage


class Run(NamedTuple):
    """Consecutive deltas of one block: their texts, and the place of the first one in the stretch."""

    start: int
    kind: DeltaKind
    texts: list[str]

    @property
    def end(self) -> int:
        """The place behind the last one."""
        return self.start + len(self.texts)


Usages: TypeAlias = list[tuple[int, Usage]]
"""Usage chunks and their places in the stretch."""


class Stretch(msgspec.Struct, gc=False):
    """Chunks that follow each other from ``seq0`` on, all of one turn and step, of which only the last may be a finish.

    ``times`` are those of all of them, in epoch ms; ``runs`` the deltas among them.
    """

    turn: int
    step: int
    seq0: int
    times: list[int]
    runs: list[Run]
    usages: Usages
    finish: JsonObject | None = None
    earliest: int = 0
    latest: int = 0

    def __post_init__(self) -> None:
        """Sorting what is mostly in order is quicker than looking for the least and the greatest."""
        ordered = sorted(self.times)
        self.earliest, self.latest = ordered[0], ordered[-1]

    @property
    def next_seq(self) -> int:
        """The seq behind the last chunk."""
        return self.seq0 + len(self.times)

    def extents(self) -> Iterator[tuple[int, int]]:
        """The earliest and the latest time: of each piece where some of the times are unknown."""
        if self.earliest > 0:
            yield self.earliest, self.latest
        else:
            for times in self._pieces():
                yield min(times), max(times)

    def known_times(self) -> list[int] | list[int | None]:
        """The times of the chunks; None for a chunk without one, and for all deltas of a run that begins with such a chunk."""
        if self.earliest > 0:
            return self.times
        known: list[int | None] = []
        for times in self._pieces():
            known += times if times[0] > 0 else [None] * len(times)
        return known

    def split(self, count: int) -> tuple[Stretch, Stretch]:
        """The first ``count`` chunks, and the others; there must be some of both."""
        before: tuple[list[Run], Usages] = [], []
        behind: tuple[list[Run], Usages] = [], []
        for start, kind, texts in self.runs:
            inside = max(0, count - start)
            if inside:
                before[0].append(Run(start, kind, texts[:inside]))
            if inside < len(texts):
                behind[0].append(Run(max(0, start - count), kind, texts[inside:]))
        for place, usage in self.usages:
            if place < count:
                before[1].append((place, usage))
            else:
                behind[1].append((place - count, usage))
        return (
            Stretch(self.turn, self.step, self.seq0, self.times[:count], *before),
            Stretch(self.turn, self.step, self.seq0 + count, self.times[count:], *behind, self.finish),
        )

    def _pieces(self) -> Iterator[list[int]]:
        """The times of each run, and of each other chunk."""
        at = 0
        for run in self.runs:
            yield from ([time] for time in self.times[at : run.start])
            at = run.end
            yield self.times[run.start : at]
        yield from ([time] for time in self.times[at:])
