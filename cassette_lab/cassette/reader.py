"""Reads a cassette: bytes in, verified facts out, or one ``FormatError`` that names the place and the way out.

Nothing is handed out before it is verified. The checks run in the format's order; for each line: JSON, duplicate
members, schema, ``previousHash``, hash, storage arm, repeated sequence, call key or occurrence; after the last line:
gaps. An ordinary line takes a quick way (orjson, and the proof that the line is canonical already), every other one the
exact way, which alone may reject.

Source: cassette format 1, File, Canonical JSON, Header and Interaction.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Self

import orjson

from cassette_lab.cassette.checks import FileChecks
from cassette_lab.cassette.model import Cassette, Header, Interaction, RequestStorage
from cassette_lab.cassette.schema import RecordError, check_header, check_interaction, check_storage, shorten
from cassette_lab.cassette.source import Source
from cassette_lab.errors import FormatError
from cassette_lab.jsonio import (
    CanonicalError,
    DuplicateMemberError,
    JsonObject,
    JsonSyntaxError,
    canonical,
    digest_bytes,
    parse,
)
from cassette_lab.jsonio.canonical import orjson_agrees
from cassette_lab.jsonio.text import decode_utf8, is_blank, show

_RESCUE: Final = "keep the file's verified start with `cassette-lab rescue`"
_RESTORE: Final = "restore the file or keep its verified start with `cassette-lab rescue`"
_WAIT: Final = "if it is not being recorded, keep the file's verified start with `cassette-lab rescue`"
_NO_HEADER: Final = "restore the file, or check that it is a cassette: without its header nothing can be kept"


def read_cassette(source: str | Path | bytes, *, path: str | Path | None = None) -> Cassette:
    """The whole verified cassette of a file (or of the bytes of one; ``path`` then names it in errors).

    Raises ``FormatError`` with path, physical ``line``, ``record`` (the number among lines that are not blank) and
    ``field``, as far as there are any.
    """
    with CassetteReader(source, path=path) as reader:
        interactions = tuple(reader)
        return Cassette(reader.header, interactions, reader.path, reader.size_bytes, reader.file_sha256)


def read_header(source: str | Path | bytes, *, path: str | Path | None = None) -> Header:
    """Only the verified header; what follows it is not looked at."""
    with CassetteReader(source, path=path) as reader:
        return reader.header


class CassetteReader:
    """Verified interactions one by one; the header at once.

    Iterating to the end proves the whole file (the gaps, and that it did not change meanwhile); whoever stops earlier has
    a verified start. ``size_bytes`` and ``file_sha256`` are then those of the file. ``record`` is the number of the last
    record looked at, ``refusal`` what was wrong with it, ``checks`` the numbers seen so far. A context manager.
    """

    def __init__(self, source: str | Path | bytes, *, path: str | Path | None = None) -> None:
        self.checks = FileChecks()
        self.record = 0
        self.refusal: str | None = None
        self._source = Source(source, path=path)
        self.path = self._source.path
        try:
            self._lines = self._records()
            line, data = self._first()
            try:
                self.header = exact_header(data)
            except RecordError as error:
                raise self._refusal(error, line) from None
        except BaseException:
            self._source.close()
            raise
        self.previous_hash = self.header.hash

    @property
    def size_bytes(self) -> int:
        """Bytes read so far; after the last interaction the file's size."""
        return self._source.size_bytes

    @property
    def file_sha256(self) -> str:
        """Digest of the bytes read so far; after the last interaction the file's."""
        return self._source.sha256

    @property
    def lines(self) -> int:
        """Physical lines read so far, blank ones too."""
        return self._source.lines

    @property
    def record_end(self) -> int:
        """Byte offset behind the last record read, its line break included."""
        return self._source.line_end

    @property
    def ends_with_newline(self) -> bool:
        """Whether the last byte read is a line feed."""
        return self._source.ends_with_newline

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._source.close()

    def __iter__(self) -> Iterator[Interaction]:
        """The interactions in physical order, then the checks of the whole file."""
        yield from self.interactions()
        try:
            self.checks.finish()
        except RecordError as error:
            raise self._refusal(error, None) from None

    def interactions(self) -> Iterator[Interaction]:
        """The interactions in physical order, each verified; gaps are not looked for at the end."""
        storage = self.header.request_storage
        add = self.checks.add
        for line, data in self._lines:
            try:
                interaction = read_interaction(data, storage, self.previous_hash, line)
                add(interaction.sequence, interaction.call_key, interaction.group, interaction.occurrence)
            except RecordError as error:
                raise self._refusal(error, line) from None
            self.previous_hash = interaction.hash
            yield interaction

    def rest(self) -> Iterator[int]:
        """Physical lines of the records that were not read yet, unverified."""
        return (line for line, _ in self._lines)

    def _records(self) -> Iterator[tuple[int, bytes]]:
        """The lines that are not blank, with their physical numbers."""
        for line, data in self._source:
            # Only a line that does not start like a record can be blank.
            if not data.startswith(b"{") and is_blank(decode_utf8(data)):
                continue
            self.record += 1
            yield line, data

    def _first(self) -> tuple[int, bytes]:
        first = next(self._lines, None)
        if first is None:
            self._source.refuse("the file holds no record, not even a header; it is no cassette, or its recording never began")
        return first

    def _refusal(self, error: RecordError, line: int | None) -> FormatError:
        way_out = error.way_out or _RESCUE
        if self.record == 1 and line is not None and way_out in (_RESCUE, _RESTORE, _WAIT):
            way_out = _NO_HEADER
        refusal = FormatError(f"{error.message}; {way_out}", path=self.path, line=line, field=error.field)
        self.refusal = error.message
        refusal.record = None if line is None else self.record
        return refusal


def read_interaction(
    line: bytes, request_storage: RequestStorage, previous_hash: str | None = None, number: int | None = None
) -> Interaction:
    """One verified line of a cassette: quick where it is an ordinary one, else as ``exact_interaction``."""
    members = _quick_members(line)
    if members is None:
        return exact_interaction(line, request_storage, previous_hash, number)
    try:
        check_interaction(members, request_storage)
    except RecordError:
        return exact_interaction(line, request_storage, previous_hash, number)
    if previous_hash is not None and members["previousHash"] != previous_hash:
        return exact_interaction(line, request_storage, previous_hash, number)
    return Interaction.from_json(members, line=number)


def exact_interaction(
    line: bytes, request_storage: RequestStorage, previous_hash: str | None = None, number: int | None = None
) -> Interaction:
    """One line of a cassette, checked exactly and in the format's order; the last tier of every quick reader.

    Without ``previous_hash`` the chain is left to the caller. ``number`` is the physical line, kept in the result.
    Raises ``RecordError``.
    """
    members = parse_record(line)
    check_interaction(members)
    if previous_hash is not None and members["previousHash"] != previous_hash:
        raise RecordError(
            "previousHash", "previousHash is not the hash of the record before: a record was removed, added or moved", _RESTORE
        )
    _check_hash(members)
    check_storage(members["request"]["storage"], request_storage)
    return Interaction.from_json(members, line=number)


def exact_header(line: bytes) -> Header:
    """The first line of a cassette, checked exactly and in the format's order. Raises ``RecordError``."""
    members = parse_record(line)
    check_header(members)
    _check_hash(members)
    return Header.from_json(members)


def parse_record(line: bytes) -> Any:
    """The JSON of one line, duplicate members refused. Raises ``RecordError``."""
    try:
        return parse(decode_utf8(line), duplicates=False)
    except JsonSyntaxError as error:
        raise _not_json(line, error.position) from None
    except DuplicateMemberError as error:
        name = show(shorten(error.name, 60))
        raise RecordError(name, f'the member "{name}" appears twice in one object', _RESTORE) from None


def _quick_members(line: bytes) -> JsonObject | None:
    """The members of a line whose bytes are canonical and whose hash is right; None where that is not proven."""
    start = line.find(_HASH_MEMBER)
    if start < 0:
        return None
    try:
        members = orjson.loads(line)
        # Equal bytes prove sorted unique members; orjson_agrees, that its spelling is ECMAScript's.
        if orjson.dumps(members, option=orjson.OPT_SORT_KEYS) != line or not orjson_agrees(members, 100, 100_000):
            return None
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return None
    # Behind callKey, so the first place with these bytes: inside its text the quotes would be escaped.
    end = start + _HASH_MEMBER_BYTES
    sha256 = hashlib.sha256(line[:start])
    sha256.update(line[end:])
    if type(members) is not dict or members.get("hash") != f"sha256:{sha256.hexdigest()}":
        return None
    return members


_HASH_MEMBER: Final = b',"hash":"sha256:'
_HASH_MEMBER_BYTES: Final = len(_HASH_MEMBER) + 64 + 1


def _check_hash(members: JsonObject) -> None:
    rest = {name: value for name, value in members.items() if name != "hash"}
    try:
        text = canonical(rest)
    except CanonicalError as error:
        raise RecordError(None, f"{error}, which a cassette cannot keep", _RESTORE) from None
    if digest_bytes(text) != members["hash"]:
        raise RecordError("hash", "the record was changed after it was written (hash differs)", _RESTORE)


def _not_json(line: bytes, position: int | None) -> RecordError:
    """Why a line is not JSON: what it probably is instead."""
    for magic, what, way_out in _MAGICS:
        if line.startswith(magic):
            return RecordError(None, what, way_out)
    where = "" if position is None else f" at character {position + 1}"
    if b"\0" in line:
        return RecordError(None, f"the line holds NUL bytes, as files do after a crash (not JSON{where})", _RESCUE)
    if line.startswith(b"{") and not line.rstrip().endswith(b"}"):
        return RecordError(None, f"the record is cut off (not JSON{where})", _WAIT)
    return RecordError(None, f"the line is not JSON{where}")


_MAGICS: Final = (
    (b"\x1f\x8b", "the file is compressed (gzip)", "decompress it first"),
    (
        b"\x28\xb5\x2f\xfd",
        "the file is compressed (zstd)",
        "decompress it first (session logs: `cassette-lab session`)",
    ),
    (b"\xef\xbb\xbf", "a byte order mark stands in front of the record", "save the file as UTF-8 without one"),
    (b"\xff\xfe", "this is UTF-16 text", "save the file as UTF-8"),
    (b"\xfe\xff", "this is UTF-16 text", "save the file as UTF-8"),
)
