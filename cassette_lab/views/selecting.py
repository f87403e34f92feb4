"""A selection: which rows of which tables, as a front end says it and as Python wants it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cassette_lab.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa

Rows = dict[str, list[int]]
"""Row numbers, from 0, by table name."""


@dataclass(frozen=True)
class Selection:
    """``picked`` was clicked; ``rows`` is that with everything under it, or what ran in the brushed ``range`` (ms)."""

    picked: Rows = field(default_factory=dict)
    rows: Rows = field(default_factory=dict)
    range: tuple[float, float] | None = None

    def said(self) -> dict[str, Any]:
        """What a front end is told."""
        return {"picked": self.picked, "rows": self.rows, "range": None if self.range is None else list(self.range)}


def heard(said: Any, tables: Mapping[str, pa.Table]) -> Selection:
    """What a front end said, as far as it names rows that are there."""
    if not isinstance(said, Mapping):
        return Selection()
    span = said.get("range")
    return Selection(
        _rows_there(said.get("picked"), tables),
        _rows_there(said.get("rows"), tables),
        (float(span[0]), float(span[1])) if isinstance(span, list) and len(span) == 2 else None,
    )


def chosen(wanted: Any, tables: Mapping[str, pa.Table], main: str) -> Selection:
    """What Python selects: None, rows by table, or rows of the ``main`` table, as numbers or as a mask of its length.

    Raises ``ConfigError`` for tables and rows that are not there.
    """
    if wanted is None:
        return Selection()
    by_table = wanted if isinstance(wanted, Mapping) else {main: wanted}
    rows: Rows = {}
    for name, each in by_table.items():
        if name not in tables:
            raise ConfigError(f"there is no table {name} in this view; there are {', '.join(tables)}")
        if numbers := _numbers(each, name, len(tables[name])):
            rows[name] = numbers
    return Selection(rows, rows)


def taken(selection: Selection, tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """The selected rows of every table, with all columns."""
    import pyarrow as pa

    return {name: table.take(pa.array(selection.rows.get(name, []), pa.int64())) for name, table in tables.items()}


def told_table(selection: Selection, main: str) -> str:
    """The table that a person means: the one in which they picked something, else the main one."""
    picked = [name for name, rows in selection.picked.items() if rows]
    return picked[0] if picked and main not in picked else main


def _rows_there(said: Any, tables: Mapping[str, pa.Table]) -> Rows:
    if not isinstance(said, Mapping):
        return {}
    rows = {
        name: sorted({row for row in said[name] if isinstance(row, int) and 0 <= row < len(table)})
        for name, table in tables.items()
        if isinstance(said.get(name), list)
    }
    return {name: each for name, each in rows.items() if each}


def _numbers(rows: Any, name: str, count: int) -> list[int]:
    values = rows.to_pylist() if hasattr(rows, "to_pylist") else list(rows) if isinstance(rows, Iterable) else [rows]
    values = [
        value.as_py() if hasattr(value, "as_py") else value.item() if hasattr(value, "item") else value for value in values
    ]
    if values and all(value is None or isinstance(value, bool) for value in values):
        if len(values) != count:
            raise ConfigError(f"a mask of {len(values):,} values does not fit the {count:,} rows of {name}")
        return [row for row, is_wanted in enumerate(values) if is_wanted]
    if not all(isinstance(value, int) and 0 <= value < count for value in values):
        raise ConfigError(f"rows of {name} are numbers from 0 to {count - 1:,}, or a mask of {count:,} values")
    return sorted(set(values))
