"""One line of a session log at a time: JSON in, rows out, each checked and in its place.

Seqs must be 0, 1, 2, …: a row that does not follow is as broken as one that does not parse. Test fixtures lack seqs and
times; position and 0 stand in. Source: session logs, Event envelope.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from operator import length_hint
from typing import Any, Final

import orjson

from cassette_lab.jsonio import JsonObject, JsonSyntaxError, as_integer, parse
from cassette_lab.session.chunks import (
    RowError,
    RunFolder,
    as_number,
    delta_key,
    is_number,
    is_packed_row,
    read_stream,
    unpack_row,
)
from cassette_lab.session.kinds import is_known
from cassette_lab.session.model import CHUNK_TYPE, ChunkRun, Event, Row
from cassette_lab.session.quick import DeltaRow, NotQuick, decode_row, run_of

_MOST_UNKNOWN_TYPES: Final = 100


class GapError(RowError):
    """A row that is whole and does not follow the one before it. ``kind`` is its type."""

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message, "seq")
        self.kind = kind


class Rows:
    """The rows of one log so far, built line by line in order.

    ``rows`` are finished ones; ``close`` adds the run that is still open. ``position`` is the next seq, ``stored`` counts
    lines, ``missing_seqs`` and ``missing_times`` those without them, ``unknown`` the events of types nobody knows.
    ``has_times``: one of them has a time that is not 0. ``last_marker`` is the seq of the last ``session/end-seed`` that
    ends an inherited prefix.
    """

    def __init__(self, version: int) -> None:
        self.rows: list[Any] = []
        self.position = 0
        self.stored = 0
        self.missing_seqs = 0
        self.missing_times = 0
        self.has_times = False
        self.unknown: Counter[str] = Counter()
        self.last_marker: int | None = None
        self.unread = 0
        self._version = version
        self._decode = self._decoder()
        self._folder = RunFolder()

    def add_lines(self, batch: Sequence[bytes], is_blank: Callable[[bytes], bool] = lambda _: False) -> None:
        """More lines; those that ``is_blank`` are passed by.

        Raises ``RowError``; ``unread`` lines then stand behind the one that it is about.
        """
        lines = iter(batch)
        try:
            if self._decode is None:
                for line in lines:
                    if line[:1] == b"{" or not is_blank(line):
                        self.add(read_json(line))
                return
            rows = map(self._decode, lines)
            while self._add_quick_rows(rows):
                line = batch[-1 - length_hint(lines)]
                if not is_blank(line):
                    self.add(read_json(line))
        except RowError:
            self.unread = length_hint(lines)
            raise

    def _decoder(self) -> Callable[[bytes], Any] | None:
        """What decodes the commonest rows, and raises ``NotQuick`` for all others; None where none are."""
        return decode_row if self._version < 2 else None

    def _add_quick_rows(self, rows: Iterator[Any]) -> bool:
        """Rows as they are decoded, up to the first one that must be read the exact way: whether there was one."""
        try:
            for row in rows:
                while type(row) is DeltaRow and row.seq == self.position:
                    row = self._add_deltas(row, rows)  # noqa: PLW2901 - the one behind them
                if row is None:
                    break
                run = None if type(row) is DeltaRow else run_of(row)
                if run is None or run.seq0 != self.position:
                    return True
                self._add_run(run)
        except NotQuick:
            return True
        return False

    def _add_deltas(self, row: Any, rows: Iterator[Any]) -> Any:
        """A delta, and with it all that follow in its run. Gives the first row that does not, or None at the end.

        Most lines of a log pass here, so that names are local, and what is alike in a run is looked at only once.
        """
        data = row.data
        chunk = data.chunk
        turn, step, index, call_id, name = data.turn, data.step, chunk.index, chunk.call_id, chunk.name
        key = (chunk.kind, turn, step, index, call_id, name)
        folder = self._folder
        if folder.key != key or folder.is_full:
            self.close()
            folder.open(key, row.seq)
        texts, times = folder.texts, folder.times
        add_text, add_time = texts.append, times.append
        chunk_type, is_call = type(chunk), call_id is not None
        before = len(texts)
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

    def add(self, value: Any) -> None:
        """One more row, as JSON. Raises ``RowError``."""
        if type(value) is not dict:
            raise RowError("a row is an object")
        kind = value.get("type")
        if kind == CHUNK_TYPE and self._version < 2 and self._fold(value):
            return
        if is_packed_row(kind):
            self._add_packed(value)
        else:
            self._add_event(value)

    def close(self) -> None:
        """Add the open run to ``rows``."""
        run = self._folder.close()
        if run is not None:
            self.rows.append(run)

    def take(self) -> list[Row]:
        """The finished rows, which are then no longer here."""
        rows, self.rows = self.rows, []
        return rows

    def _fold(self, value: JsonObject) -> bool:
        """Take an unpacked delta into the open run, or a new one; False where it must stand alone."""
        if len(value) != 4 or value.get("seq") != self.position or type(value["seq"]) is not int:
            return False
        time = value.get("time")
        found = delta_key(value.get("data"))
        if type(time) is not int or found is None or not -(2**53) < time < 2**53:
            return False
        self._add_delta(*found, time)
        return True

    def _add_delta(self, key: tuple[Any, ...], text: str, time: int) -> None:
        folder = self._folder
        if folder.key != key or folder.is_full:
            self.close()
            folder.open(key, self.position)
        folder.texts.append(text)
        folder.times.append(time)
        self.position += 1
        self.stored += 1
        if time:
            self.has_times = True

    def _add_packed(self, value: JsonObject) -> None:
        if self._version >= 2:
            raise RowError("from format 2 on, packed rows stand in streams", "type")
        run = unpack_row(value, self.position)
        self._check_seq(run.seq0, value["type"])
        if value.get("seq0") is None:
            self.missing_seqs += 1
        if value.get("time0") is None:
            self.missing_times += 1
        self._add_run(run)

    def _add_run(self, run: ChunkRun) -> None:
        self.close()
        self.rows.append(run)
        self.position = run.next_seq
        self.stored += 1
        if run.time0:
            self.has_times = True

    def _add_event(self, value: JsonObject) -> None:
        event = read_event(value, self.position)
        if "stream" in event.data and self._version >= 2 and event.type in _STREAMED:
            for _ in read_stream(event.data["stream"]):
                pass
        self._check_seq(event.seq, event.type)
        self._count(value.get("seq"), value.get("time"))
        self.close()
        self.rows.append(event)
        self.position += 1
        if event.type == "session/end-seed" and event.data.get("inherited") is True:
            self.last_marker = event.seq
        unknown = not event.ignorable and not is_known(event.type, self._version)
        if unknown and (event.type in self.unknown or len(self.unknown) < _MOST_UNKNOWN_TYPES):
            self.unknown[event.type] += 1

    def _check_seq(self, seq: int, kind: str) -> None:
        if seq == self.position:
            return
        if seq > self.position:
            raise GapError(f"seq {self.position} is missing: the row has seq {seq}", kind)
        raise GapError(
            f"the row has seq {seq}, which was there before; next is {self.position} (two writers may have appended)", kind
        )

    def _count(self, seq: Any, time: Any) -> None:
        self.stored += 1
        if seq is None:
            self.missing_seqs += 1
        if time is None:
            self.missing_times += 1
        elif time:
            self.has_times = True


def read_json(line: bytes) -> Any:
    """The JSON of a line; of members with one name the last counts. Raises ``RowError``."""
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:  # no JSON, or what orjson does not take: lone surrogates, depth, broken UTF-8
        try:
            return parse(line)
        except JsonSyntaxError as error:
            raise RowError(f"the line is not JSON: {error}") from None


def read_event(value: JsonObject, position: int) -> Event:
    """An event of any format; ``position`` stands in for a missing seq. Raises ``RowError``."""
    kind = value.get("type")
    if type(kind) is not str or not kind:
        raise RowError("an event needs a type", "type")
    seq = position if value.get("seq") is None else as_integer(value["seq"])
    if seq is None or seq < 0:
        raise RowError("a seq is a whole number, 0 or more", "seq")
    time = value.get("time")
    if time is None:
        time = 0
    elif type(time) is not int:
        if not is_number(time):
            raise RowError("a time is a number of milliseconds", "time")
        time = as_number(time)
    data = value.get("data")
    if data is None:
        data = {}
    elif type(data) is not dict:
        raise RowError("the data of an event is an object", "data")
    ignorable = value.get("ignorable")
    if ignorable is not None and type(ignorable) is not bool:
        raise RowError("ignorable is true or false", "ignorable")
    cited = value.get("sourceEventSeqs")
    if cited is not None and type(cited) is not list:
        raise RowError("sourceEventSeqs is an array", "sourceEventSeqs")
    return Event(kind, seq, time, data, bool(ignorable), cited, value.get("surfaceOp"))


_STREAMED: Final = frozenset({"assistant/message", "assistant/attempt"})
