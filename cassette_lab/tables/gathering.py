"""Rows of many small logs, gathered as plain columns: Arrow arrays are made once for thousands of rows, not for every log.

An array costs the same few microseconds whether it holds one value or a hundred, and a log has about a hundred columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import pyarrow as pa

from cassette_lab.tables.columns import array_of
from cassette_lab.tables.schemas import table_schema

Columns: TypeAlias = list[list[Any]]
"""The values of a table's columns without ``source``, all of one length; ``array_of`` takes each."""

ENOUGH_ROWS: Final = 1 << 14
"""So many rows of a table are made into arrays before more are gathered: plain values need several times the memory."""


class Gathering:
    """Plain columns by table. ``rows`` is how many the longest table has."""

    def __init__(self, *, bodies: bool = False) -> None:
        self._bodies = bodies
        self._columns: dict[str, Columns] = {}
        self.rows = 0

    def add(self, table: str, columns: Columns) -> None:
        """More rows of a table. The lists are the gathering's from now on."""
        before = self._columns.get(table)
        if before is None:
            self._columns[table] = before = columns
        else:
            for values, more in zip(before, columns, strict=True):
                values.extend(more)
        self.rows = max(self.rows, len(before[0]))

    def flush(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """What was gathered as one record batch for each table that has rows; nothing is left."""
        gathered, self._columns, self.rows = self._columns, {}, 0
        for table, columns in gathered.items():
            yield table, batch_of(table, columns, bodies=self._bodies)


def batch_of(table: str, columns: Columns, *, bodies: bool = False) -> pa.RecordBatch:
    """Plain columns of a table as a record batch."""
    schema = pa.schema(list(table_schema(table, bodies=bodies))[1:])
    arrays = [array_of(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
