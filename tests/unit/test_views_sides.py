"""Two runs side by side where nothing moves: every change is in the table, the most telling first."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import cassette_lab as cl
from cassette_lab.words import UNKNOWN
from tests.view_samples import HOSTILE, call, changed_run, every_outcome, rows_table


def test_what_changed_stands_first_and_nothing_is_missing() -> None:
    view = cl.side_by_side(rows_table("calls", every_outcome()), rows_table("calls", changed_run()))
    changes = [row[1] for row in view.cells.rows]
    assert sorted(changes, key=lambda change: not change) == changes
    diff_rows = {(row[0], row[1]) for row in view.cells.rows if row[1]}
    before = {row["call_key"] for row in every_outcome()}
    after = {row["call_key"] for row in changed_run()}
    assert len(view.cells.rows) == len(before | after)
    assert sum(change == "removed" for _, change in diff_rows) == len(before - after)
    assert sum(change == "added" for _, change in diff_rows) == len(after - before)


def test_a_change_tells_both_ends_and_times() -> None:
    failed: dict[str, Any] = {"outcome_kind": "result-error", "stop_reason": None, "outcome_fingerprint": "other"}
    old = rows_table("calls", [call(1, "audit", duration_ms=200.0), call(2, "gone", duration_ms=10.0)])
    new = rows_table("calls", [call(1, "audit", duration_ms=300.0, **failed), call(2, HOSTILE[2], duration_ms=20.0)])
    rows = {row[0]: row[1:8] for row in cl.side_by_side(old, new).cells.rows}
    assert rows["audit"] == ("outcome", "200 ms", "300 ms", "+100 ms", "+50 %", "completed", "result-error")
    assert rows["gone"] == ("removed", "10 ms", UNKNOWN, UNKNOWN, UNKNOWN, "completed", UNKNOWN)
    assert rows["admin\\u{202e}gnp.exe"] == ("added", UNKNOWN, "20 ms", UNKNOWN, UNKNOWN, UNKNOWN, "completed")


def test_of_many_calls_the_first_ones_are_in_the_table_and_the_rest_is_counted() -> None:
    many = rows_table("calls", [call(number, f"step {number}") for number in range(1, 61)])
    view = cl.side_by_side(many, many, max_rows=25)
    assert len(view.cells.rows) == 25
    assert "35 more calls in the live view" in view.notes


def test_two_empty_recordings() -> None:
    empty = SimpleNamespace(calls=rows_table("calls", []))
    view = cl.side_by_side(empty, empty)
    assert view.cells.rows == []
    assert "no call is in both recordings" in view.text()
