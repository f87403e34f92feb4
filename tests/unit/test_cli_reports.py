"""verify, inspect and diff: their documents, their lines, their exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cassette_lab.cassette.diff import diff
from cassette_lab.cassette.reader import read_cassette
from cassette_lab.cassette.summary import inspect, summary
from cassette_lab.cli import main
from cassette_lab.jsonio import canonical, digest
from tests.benchmarks.generate import cassette_file

PROGRAM = [sys.executable, "-c", "import sys; from cassette_lab.cli import main; sys.exit(main())"]


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(cassette_file(tmp_path, 12, "mixed"))


def test_verify_prints_the_summary_behind_the_file(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", file, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert next(iter(document)) == "file"
    assert document == {"file": file, **summary(read_cassette(file))}


def test_inspect_prints_the_calls_where_they_are_asked_for(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "--json", file]) == 0
    assert "calls" not in json.loads(capsys.readouterr().out)
    assert main(["inspect", "--show-calls", file, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document == {"file": file, **inspect(read_cassette(file), show_calls=True)}
    assert len(document["calls"]) == 12


def test_lines_for_a_person_say_the_same(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    facts = summary(read_cassette(file))
    assert main(["verify", file]) == 0
    shown = capsys.readouterr().out
    assert f"{file}: verified" in shown
    assert f"12 calls: {facts['completed']} completed, {facts['failed']} failed, {facts['aborted']} aborted" in shown
    assert main(["inspect", file, "--show-calls"]) == 0
    shown = capsys.readouterr().out
    assert facts["cassetteId"] in shown
    for call in read_cassette(file).interactions:
        assert call.call_key in shown


def test_equal_files_are_equivalent_and_others_are_not(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = str(cassette_file(tmp_path, 7, "plain"))
    assert main(["diff", file, file]) == 0
    assert capsys.readouterr().out.startswith("equivalent")
    assert main(["diff", file, other]) == 2
    assert "removed" in capsys.readouterr().out
    assert main(["diff", file, other, "--json"]) == 2
    shown = capsys.readouterr().out
    assert json.loads(shown) == diff(file, other).to_dict()
    assert shown.endswith("}\n")


def test_a_broken_file_is_one_line_that_names_the_place(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = Path(file).read_bytes().splitlines(keepends=True)
    lines[3] = lines[3].replace(b'"published":true', b'"published":null').replace(b'"published":false', b'"published":null')
    Path(file).write_bytes(b"".join(lines))
    for words in (["verify", file], ["inspect", file, "--json"], ["diff", file, file]):
        assert main(words) == 1
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.count("\n") == 1
        assert f"{file}, line 4: " in captured.err
        assert "published" in captured.err


@pytest.mark.parametrize("name", ["missing.cassette.jsonl", "", ".", "no\x07bell\u202e", "a\0b", "x" * 5000])
def test_a_file_that_cannot_be_read_is_one_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", name]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert not any(character in captured.err for character in "\x07\u202e\0")


def hostile_file(folder: Path) -> str:
    """A cassette whose texts move the cursor, turn the writing direction and hide."""
    lines = [json.loads(line) for line in cassette_file(folder, 1, "plain").read_bytes().splitlines()]
    lines[0]["cassetteId"] = "id\x1b[2J\u202e\ud800\U000e0041"
    lines[1]["callKey"] = "root/\x9b31m\u2028~1"
    path = folder / "hostile.cassette.jsonl"
    previous = None
    with path.open("wb") as out:
        for members in lines:
            members.pop("hash")
            if previous is not None:
                members["previousHash"] = previous
            previous = digest(members)
            out.write(canonical({**members, "hash": previous}) + b"\n")
    return str(path)


def test_hostile_text_is_shown_and_never_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = hostile_file(tmp_path)
    assert main(["inspect", file, "--show-calls"]) == 0
    shown = capsys.readouterr().out
    assert "id\\u{001b}[2J\\u{202e}\\u{d800}\\u{e0041}" in shown
    assert "root/\\u{009b}31m\\u{2028}~1" in shown
    assert main(["inspect", file, "--show-calls", "--json"]) == 0
    shown = capsys.readouterr().out
    assert '"id\\u001b[2J\\u202e\\ud800\\udb40\\udc41"' in shown
    assert '"root/\\u009b31m\\u2028~1"' in shown


def test_a_reader_that_goes_away_is_met_with_silence(tmp_path: Path) -> None:
    file = cassette_file(tmp_path, 1000, "plain")
    program = subprocess.Popen(
        [*PROGRAM, "inspect", str(file), "--show-calls", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert program.stdout is not None
    assert program.stderr is not None
    assert program.stdout.readline() == b"{\n"
    program.stdout.close()
    errors = program.stderr.read()
    program.stderr.close()
    assert program.wait(30) == 1
    assert errors == b""


def test_output_is_utf_8_in_any_locale(tmp_path: Path) -> None:
    file = tmp_path / "naïve-日本.cassette.jsonl"
    cassette_file(tmp_path, 1, "plain").rename(file)
    done = subprocess.run(
        [*PROGRAM, "verify", file.name],
        cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
        capture_output=True,
        check=True,
    )
    assert done.stdout.decode().startswith("naïve-日本.cassette.jsonl: verified\n")


def test_a_report_starts_without_what_it_does_not_need(file: str) -> None:
    program = """
import sys
from cassette_lab.cli import main
code = main()
heavy = {name for name in ("pandas", "duckdb", "altair", "IPython", "polars") if sys.modules.get(name) is not None}
sys.exit(f"loaded {heavy}" if heavy else code)
"""
    for words in (["verify", file], ["inspect", file, "--show-calls"], ["diff", file, file]):
        subprocess.run([sys.executable, "-c", program, *words], check=True, stdout=subprocess.DEVNULL)
