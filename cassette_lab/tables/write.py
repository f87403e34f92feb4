"""The tables of a lab as files: one for each, in Parquet or as Arrow IPC files."""

from __future__ import annotations

import contextlib
from itertools import product
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

import pyarrow as pa

from cassette_lab.errors import ConfigError
from cassette_lab.jsonio.text import show
from cassette_lab.looking import os_reason
from cassette_lab.tables.lab import Lab
from cassette_lab.tables.schemas import FLIGHT_TABLES, SESSION_TABLES, TABLES

Format: TypeAlias = Literal["parquet", "arrow"]
_FORMATS: Final[tuple[Format, ...]] = get_args(Format)


def write_tables(
    lab: Lab,
    folder: str | PathLike[str],
    *,
    format: Format = "parquet",  # noqa: A002 - the word people look for
) -> list[tuple[str, int, Path]]:
    """Write ``cassettes``, ``calls`` and ``problems`` into ``folder``, which is made if it is missing.

    Where there are sessions or flight records, their tables are written, too.

    The files are called ``calls.parquet`` or ``calls.arrow`` and so on; older ones are replaced, each at once, and those of an
    earlier load that this one does not write are removed: a folder holds the tables of one lab. They hold what the lab holds:
    metadata only, unless it was loaded with ``bodies=True``. Gives name, rows and path of each table.
    Raises ``ConfigError`` for an unknown format and where the folder cannot be written.
    """
    if format not in _FORMATS:
        raise ConfigError(f"format must be {' or '.join(_FORMATS)}, not {show(str(format))}")
    target = Path(folder)
    written = []
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name, table in lab.tables.items():
            if (name in SESSION_TABLES and not len(lab.sessions)) or (name in FLIGHT_TABLES and not len(lab.flight_health)):
                continue
            path = target / f"{name}.{format}"
            unfinished = target / f".{name}.{format}.unfinished"
            try:
                _write(table, unfinished, format)
                unfinished.replace(path)
            finally:
                with contextlib.suppress(OSError):
                    unfinished.unlink(missing_ok=True)
            written.append((name, len(table), path))
        _remove_others(target, {path for _, _, path in written})
    except OSError as error:
        raise ConfigError(
            f"the tables cannot be written there ({os_reason(error)}); name another folder", path=target
        ) from error
    return written


def _remove_others(folder: Path, written: set[Path]) -> None:
    """Remove what an earlier load wrote there, in either format; whatever else has such a name stays."""
    for name, format_ in product(TABLES, _FORMATS):
        path = folder / f"{name}.{format_}"
        if path not in written and path.is_file() and _table_of(path, format_) == name:
            path.unlink()


def _table_of(path: Path, format_: str) -> str | None:
    """Which of our tables a file holds, as its schema says; None where it is no file of ours."""
    try:
        if format_ == "parquet":
            import pyarrow.parquet as pq

            schema = pq.read_schema(path)
        else:
            with pa.memory_map(str(path)) as file, pa.ipc.open_file(file) as reader:
                schema = reader.schema
    except (OSError, pa.ArrowException):
        return None
    name: bytes = (schema.metadata or {}).get(b"cassette_lab.table", b"")
    return name.decode(errors="replace")


def _write(table: pa.Table, path: Path, format: Format) -> None:  # noqa: A002
    if format == "parquet":
        import pyarrow.parquet as pq

        pq.write_table(table.unify_dictionaries(), path, compression="zstd")
        return
    options: Any = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema, options=options) as writer:
        writer.write_table(table)
