"""Flight records from files, verified: snapshots (``.flight.json``, saved here, too) and logs of ``FlightRecorder.persist``.

What breaks the format raises ``FormatError`` with file, line and field. The last line of a log may be torn: it was being
written.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from cassette_lab.errors import FormatError, MissingFileError
from cassette_lab.flight.members import MemberError, extra_from_json, outcome_from_json, record_from_json, snapshot_from_json
from cassette_lab.flight.model import FlightRecord, Snapshot
from cassette_lab.flight.persist import FORMAT, VERSION, rotated
from cassette_lab.flight.quick import Common
from cassette_lab.jsonio import DuplicateMemberError, JsonSyntaxError, parse
from cassette_lab.jsonio.text import is_blank, pretty
from cassette_lab.looking import write_whole


@dataclass(frozen=True, slots=True)
class Flights:
    """The records of a file, the newest first; ``snapshot`` is the whole of a saved one. ``torn_bytes``: of a last line."""

    records: tuple[FlightRecord, ...]
    auxiliary: tuple[FlightRecord, ...] = ()
    snapshot: Snapshot | None = None
    torn_bytes: int = 0


def read_flights(path: str | Path) -> Flights:
    """The records of one file of either kind."""
    data = _read(Path(path))
    if is_log(data):
        return _log([(Path(path), data)])
    snapshot = _snapshot(data, path)
    return Flights(snapshot.records, snapshot.auxiliary, snapshot)


def read_snapshot(path: str | Path) -> Snapshot:
    """A saved snapshot."""
    return _snapshot(_read(Path(path)), path)


def read_log(path: str | Path, *, rotated_too: bool = True) -> Flights:
    """The records of a log, those of its full files first. A record is told once, by its last line.

    The log may be written, and its files renamed, meanwhile.
    """
    path = Path(path)
    if not rotated_too:
        return _log([(path, _read(path))])
    files: list[tuple[Path, bytes]] = []
    for _ in range(_MOST_TRIES):
        before = _inode(path)
        files = _files(path) or files
        if files and _inode(path) == before:  # none was renamed meanwhile
            break
    return _log(files or [(path, _read(path))])


def save_snapshot(snapshot: Snapshot, path: str | Path) -> None:
    """Write a snapshot, what goes beyond protocol 1 as ``extensions``. A file is replaced at once or not at all."""
    write_whole(Path(path), f"{pretty(snapshot.to_json(extended=True))}\n".encode())


def is_log(data: bytes) -> bool:
    """Whether a file begins as a log does (a snapshot is one object)."""
    return data.lstrip()[:120].partition(b"\n")[0].rstrip() == f'{{"format":"{FORMAT}","version":{VERSION}}}'.encode()


def _files(path: Path) -> list[tuple[Path, bytes]]:
    """A log and its full files, the oldest first.

    They are read the other way round: a file only ever gets an older name, so that one may be met twice, but none is missed
    for being renamed once.
    """
    newest: dict[int, tuple[Path, bytes]] = {}
    number = free = 0
    while free <= _MOST_FREE:
        file = rotated(path, number)
        try:
            inode, data = _opened(file)
            newest.setdefault(inode, (file, data))
            free = 0
        except MissingFileError:
            free += 1
        number += 1
    return list(reversed(newest.values()))


_MOST_FREE: Final = 2
"""How many names in a row may be free for a moment, while files are renamed."""

_MOST_TRIES: Final = 10


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None


def _read(path: Path) -> bytes:
    return _opened(path)[1]


def _opened(path: Path) -> tuple[int, bytes]:
    """Which file a name leads to, and what is in it."""
    try:
        with path.open("rb") as file:
            return os.fstat(file.fileno()).st_ino, file.read()
    except FileNotFoundError:
        raise MissingFileError("there is no such file", path=path) from None
    except OSError as error:
        raise FormatError(f"it cannot be read ({error.strerror or error})", path=path) from error


def _snapshot(data: bytes, path: str | Path) -> Snapshot:
    value = _parsed(data, path)
    try:
        return snapshot_from_json(value)
    except MemberError as error:
        raise FormatError(f"this is no flight snapshot: {error}", path=path, field=error.field) from None


def _log(files: list[tuple[Path, bytes]]) -> Flights:
    records: dict[str, FlightRecord] = {}
    common: Common = {}
    torn = 0
    for path, data in files:
        end = data.rfind(b"\n") + 1
        torn = len(data) - end
        for number, line in _lines(data[:end]):
            try:
                _apply(_parsed_line(line, path, number), records, common)
            except MemberError as error:
                raise FormatError(
                    f"this is no line of a flight log: {error}", path=path, line=number, field=error.field
                ) from None
    newest = list(reversed(records.values()))
    return Flights(
        tuple(record for record in newest if not record.extra.auxiliary),
        tuple(record for record in newest if record.extra.auxiliary),
        torn_bytes=torn,
    )


def _lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(data.split(b"\n")[:-1], 1):
        if number > 1 and not is_blank(line.decode("utf-8", "replace")):
            yield number, line


def _apply(line: Any, records: dict[str, FlightRecord], common: Common) -> None:
    if not isinstance(line, dict):
        raise MemberError("", "must be an object")
    if "record" in line:
        record = record_from_json(line["record"], line.get("extra"), field="record", common=common)
        records[record.id] = record
    elif "settled" in line:
        settled = records.get(line["settled"]) if isinstance(line["settled"], str) else None
        outcome, extra = outcome_from_json(line.get("outcome")), extra_from_json(line.get("extra", {}))
        if settled is not None:
            records[settled.id] = settled.settled(outcome, extra)
    else:
        raise MemberError("", "must have a record, or say which is settled")


def _parsed(data: bytes, path: str | Path, line: int | None = None) -> Any:
    try:
        return parse(data, duplicates=False)
    except (JsonSyntaxError, DuplicateMemberError) as error:
        raise FormatError(f"this is no JSON: {error}", path=path, line=line) from None


def _parsed_line(data: bytes, path: Path, number: int) -> Any:
    """The same for a line; as a rule it has nothing that two parsers could see in two ways, and no member twice."""
    if data.isascii():
        try:
            value = orjson.loads(data)
        except orjson.JSONDecodeError:
            return _parsed(data, path, number)
        if len(orjson.dumps(value)) == len(data):
            return value
    return _parsed(data, path, number)
