"""Consecutive chunks of one model call in a skimmed log as one row: no object for any of them, and only what counts.

Source: session logs, Packed chunk rows; Event types, chunk kinds.
"""

from __future__ import annotations

import msgspec

from cassette_lab.jsonio import JsonObject
from cassette_lab.session.model import DeltaKind
from cassette_lab.session.usage import Usage


class Stretch(msgspec.Struct, gc=False):
    """Chunks that follow each other from ``seq0`` on, all of one turn and step, of which only the last may be a finish.

    ``time0`` is the first one's time, known or not; the other times are None where they are unknown, which those of a run
    of deltas all are if its first is. ``earliest`` and ``latest`` leave out runs with an unknown time; 0 is none.
    ``parts`` are the deltas: how many code points some of one kind have, or a text that may begin or end with half of one.
    """

    turn: int
    step: int
    seq0: int
    time0: int
    chunks: int = 0
    deltas: int = 0
    first_chunk_at: int | None = None
    last_chunk_at: int | None = None
    first_delta_at: int | None = None
    last_delta_at: int | None = None
    earliest: int = 0
    latest: int = 0
    parts: list[tuple[DeltaKind, int | str]] = []
    usage: Usage | None = None
    finish: JsonObject | None = None

    def add_chunk(self, time: int) -> None:
        """A chunk more that is no delta."""
        known = time if time > 0 else None
        if not self.chunks:
            self.first_chunk_at = known
        self.chunks += 1
        self.last_chunk_at = known
        if time > self.latest and self.earliest:
            self.latest = time
        else:
            self.see(time, time)

    def add_deltas(self, kind: DeltaKind, part: int | str, count: int, first: int | None, last: int | None) -> None:
        """So many deltas more, of one run; these are the times of the first and the last of them."""
        if not self.chunks:
            self.first_chunk_at = first
        if not self.deltas:
            self.first_delta_at = first
        self.chunks += count
        self.deltas += count
        self.last_chunk_at = self.last_delta_at = last
        self.parts.append((kind, part))

    def see(self, earliest: int, latest: int) -> None:
        """The times of a whole run, or of another chunk."""
        if earliest > 0:
            if not self.earliest or earliest < self.earliest:
                self.earliest = earliest
            self.latest = max(self.latest, latest)
