"""Odd places and odd tables: an old report is not lost, a recording is not written over, what cannot be shown is told."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pyarrow as pa
import pytest

import cassette_lab as cl
from cassette_lab.errors import ConfigError
from tests.unit.cassette_samples import siblings, write
from tests.view_samples import ROOT, call, changed_run, every_outcome, rows_table


def test_an_old_report_stays_where_a_new_one_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = cl.report(rows_table("calls", every_outcome()), tmp_path / "report.html")
    before = target.read_bytes()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        cl.report(rows_table("calls", changed_run()), target)
    assert target.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def full(_descriptor: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_report_does_not_replace_what_it_is_about(tmp_path: Path) -> None:
    recording = write(tmp_path / "run.cassette.jsonl", siblings())
    before = recording.read_bytes()
    (tmp_path / "link.html").symlink_to(recording)
    for target in (recording, tmp_path / "link.html"):
        with pytest.raises(ConfigError, match="is one of the recordings"):
            cl.report(recording, target)
    assert recording.read_bytes() == before


def test_tables_that_are_none_of_calls_are_told(tmp_path: Path) -> None:
    other = pa.table({"x": [1]})
    for show in (cl.explore, cl.timeline, cl.topology, cl.stop_reasons):
        with pytest.raises(ConfigError, match="no table of calls"):
            show(other)
    with pytest.raises(ConfigError, match="no known tables"):
        cl.durations(other)
    with pytest.raises(ConfigError, match="no table of calls"):
        cl.report(other, tmp_path / "report.html")
    part = rows_table("calls", every_outcome()).drop_columns(["request_fingerprint"])
    with pytest.raises(ConfigError, match="request_fingerprint"):
        cl.side_by_side(part, part)


def test_huge_and_unknown_durations_are_shown(tmp_path: Path) -> None:
    huge = rows_table(
        "calls", [call(1, "slow", duration_ms=1.5e308), call(2, "odd", duration_ms=float("nan")), call(3, "fine")]
    )
    for show in (cl.explore, cl.timeline, cl.topology, cl.stop_reasons):
        assert "<iframe" in show(huge)._repr_mimebundle_()[0]["text/html"]
    assert "<iframe" in cl.side_by_side(huge, huge)._repr_mimebundle_()[0]["text/html"]
    cl.report(huge, tmp_path / "report.html", compare=huge)


def test_what_cannot_stand_side_by_side_is_told() -> None:
    two = rows_table("calls", [call(1, "a", source="a.jsonl"), call(1, "b", source="b.jsonl")])
    with pytest.raises(ConfigError, match=r"here are 2; name one of them, or compare all with cl\.paired_deltas"):
        cl.side_by_side(two, two)
    logs = cl.load(ROOT / "notebooks" / "samples" / "sessions")
    with pytest.raises(ConfigError, match="session logs cannot be compared call by call"):
        cl.side_by_side(logs, logs)
