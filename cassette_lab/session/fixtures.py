r"""A session log of format 0 as a replay fixture: strict, where the reader of real logs is tolerant.

Lines end with ``\r?\n``, blank ones count for nothing, the first other one is the header. Any line that cannot be read
is an error, a torn last one too. Rows and events that lack their place in the log are given one.

Source: session logs, Stream replay (parse) and Packed chunk rows.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import orjson

from cassette_lab.errors import FormatError
from cassette_lab.jsonio import JsonObject, JsonSyntaxError, parse
from cassette_lab.jsonio.text import is_blank
from cassette_lab.session.chunks import KIND_OF_ROW, RowError, unpack_row
from cassette_lab.session.model import ChunkRun
from cassette_lab.session.quick import DELTA_START, PACKED_STARTS, DeltaRow, NotQuick, decode_delta, packed_run

StoredRow: TypeAlias = JsonObject | ChunkRun | DeltaRow
"""A row of a fixture: an event as plain JSON, a packed run, or an event that is one delta of a run."""


@dataclass(frozen=True, slots=True)
class ScriptHeader:
    """What replay needs of a header: members that are missing or of another type are ``""`` and 0.

    ``created_at`` is in epoch milliseconds; ``seed_length`` counts the events that a fork inherited.
    """

    id: str = ""
    created_at: float = 0
    seed_length: float = 0
    version: float = 0


def parse_session_header(source: str | bytes, *, path: str | Path | None = None) -> ScriptHeader:
    """The header of a fixture: its first line that is not blank. An empty fixture has an empty header.

    Raises ``FormatError`` with the code ``JSON_SYNTAX`` if the line is no JSON, ``TYPE_ERROR`` if it is ``null``.
    """
    for number, line in _lines(source):
        if _is_blank(line):
            continue
        try:
            header = parse(line)
        except JsonSyntaxError as error:
            raise FormatError(f"the header is no JSON: {error}", code="JSON_SYNTAX", path=path, line=number) from None
        if header is None:
            raise FormatError("the header is null, not an object", code="TYPE_ERROR", path=path, line=number)
        if not isinstance(header, dict):
            header = {}
        name = header.get("id")
        return ScriptHeader(
            name if isinstance(name, str) else "",
            *(_number(header.get(member)) for member in ("createdAt", "seedLength", "version")),
        )
    return ScriptHeader()


def parse_session_log(source: str | bytes, *, path: str | Path | None = None) -> list[JsonObject]:
    """Every event of a fixture in order, packed rows expanded, as plain JSON.

    An event without ``seq`` gets the number of events before it, one without ``time`` 0. Raises ``FormatError`` (file and
    line; code ``BAD_JSON_LINE``, ``LINE_NOT_OBJECT`` or ``MALFORMED_ROW``).
    """
    events: list[JsonObject] = []
    for row in stored_rows(source, path=path, exact=True):
        if isinstance(row, ChunkRun):
            events.extend(event.to_json() for event in row.events())
        elif isinstance(row, dict):
            events.append(row)
    return events


def stored_rows(source: str | bytes, *, path: str | Path | None = None, exact: bool = False) -> Iterator[StoredRow]:
    """The rows behind the header: events as plain JSON, packed rows as runs. Raises as ``parse_session_log``.

    Unless it is to be ``exact``, integers beyond 2**53 - 1 keep their digits, which JavaScript would round, events that lack
    seq or time are left so, and deltas are given as ``DeltaRow``.
    """
    read: Callable[[str | bytes], Any] = parse if exact else orjson.loads
    lines = _lines(source)
    for _, line in lines:
        if not _is_blank(line):
            break
    seq = 0
    for number, line in lines:
        quick: DeltaRow | ChunkRun | None = None
        if not exact and isinstance(line, bytes):
            if line.startswith(DELTA_START):
                try:
                    quick = decode_delta(line)
                except NotQuick:
                    pass
                else:
                    seq += 1
            elif line.startswith(PACKED_STARTS) and (quick := packed_run(line)) is not None:
                seq += len(quick.texts)
        if quick is not None:
            yield quick
            continue
        try:
            record = read(line)
        except ValueError:  # no JSON, or none that the quick parser reads: blank, halves of surrogate pairs, broken UTF-8
            if _is_blank(line):
                continue
            try:
                record = parse(line)
            except JsonSyntaxError as error:
                torn = "; the last line may be torn: the option unfinished reads what is before it" if _is_torn(line) else ""
                raise FormatError(f"the line is no JSON: {error}{torn}", code="BAD_JSON_LINE", path=path, line=number) from None
        if type(record) is not dict:
            raise FormatError("the line is no JSON object", code="LINE_NOT_OBJECT", path=path, line=number)
        kind = record.get("type")
        if type(kind) is str and kind in KIND_OF_ROW:
            try:
                run = _run(record, seq)
            except RowError as error:
                raise FormatError(str(error), code="MALFORMED_ROW", path=path, line=number, field=error.field) from None
            seq += len(run.texts)
            yield run
            continue
        if exact:
            record.setdefault("seq", seq)
            record.setdefault("time", 0)
        seq += 1
        yield record


_BREAK: Final = re.compile(r"\r?\n")
_NUMBERS: Final = frozenset({int, float})


def _lines(source: str | bytes) -> Iterator[tuple[int, str | bytes]]:
    """The lines with their numbers; those of bytes keep their break, which JSON passes over."""
    return enumerate(io.BytesIO(source) if isinstance(source, bytes) else _BREAK.split(source), 1)


def _is_torn(line: str | bytes) -> bool:
    return isinstance(line, bytes) and not line.endswith(b"\n")


def _is_blank(line: str | bytes) -> bool:
    if isinstance(line, bytes):
        return line[:1] != b"{" and is_blank(line.decode("utf-8", "replace"))
    return is_blank(line)


def _number(value: Any) -> float:
    return value if type(value) in _NUMBERS else 0


def _run(record: JsonObject, seq: int) -> ChunkRun:
    """A packed row, checked in full. It may lack its place in the log; null is no place."""
    if record.setdefault("seq0", seq) is None or record.setdefault("time0", 0) is None:
        raise RowError("seq0 and time0 are whole numbers")
    return unpack_row(record, seq)
