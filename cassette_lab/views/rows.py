"""From the calls table to what a picture shows: calls in tree order as rows, or, of too many, columns to aggregate.

Everything that comes out is safe to show: texts are escaped, times finite. Unknown times stay unknown.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from cassette_lab.errors import ConfigError
from cassette_lab.jsonio.text import show
from cassette_lab.views.theme import CATEGORIES, Category, category_of
from cassette_lab.words import plural

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


class HasCalls(Protocol):
    """A lab, or anything else with a ``calls`` table."""

    @property
    def calls(self) -> pa.Table:
        """One row per recorded call."""
        ...


Calls: TypeAlias = "HasCalls | pa.Table | str | PathLike[str] | Sequence[str | PathLike[str]]"
"""Where calls come from: a lab, its ``calls`` table, or paths to load."""

LONGEST_MS = 1e300
_NEEDED = ("call_key", "label", "started_at", "duration_ms", "outcome_kind", "stop_reason")
NO_LABEL = "(no label)"
NOUN = b"cassette_lab.noun"
"""In a table's metadata: what its rows are called, where that is not calls; ``one:many`` where the plural has no plain s."""


def calls_of(data: Calls) -> pa.Table:
    """The calls table of ``data``; a path (or several) is loaded and verified first."""
    some = loaded(data)
    return some.calls if hasattr(some, "calls") else some


def loaded(data: Calls) -> HasCalls | pa.Table:
    """``data`` itself, a lab or a calls table; a path (or several) is loaded and verified first.

    Raises ``ConfigError`` for a table that is none of calls.
    """
    missing = [name for name in _NEEDED if hasattr(data, "schema") and name not in data.schema.names]
    if missing:
        raise ConfigError(f"this is no table of calls, it has no column {missing[0]}; give a lab, its calls, or paths")
    return loaded_any(data)


def loaded_any(data: Calls) -> HasCalls | pa.Table:
    """As ``loaded``, but a table may be any of a lab's."""
    if hasattr(data, "schema") or hasattr(data, "calls"):
        return data
    from cassette_lab.tables import load

    return load(*([data] if isinstance(data, (str, PathLike)) else data))


def sources_of(table: pa.Table) -> list[str]:
    """The files of a calls table, in order of appearance; one empty name where it has no such column."""
    if "source" not in table.column_names:
        return [""] if len(table) else []
    return [str(source) for source in table["source"].unique().to_pylist()]


def title_of(what: str, table: pa.Table) -> str:
    """A chart's title: what it shows, of which file (or how many), and how many calls there are."""
    files = sources_of(table)
    where = "" if not any(files) else source_text(files[0]) if len(files) == 1 else plural(len(files), "file")
    return " · ".join(part for part in (what, where, counted(table)) if part)


def counted(table: pa.Table, count: int | None = None) -> str:
    """How many rows there are (or ``count`` of them), and what they are called."""
    noun = (table.schema.metadata or {}).get(NOUN, b"call").decode()
    one, _, many = noun.partition(":")
    return plural(len(table) if count is None else count, one, many or None)


def source_text(source: str | None) -> str:
    """A file's name without the folders of this machine: an absolute one from the working directory, or its last part."""
    path = PurePath(source or "")
    if path.is_absolute():
        here = Path.cwd()
        path = path.relative_to(here) if path.is_relative_to(here) else PurePath(path.name)
    return shown(path.as_posix()) if source else ""


@dataclass(frozen=True, slots=True)
class Row:
    """One call as it is drawn. Times in milliseconds; ``start_ms`` counts from the first call of its file."""

    source: str
    key: str
    label: str
    depth: int
    parent: int | None
    """Position of the parent's row, where the parent is a row too."""
    category: Category
    code: str
    start_ms: float | None
    latency_ms: float
    duration_ms: float
    aborted_at_ms: float | None = None
    disposed_at_ms: float | None = None
    model: str = ""

    @property
    def word(self) -> str:
        """What stands beside the bar: nothing for a completed call, else a word or the error's code."""
        return self.code if self.category.word is None else self.category.word

    @property
    def outcome(self) -> str:
        """The outcome in words."""
        return self.word or self.category.name


def tree_rows(table: pa.Table) -> list[Row]:
    """The calls as rows, each under its parent, siblings as they were admitted, file after file.

    A call whose parent is not there (it came from the root agent, or the recording lacks it) stands at the top.
    """
    columns = _columns(table)
    starts = _starts(columns["source"], columns["started_at"])
    rows: list[Row] = []
    for position, depth, parent in _tree(columns):
        error_code, error_name = columns["error_code"][position], columns["error_name"][position]
        category = category_of(columns["outcome_kind"][position], columns["stop_reason"][position])
        rows.append(
            Row(
                source=source_text(columns["source"][position]),
                key=shown(columns["call_key"][position]),
                label=shown(columns["label"][position]) if columns["label"][position] else NO_LABEL,
                depth=depth,
                parent=parent,
                category=category,
                code=shown(error_code or error_name or category.name),
                start_ms=starts[position],
                latency_ms=_finite(columns["start_latency_ms"][position]) or 0.0,
                duration_ms=_finite(columns["duration_ms"][position]) or 0.0,
                aborted_at_ms=_finite(columns["signal_aborted_at_ms"][position]),
                disposed_at_ms=_finite(columns["dispose_called_at_ms"][position]),
                model=shown(columns["child_model"][position] or ""),
            )
        )
    return rows


def shown(text: str) -> str:
    """``text`` with what cannot be seen, or cannot stand in XML, as visible escapes."""
    return show(str(text)).replace("\ufffe", "\\u{fffe}").replace("\uffff", "\\u{ffff}")


@dataclass(frozen=True)
class Columns:
    """Many calls as arrays: label numbers (into ``labels``, most calls first), categories, times in ms.

    ``start_ms`` is NaN where it is unknown. ``category`` numbers ``CATEGORIES`` in their order.
    """

    labels: list[str]
    label: np.ndarray[Any, np.dtype[np.int64]]
    category: np.ndarray[Any, np.dtype[np.int64]]
    start_ms: np.ndarray[Any, np.dtype[np.float64]]
    duration_ms: np.ndarray[Any, np.dtype[np.float64]]


def call_columns(table: pa.Table) -> Columns:
    """The calls as arrays, for pictures of more calls than there are rows to draw."""
    import numpy as np

    labels, numbers = ranked(table, "label", NO_LABEL)
    return Columns(
        labels=labels,
        label=numbers,
        category=category_numbers(table),
        start_ms=_start_column(table),
        duration_ms=np.clip(_floats(table["duration_ms"]), 0, LONGEST_MS),
    )


def ranked(table: pa.Table, column: str, missing: str) -> tuple[list[str], np.ndarray[Any, np.dtype[np.int64]]]:
    """The different values of a text column, most frequent first, and the number of each row's value among them."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    there = column in table.column_names
    values = table[column].cast(pa.string()) if there else pa.chunked_array([pa.nulls(len(table), pa.string())])
    values = pc.fill_null(values, missing)
    unique = values.unique()
    numbers = np.asarray(pc.index_in(values, value_set=unique).to_numpy(), dtype=np.int64)
    names = unique.to_pylist()
    counts = np.bincount(numbers, minlength=len(names))
    places = sorted(range(len(names)), key=lambda place: (-counts[place], names[place] == missing, names[place]))
    order = np.array(places, dtype=np.int64)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return [shown(names[place]) or missing for place in places], rank[numbers]


def category_numbers(table: pa.Table) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The outcome category of every call, as its position in ``CATEGORIES``."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    kind, reason = (table[name].cast(pa.string()) for name in ("outcome_kind", "stop_reason"))
    word = pc.fill_null(pc.if_else(pc.equal(kind, "result"), reason, kind), "other")
    numbers = pc.index_in(word, value_set=pa.array(list(CATEGORIES)))
    filled = pc.fill_null(numbers, list(CATEGORIES).index("other"))
    return np.asarray(filled.to_numpy(), dtype=np.int64)


def _start_column(table: pa.Table) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Milliseconds since the first call of each file; NaN where the file holds no date."""
    import numpy as np
    import pyarrow as pa

    started = _floats(table["started_at"].cast(pa.int64()))
    if "source" not in table.column_names:
        files = np.zeros(len(started), dtype=np.int64)
    else:
        encoded = table["source"].cast(pa.string()).combine_chunks().dictionary_encode()
        files = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    first = np.full(int(files.max(initial=0)) + 1, np.inf)
    np.fmin.at(first, files, started)
    first[np.isinf(first)] = np.nan
    return np.asarray(started - first[files], dtype=np.float64)


def _floats(column: pa.ChunkedArray) -> np.ndarray[Any, np.dtype[np.float64]]:
    import numpy as np
    import pyarrow as pa

    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)


_DRAWN = (
    "sequence", "call_key", "parent_key", "label", "start_latency_ms", "duration_ms", "signal_aborted_at_ms",
    "dispose_called_at_ms", "outcome_kind", "stop_reason", "error_name", "error_code", "child_model",
)  # fmt: skip


def _columns(table: pa.Table) -> dict[str, list[Any]]:
    import pyarrow as pa

    names = set(table.column_names)
    columns = {name: table[name].to_pylist() if name in names else [None] * len(table) for name in _DRAWN}
    columns["started_at"] = table["started_at"].cast(pa.int64()).to_pylist()
    columns["source"] = table["source"].to_pylist() if "source" in names else [""] * len(table)
    return columns


def _starts(sources: list[str], started_at: list[int | None]) -> list[float | None]:
    first: dict[str, int] = {}
    for source, start in zip(sources, started_at, strict=True):
        if start is not None:
            first[source] = min(start, first.get(source, start))
    return [None if start is None else float(start - first[source]) for source, start in zip(sources, started_at, strict=True)]


def _tree(columns: dict[str, list[Any]]) -> Iterator[tuple[int, int, int | None]]:
    """Positions in tree order, each with its depth (0 at the top) and its parent's place in this very order."""
    keys, parents, sources, sequences = (columns[name] for name in ("call_key", "parent_key", "source", "sequence"))
    here = {(source, key): position for position, (source, key) in enumerate(zip(sources, keys, strict=True))}
    file_order = {source: number for number, source in enumerate(dict.fromkeys(sources))}
    children: dict[int | None, list[int]] = {}
    admitted = sorted(range(len(keys)), key=lambda position: (file_order[sources[position]], sequences[position] or 0))
    for position in admitted:
        parent = here.get((sources[position], parents[position]))
        children.setdefault(None if parent == position else parent, []).append(position)
    placed: dict[int, int] = {}

    def walk(tops: Iterable[int]) -> Iterator[tuple[int, int, int | None]]:
        waiting: list[tuple[int, int, int | None]] = [(top, 0, None) for top in reversed(list(tops))]
        while waiting:
            position, depth, parent = waiting.pop()
            if position in placed:
                continue
            placed[position] = len(placed)
            yield position, depth, parent
            waiting += [(child, depth + 1, placed[position]) for child in reversed(children.get(position, []))]

    yield from walk(children.get(None, []))
    for position in admitted:  # calls that name each other as parents: shown at the top rather than lost
        if position not in placed:
            yield from walk([position])


def _finite(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else min(max(value, 0.0), LONGEST_MS)
