"""Reads a session log of any format, raw or zstd: a header, rows that stay packed, and what is wrong with its end.

A log may have been cut by a crash at any byte: it is kept up to its last whole line and the rest is told. A row that is
broken or does not follow ends the log, too, unless a turn ended behind it: then the file is damaged and refused. One of
several in a folder: ``finding``; one that grows: ``follow``; in a database: ``sqlite``; in any form: ``opening``.
Source: session logs, Files and bytes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NoReturn, Self

from cassette_lab.errors import FormatError
from cassette_lab.jsonio.text import decode_utf8, is_blank, show
from cassette_lab.session.chunks import RowError
from cassette_lab.session.header import read_header as header_of
from cassette_lab.session.lines import LogFile, LogLines
from cassette_lab.session.model import Physical, Problem, Row, SessionHeader, SessionLog
from cassette_lab.session.rows import GapError, Rows, read_json
from cassette_lab.session.skimming import SkimmedRows

FILE_NAME: Final = re.compile(r"session(?:\.v([1-9][0-9]*))?\.jsonl(\.zstd)?")
"""What a log is called in its session's folder: format 0 has no number."""

JUST_BEGUN: Final = "JUST_BEGUN"
"""The code of the error for a log without a whole header line: its writer may be about to write it."""

ENDS: Final = ("TORN_TAIL", "BROKEN_TAIL")
"""The codes of problems that say that a log's end was left out."""
_RESTORE: Final = "restore the file from a copy"


def read_session(source: str | Path | bytes, *, path: str | None = None) -> SessionLog:
    """The whole log of a file (or of the bytes of one; ``path`` then names it), raw or zstd, by its content.

    Raises ``FormatError`` with path, line (1-based, in the decoded text), zstd frame and field, as far as there are any:
    for a file that cannot be read or has no header, and for one that is damaged before its end.
    """
    with SessionReader(source, path=path) as reader:
        rows = [row for batch in reader.batches() for row in batch]
        return reader.log(rows)


def read_header(source: str | Path | bytes, *, path: str | None = None) -> SessionHeader:
    """Only the header; what follows it is not looked at."""
    with SessionReader(source, path=path) as reader:
        return reader.header


class SessionReader:
    """The header at once, then the rows in batches, so that no log needs to be in memory as a whole. A context manager.

    After the last batch ``log`` gives everything else that ``SessionLog`` says, and ``kept_end`` the offset in the decoded
    text behind the last row that was kept. A damaged log raises there, in the end: what came before it must then be thrown
    away.

    ``skim`` keeps only what tables without bodies need: the rows are the same, their texts and ``data`` are not whole.
    ``refusal`` says why a log is damaged, once it was refused for what stands behind its header; then ``kept_end`` and
    ``rows`` say how far it was whole.
    """

    refusal: str | None = None

    def __init__(self, source: str | Path | bytes, *, path: str | None = None, skim: bool = False) -> None:
        self._file = LogFile(source, path)
        self.path = self._file.path
        self.problems: list[Problem] = []
        try:
            self._lines = LogLines(self._file)
            self.header = self._read_header()
        except BaseException:
            self._file.close()
            raise
        header = self.header
        self.rows = SkimmedRows(header.version, header.seed_length) if skim else Rows(header.version)
        self.kept_end = self._lines.end

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @property
    def physical(self) -> Physical:
        """How the file lies on disk; after the last batch."""
        return self._lines.physical

    @property
    def position(self) -> tuple[int, int]:
        """How many bytes of the file have been read, and how many it has."""
        return self._lines.position, self._file.size

    def batches(self) -> Iterator[list[Row]]:
        """The rows in order, some at a time. Raises ``FormatError`` for a damaged log."""
        rows, lines = self.rows, self._lines
        try:
            for batch in lines.batches():
                try:
                    rows.add_lines(batch, lines.is_blank)
                except RowError:
                    *kept, broken = batch[: len(batch) - rows.unread]
                    lines.give_back(batch[len(batch) - rows.unread :])
                    self._keep(kept, lines.end - len(broken) - 1)
                    raise
                self._keep(batch, lines.end)
                yield rows.take()
        except RowError as error:
            self._end_at(error)
        else:
            self._end()
        rows.close()
        yield rows.take()

    def _keep(self, batch: list[bytes], end: int) -> None:
        """The rows of these lines, which end at ``end`` in the text, are kept; blank lines behind them do not count."""
        for line in reversed(batch):
            if line[:1] == b"{" or not is_blank(decode_utf8(line)):
                self.kept_end = end
                return
            end -= len(line) + 1

    def log(self, rows: list[Row]) -> SessionLog:
        """The log, with the rows that ``batches`` gave."""
        state, physical = self.rows, self.physical
        if not any(problem.code in ENDS for problem in self.problems):
            torn_bytes = 0  # blank lines behind the last row are none that is missing
        elif physical.encoding == "zstd":
            torn_bytes = physical.torn_frame_bytes or (physical.text_bytes or 0) - self.kept_end
        else:
            torn_bytes = physical.size_bytes - self.kept_end
        return finish_log(self.header, rows, state, physical, path=self.path, problems=self.problems, torn_bytes=torn_bytes)

    def _read_header(self) -> SessionHeader:
        lines = self._lines
        line = self._first_line()
        if line is None:
            if not self._file.size:
                message = "the file is empty: the session has just begun, or its first write was lost"
                raise FormatError(message + self._older(), path=self.path, code=JUST_BEGUN)
            if lines.broken is not None:
                self._refuse(f"{lines.broken}, and nothing before it is a header; {_RESTORE}", line=None)
            message = "the file has no whole first line: the session has just begun, or was cut off in its header"
            raise FormatError(message + self._older(), path=self.path, code=JUST_BEGUN)
        try:
            header = header_of(read_json(line))
        except RowError as error:
            if not lines.is_zstd and self.path is not None and self.path.endswith(".zstd"):
                self._refuse("the file is named as zstd and begins with no zstd frame; is this a session log?", line=None)
            self._refuse(f"{error}; is this a session log?", line=lines.number, field=error.field)
        named = FILE_NAME.fullmatch(Path(self.path).name) if self.path else None
        if named is not None and int(named[1] or 0) != header.version:
            message = f"the file is named as format {int(named[1] or 0)} and its header says {header.version}, which was read"
            self.problems.append(Problem("OTHER_FORMAT", message, line=lines.number))
        return header

    def _first_line(self) -> bytes | None:
        for batch in self._lines.batches():
            for number, line in enumerate(batch, 1):
                if not self._lines.is_blank(line):
                    self._lines.give_back(batch[number:])
                    return line
        return None

    def _end(self) -> None:
        """The last whole line was reached: tell what stands behind it."""
        lines = self._lines
        broken = lines.broken
        if broken is not None and ends_a_turn(lines.behind_the_break()):
            self.refusal = str(broken)
            self._refuse(f"{broken}, and a turn ended behind it: the file is damaged; {_RESTORE}", line=None)
        physical = lines.physical
        if broken is None and physical.torn_frame_bytes and ends_a_turn(lines.behind_the_break()):
            self.refusal = "the zstd frame is cut short"
            self._refuse(f"the zstd frame is cut short, and a turn ended behind it: the file is damaged; {_RESTORE}", line=None)
        left = physical.torn_frame_bytes or physical.torn_line_bytes
        if left:
            what = f"{broken}; it" if broken else "the last zstd frame" if physical.torn_frame_bytes else "the last line"
            message = f"{what} is not whole ({left:,} bytes); everything before it was kept"
            frame = lines.frame if physical.torn_frame_bytes else None
            line = None if physical.torn_frame_bytes else lines.number + 1
            self._end_problem("TORN_TAIL", message, line, frame)

    def _end_at(self, error: RowError) -> None:
        """The last line read is no row: the file is damaged if a turn ended behind it, else its end is left out."""
        lines = self._lines
        number, frame, rest = lines.number, lines.frame, iter(lines)
        itself = isinstance(error, GapError) and error.kind == "turn/end"
        if itself or ends_a_turn(rest) or ends_a_turn(lines.behind_the_break()):
            self.refusal = str(error)
            where = "the row ends a turn" if itself else "a turn ended behind it"
            self._refuse(f"{error}, and {where}: the file is damaged; {_RESTORE}", line=number, frame=frame, field=error.field)
        for _ in rest:  # what is left still counts in the physical facts
            pass
        message = f"{error}; no turn ended behind it, so the log was kept up to the line before"
        self._end_problem("BROKEN_TAIL", message, number, frame)

    def _end_problem(self, code: str, message: str, line: int | None, frame: int | None) -> None:
        self.problems.append(Problem(code, message, line=line, frame=frame))
        if older := self._older():
            self.problems.append(Problem("OLDER_GENERATION", older.removeprefix("; ")))

    def _older(self) -> str:
        """That an older generation of the session lies beside a log that is not whole; empty where none does."""
        older = None if self.path is None else _older_beside(Path(self.path))
        return f"; {show(older)} beside it is an older generation of the session, which was left alone" if older else ""

    def _refuse(self, sentence: str, *, line: int | None, frame: int | None = None, field: str | None = None) -> NoReturn:
        frame = self._lines.frame if frame is None else frame
        sentence += self._older()
        refusal = FormatError(
            sentence if frame is None else f"frame {frame}: {sentence}", path=self.path, line=line, field=field
        )
        refusal.frame = frame
        raise refusal from None


def finish_log(
    header: SessionHeader,
    rows: list[Row],
    state: Rows,
    physical: Physical,
    *,
    path: str | None,
    problems: Iterable[Problem] = (),
    torn_bytes: int = 0,
) -> SessionLog:
    """A log of rows that were read, with its boundary found and its unknown types told."""
    told = list(problems)
    boundary = _boundary(header, state, told)
    for kind, count in state.unknown.items():
        shown = kind if len(kind) <= _SHOWN_CHARACTERS else f"{kind[:_SHOWN_CHARACTERS]}…"
        message = f"format {header.version} has no events of type {shown!r} ({count:,} of them); they were kept as they are"
        told.append(Problem("UNKNOWN_TYPE", message))
    return SessionLog(
        header=header,
        rows=rows,
        physical=physical,
        event_count=state.position,
        row_count=state.stored,
        boundary=boundary,
        path=path,
        problems=told,
        torn_bytes=torn_bytes,
        missing_seqs=state.missing_seqs,
        missing_times=state.missing_times,
        has_times=state.has_times,
        unknown_types=dict(state.unknown),
    )


_SHOWN_CHARACTERS: Final = 60


def _older_beside(path: Path) -> str | None:
    """The name of the newest generation of a session that is older than this one and lies beside it."""
    named = FILE_NAME.fullmatch(path.name)
    if named is None:
        return None
    try:
        beside = [match for name in os.listdir(path.parent) if (match := FILE_NAME.fullmatch(name))]  # noqa: PTH208 - names
    except OSError:
        return None
    generation = int(named[1] or 0)
    older = [(int(match[1] or 0), match[0]) for match in beside if int(match[1] or 0) < generation]
    return max(older, default=(0, None))[1]


def _boundary(header: SessionHeader, state: Rows, problems: list[Problem]) -> int:
    """The seq of the first event that a fork did not inherit; the number of events where all are inherited.

    Formats 0 and 1 count the inherited events in the header. Later ones mark their end: the last marker counts, for an
    inherited prefix may hold the markers of its own ancestors.
    """
    if header.version < 2:
        length = header.seed_length or 0
        if length > state.position:
            message = f"the header says that {length:,} events are inherited, and only {state.position:,} are there"
            problems.append(Problem("OPEN_PREFIX", message))
        return min(length, state.position)
    if not header.is_seeded:
        return 0
    if state.last_marker is None:
        message = "the log begins with inherited events, and no session/end-seed says where they end: none is its own"
        problems.append(Problem("OPEN_PREFIX", message))
        return state.position
    return state.last_marker


def ends_a_turn(lines: Iterable[bytes]) -> bool:
    """Whether one of the lines decodes to a ``turn/end``."""
    for line in lines:
        if b"turn" not in line and b"\\" not in line:
            continue
        try:
            value = read_json(line)
        except RowError:
            continue
        if type(value) is dict and value.get("type") == "turn/end":
            return True
    return False
