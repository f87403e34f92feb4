"""A cassette range by range: together the steps are what ``project`` gives, and a break loses no row before it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from cassette_lab.cassette.columns import Projection
from cassette_lab.cassette.reader import read_cassette
from cassette_lab.cassette.scan import ranges, steps
from cassette_lab.cassette.scan.blocks import DoubtError
from cassette_lab.cassette.scan.steps import Steps
from cassette_lab.cassette.source import CHANGED_WHILE_READ
from cassette_lab.errors import FormatError
from tests.benchmarks.generate import Shape
from tests.unit.test_scan import assert_same, changed, refusal, sample, save


@pytest.fixture(autouse=True)
def short_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "BLOCK_BYTES", 60_000)
    monkeypatch.setattr(steps, "FIRST_BYTES", 10_000)
    monkeypatch.setattr(ranges, "_PIECE_BYTES", 5_000)
    monkeypatch.setattr(steps, "_EXACT_ROWS", 30)


def read(path: Path, *, bodies: bool = False) -> tuple[pa.Table, Projection]:
    reading = Steps(path, bodies=bodies)
    rows = pa.concat_tables([step.calls for step in reading])
    assert reading.projection is not None
    return rows, reading.projection


@pytest.mark.parametrize("shape", ["plain", "mixed", "full", "spaced"])
@pytest.mark.parametrize("calls", [0, 1, 200])
def test_the_steps_together_are_the_whole_file(tmp_path: Path, shape: Shape, calls: int) -> None:
    path = save(tmp_path / "a.cassette.jsonl", sample(calls, shape))
    reading = Steps(path, bodies=True)
    told = list(reading)
    assert reading.projection is not None
    assert_same(reading.projection, path)
    if calls:
        assert pa.concat_tables([step.calls for step in told]).equals(reading.projection.calls)
    assert (reading.rows, reading.line) == (calls, calls + 1)
    done = [step.done_bytes for step in told]
    assert done == sorted(done)
    assert calls < 200 or (len(done) > 3 and done[-1] == path.stat().st_size)


def test_what_stands_before_a_break_is_handed_out(tmp_path: Path) -> None:
    lines = sample(200)
    lines[150] = lines[150].replace(b'"local":', b'"lokal":')
    path = save(tmp_path / "a.cassette.jsonl", lines)
    reading = Steps(path)
    rows: list[int] = []
    with pytest.raises(FormatError) as caught:
        rows.extend(line for step in reading for line in step.calls["line"].to_pylist())
    assert rows == list(range(2, 151))
    assert (reading.rows, reading.line, reading.projection) == (149, 150, None)
    assert (str(caught.value), caught.value.line, caught.value.record, caught.value.field, caught.value.code) == refusal(
        read_cassette, path
    )


def test_a_call_that_is_there_twice_takes_back_what_follows(tmp_path: Path) -> None:
    lines = sample(200, "plain")
    again = changed(lines, {120: lambda members: members.update(sequence=7)})
    path = save(tmp_path / "a.cassette.jsonl", again)
    reading = Steps(path)
    rows: list[int] = []
    with pytest.raises(FormatError, match="sequence"):
        rows.extend(len(step.calls) for step in reading)
    assert sum(rows) == 200
    assert (reading.rows, reading.line) == (119, 120)


def test_a_file_that_grows_meanwhile_is_told(tmp_path: Path) -> None:
    path = save(tmp_path / "a.cassette.jsonl", sample(200))
    reading = iter(Steps(path))
    next(reading)
    with path.open("ab") as file:
        file.write(b"\n")
    with pytest.raises(FormatError, match="changed while it was read") as caught:
        list(reading)
    assert caught.value.message == CHANGED_WHILE_READ


def test_another_file_in_its_place_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path / "a.cassette.jsonl", sample(200))
    reading = iter(Steps(path))
    next(reading)
    monkeypatch.setattr(steps, "scan_part", _doubt)
    save(tmp_path / "b", changed(sample(200), {0: lambda header: header.update(cassetteId="b")})).replace(path)
    with pytest.raises(FormatError, match="changed while it was read"):
        list(reading)


def test_other_calls_behind_the_same_header_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path / "a.cassette.jsonl", sample(200))
    reading = iter(Steps(path))
    next(reading)
    monkeypatch.setattr(steps, "scan_part", _doubt)
    save(tmp_path / "b", changed(sample(200), {1: lambda call: call.update(local=not call["local"])})).replace(path)
    with pytest.raises(FormatError, match="changed while it was read"):
        list(reading)


def _doubt(*_: object, **__: object) -> None:
    raise DoubtError


def test_no_header_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no record"):
        Steps(save(tmp_path / "a.cassette.jsonl", []))
