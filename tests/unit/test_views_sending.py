"""What a front end gets: the columns that views draw, metadata only, no folders of this machine, and only so many rows."""

from __future__ import annotations

import gzip
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

import cassette_lab as cl
from cassette_lab.errors import ConfigError
from cassette_lab.views.bounding import parents
from cassette_lab.views.sending import DRAWN, Sent, sent
from tests.unit.test_scan import sample, save
from tests.view_samples import ROOT, call, changed_run, every_outcome, many_calls, rows_table

SESSIONS = ROOT / "notebooks" / "samples" / "sessions"


def read(given: Sent, name: str = "calls") -> pa.Table:
    return pa.ipc.open_stream(gzip.decompress(given.tables[name])).read_all()


def test_only_the_columns_that_views_draw_are_sent() -> None:
    table = rows_table("calls", every_outcome())
    given = read(sent(table))
    assert given.column_names == [name for name in DRAWN["calls"] if name in table.column_names]
    assert len(given) == len(table)
    assert given["duration_ms"].to_pylist() == table["duration_ms"].to_pylist()


def test_short_keys_keep_the_tree_and_are_still_one_for_each_call() -> None:
    table = many_calls(3_000)
    given = sent(table)
    assert read(given)["call_key"].to_pylist()[0].startswith("root/")
    assert len(read(given)["call_key"].unique()) == 3_000
    assert parents(read(given)).tolist() == parents(table).tolist()
    assert given.nbytes < sent(table, short_keys=False).nbytes


def test_keys_that_would_become_the_same_stay_longer() -> None:
    keys = [f"root/{parent}/x-abcd{tail}~1" for parent, tail in (("a", "00000000"), ("a", "11111111"), ("b", "00000000"))]
    given = read(sent(rows_table("calls", [call(number, "x", key=key) for number, key in enumerate(keys)])))
    assert given["call_key"].to_pylist() == ["root/a/x-abcd00000000~1", "…/x-abcd11111111~1", "root/b/x-abcd00000000~1"]
    alone = read(sent(rows_table("calls", [call(1, "x", key=keys[0])])))
    assert alone["call_key"].to_pylist() == ["…/x-abcd…~1"]


def test_of_too_many_rows_failures_and_long_ones_go_with_everything_above_them() -> None:
    table = many_calls(5_000)
    given = sent(table, max_rows=400)
    kept = read(given)
    rows = kept["row"].to_pylist()
    assert 300 < len(rows) <= 400
    assert table.take(rows)["started_at"].to_pylist() == kept["started_at"].to_pylist()
    above = parents(table)
    assert {above[row] for row in rows if above[row] >= 0} <= set(rows)
    longest = max(range(len(table)), key=table["duration_ms"].to_pylist().__getitem__)
    assert longest in rows
    assert sum(reason != "completed" for reason in kept["stop_reason"].to_pylist()) > 100
    assert given.note == f"{len(rows)} of 5,000 calls are here: what failed and what took long, with everything above it"
    assert given.total == {"calls": 5_000}


def test_a_diff_that_is_too_long_keeps_both_sides_of_what_changed() -> None:
    before, after = rows_table("calls", every_outcome()), rows_table("calls", changed_run())
    given = sent(SimpleNamespace(expected=SimpleNamespace(calls=before), actual=SimpleNamespace(calls=after)), max_rows=16)
    labels = [read(given, side)["label"].to_pylist() for side in ("expected", "actual")]
    assert "lint" in labels[0]
    assert "translate" in labels[1]
    assert all(5 <= len(side) <= 8 for side in labels)


def test_sessions_are_bounded_table_by_table() -> None:
    lab = cl.load(SESSIONS)
    assert set(sent(lab).tables) == {"sessions", "turns", "steps", "model_calls", "tool_calls"}
    given = sent(lab, max_rows=30)
    assert given.rows["sessions"] == len(lab.sessions)
    assert sum(given.rows.values()) <= 30
    assert " of 16 steps" in given.note


def test_files_are_named_without_this_machines_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        call(number, "x", source=f"{folder}/run.cassette.jsonl") for number, folder in enumerate(("/home/me/a", "/home/me/b"))
    ]
    given = sent(rows_table("calls", rows))
    assert read(given)["source"].to_pylist() == ["run.cassette.jsonl (1)", "run.cassette.jsonl (2)"]
    monkeypatch.chdir(tmp_path)
    save(tmp_path / "a.cassette.jsonl", sample(3))
    diff = cl.diff(tmp_path / "a.cassette.jsonl", tmp_path / "a.cassette.jsonl")
    assert sent(diff).options["title"] == "a.cassette.jsonl → a.cassette.jsonl"
    assert sent(diff).options["diff"]["verdict"].startswith("equivalent: ")


def test_how_far_it_can_be_trusted_is_said(tmp_path: Path) -> None:
    save(tmp_path / "a.cassette.jsonl", sample(3))
    assert sent(tmp_path).options["trust"] == {"state": "verified", "words": "chain verified"}
    lines = sample(3)
    save(tmp_path / "b.cassette.jsonl", [*lines[:2], b"{}"])
    given = sent(cl.load(tmp_path, on_error="collect")).options
    assert given["trust"] == {"state": "partial", "words": "chain verified, 1 problem"}
    assert given["problem"].startswith("not loaded: b.cassette.jsonl, line 3: ")
    alone = sent(cl.load(tmp_path / "b.cassette.jsonl", on_error="collect")).options
    assert alone["trust"] == {"state": "broken", "words": "not verified: line 3"}
    assert sent(SESSIONS).options["trust"] == {"state": "partial", "words": "read up to a torn tail of 38 bytes"}
    assert "trust" not in sent(rows_table("calls", every_outcome())).options


def test_bodies_are_asked_for_twice(tmp_path: Path) -> None:
    path = save(tmp_path / "a.cassette.jsonl", sample(3))
    assert "output" not in read(sent(cl.load(path, bodies=True))).column_names
    given = sent(cl.load(path, bodies=True), bodies=True)
    assert given.options["bodies"] is True
    assert "output" in read(given).column_names
    with pytest.raises(ConfigError, match=r"load\(\.\.\., bodies=True\)"):
        sent(cl.load(path), bodies=True)
