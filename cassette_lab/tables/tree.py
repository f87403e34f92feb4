"""The forest of the sessions in a lab, with totals that include subagents, each session once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from cassette_lab.cassette.columns import TIME, column
from cassette_lab.session.links import arrange
from cassette_lab.tables.columns import array_of

_SUMMED: Final = ("turns", "steps", "model_calls", "tool_calls", "tool_errors", "retries", "input_tokens", "output_tokens")

_COLUMNS: Final = [
    column("session_id", pa.string(), "id of the session; parents stand before their children"),
    column("source", pa.string(), "file it comes from"),
    column("depth", pa.int64(), "how many sessions of the lab stand above it", "levels"),
    column("parent_session", pa.string(), "id of the session that started it; null for none"),
    column("parent_missing", pa.bool_(), "whether that one is not in the lab"),
    column("started_at", TIME, "earliest own event", "ms"),
    column("duration_ms", pa.float64(), "from the earliest to the latest own event", "ms"),
    column("end_kind", pa.string(), "how its last own turn ended; null while one is open"),
    column("sessions", pa.int64(), "itself and all its descendants", "sessions"),
    *(
        column(f"{name}{suffix}", pa.int64(), f"{name.replace('_', ' ')}{doc}")
        for name in _SUMMED
        for suffix, doc in (("", " of its own"), ("_with_subagents", " with those of all its descendants"))
    ),
]


def tree(sessions: pa.Table) -> pa.Table:
    """One row per session, parents before children, siblings in the order they were created.

    A session whose parent is not there, or that would be its own ancestor, is a root. Of several logs with one id the first
    has the children; each of the others is a root without any. A sum that no column can hold is null.
    """
    rows = sessions.to_pylist()
    by_id: dict[str, int] = {}
    for number, row in enumerate(rows):
        by_id.setdefault(row["session_id"], number)
    first = set(by_id.values())
    parents = {
        number: by_id[row["parent_session"]]
        for number, row in enumerate(rows)
        if number in first and row["parent_session"] in by_id
    }
    order = sorted(range(len(rows)), key=lambda number: (rows[number]["created_at"] is None, rows[number]["created_at"] or 0))
    roots, children, _ = arrange(order, parents)
    placed = list(_walk(roots, children))
    totals = _totals(rows, [number for number, _ in placed], children)
    told = [
        {
            **{field.name: rows[number].get(field.name) for field in _COLUMNS},
            "depth": depth,
            "parent_missing": rows[number]["parent_session"] is not None and rows[number]["parent_session"] not in by_id,
            **totals[number],
        }
        for number, depth in placed
    ]
    arrays = [_array([row[field.name] for row in told], field.type) for field in _COLUMNS]
    return pa.Table.from_arrays(arrays, schema=pa.schema(_COLUMNS))


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Sums may grow beyond what a column holds; everything else comes from one."""
    return array_of(values, kind) if pa.types.is_int64(kind) else pa.array(values, kind)


def _walk(roots: list[int], children: dict[int, list[int]]) -> Iterator[tuple[int, int]]:
    waiting = [(root, 0) for root in reversed(roots)]
    while waiting:
        number, depth = waiting.pop()
        yield number, depth
        waiting += [(child, depth + 1) for child in reversed(children.get(number, []))]


def _totals(rows: list[dict[str, Any]], placed: list[int], children: dict[int, list[int]]) -> dict[int, dict[str, Any]]:
    """Sums over each session and its descendants; a sum of nothing known is unknown."""
    totals: dict[int, dict[str, Any]] = {}
    for number in reversed(placed):  # children stand behind their parents
        below = [totals[child] for child in children.get(number, [])]
        told: dict[str, Any] = {"sessions": 1 + sum(each["sessions"] for each in below)}
        for name in _SUMMED:
            counts = [rows[number][name], *(each[f"{name}_with_subagents"] for each in below)]
            known = [count for count in counts if count is not None]
            told[f"{name}_with_subagents"] = sum(known) if known else None
        totals[number] = told
    return totals
