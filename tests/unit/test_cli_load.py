"""load and report: files and folders as tables and as a page."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cassette_lab.cli import main
from tests.benchmarks.generate import cassette_file


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    folder.mkdir()
    cassette_file(folder, 4, "mixed")
    cassette_file(folder, 3, "plain")
    return folder


def test_tables_are_written_as_parquet(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "tables"
    assert main(["load", str(runs), "-o", str(out)]) == 0
    assert f"7 rows in {out / 'calls.parquet'}" in capsys.readouterr().out
    assert pq.read_table(out / "cassettes.parquet").num_rows == 2
    calls = pq.read_table(out / "calls.parquet")
    assert calls.num_rows == 7
    assert "prompt" not in calls.column_names


def test_tables_are_written_as_arrow_with_bodies(runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "tables"
    assert main(["load", str(runs / "plain-3.cassette.jsonl"), "-o", str(out), "--format=arrow", "--bodies"]) == 0
    with pa.OSFile(str(out / "calls.arrow")) as file:
        calls = pa.ipc.open_file(file).read_all()
    assert calls.num_rows == 3
    assert calls["output"].null_count == 0


def test_a_broken_file_stops_or_is_listed(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torn = runs / "plain-3.cassette.jsonl"
    torn.write_bytes(torn.read_bytes()[:-50])
    out = tmp_path / "tables"
    assert main(["load", str(runs), "-o", str(out)]) == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert not out.exists()
    assert main(["load", str(runs), "-o", str(out), "--on-error", "collect"]) == 0
    captured = capsys.readouterr()
    assert captured.err.startswith("cassette-lab: not loaded: plain-3.cassette.jsonl, line 4: ")
    assert pq.read_table(out / "problems.parquet").num_rows == 1
    assert pq.read_table(out / "calls.parquet").num_rows == 4


def test_a_report_is_one_page_and_names_what_was_left_out(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torn = runs / "plain-3.cassette.jsonl"
    torn.write_bytes(torn.read_bytes()[:-50])
    page = tmp_path / "new" / "report.html"
    assert main(["report", str(runs), "-o", str(page)]) == 1
    assert not page.exists()
    capsys.readouterr()
    assert main(["report", str(runs), "-o", str(page), "--on-error", "collect", "--title", "a <b>"]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"4 calls in {page}\n"
    assert "plain-3.cassette.jsonl, line 4" in captured.err
    assert "<h1>a &lt;b&gt;</h1>" in page.read_text("utf-8")


def test_a_report_compares_with_the_recording_that_is_named(runs: Path, tmp_path: Path) -> None:
    file, page = runs / "plain-3.cassette.jsonl", tmp_path / "report.html"
    assert main(["report", str(file), "-o", str(page), "--compare", str(file)]) == 0
    text = page.read_text("utf-8")
    assert 'data-cassette-view="diff"' in text
    assert '"verdict":"equivalent' in text
    assert main(["report", str(file), "-o", str(page), "--compare", str(tmp_path / "none")]) == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["{runs}"], "-o FOLDER"),
        (["{runs}/none", "-o", "{runs}/out"], "none"),
        (["{runs}", "-o", "{runs}/plain-3.cassette.jsonl"], "name another folder"),
        (["{runs}", "-o", "{runs}/out", "--format", "csv"], "--format takes one of parquet, arrow, not 'csv'"),
    ],
)
def test_a_mistake_is_one_line(words: list[str], sentence: str, runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["load", *(word.format(runs=runs) for word in words)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert sentence in captured.err
