"""A folder as a store of logs: every layout, generations, encodings, and what is passed by."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cassette_lab.errors import FormatError
from cassette_lab.session.finding import find_logs
from cassette_lab.session.opening import read_logs
from cassette_lab.session.places import find_named
from tests.unit.session_samples import frames, header, text, turn, write

RAW = text(header(), *turn())
ZSTD = b"".join(frames([[header()], turn()]))


def names(folder: Path) -> list[str]:
    return [each.path.relative_to(folder).as_posix() for each in find_logs(folder) if each.problem is None]


def problems(folder: Path) -> list[str]:
    return [str(each.problem) for each in find_logs(folder) if each.problem is not None]


def test_the_harness_home_its_sessions_a_project_and_a_session_all_lead_to_the_log(tmp_path: Path) -> None:
    session = tmp_path / "sessions" / "--srv-app--" / "abc"
    write(session / "session.v4.jsonl.zstd", ZSTD)
    write(session / "session.lock", b"")
    write(tmp_path / "storages" / "session_projcache" / "sessions" / "abc.jsonl", RAW)
    write(tmp_path / "settings.json", b"{}")
    for folder in (tmp_path, tmp_path / "sessions", session.parent, session):
        found = list(find_logs(folder))
        assert [(each.path.name, each.generation, each.problem) for each in found] == [("session.v4.jsonl.zstd", 4, None)]


def test_the_highest_generation_wins_by_number_not_by_name(tmp_path: Path) -> None:
    for number in ("", ".v2", ".v9", ".v10"):
        write(tmp_path / "a" / f"session{number}.jsonl", RAW)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert names(tmp_path) == ["a/session.v10.jsonl"]
    assert problems(tmp_path) == []
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_names_that_only_resemble_a_generation_are_none(tmp_path: Path) -> None:
    write(tmp_path / "session.jsonl", RAW)
    for name in ("session.v0.jsonl", "session.v04.jsonl", "session.v4.jsonl.gz", "session.v4.json", "xsession.v4.jsonl.bak"):
        write(tmp_path / name, b"{}\n")
    assert names(tmp_path) == ["session.jsonl"]


def test_of_one_generation_in_both_encodings_the_zstd_file_counts_and_the_other_is_told(tmp_path: Path) -> None:
    write(tmp_path / "a" / "session.jsonl", RAW)
    write(tmp_path / "a" / "session.jsonl.zstd", ZSTD)
    assert names(tmp_path) == ["a/session.jsonl.zstd"]
    assert len(problems(tmp_path)) == 1
    assert "session.jsonl: passed by" in problems(tmp_path)[0]


def test_flat_logs_fixtures_and_mixed_roots(tmp_path: Path) -> None:
    write(tmp_path / "--app--" / "one.jsonl", RAW)
    write(tmp_path / "--app--" / "two.jsonl.zstd", ZSTD)
    write(tmp_path / "--app--" / "bad.jsonl", b"no header\n")
    write(tmp_path / "_no-cwd" / "s" / "session.v3.jsonl", text(header(3)))
    write(tmp_path / "fixture" / "session.jsonl", RAW)
    write(tmp_path / "fixture" / "session.1.jsonl", RAW)
    write(tmp_path / "fixture" / "other.jsonl", b'{"a":1}\n')
    write(tmp_path / "fixture" / "run.cassette.jsonl", RAW)
    write(tmp_path / "node_modules" / "x" / "session.jsonl", RAW)
    write(tmp_path / ".hidden" / "session.jsonl", RAW)
    write(tmp_path / ".sessions" / "s" / "session.jsonl", RAW)
    assert names(tmp_path) == [
        "--app--/bad.jsonl",
        "--app--/one.jsonl",
        "--app--/two.jsonl.zstd",
        ".sessions/s/session.jsonl",
        "_no-cwd/s/session.v3.jsonl",
        "fixture/session.jsonl",
        "fixture/session.1.jsonl",
    ]


def test_an_empty_folder_and_a_missing_file_are_problems(tmp_path: Path) -> None:
    assert ["no session log" in problem for problem in problems(tmp_path)] == [True]
    assert "no such file" in problems(tmp_path / "missing.jsonl")[0]
    with pytest.raises(FormatError):
        list(read_logs(tmp_path))


def test_of_logs_read_one_by_one_an_error_takes_the_place_of_a_bad_one(tmp_path: Path) -> None:
    for name, data in (("a", RAW), ("b", b"no log\n"), ("c", ZSTD)):
        write(tmp_path / name / "session.jsonl", data)
    told = [type(result).__name__ for result in read_logs(tmp_path, on_error="collect")]
    assert told == ["SessionLog", "FormatError", "SessionLog"]


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
def test_a_folder_that_links_to_itself_ends(tmp_path: Path) -> None:
    write(tmp_path / "a" / "session.jsonl", RAW)
    (tmp_path / "a" / "again").symlink_to(tmp_path, target_is_directory=True)
    assert names(tmp_path) == ["a/session.jsonl"]


def test_names_with_ids_are_found_each_once(tmp_path: Path) -> None:
    write(tmp_path / "a" / "session.jsonl", RAW)
    named = [f"{tmp_path}#sample", str(tmp_path / "a"), str(tmp_path / "*"), str(tmp_path / "a" / "sess*"), f"{tmp_path}#none"]
    found = list(find_named(named))
    assert [(each.path.name, each.problem is None) for each in found] == [
        ("session.jsonl", True),
        (f"{tmp_path.name}#none", False),
    ]
