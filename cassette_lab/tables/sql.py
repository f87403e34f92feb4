"""SQL over Arrow tables: DuckDB in memory, without files, network or the caller's variables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Final, overload

import pyarrow as pa

from cassette_lab.errors import ConfigError
from cassette_lab.jsonio.text import clip, show
from cassette_lab.tables.schemas import TABLES, table_schema
from cassette_lab.words import plural

if TYPE_CHECKING:
    import pandas as pd

SHOWN_ROWS: Final = 20
_CLIP: Final = 80

_SETTINGS: Final[dict[str, str | bool | int | float | list[str]]] = {
    "enable_external_access": "false",
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}


def query(tables: Mapping[str, pa.Table], text: str, *, bodies: bool = False) -> SqlResult:
    """The rows of a query over ``tables``, which have ``bodies`` or not.

    Raises ``ConfigError`` for SQL that cannot be run or gives no rows.
    """
    import duckdb

    with duckdb.connect(":memory:", config=_SETTINGS) as connection:
        for name, table in tables.items():
            connection.register(name, table)
        connection.execute("set TimeZone = 'UTC'")
        connection.execute("set lock_configuration = true")
        try:
            relation = connection.sql(text)
            if relation is None:
                raise ConfigError("the SQL gives no rows; ask with select, from one of: " + ", ".join(tables))
            return SqlResult(relation.to_arrow_table(), bodies=bodies)
        except duckdb.Error as error:
            raise ConfigError(f"the SQL cannot be run: {_reason(error, bodies=bodies)}{_way_out(error, tables)}") from None


class SqlResult:
    """Rows of a query: an Arrow ``table`` that shows itself.

    Libraries that take Arrow data (pandas, polars, Altair, DuckDB) take it as it is. ``bodies``: what was said may be among
    the values, and HTML is marked so (``cassette-lab strip`` takes such outputs out of a notebook).
    """

    def __init__(self, table: pa.Table, *, bodies: bool = False) -> None:
        self.table = table
        self.bodies = bodies

    @property
    def column_names(self) -> list[str]:
        """Names of the columns."""
        names: list[str] = self.table.column_names
        return names

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return len(self)

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a pandas data frame."""
        frame: pd.DataFrame = self.table.to_pandas()
        return frame

    def to_pylist(self) -> list[dict[str, Any]]:
        """The rows as dicts."""
        rows: list[dict[str, Any]] = self.table.to_pylist()
        return rows

    @overload
    def __getitem__(self, key: str) -> pa.ChunkedArray: ...

    @overload
    def __getitem__(self, key: int) -> dict[str, Any]: ...

    def __getitem__(self, key: str | int) -> pa.ChunkedArray | dict[str, Any]:
        """A column by its name, a row (a dict, as iterating gives them) by its number; -1 is the last."""
        if isinstance(key, str):
            return self.table[key]
        place = range(len(self))[key]
        row: dict[str, Any] = self.table.slice(place, 1).to_pylist()[0]
        return row

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self.table.to_batches():
            yield from batch.to_pylist()

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        rows = [self.column_names, *self._cells()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([*lines, self._size()])

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        del include, exclude
        names, cells = self._head_and_cells()
        sides = ["left" if place in self._texts() else "right" for place in range(len(names))]
        head = "".join(_html_cell("th", side, show(name)) for side, name in zip(sides, names, strict=True))
        body = "".join(
            "<tr>" + "".join(_html_cell("td", side, cell) for side, cell in zip(sides, row, strict=True)) + "</tr>"
            for row in cells
        )
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        html = f"{table}<div>{escape(self._size())}</div>"
        return {"text/plain": repr(self), "text/html": f'<div data-cassette-bodies="yes">{html}</div>' if self.bodies else html}

    def _head_and_cells(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        """What the HTML table shows."""
        return self.column_names, self._cells()

    def _texts(self) -> frozenset[int]:
        """Places of the columns that are texts: they stand at the left, numbers at the right."""
        return frozenset(place for place, field in enumerate(self.table.schema) if not _is_number(field.type))

    def _cells(self) -> list[list[str]]:
        """The first rows as texts that are safe to print."""
        rows = self.table.slice(0, SHOWN_ROWS)
        return [[_cell(value) for value in row] for row in zip(*(column.to_pylist() for column in rows.columns), strict=True)]

    def _size(self) -> str:
        rows = plural(len(self), "row")
        return rows if len(self) <= SHOWN_ROWS else f"{rows}, the first {SHOWN_ROWS} shown; .to_pandas() has all"


def _html_cell(tag: str, side: str, text: str) -> str:
    return f'<{tag} style="text-align:{side}">{escape(text)}</{tag}>'


def _is_number(kind: pa.DataType) -> bool:
    return any(test(kind) for test in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_duration))


def _cell(value: Any) -> str:
    return "" if value is None else clip(_number(value) if isinstance(value, float) else str(value), _CLIP)


def _number(value: float) -> str:
    """A number as it is read: three decimals, of a small one three digits; as it is where that is no longer."""
    text = repr(value)
    rounded = f"{value:.3f}" if 1 <= abs(value) < 1e15 else f"{value:.3g}"
    return rounded if len(rounded) < len(text) else text


def _reason(error: Exception, *, bodies: bool) -> str:
    """What DuckDB says, in one line: what is wrong, and the name that may be meant. Of ``bodies`` no value is quoted."""
    import duckdb

    if bodies and not isinstance(error, (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException)):
        kind = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(error).__name__.removesuffix("Exception"))
        return f"{kind} error, at a value that may be what was said and is not shown"
    first, *others = str(error).strip().splitlines() or [type(error).__name__]
    meant = [line for line in others if line.startswith(("Did you mean", "Candidate bindings"))]
    return show(" ".join([first, *meant[:1]]).rstrip("!"))


def _way_out(error: Exception, tables: Mapping[str, pa.Table]) -> str:
    """Where a column is missed that only a lab with bodies has, that."""
    missed = re.search(r'column (?:named )?"(\w+)"', str(error))
    name = None if missed is None else missed[1]
    with_bodies = {each for table in tables if table in TABLES for each in table_schema(table, bodies=True).names}
    if name is None or name not in with_bodies or any(name in table.column_names for table in tables.values()):
        return ""
    return f"; {name} is there after load(..., bodies=True)"
