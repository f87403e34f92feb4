"""Tables as pages: pieces of Arrow IPC streams of bounded size, and nothing in them that may not leave the machine."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any, Final

import pyarrow as pa

from cassette_lab.errors import CassetteLabError
from cassette_lab.jsonio.text import arrow_text
from cassette_lab.server.jupyter.frames import Tell
from cassette_lab.tables.gathering import batch_of
from cassette_lab.tables.schemas import table_schema
from cassette_lab.tables.sessions import problem_row

PAGE_BYTES: Final = 1 << 20
"""About so large is a page; a single row may be larger."""


class Pages:
    """Sends tables; ``rows`` and ``left_out`` count what was sent and what was not, by table.

    ``sources`` are all that tables can come from: the dictionary of the ``source`` column is the same in every page, so that
    pages can be put together.
    """

    def __init__(
        self, tell: Tell, sources: Sequence[str], *, tables: Sequence[str], bodies: bool, max_rows: int, max_bytes: int
    ) -> None:
        self.rows: dict[str, int] = {}
        self.left_out: dict[str, int] = {}
        self._tell = tell
        self._sources = [arrow_text(each) for each in sources]
        self._tables = frozenset(tables)
        self._bodies = bodies
        self._max_rows = max_rows
        self._bytes_left = max_bytes
        self._streams: dict[str, _Stream] = {}

    def add(self, name: str, source: int, rows: pa.Table) -> None:
        """Rows of a table without the ``source`` column, all from one source (its number)."""
        if name in self._tables and len(rows):
            indices = pa.array([source], pa.int32()).take(pa.array([0] * len(rows), pa.int32()))
            named = pa.DictionaryArray.from_arrays(indices, pa.array(self._sources, pa.string()))
            schema = table_schema(name, bodies=self._bodies)
            self.put(name, pa.Table.from_arrays([named, *rows.columns], schema=schema))

    def add_problem(self, source: int, error: CassetteLabError) -> None:
        """A row of ``problems``."""
        self.add("problems", source, pa.Table.from_batches([batch_of("problems", problem_row(error))]))

    def put(self, name: str, table: pa.Table, *, root: PurePath | None = None) -> None:
        """A table as the lab has it; paths in it are told from ``root``."""
        if name not in self._tables or not len(table):
            return
        if not self._bodies:
            table = _without_secrets(table, root)
        stream = self._streams.setdefault(name, _Stream(table.schema))
        wanted = table.slice(0, max(self._max_rows - self.rows.get(name, 0), 0))
        sent = 0
        for batch in _batches(wanted):
            data = stream.put(batch)
            if len(data) > self._bytes_left:
                self._bytes_left = 0  # the following rows would stand in the place of these
                break
            self._bytes_left -= len(data)
            sent += len(batch)
            self.rows[name] = self.rows.get(name, 0) + len(batch)
            self._tell({"event": "page", "table": name, "rows": len(batch), "total_rows": self.rows[name]}, data)
        if sent < len(table):
            self.left_out[name] = self.left_out.get(name, 0) + len(table) - sent


class _Stream:
    """One table's IPC stream, taken piece by piece."""

    def __init__(self, schema: pa.Schema) -> None:
        self._sink = _Sink()
        self._writer = pa.ipc.new_stream(self._sink, schema)

    def put(self, batch: pa.RecordBatch) -> bytes:
        """What a batch adds; the schema stands in front of the first one."""
        self._writer.write_batch(batch)
        return self._sink.take()


class _Sink(io.RawIOBase):
    """Collects what is written; its position goes on when it is taken."""

    def __init__(self) -> None:
        super().__init__()
        self._pieces: list[bytes] = []
        self._position = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def write(self, data: Any) -> int:
        piece = bytes(data)
        self._pieces.append(piece)
        self._position += len(piece)
        return len(piece)

    def take(self) -> bytes:
        """All that was written since the last time."""
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


def _batches(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """The rows in pieces of about ``PAGE_BYTES``."""
    if not len(table):
        return
    rows = max(1, PAGE_BYTES * len(table) // max(table.nbytes, 1))
    yield from table.unify_dictionaries().combine_chunks().to_batches(max_chunksize=rows)


def _without_secrets(table: pa.Table, root: PurePath | None) -> pa.Table:
    """Patterns of redaction may be what they hide; folders outside the root say whose machine this is."""
    names = table.schema.names
    for name in ("redaction_patterns", "cwd"):
        if name in names:
            at = names.index(name)
            kept = [_from_root(value, root) for value in table[name].to_pylist()] if name == "cwd" else [None] * len(table)
            table = table.set_column(at, table.field(at), pa.array(kept, table.field(at).type))
    return table


def _from_root(folder: str | None, root: PurePath | None) -> str | None:
    if folder is None or root is None:
        return None
    plain = PurePath(folder)
    return plain.relative_to(root).as_posix() if plain.is_relative_to(root) else None
