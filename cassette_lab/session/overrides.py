"""Override documents: what the calls of the primary session do that a log cannot say.

An array of entries replaces the derived script; ``{"patches": [{"at", "entry"}]}`` puts entries in place of single calls.
Source: session logs, Stream replay (override document).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cassette_lab.contracts import CHUNK_TYPES, StreamChunk
from cassette_lab.errors import FormatError
from cassette_lab.jsonio import JsonSyntaxError, as_integer, parse
from cassette_lab.looking import read_regular
from cassette_lab.session.entries import ChunksEntry, HangEntry, ReplayEntry, ThrowEntry


@dataclass(frozen=True, slots=True)
class Override:
    """A checked document: a ``replacement`` for the whole script, or ``patches`` (call index, entry) of single calls."""

    replacement: Sequence[ReplayEntry] | None = None
    patches: Sequence[tuple[int, ReplayEntry]] = ()
    path: str | Path | None = None

    def patched(self, script: Sequence[ReplayEntry]) -> list[ReplayEntry]:
        """``script`` with the patches in it; one at its very end appends a call.

        Raises ``FormatError`` with the code ``PATCH_OUT_OF_RANGE`` or ``PATCH_DUPLICATE``.
        """
        patched = list(script)
        seen: set[int] = set()
        for number, (at, entry) in enumerate(self.patches):
            if at > len(script):
                raise FormatError(
                    f"patch {number} is for call {at}, but there are {len(script)} calls, counted from 0; "
                    f"{len(script)} itself appends one",
                    code="PATCH_OUT_OF_RANGE",
                    path=self.path,
                    field=f"patches.{number}.at",
                )
            if at in seen:
                raise FormatError(
                    f"patch {number} is for call {at}, which another patch replaces already",
                    code="PATCH_DUPLICATE",
                    path=self.path,
                    field=f"patches.{number}.at",
                )
            seen.add(at)
            patched[at : at + 1] = [entry]
        return patched


def read_override(path: str | Path) -> Override:
    """The override document in a file. Raises ``FormatError`` (code ``JSON_SYNTAX``, or as ``parse_override``)."""
    try:
        value = parse(read_regular(path))
    except JsonSyntaxError as error:
        raise FormatError(f"the override document is no JSON: {error}", code="JSON_SYNTAX", path=path) from None
    return parse_override(value, path=path)


def parse_override(value: Any, *, path: str | Path | None = None) -> Override:
    """The override that a JSON value says. Raises ``FormatError`` with the code ``OVERRIDE_INVALID`` and the field."""
    if isinstance(value, list):
        return Override([_entry(entry, path, f"{at}") for at, entry in enumerate(value)], path=path)
    if not isinstance(value, dict) or value.keys() != {"patches"} or not isinstance(value["patches"], list):
        raise _invalid('the document is neither an array of entries nor {"patches": […]}', path, None)
    patches = []
    for number, patch in enumerate(value["patches"]):
        field = f"patches.{number}"
        if not isinstance(patch, dict) or patch.keys() != {"at", "entry"}:
            raise _invalid("a patch has exactly the members at and entry", path, field)
        at = as_integer(patch["at"])
        if at is None or at < 0:
            raise _invalid("at is no whole number from 0", path, f"{field}.at")
        patches.append((at, _entry(patch["entry"], path, f"{field}.entry")))
    return Override(patches=patches, path=path)


def _entry(value: Any, path: str | Path | None, field: str) -> ReplayEntry:
    kind = value.get("kind") if isinstance(value, dict) else None
    if kind == "chunks":
        _check_members(value, {"kind", "chunks"}, path, field)
        return ChunksEntry(_chunks(value["chunks"], path, f"{field}.chunks"))
    if kind == "throw":
        _check_members(value, {"kind", "chunks", "message", "code"}, path, field)
        message, code = (_text(value[name], path, f"{field}.{name}") for name in ("message", "code"))
        return ThrowEntry(_chunks(value["chunks"], path, f"{field}.chunks"), message, code)
    if kind == "hang":
        _check_members(value, {"kind", "readyFile"} if "readyFile" in value else {"kind"}, path, field)
        return HangEntry(_text(value["readyFile"], path, f"{field}.readyFile") if "readyFile" in value else None)
    raise _invalid("an entry is an object whose kind is chunks, throw or hang", path, field)


def _check_members(value: dict[str, Any], wanted: set[str], path: str | Path | None, field: str) -> None:
    if value.keys() != wanted:
        raise _invalid(f"an entry of kind {value['kind']} has exactly the members {', '.join(sorted(wanted))}", path, field)


def _chunks(value: Any, path: str | Path | None, field: str) -> list[StreamChunk]:
    if not isinstance(value, list):
        raise _invalid("chunks is no array", path, field)
    for index, chunk in enumerate(value):
        kind = chunk.get("type") if isinstance(chunk, dict) else None
        if not isinstance(kind, str) or kind not in CHUNK_TYPES:
            raise _invalid(f"a chunk has one of the types {', '.join(sorted(CHUNK_TYPES))}", path, f"{field}.{index}")
    return value


def _text(value: Any, path: str | Path | None, field: str) -> str:
    if not isinstance(value, str) or not value:
        raise _invalid(f"{field.rpartition('.')[2]} is no string with something in it", path, field)
    return value


def _invalid(sentence: str, path: str | Path | None, field: str | None) -> FormatError:
    where = "" if field is None else f" (at {field})"
    return FormatError(f"{sentence}{where}", code="OVERRIDE_INVALID", path=path, field=field)
