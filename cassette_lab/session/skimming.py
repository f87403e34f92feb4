"""The rows of a log that is skimmed: all that is alike is taken together as it is decoded, line by line in order.

What the derivation makes of them is what it makes of the same log read the exact way.
Source: session logs, Packed chunk rows; Event types, chunk kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate, islice
from typing import Any, Final

from cassette_lab.jsonio import MAX_SAFE_INTEGER
from cassette_lab.session.quick import DELTAS, PACKED_ROWS, NotQuick, PackedRow
from cassette_lab.session.rows import Rows
from cassette_lab.session.skim import ChunkRow, Finish, UsageChunk, skimming_decoder
from cassette_lab.session.stretches import Stretch

_MOST_CHUNKS: Final = 1 << 16
"""A stretch that has so many takes no other row, so that none grows without end."""


class SkimmedRows(Rows):
    """``Rows`` that keep only what tables without bodies need, the chunks of a call as a ``Stretch``.

    No stretch goes over the ``boundary``, the seq of the first event that a fork did not inherit, where that is known.
    """

    def __init__(self, version: int, boundary: int | None = None) -> None:
        super().__init__(version)
        self._boundary = boundary or None
        self._stretch: Stretch | None = None
        self._key: tuple[Any, ...] | None = None
        """What the members of the open run have in common; None without one."""
        self._is_timed = False
        """Whether its first member has a time."""
        self._earliest = self._latest = 0

    def close(self) -> None:
        """Add the open stretch to ``rows``."""
        stretch, self._stretch = self._stretch, None
        if stretch is not None:
            self._end_run(stretch)
            self.rows.append(stretch)

    def _decoder(self) -> Callable[[bytes], Any]:
        return skimming_decoder(self._version)

    def _add_quick_rows(self, rows: Iterator[Any]) -> bool:
        try:
            for row in rows:
                kind = type(row)
                while kind is ChunkRow and row.seq == self.position:
                    if type(row.data.chunk) in DELTAS:
                        row = self._add_deltas(row, rows)  # noqa: PLW2901 - the one behind them
                    else:
                        self._add_chunk(row)
                        row = next(rows, None)  # noqa: PLW2901 - the next one
                    kind = type(row)
                if row is None:
                    break
                if kind in PACKED_ROWS:
                    if not self._add_packed_row(row):
                        return True
                    continue
                if row.seq != self.position:
                    return True
                if self._stretch is not None:
                    self.close()
                self.rows.append(row)
                self._count_row(row.time)
        except NotQuick:
            return True
        return False

    def _add_deltas(self, row: Any, rows: Iterator[Any]) -> Any:
        """As for rows that are not skimmed."""
        data = row.data
        chunk = data.chunk
        turn, step, index, call_id, name = data.turn, data.step, chunk.index, chunk.call_id, chunk.name
        stretch = self._add_member((chunk.kind, turn, step, index, call_id, name), len(chunk.text), row.time)
        chunk_type, is_call = type(chunk), call_id is not None
        time, earliest, latest = row.time, self._earliest, self._latest
        position = self.position
        chars = 0
        try:
            for row in rows if self._boundary is None else islice(rows, self._boundary - position):  # noqa: PLR1704 - the next
                data = row.data
                chunk = data.chunk
                if (
                    type(chunk) is not chunk_type
                    or row.seq != position
                    or chunk.index != index
                    or data.step != step
                    or data.turn != turn
                    or (is_call and (chunk.call_id != call_id or chunk.name != name))
                ):
                    return row
                chars += len(chunk.text)
                time = row.time
                if time >= latest:
                    latest = time
                elif time < earliest:
                    earliest = time
                position += 1
        except AttributeError:  # its data holds no chunk
            return row
        finally:
            count = position - self.position
            if count:
                known = time if self._is_timed else None
                stretch.add_deltas(chunk_type.kind, chars, count, known, known)
                self._earliest, self._latest = earliest, latest
                self.position = position
                self.stored += count
                if earliest or latest:
                    self.has_times = True
        return next(rows, None)

    def _add_chunk(self, row: ChunkRow) -> None:
        """A chunk that is no delta."""
        data = row.data
        chunk = data.chunk
        stretch = self._stretch_at(data.turn, data.step, row.time)
        stretch.add_chunk(row.time)
        self._count_row(row.time)
        if type(chunk) is UsageChunk:
            stretch.usage = chunk.usage
        elif type(chunk) is Finish:
            stretch.finish = chunk.reason
            self.close()

    def _add_packed_row(self, row: PackedRow) -> bool:
        """A packed row; False where it must be looked at the exact way."""
        data, position, time0 = row.data, self.position, row.time0
        dt, texts = data.dt, data.texts
        count = len(texts)
        if row.seq0 != position or len(dt) != count - 1:
            return False
        if self._boundary is not None and position < self._boundary < position + count:
            return False
        last = time0 + sum(dt)
        earliest, latest = time0, last
        if dt and min(dt) < 0:
            times = list(accumulate(dt, initial=time0))
            earliest, latest = min(times), max(times)
        if earliest < -MAX_SAFE_INTEGER or latest > MAX_SAFE_INTEGER:
            return False
        stretch = self._stretch_at(data.turn, data.step, time0)
        first, last_at = (time0, last) if time0 > 0 else (None, None)
        stretch.add_deltas(row.kind, len("".join(texts)), count, first, last_at)
        stretch.see(earliest, latest)
        self._count_row(time0)
        self.position = position + count
        return True

    def _add_delta(self, key: tuple[Any, ...], text: str, time: int) -> None:
        self._add_member(key, text, time)

    def _add_member(self, key: tuple[Any, ...], part: int | str, time: int) -> Stretch:
        """A delta with this key, of the open run or of a new one: the stretch."""
        kind, turn, step, *_ = key
        stretch = self._stretch
        if stretch is None or self._key != key or self.position == self._boundary or stretch.chunks >= _MOST_CHUNKS:
            stretch = self._stretch_at(turn, step, time)
            self._key, self._is_timed = key, time > 0
            self._earliest = self._latest = time
        elif time > self._latest:
            self._latest = time
        elif time < self._earliest:
            self._earliest = time
        known = time if self._is_timed else None
        stretch.add_deltas(kind, part, 1, known, known)
        self._count_row(time)
        return stretch

    def _stretch_at(self, turn: int, step: int, time: int) -> Stretch:
        """The stretch that the next chunk belongs to, which is of no open run."""
        stretch = self._stretch
        if (
            stretch is None
            or stretch.turn != turn
            or stretch.step != step
            or stretch.chunks >= _MOST_CHUNKS
            or self.position == self._boundary
        ):
            self.close()
            if self._boundary is not None and self.position >= self._boundary:
                self._boundary = None
            stretch = self._stretch = Stretch(turn, step, self.position, time)
        elif self._key is not None:
            self._end_run(stretch)
        return stretch

    def _end_run(self, stretch: Stretch) -> None:
        if self._key is not None:
            self._key = None
            stretch.see(self._earliest, self._latest)

    def _count_row(self, time: int) -> None:
        self.position += 1
        self.stored += 1
        if time:
            self.has_times = True
