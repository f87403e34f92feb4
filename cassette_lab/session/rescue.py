"""Keeps what can be kept of a damaged or torn session log: its longest whole prefix, as a new file.

What is kept is what a reader of the log would have been given before the damage: the header, and every row up to the first
one that is broken or does not follow. Nothing is repaired or invented; a turn that was cut stays open. Of a zstd frame that
does not decode nothing is kept, though some lines of it may look well: they may have been altered.
Source: session logs, Files and bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from cassette_lab.errors import FormatError
from cassette_lab.jsonio.text import show
from cassette_lab.looking import rescued_file
from cassette_lab.session.finding import is_store
from cassette_lab.session.frames import FrameWriter
from cassette_lab.session.lines import LogFile, LogLines
from cassette_lab.session.places import check_id, locate
from cassette_lab.session.reader import ENDS, SessionReader
from cassette_lab.words import plural

_ZSTD_ENDING: Final = ".zstd"


@dataclass(frozen=True, slots=True)
class SessionRescue:
    """What a rescue kept and left out.

    ``kept`` events of session ``session_id`` are in ``output``, on ``kept_lines`` lines behind its header. ``lost_lines`` lines
    could be told apart behind them and were left out; a zstd frame that does not decode has none that can be counted.
    ``reason`` is what is wrong there; None where nothing is.
    """

    source: str
    output: str
    session_id: str
    kept: int
    kept_lines: int
    lost_lines: int
    reason: str | None

    def to_sentence(self) -> str:
        """One sentence: what was kept, what was left out and why."""
        kept = f"{plural(self.kept, 'event')} of the session {show(self.session_id)} kept in {show(self.output)}"
        if self.reason is None:
            return f"{kept}, nothing left out"
        lost = f"{plural(self.lost_lines, 'line')} left out" if self.lost_lines else "the rest left out"
        return f"{kept}, {lost}: {self.reason}"


def rescue_session(source: str | Path, output: str | Path) -> SessionRescue:
    """Write the longest whole prefix of a session log to the new file ``output``: zstd where its name ends so, else plain text.

    ``source`` is named as for ``open_session`` and only read. Raises ``ExistingFileError`` when ``output`` is there, and
    ``FormatError`` when it cannot be written, and when ``source`` is a SQLite store or has no header that can be read: then
    there is nothing to keep.
    """
    place, there = locate(source), Path(output)
    if is_store(place.path):
        raise FormatError(
            "this is a SQLite store; only logs that are files can be rescued, restore it from a copy", path=place.path
        )
    survey = _survey(place.path, place.session_id)
    with rescued_file(there) as target:
        lost = _copy(place.path, survey.end, target, compressed=there.name.endswith(_ZSTD_ENDING))
        target.flush()
        copied = _checked_copy(there, survey)
    return SessionRescue(str(place.path), str(there), copied.session_id, copied.events, copied.rows, lost, survey.reason)


def _checked_copy(output: Path, survey: _Survey) -> _Survey:
    """What was copied: the prefix that was surveyed, also when someone wrote to the source in between."""
    copied = _survey(output)
    if copied.reason is not None or copied.session_id != survey.session_id or copied.end != survey.end:
        raise FormatError("the source changed while it was rescued; try again", path=output)
    return copied


@dataclass(frozen=True, slots=True)
class _Survey:
    """The whole prefix: how much it holds, and its end in the decoded text."""

    session_id: str
    events: int
    rows: int
    end: int
    reason: str | None


def _survey(path: Path, session_id: str | None = None) -> _Survey:
    with SessionReader(path, skim=True) as reader:
        check_id(reader.header.id, session_id, path)
        reason = None
        try:
            for _ in reader.batches():
                pass
        except FormatError as error:
            if reader.refusal is None:
                raise
            where = ", ".join(
                f"{name} {number:,}" for name, number in (("frame", error.frame), ("line", error.line)) if number is not None
            )
            reason = f"{where}: {reader.refusal}" if where else reader.refusal
        else:
            ends = [each for each in reader.problems if each.code in ENDS]
            if ends:
                what = ends[0].message.partition(";")[0]  # that the rest was kept is the answer
                reason = f"line {ends[0].line:,}: {what}" if ends[0].line else what
        end = reader.kept_end if reason is None else min(reader.kept_end, _decodable(path))
        return _Survey(reader.header.id, reader.rows.position, reader.rows.stored, end, reason)


def _decodable(path: Path) -> int:
    """How long the text of a log is before the first frame that does not decode. Raises ``FormatError`` where it is empty."""
    file = LogFile(path)
    try:
        lines = LogLines(file)
        for _ in lines.batches():
            pass
        if lines.broken is None:
            return lines.text_bytes
        if not lines.whole_text_bytes:
            raise FormatError(f"frame 1: {lines.broken}; nothing can be kept without the header", path=path)
        return lines.whole_text_bytes
    finally:
        file.close()


def _copy(source: Path, end: int, target: BinaryIO, *, compressed: bool) -> int:
    """Write the decoded text up to ``end``, and count the lines behind it that are not blank."""
    file = LogFile(source)
    lost = 0
    try:
        compressor = FrameWriter() if compressed else None
        for text, behind in _parts(LogLines(file), end):
            lost += behind
            if text:
                target.write(text if compressor is None else compressor.frame(text))
    finally:
        file.close()
    return lost


def _parts(lines: LogLines, end: int) -> Iterator[tuple[bytes, int]]:
    """The text up to ``end`` in pieces of whole lines, the header alone first; with how many lines of each are behind it."""
    at, begun = 0, False
    for batch in lines.batches():
        kept = 0
        for line in batch:
            if at + len(line) >= end:  # also within a line, where a frame ends in it
                at = end
                break
            at += len(line) + 1
            kept += 1
        text = [line + b"\n" for line in batch[:kept]]
        if text and not begun:
            begun = True
            yield text.pop(0), 0
        yield b"".join(text), sum(not lines.is_blank(line) for line in batch[kept:])
