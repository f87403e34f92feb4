"""``load``: files, folders and patterns in, a ``Lab`` of verified tables out."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from cassette_lab.errors import CassetteLabError, ConfigError
from cassette_lab.jsonio.text import arrow_text, show
from cassette_lab.tables.finding import Found, PathLikes, find, name_from
from cassette_lab.tables.kinds import KINDS
from cassette_lab.tables.lab import Lab
from cassette_lab.tables.schemas import PROBLEMS, TABLES, table_schema
from cassette_lab.tables.telling import Progress, Telling

OnError: TypeAlias = Literal["raise", "collect"]

_ON_ERROR: Final = ("raise", "collect")


def load(
    *paths: PathLikes,
    on_error: OnError = "raise",
    bodies: bool = False,
    workers: int = 1,
    progress: Progress | bool | None = None,
) -> Lab:
    """Load artefacts into a lab of Arrow tables; everything is verified before it gets there.

    ``paths`` are files, folders (looked into to any depth for cassettes, ``*.cassette.jsonl`` and ``*.jsonl`` that begin
    with a cassette's header, and for session logs, of which the highest generation counts; not into hidden folders) and
    patterns (``runs/**/*.cassette.jsonl``), or lists of those. Rows come in the order of the paths, a folder's by name; a
    file that is reached twice counts once.

    A file that cannot be verified to its end gives no rows. With ``on_error="raise"`` the first one raises
    ``FormatError``; with ``"collect"`` each is a row of ``lab.problems``. ``bodies`` adds what was said: to ``calls``
    ``prompt``, ``output``, ``structured`` and ``error_message``, to the tables of sessions texts, arguments and results.
    ``workers=2`` shares large files with a second process.
    ``progress(done, total, source)`` is called after each file; without one a notebook shows a bar when it takes long, with
    ``progress=True`` a terminal does, too, and with ``False`` nothing.

    Raises ``ConfigError`` for an option that cannot be used.

    >>> lab = load("runs/")  # doctest: +SKIP
    """
    if on_error not in _ON_ERROR:
        raise ConfigError(f"on_error must be {' or '.join(_ON_ERROR)}, not {show(str(on_error))}")
    if workers < 1:
        raise ConfigError("workers must be 1, or 2 for a second process")
    found, root = find(paths)
    tables = _Tables(bodies=bodies)
    logs: list[tuple[str, Path]] = []
    with Telling(found, progress=progress) as telling:
        for each in found:
            source = arrow_text(name_from(each.path, root))
            try:
                rows = _rows(each, bodies=bodies, workers=workers, collect=on_error == "collect", progress=telling.within)
                tables.add(source, rows)
                if each.kind is KINDS["session"]:
                    logs.append((source, each.path.absolute()))
            except CassetteLabError as error:
                if on_error == "raise":
                    raise
                tables.add(source, [("problems", _problem(error))])
            telling.after(source)
    return Lab(root, tables.finish(), logs, bodies=bodies)


def _rows(found: Found, **options: Any) -> list[tuple[str, pa.RecordBatch]]:
    """All rows of a file, or its error: never some of them."""
    if found.kind is None:
        assert found.problem is not None, "a path gives a file or a problem"  # noqa: S101
        raise found.problem
    return list(found.kind.build(found.path, **options))


def _problem(error: CassetteLabError) -> pa.RecordBatch:
    row = {"line": error.line, "code": error.code, "message": show(error.message)}
    return pa.RecordBatch.from_pylist([row], schema=pa.schema(PROBLEMS))


class _Tables:
    """Record batches of all files by table, and which file each is from."""

    def __init__(self, *, bodies: bool) -> None:
        self._bodies = bodies
        self._batches: dict[str, list[pa.RecordBatch]] = {name: [] for name in TABLES}
        self._sources: dict[str, list[str]] = {name: [] for name in TABLES}

    def add(self, source: str, rows: list[tuple[str, pa.RecordBatch]]) -> None:
        for name, batch in rows:
            self._batches[name].append(batch)
            self._sources[name].append(source)

    def finish(self) -> dict[str, pa.Table]:
        return {name: self._table(name) for name in TABLES}

    def _table(self, name: str) -> pa.Table:
        schema = table_schema(name, bodies=self._bodies)
        batches = self._batches[name]
        rows = pa.Table.from_batches(batches, pa.schema(list(schema)[1:]))
        numbers = {source: number for number, source in enumerate(dict.fromkeys(self._sources[name]))}
        by_batch = np.array([numbers[source] for source in self._sources[name]], np.int32)
        by_row = np.repeat(by_batch, np.array([len(batch) for batch in batches], np.int64))
        source = pa.DictionaryArray.from_arrays(pa.array(by_row, pa.int32()), pa.array(numbers, pa.string()))
        return pa.Table.from_arrays([source, *rows.columns], schema=schema)
