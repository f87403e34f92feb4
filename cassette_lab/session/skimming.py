"""The rows of a log that is skimmed: all that is alike is taken together as it is decoded, line by line in order.

What the derivation makes of them is what it makes of the same log read the exact way.
Source: session logs, Packed chunk rows; Event types, chunk kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate, islice
from typing import Any

from cassette_lab.jsonio import MAX_SAFE_INTEGER, JsonObject
from cassette_lab.session.chunks import MOST_MEMBERS
from cassette_lab.session.quick import DELTAS, PACKED_ROWS, NotQuick, PackedRow
from cassette_lab.session.rows import Rows
from cassette_lab.session.skim import ChunkRow, Finish, UsageChunk, skimming_decoder
from cassette_lab.session.stretches import Run, Stretch, Usages


class SkimmedRows(Rows):
    """``Rows`` that keep only what tables without bodies need, chunks of a call as a ``Stretch``."""

    def __init__(self, version: int) -> None:
        super().__init__(version)
        self._place: tuple[int, int] | None = None
        """Turn and step of the open stretch; None without one."""
        self._seq0 = 0
        self._times: list[int] = []
        self._runs: list[Run] = []
        self._usages: Usages = []
        self._key: tuple[Any, ...] | None = None
        """What the members of its last run have in common, if that goes on."""
        self._texts: list[str] = []

    def close(self) -> None:
        """Add the open stretch to ``rows``."""
        self._close()

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
                if self._place is not None:
                    self._close()
                self.rows.append(row)
                self.position += 1
                self.stored += 1
                if row.time:
                    self.has_times = True
        except NotQuick:
            return True
        return False

    def _add_deltas(self, row: Any, rows: Iterator[Any]) -> Any:
        """As for rows that are not skimmed."""
        data = row.data
        chunk = data.chunk
        turn, step, index, call_id, name = data.turn, data.step, chunk.index, chunk.call_id, chunk.name
        texts = self._run((chunk.kind, turn, step, index, call_id, name))
        times = self._times
        before = len(times)
        add_text, add_time = texts.append, times.append
        chunk_type, is_call = type(chunk), call_id is not None
        add_text(chunk.text)
        add_time(row.time)
        position = self.position + 1
        try:
            for row in rows:  # noqa: PLR1704 - the next one
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
                add_text(chunk.text)
                add_time(row.time)
                position += 1
        except AttributeError:  # its data holds no chunk
            return row
        finally:
            self.stored += position - self.position
            self.position = position
            self.has_times = self.has_times or any(islice(times, before, None))
        return None

    def _add_chunk(self, row: ChunkRow) -> None:
        """A chunk that is no delta."""
        data = row.data
        chunk = data.chunk
        place = data.turn, data.step
        times = self._times
        if place != self._place or len(times) >= MOST_MEMBERS:
            times = self._open(place)
        self._key = None
        if type(chunk) is UsageChunk:
            self._usages.append((len(times), chunk.usage))
        times.append(row.time)
        self.position += 1
        self.stored += 1
        if row.time:
            self.has_times = True
        if type(chunk) is Finish:
            self._close(chunk.reason)

    def _add_packed_row(self, row: PackedRow) -> bool:
        """A packed row; False where it must be looked at the exact way."""
        data = row.data
        times, texts = list(accumulate(data.dt, initial=row.time0)), data.texts
        if row.seq0 != self.position or len(times) != len(texts):
            return False
        if min(times) < -MAX_SAFE_INTEGER or max(times) > MAX_SAFE_INTEGER:
            return False
        place = data.turn, data.step
        if place != self._place or len(self._times) >= MOST_MEMBERS:
            self._open(place)
        self._key = None
        self._runs.append(Run(len(self._times), row.kind, texts))
        self._times += times
        self.position += len(times)
        self.stored += 1
        if row.time0:
            self.has_times = True
        return True

    def _add_delta(self, key: tuple[Any, ...], text: str, time: int) -> None:
        self._run(key).append(text)
        self._times.append(time)
        self.position += 1
        self.stored += 1
        if time:
            self.has_times = True

    def _run(self, key: tuple[Any, ...]) -> list[str]:
        """The texts of the run with this key, to which one will be added: the open one, or a new one."""
        if self._key == key and len(self._texts) < MOST_MEMBERS:
            return self._texts
        kind, turn, step, *_ = key
        if self._place != (turn, step) or len(self._times) >= MOST_MEMBERS:
            self._open((turn, step))
        self._key, self._texts = key, []
        self._runs.append(Run(len(self._times), kind, self._texts))
        return self._texts

    def _open(self, place: tuple[int, int]) -> list[int]:
        """Begin a stretch: its times."""
        if self._place is not None:
            self._close()
        self._place, self._seq0 = place, self.position
        return self._times

    def _close(self, finish: JsonObject | None = None) -> None:
        if self._place is None:
            return
        self.rows.append(Stretch(*self._place, self._seq0, self._times, self._runs, self._usages, finish))
        self._place = self._key = None
        self._times, self._runs, self._usages = [], [], []
