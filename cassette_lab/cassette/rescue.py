"""Keeps what can be kept of a torn or changed cassette: its longest verified prefix, as a new file.

A prefix is kept as it stands, byte for byte, and must be a whole cassette by every rule of the format. So a file that
was killed in the middle may lose verified calls at its end: those admitted after a call that never ended leave a gap.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from cassette_lab.cassette.checks import FileChecks
from cassette_lab.cassette.lock import WriterLock
from cassette_lab.cassette.reader import CassetteReader
from cassette_lab.cassette.schema import RecordError
from cassette_lab.cassette.source import blocks_of
from cassette_lab.cassette.writer import prepare_target
from cassette_lab.errors import FormatError
from cassette_lab.jsonio.text import show
from cassette_lab.looking import rescued_file


@dataclass(frozen=True, slots=True)
class LostLines:
    """Neighbouring physical lines, ``first`` to ``last``, that were not kept; ``records`` of them are not blank."""

    first: int
    last: int
    records: int
    reason: str

    def to_sentence(self) -> str:
        """For a person."""
        where = f"line {self.first}" if self.first == self.last else f"lines {self.first} to {self.last}"
        return f"{where}: {self.reason}"


@dataclass(frozen=True, slots=True)
class RescueReport:
    """What a rescue kept and lost.

    ``kept`` calls, on ``kept_lines`` physical lines, are in ``output``; ``lost`` tells of every record that is not, and
    why. ``reason`` is what is wrong with ``source``; None where nothing is.
    """

    source: str
    output: str
    kept: int
    kept_lines: int
    lost: tuple[LostLines, ...]
    reason: str | None

    @property
    def lost_records(self) -> int:
        """How many records were not kept, whole or torn."""
        return sum(lines.records for lines in self.lost)

    def to_sentence(self) -> str:
        """One sentence: what was kept, what was lost and why."""
        kept = f"{_count(self.kept, 'call')} kept in {show(self.output)}"
        if not self.lost:
            return f"{kept}, nothing lost"
        return f"{kept}, {_count(self.lost_records, 'record')} lost: " + "; ".join(each.to_sentence() for each in self.lost)


def rescue(source: str | os.PathLike[str], output: str | os.PathLike[str]) -> RescueReport:
    """Write the longest verified prefix of the cassette ``source`` to the new file ``output``.

    The prefix ends behind the last record up to which every check passes and no sequence or occurrence is left out;
    a missing line break is added. ``source`` is only read. Raises ``FormatError`` when ``output`` is there already or
    cannot be written, and when ``source`` cannot be read or its header is broken: then there is nothing to keep.
    """
    here, there = Path(source), Path(output)
    found = _survey(here)
    prepare_target(there)
    lock = WriterLock(there)
    try:
        _copy(here, there, found)
    finally:
        lock.release()
    return RescueReport(str(here), str(there), found.kept, found.kept_lines, tuple(found.lost), found.reason)


@dataclass(slots=True)
class _Prefix:
    """Where the prefix ends (calls, physical line, byte), and what stands behind it."""

    kept: int
    kept_lines: int
    end: int
    lost: list[LostLines] = field(default_factory=list)
    reason: str | None = None


def _survey(source: Path) -> _Prefix:
    with CassetteReader(source) as reader:
        prefix = _Prefix(0, reader.lines, reader.record_end)
        beyond: list[int] = []  # lines of calls that verify, behind a gap that is still open
        broken = None
        try:
            for interaction in reader.interactions():
                if reader.checks.complete:
                    prefix = _Prefix(reader.checks.count, reader.lines, reader.record_end)
                    beyond.clear()
                else:
                    beyond.append(reader.lines)
                del interaction  # only its place counts, and it may be large
        except FormatError as error:
            if error.line is None:
                raise
            broken, reason = error.line, reader.refusal or error.message
        behind = list(reader.rest())
        if beyond:
            prefix.reason = _gap(reader.checks)
            prefix.lost.append(LostLines(beyond[0], beyond[-1], len(beyond), f"whole, but {prefix.reason}"))
        if broken is not None:
            prefix.reason = reason
            prefix.lost.append(LostLines(broken, broken, 1, reason))
        if behind:
            prefix.lost.append(LostLines(behind[0], behind[-1], len(behind), "behind the break, where nothing can be proven"))
    return prefix


def _gap(checks: FileChecks) -> str:
    try:
        checks.finish()
    except RecordError as error:
        return error.message
    raise AssertionError("only asked where there is a gap")


def _copy(source: Path, output: Path, prefix: _Prefix) -> None:
    with rescued_file(output) as target:
        last = b""
        for block in blocks_of(source, prefix.end):
            target.write(block)
            last = block
        if not last.endswith(b"\n"):
            target.write(b"\n")
        target.flush()
        _verify(output, prefix)


def _verify(output: Path, prefix: _Prefix) -> None:
    """What was copied is what was surveyed, also when someone wrote to the source in between."""
    with CassetteReader(output) as reader:
        count = sum(1 for _ in reader)
    if count != prefix.kept:
        raise FormatError("the source changed while it was rescued; try again", path=output)


def _count(number: int, name: str) -> str:
    return f"{number} {name}" if number == 1 else f"{number} {name}s"
