"""Odd places for session logs: folders and pipes with the names of logs, links that go nowhere or in circles, very deep and
very many folders, names that no file can have, names that draw on the screen."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import cassette_lab as cl
from cassette_lab.cli import main
from tests.unit.session_files import asked, log_file
from tests.unit.session_samples import write

pytestmark = pytest.mark.skipif(os.name == "nt", reason="pipes, links and such names are POSIX's")


def sessions(path: object) -> list[str]:
    lab = cl.load(str(path), on_error="collect")
    ids: list[str] = lab.sessions["session_id"].to_pylist()
    return ids


def test_folders_that_are_named_like_logs_are_none_and_a_pipe_hides_no_session(tmp_path: Path) -> None:
    project = tmp_path / "--p--"
    log_file(project / "session.v4.jsonl.zstd" / "session.jsonl", *asked(1), id="inner")
    (project / "session.jsonl").mkdir()
    (project / "flat.jsonl").mkdir()
    for name in ("session.v9.jsonl", "a.jsonl", "b.sqlite", "c.cassette.jsonl"):
        os.mkfifo(project / name)
    lab = cl.load(tmp_path, on_error="collect")
    assert lab.sessions["session_id"].to_pylist() == ["inner"]
    assert [(row["source"], row["message"]) for row in lab.problems.to_pylist()] == [
        ("--p--/session.v9.jsonl", "this is a device or pipe, not a file")
    ]
    assert main(["sessions", str(tmp_path)]) == 1
    with pytest.raises(cl.FormatError, match="pipe"):
        cl.open_session(project / "session.v9.jsonl")
    assert main(["session", str(project / "a.jsonl")]) == 1


def test_links_in_circles_end_and_a_log_that_is_reached_twice_counts_once(tmp_path: Path) -> None:
    log = log_file(tmp_path / "a" / "session.jsonl", *asked(1), id="a")
    (tmp_path / "a" / "up").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "itself").symlink_to(tmp_path / "itself")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "session.jsonl").symlink_to(log)
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "session.jsonl").symlink_to(tmp_path / "nowhere")
    assert sessions(tmp_path) == ["a"]
    problems = cl.load(tmp_path, on_error="collect").problems.to_pylist()
    assert [(row["source"], row["message"]) for row in problems] == [
        ("c/session.jsonl", "this is a link that leads to no file")
    ]
    with pytest.raises(cl.FormatError):
        cl.load(tmp_path / "itself")


def test_a_folder_may_be_as_deep_as_the_system_allows(tmp_path: Path) -> None:
    write(tmp_path / "kept", b"")
    at = tmp_path
    for _ in range(sys.getrecursionlimit() + 200):
        at /= "d"
        at.mkdir()
    log = log_file(at / "session.jsonl", *asked(1), id="deep")
    assert sessions(tmp_path) == ["deep"]
    assert main(["sessions", str(tmp_path)]) == 0
    log.unlink()
    os.removedirs(at)  # up to the one that is kept; what removes temporary folders nests too deeply


def test_thousands_of_empty_folders_hide_no_log(tmp_path: Path) -> None:
    for number in range(2_000):
        (tmp_path / f"e{number}").mkdir()
    with pytest.raises(cl.FormatError, match="no cassette or session log"):
        cl.load(tmp_path)
    log_file(tmp_path / "e77" / "session.jsonl", *asked(1), id="one")
    assert sessions(tmp_path) == ["one"]


@pytest.mark.parametrize(
    "name", ["a\0b", "x" * 5_000, "/".join(["y" * 200] * 30), "~nobody-of-this-name/x", "a\0b*", "s.db#x\0"]
)
def test_a_name_that_no_file_can_have_is_one_sentence(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(cl.CassetteLabError) as caught:
        cl.load(name)
    assert "\n" not in str(caught.value)
    assert len(cl.load(name, on_error="collect").problems) == 1
    with pytest.raises(cl.CassetteLabError):
        cl.open_session(name)
    for verb in ("sessions", "session"):
        assert main([verb, name]) == 1
        assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("name", ["\x1b[31mred", "two\nlines", "\u202eright", "<b>", os.fsdecode(b"\xff\xfe"), "s" * 200])
def test_a_log_may_lie_in_a_folder_of_any_name_and_is_told_escaped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    log_file(tmp_path / name / "session.jsonl", *asked(1), id="good")
    write(tmp_path / f"{name}2" / "session.jsonl", b"nothing\n")
    lab = cl.load(tmp_path, on_error="collect")
    assert (len(lab.sessions), len(lab.problems)) == (1, 1)
    html = lab._repr_mimebundle_()["text/html"]
    assert "<b>2" not in html
    assert main(["sessions", str(tmp_path)]) == 1
    told = capsys.readouterr()
    for shown in (repr(lab), html, told.out, told.err):
        assert all(character.isprintable() or character == "\n" for character in shown)
    assert told.err.count("\n") == 1
