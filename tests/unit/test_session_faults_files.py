"""Session logs as folders hold them: frames, file names, generations and encodings, an empty folder, one bad log of many,
a long log. Each is told to a lab with its own numbers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import cassette_lab as cl
from cassette_lab.cli import main
from cassette_lab.session.frames import MAGIC, compress_frame
from tests.unit.session_files import ASKED_EVENTS, asked, log_file, numbered
from tests.unit.session_samples import frames, header, text, write
from tests.unit.session_told import ev


def told(lab: cl.Lab, *names: str) -> list[list[Any]]:
    """These columns of the lab's sessions."""
    return [list(row.values()) for row in lab.sessions.select(list(names)).to_pylist()]


# Frames


def test_no_frame_behind_the_first_is_ignored(tmp_path: Path) -> None:
    path = log_file(tmp_path / "session.jsonl.zstd", *asked(1), *asked(2, at=100))
    assert path.read_bytes().count(MAGIC) == 7
    names = ("events", "turns", "model_calls", "tool_calls", "output_tokens", "encoding", "torn_bytes", "notes")
    assert told(cl.load(path), *names) == [[2 * ASKED_EVENTS, 2, 2, 2, 20, "zstd", 0, 0]]
    assert cl.load(path).events["members"].to_pylist().count(2) == 2


def test_magic_bytes_inside_a_block_split_nothing(tmp_path: Path) -> None:
    start, end = b'{"type":"todo/write","seq":%d,"time":5,"data":{"text":"' % ASKED_EVENTS, b'"}}\n'
    before, after = numbered(asked(1)), [{**row, "seq": ASKED_EVENTS + 1 + n} for n, row in enumerate(_TURN)]
    block = text(*before) + start + MAGIC * 50 + MAGIC + b"\x58" + end + text(*after)
    path = write(tmp_path / "session.jsonl.zstd", compress_frame(text(header())) + _stored_frame(block))
    assert path.read_bytes().count(MAGIC) == 53
    assert told(cl.load(path), "session_id", "events", "turns", "torn_bytes", "notes") == [
        ["sample", ASKED_EVENTS + 3, 2, 0, 0]
    ]


_TURN = [ev("turn/start", {"turn": 2}, 90), ev("turn/end", {"turn": 2, "reason": {"kind": "completed"}}, 99)]


def _stored_frame(content: bytes) -> bytes:
    """A zstd frame of one block that is stored as it is, without a checksum."""
    assert len(content) < 1 << 16
    block = (len(content) << 3 | 1).to_bytes(3, "little")
    return MAGIC + b"\x80" + b"\x58" + len(content).to_bytes(4, "little") + block + content


@pytest.mark.parametrize("what", ["a few bytes", "all of it", "its end"])
def test_a_first_frame_that_was_trimmed_is_refused_and_hides_no_other_log(tmp_path: Path, what: str) -> None:
    head, *rest = frames([[header()], numbered(asked(1))])
    kept = {"a few bytes": head[7:], "all of it": b"", "its end": head[:-9]}[what]
    bad = write(tmp_path / "bad" / "session.jsonl.zstd", kept + b"".join(rest))
    log_file(tmp_path / "good" / "session.jsonl.zstd", *asked(1), id="good")
    with pytest.raises(cl.FormatError) as caught:
        cl.load(bad)
    assert caught.value.path == str(bad)
    lab = cl.load(tmp_path, on_error="collect")
    assert told(lab, "session_id", "events") == [["good", ASKED_EVENTS]]
    assert len(lab.problems) == 1


# Names


def test_of_a_raw_and_a_zstd_log_side_by_side_one_counts_and_the_other_is_told(tmp_path: Path) -> None:
    log_file(tmp_path / "--p--" / "s" / "session.jsonl", *asked(1))
    log_file(tmp_path / "--p--" / "s" / "session.jsonl.zstd", *asked(1), *asked(2, at=100))
    lab = cl.load(tmp_path, on_error="collect")
    assert told(lab, "encoding", "turns", "output_tokens") == [["zstd", 2, 20]]
    assert [re.sub(".*/", "", source) for source in lab.problems["source"].to_pylist()] == ["session.jsonl"]
    assert "session.jsonl.zstd beside it holds the same session" in lab.problems["message"][0].as_py()
    with pytest.raises(cl.FormatError, match="passed by"):
        cl.load(tmp_path)


def test_only_the_highest_generation_of_a_session_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "--p--" / "s"
    log_file(folder / "session.jsonl", *asked(1), id="s")
    log_file(folder / "session.v3.jsonl.zstd", *_TURN, version=3, id="s")
    log_file(folder / "session.v4.jsonl", *_TURN, *_TURN, version=4, id="s")
    lab = cl.load(tmp_path)
    assert told(lab, "session_id", "format", "turns", "model_calls") == [["s", 4, 2, 0]]
    assert (len(lab.problems), len(lab.turns), len(lab.tree().table)) == (0, 2, 1)
    assert main(["sessions", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("1 session · 2 turns · ")
    assert told(cl.load(folder / "session.v3.jsonl.zstd"), "format", "turns") == [[3, 1]]


@pytest.mark.parametrize(("name", "data"), [("session.v4.jsonl", b"broken\n"), ("session.v5.jsonl", text(header(5)))])
def test_a_lower_generation_never_stands_in_for_one_that_cannot_be_read(tmp_path: Path, name: str, data: bytes) -> None:
    log_file(tmp_path / "s" / "session.jsonl", *asked(1), id="s")
    bad = write(tmp_path / "s" / name, data)
    log_file(tmp_path / "other" / "session.jsonl", *asked(1), id="other")
    lab = cl.load(tmp_path, on_error="collect")
    assert (told(lab, "session_id"), len(lab.problems)) == ([["other"]], 1)
    with pytest.raises(cl.FormatError) as caught:
        cl.load(tmp_path)
    assert (caught.value.path, caught.value.line) == (str(bad), 1)


# Folders


def test_an_empty_folder_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(cl.FormatError, match="no cassette or session log in this folder"):
        cl.load(tmp_path)
    lab = cl.load(tmp_path, on_error="collect")
    assert (len(lab.sessions), len(lab.problems), len(lab.tree().table), len(lab.events)) == (0, 1, 0, 0)
    assert main(["sessions", str(tmp_path)]) == 1
    assert "no session log" in capsys.readouterr().err


@pytest.mark.parametrize("workers", [1, 2])
def test_of_two_hundred_sessions_one_that_is_bad_hides_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], workers: int
) -> None:
    for number in range(200):
        log_file(tmp_path / "--p--" / f"s{number:03}" / "session.jsonl", *asked(1), id=f"s{number:03}")
    bad = tmp_path / "--p--" / "s077" / "session.jsonl"
    lines = bad.read_bytes().splitlines(keepends=True)
    bad.write_bytes(b"".join([*lines[:4], b'{"type":"to\n', *lines[4:]]))
    with pytest.raises(cl.FormatError, match="the file is damaged") as caught:
        cl.load(tmp_path, workers=workers)
    assert (caught.value.path, caught.value.line) == (str(bad), 5)
    lab = cl.load(tmp_path, on_error="collect", workers=workers)
    assert lab.sessions["session_id"].to_pylist() == [f"s{number:03}" for number in range(200) if number != 77]
    assert lab.sql("select sum(output_tokens) tokens, sum(turns) turns from sessions").to_pylist() == [
        {"tokens": 1_990, "turns": 199}
    ]
    assert "s077" not in str(lab.turns.to_pylist())
    (problem,) = lab.problems.select(["source", "line"]).to_pylist()
    assert (problem["source"].endswith("s077/session.jsonl"), problem["line"]) == (True, 5)
    assert main(["sessions", str(tmp_path)]) == 1
    shown = capsys.readouterr()
    assert shown.out.splitlines()[-1].startswith("199 sessions · 199 turns · 199 model calls · 19,900 tokens in, 1,990 out")
    assert shown.err.count("\n") == 1
    assert "s077" in shown.err


def test_a_session_of_fifteen_thousand_rows_is_one_as_any_other(tmp_path: Path) -> None:
    rows = [row for number in range(1, 1_668) for row in asked(number, at=40 * number)]
    assert len(rows) == 15_003
    for name in ("session.jsonl", "session.jsonl.zstd"):
        lab = cl.load(log_file(tmp_path / name, *rows))
        names = ("rows", "events", "turns", "steps", "model_calls", "tool_calls", "tool_errors", "output_tokens", "notes")
        assert told(lab, *names) == [[15_003, 16_670, 1_667, 1_667, 1_667, 1_667, 0, 16_670, 0]]
        assert set(lab.turns["duration_ms"].to_pylist()) == {32.0}
    assert sum(1 for _ in cl.open_session(tmp_path / name).events()) == 16_670
