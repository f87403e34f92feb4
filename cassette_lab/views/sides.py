"""Two recordings side by side where nothing moves: the picture of their differences in time, and a table of every change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from cassette_lab.views.deltas import DELTA_ROWS, IDENTITY, Delta, HasSides, timing_deltas_drawing
from cassette_lab.views.drawing import Cells, Drawing
from cassette_lab.views.rows import NO_LABEL, calls_of, shown
from cassette_lab.views.theme import category_of
from cassette_lab.words import UNKNOWN, delta_text, duration_text, plural

if TYPE_CHECKING:
    import pyarrow as pa

_TOLD: Final = ("label", "call_key", "sequence", "duration_ms", "outcome_kind", "stop_reason", "outcome_fingerprint")
_HEADERS: Final = ("call", "change", "expected", "actual", "difference", "percent", "expected end", "actual end", "call key")
_NUMERIC: Final = frozenset({"expected", "actual", "difference", "percent"})


def side_by_side_drawing(sides: HasSides, *, max_rows: int = DELTA_ROWS) -> Drawing:
    """The timing deltas of two recordings, with a table of all calls: added, removed and otherwise ended ones first.

    The table has the ``max_rows`` first of them; a note says how many more there are.
    """
    drawn = timing_deltas_drawing(sides, max_rows=max_rows)
    calls = _aligned(calls_of(sides.expected), calls_of(sides.actual))
    verdict = [sides.verdict] if hasattr(sides, "verdict") else []
    policy = [f"policy: {name} differs" for name in getattr(sides, "policy_changes", ())]
    rest = len(calls) - max_rows
    left_out = [f"{plural(rest, 'more call')} in the live view"] if rest > 0 else []
    cells = Cells(_HEADERS, [_cells(row) for row in calls.slice(0, max_rows).to_pylist()], _NUMERIC)
    return replace(drawn, notes=(*verdict, *policy, *drawn.notes, *left_out), cells=cells)


def _aligned(expected: pa.Table, actual: pa.Table) -> pa.Table:
    """Calls of either side, aligned by identity, with ``change``; what changed stands first, each as it was admitted."""
    import pyarrow as pa
    import pyarrow.compute as pc

    old, new = (table.select([*IDENTITY, *_TOLD]) for table in (expected, actual))
    both = old.join(new, list(IDENTITY), join_type="full outer", right_suffix="_actual")
    is_new, is_gone = (pc.is_null(both[name]) for name in ("sequence", "sequence_actual"))
    ended = (pc.fill_null(both[name], "") for name in ("outcome_fingerprint", "outcome_fingerprint_actual"))
    is_same = pc.equal(*ended)  # tables need not know fingerprints
    kinds = pa.array(["added", "removed", "", "outcome"])
    change = pc.if_else(is_new, kinds[0], pc.if_else(is_gone, kinds[1], pc.if_else(is_same, kinds[2], kinds[3])))
    order = pc.coalesce(both["sequence"], both["sequence_actual"])
    ranked = both.append_column("change", change).append_column("order", order)
    ranked = ranked.append_column("same", pc.equal(change, ""))
    return ranked.sort_by([("same", "ascending"), ("order", "ascending"), ("occurrence", "ascending")])


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    there = row if row["sequence"] is not None else _side(row, "_actual")
    times = UNKNOWN, UNKNOWN
    old, new = _side(row, ""), _side(row, "_actual")
    if old["sequence"] is not None and new["sequence"] is not None:
        delta = Delta("", "", max(old["duration_ms"] or 0.0, 0.0), max(new["duration_ms"] or 0.0, 0.0))
        times = delta_text(delta.ms), delta.percent
    again = f" ~{row['occurrence']}" if (row["occurrence"] or 1) > 1 else ""
    return (
        shown(there["label"] or NO_LABEL) + again,
        row["change"],
        duration_text(old["duration_ms"]),
        duration_text(new["duration_ms"]),
        *times,
        _end(old),
        _end(new),
        shown(there["call_key"]),
    )


def _side(row: Mapping[str, Any], suffix: str) -> dict[str, Any]:
    return {name: row[name + suffix] for name in _TOLD}


def _end(side: Mapping[str, Any]) -> str:
    return UNKNOWN if side["sequence"] is None else category_of(side["outcome_kind"], side["stop_reason"]).name
