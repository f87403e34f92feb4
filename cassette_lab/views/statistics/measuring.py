"""From a lab, a table or paths to numbers in groups: what is measured, of which rows, and how many rows could not tell.

Rows that a fork took over from its parent (``inherited``) are left out everywhere: they are counted where they ran. A
number that is null, NaN, infinite or negative is unknown: it is left out and counted, never taken for 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from cassette_lab.errors import ConfigError
from cassette_lab.views.rows import LONGEST_MS, Calls, loaded_any, ranked, shown, source_text, sources_of
from cassette_lab.words import plural

if TYPE_CHECKING:
    import pyarrow as pa

    from cassette_lab.views.statistics.figures import Floats, Whole

NOUNS: Final = {
    "calls": "call",
    "model_calls": "model call",
    "tool_calls": "tool call",
    "turns": "turn",
    "flights": "model request",
}
"""The tables that charts of statistics measure, and what their rows are called."""

_TOLD_BY: Final = {
    "calls": "call_key",
    "flights": "record_id",
    "tool_calls": "call_id",
    "model_calls": "attempt",
    "turns": "end_cause",
}
"""A column that only this table has (the first that fits): how a bare table is known that has lost its name."""


@dataclass(frozen=True)
class Rows:
    """Rows of one table, none of them inherited. ``name`` is the table's."""

    name: str
    table: pa.Table

    @property
    def noun(self) -> str:
        """What a row is called."""
        return NOUNS[self.name]

    def title(self, what: str) -> str:
        """A title: what is shown, of which file or how many, and of how many rows."""
        files = sources_of(self.table)
        where = "" if not any(files) else source_text(files[0]) if len(files) == 1 else plural(len(files), "file")
        return " · ".join(part for part in (what, where, plural(len(self.table), self.noun)) if part)


@dataclass(frozen=True)
class Measured:
    """Known numbers and the group of each. Groups are in order of their number of rows, most first."""

    names: Sequence[str]
    groups: Whole
    values: Floats
    known: pa.Array
    """For every row of the table, whether its number is known."""
    unknown: int


def rows_of(data: Calls, names: Sequence[str], of: str | None = None) -> Rows:
    """The rows to measure: of the table ``of``, or of the first of ``names`` that has any.

    Raises ``ConfigError`` for a table that cannot be measured so, or that is not there.
    """
    if of is not None and of not in names:
        raise ConfigError(f"this chart is drawn of {', '.join(names)}, not of {shown(str(of))}")
    tables = tables_of(data)
    there = [name for name in names if name in tables]
    if of is not None and of not in there:
        raise ConfigError(f"there are no {of} here; there are {', '.join(tables) or 'no rows'}")
    if not there:
        raise ConfigError(f"this chart needs {' or '.join(names)}; here are {', '.join(tables) or 'no known tables'}")
    found = {name: _own(tables[name]) for name in ([of] if of is not None else there)}
    name = next((name for name, table in found.items() if len(table)), next(iter(found)))
    return Rows(name, found[name])


def tables_of(data: Calls) -> Mapping[str, pa.Table]:
    """The tables of a lab that can be measured; of a bare table what it is."""
    some: Any = loaded_any(data)
    if hasattr(some, "tables"):
        return {name: some.tables[name] for name in NOUNS if name in some.tables}
    if hasattr(some, "calls"):
        return {"calls": some.calls}
    columns, told = set(some.column_names), (some.schema.metadata or {}).get(b"cassette_lab.table", b"").decode()
    name = told if told in NOUNS else next((name for name, column in _TOLD_BY.items() if column in columns), None)
    return {} if name is None else {name: some}


def measured(rows: Rows, values: Floats, column: str, missing: str) -> Measured:
    """``values`` (one a row; NaN where unknown) in groups by a text column; rows without a name are ``missing``."""
    import numpy as np
    import pyarrow as pa

    known = np.isfinite(values) & (values >= 0)
    kept = rows.table.select([column]).filter(pa.array(known))
    names, groups = ranked(kept, column, missing)
    if column == "source":
        names = [source_text(name) for name in names]
    return Measured(names, groups, np.minimum(values[known], LONGEST_MS), pa.array(known), int((~known).sum()))


def floats(column: pa.ChunkedArray) -> Floats:
    """A column as floats, NaN where it is null."""
    import numpy as np
    import pyarrow as pa

    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)


def column_for(rows: Rows, by: str, columns: Mapping[str, Mapping[str, str]]) -> str:
    """The column that groups such rows ``by`` a word. Raises ``ConfigError`` for a word that does not fit them."""
    fitting = columns[rows.name]
    if by not in fitting:
        raise ConfigError(f"{rows.noun}s are grouped by {' or '.join(fitting)}, not by {shown(str(by))}")
    return fitting[by]


def left_out(count: int, noun: str, why: str) -> list[str]:
    """A note on rows that are not in the picture; nothing where there are none."""
    return [f"{plural(count, noun)} {why} left out"] if count else []


def _own(table: pa.Table) -> pa.Table:
    import pyarrow.compute as pc

    if "inherited" not in table.column_names:
        return table
    return table.filter(pc.invert(pc.fill_null(table["inherited"], False)))  # noqa: FBT003 - the function takes no name
