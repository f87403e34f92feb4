"""The forest of the sessions in a lab, with totals that include subagents, each session once."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from cassette_lab.cassette.columns import TIME, column
from cassette_lab.errors import ConfigError
from cassette_lab.jsonio.text import clip, show
from cassette_lab.session.links import arrange, walk
from cassette_lab.tables.columns import array_of
from cassette_lab.tables.kinship import Kinship
from cassette_lab.tables.session_names import session_names, sessions_named
from cassette_lab.tables.sql import SHOWN_ROWS, SqlResult
from cassette_lab.words import UNKNOWN, and_more, duration_text

_SUMMED: Final = (
    "turns",
    "steps",
    "model_calls",
    "tool_calls",
    "tool_errors",
    "retries",
    "input_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "output_tokens",
)
_HEAD: Final = ("session", "turns", "model calls", "tool errors", "tokens in", "from caches", "out", "duration", "end")
_TEXTS: Final = frozenset({0, len(_HEAD) - 1})
_SHOWN_CHARACTERS: Final = 48
_SHOWN_NAMES: Final = 8
_DEEPEST: Final = 12
"""Levels of indentation that are shown; what lies deeper stands at this level."""

_COLUMNS: Final = [
    column("session_id", pa.string(), "id of the session; parents stand before their children"),
    column("source", pa.string(), "file it comes from"),
    column("depth", pa.int64(), "how many sessions of the lab stand above it", "levels"),
    column("parent_session", pa.string(), "id of the session that started it; null for none"),
    column("parent_missing", pa.bool_(), "whether no session of that id is in the lab"),
    column("parent_ambiguous", pa.bool_(), "whether there are several, and nothing tells which it is: none is taken"),
    column("started_at", TIME, "earliest own event", "ms"),
    column("duration_ms", pa.float64(), "from the earliest to the latest own event", "ms"),
    column("duration_ms_with_subagents", pa.float64(), "from the earliest to the latest event of all descendants, too", "ms"),
    column("end_kind", pa.string(), "how its last own turn ended; null while one is open"),
    column("open", pa.bool_(), "whether its last own turn that began did not end"),
    column("sessions", pa.int64(), "itself and all its descendants", "sessions"),
    *(
        column(f"{name}{suffix}", pa.int64(), f"{name.replace('_', ' ')}{doc}")
        for name in _SUMMED
        for suffix, doc in (("", " of its own"), ("_with_subagents", " with those of all its descendants"))
    ),
]


class Tree(SqlResult):
    """The rows of ``lab.tree()``: an Arrow ``table`` with all columns, shown as an indented list with the main ones."""

    def __repr__(self) -> str:
        rows = [[*_HEAD], *self._shown()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(
                f"{cell:<{width}}" if place in _TEXTS else f"{cell:>{width}}"
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        return "\n".join([*lines, self._size()])

    def _head_and_cells(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        return _HEAD, [[row[0].replace("  ", "\N{EM SPACE}"), *row[1:]] for row in self._shown()]

    def _texts(self) -> frozenset[int]:
        return _TEXTS

    def _size(self) -> str:
        totals = "with all subagents in turns, calls, tokens and durations"
        return f"{super()._size()} · {totals}"

    def _shown(self) -> list[list[str]]:
        rows = self.table.slice(0, SHOWN_ROWS).to_pylist()
        top = min((row["depth"] for row in rows), default=0)
        called = session_names(self.table["source"].to_pylist(), self.table["session_id"].to_pylist())
        return [_cells(row, row["depth"] - top, name) for row, name in zip(rows, called, strict=False)]


def tree(sessions: pa.Table, root: str | None = None, folder: Path | None = None) -> Tree:
    """One row per session, parents before children, siblings in the order they were created.

    A parent is looked for beside its child (``kinship``). A session whose parent is not there, or that would be its own
    ancestor, is a root, and so is one of which nothing tells which of several it belongs to. ``root`` is the id of a session
    (or ``SOURCE#ID``, or ``FOLDER#ID``; ``folder`` is where sources are named from): that one and what stands below it alone.
    A sum that no column can hold is null. Raises ``ConfigError`` for a root that is not there, or that several are.
    """
    rows = sessions.to_pylist()
    placed, children, kin, ambiguous = _placed(sessions)
    totals = _totals(rows, [number for number, _ in placed], children)
    if root is not None:
        placed = _below(placed, _named(rows, root, folder))
    told = [
        {
            **{field.name: rows[number].get(field.name) for field in _COLUMNS},
            "depth": depth,
            "parent_missing": rows[number]["parent_session"] is not None and rows[number]["parent_session"] not in kin,
            "parent_ambiguous": number in ambiguous,
            **totals[number],
        }
        for number, depth in placed
    ]
    arrays = [_array([row[field.name] for row in told], field.type) for field in _COLUMNS]
    return Tree(pa.Table.from_arrays(arrays, schema=pa.schema(_COLUMNS)))


def in_tree_order(sessions: pa.Table) -> list[int]:
    """The rows of ``sessions``, parents before their children."""
    placed, *_ = _placed(sessions)
    return [number for number, _ in placed]


def _placed(sessions: pa.Table) -> tuple[list[tuple[int, int]], dict[int, list[int]], Kinship, set[int]]:
    """Rows and their depths in the order of the forest, children by parent, and where which parent it is cannot be told."""
    names = ("source", "session_id", "parent_session", "created_at")
    sources, ids, parent_ids, created_at = (sessions[name].to_pylist() for name in names)
    kin = Kinship(sources, ids)
    parents, ambiguous = kin.parents(parent_ids)
    order = sorted(range(len(ids)), key=lambda number: (created_at[number] is None, created_at[number] or 0))
    roots, children, _ = arrange(order, parents)
    return list(walk(roots, children)), children, kin, ambiguous


def _named(rows: Sequence[Mapping[str, Any]], root: str, folder: Path | None) -> int:
    """The row of a session that a person names."""
    sources, ids = [row["source"] for row in rows], [row["session_id"] for row in rows]
    named = sessions_named(sources, ids, root, folder)
    if len(named) == 1:
        return named[0]
    if not named:
        raise ConfigError(f'there is no session {_clip(root)} in this lab; lab.to_pandas("sessions") lists them')
    called = session_names(sources, ids)
    names = and_more([show(called[number]) for number in named[:_SHOWN_NAMES]], len(named))
    raise ConfigError(f"{len(named):,} sessions of this lab are called {_clip(root)}; name one as {names}")


def _below(placed: Sequence[tuple[int, int]], root: int) -> list[tuple[int, int]]:
    """That one and its descendants: what follows it, as long as it lies deeper."""
    first = next(place for place, (number, _) in enumerate(placed) if number == root)
    depth = placed[first][1]
    end = next((place for place in range(first + 1, len(placed)) if placed[place][1] <= depth), len(placed))
    return list(placed[first:end])


def _cells(row: Mapping[str, Any], depth: int, name: str) -> list[str]:
    counts = ("turns", "model_calls", "tool_errors", "input_tokens", "cache_read_tokens", "output_tokens")
    mark = " (parent missing)" if row["parent_missing"] else " (parent ambiguous)" if row["parent_ambiguous"] else ""
    return [
        "  " * min(depth, _DEEPEST) + _clip(name) + mark,
        *(UNKNOWN if row[f"{count}_with_subagents"] is None else f"{row[f'{count}_with_subagents']:,}" for count in counts),
        duration_text(row["duration_ms_with_subagents"]),
        "open" if row["open"] else _clip(row["end_kind"] or UNKNOWN),
    ]


def _clip(text: str) -> str:
    return clip(text, _SHOWN_CHARACTERS)


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Sums may grow beyond what a column holds; everything else comes from one."""
    return array_of(values, kind) if pa.types.is_int64(kind) else pa.array(values, kind)


def _totals(rows: list[dict[str, Any]], placed: list[int], children: dict[int, list[int]]) -> dict[int, dict[str, Any]]:
    """Sums over each session and its descendants; a sum of nothing known is unknown."""
    totals: dict[int, dict[str, Any]] = {}
    spans: dict[int, list[Any]] = {}
    for number in reversed(placed):  # children stand behind their parents
        row, kept = rows[number], children.get(number, [])
        below = [totals[child] for child in kept]
        told: dict[str, Any] = {"sessions": 1 + sum(each["sessions"] for each in below)}
        for name in _SUMMED:
            counts = [row[name], *(each[f"{name}_with_subagents"] for each in below)]
            known = [count for count in counts if count is not None]
            told[f"{name}_with_subagents"] = sum(known) if known else None
        times = [time for child in kept for time in spans.pop(child)]
        times += [time for time in (row["started_at"], row["ended_at"]) if time is not None]
        spans[number] = [min(times), max(times)] if times else []
        span = max(times) - min(times) if times else None
        told["duration_ms_with_subagents"] = None if span is None else span / dt.timedelta(milliseconds=1)
        totals[number] = told
    return totals
