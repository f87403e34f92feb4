"""One function opens a log, whatever it is packed in, and one tells of it without holding it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import cassette_lab as cl
from cassette_lab.errors import FormatError
from cassette_lab.session.derive import derive
from cassette_lab.session.follow import follow
from cassette_lab.session.opening import each_facts, each_log, open_session, session_facts
from tests.unit.session_samples import TURN_EVENTS, event, frames, header, text, turn, write
from tests.unit.test_session_sqlite import make_store, row

SECOND = ("two", 0, "turn/start", 1, "{}", None, None, None)


def _forms(folder: Path) -> list[Path]:
    """One session as raw text, as zstd and in a store."""
    rows = [row(0, "turn/start", {"turn": 1}), row(1, "turn/end", {"turn": 1, "reason": {"kind": "completed"}})]
    return [
        write(folder / "a.jsonl", text(header(), *turn())),
        write(folder / "b.jsonl.zstd", b"".join(frames([[header()], turn()]))),
        make_store(folder / "c.db", 17, rows),
    ]


def test_every_form_is_told_by_its_content(tmp_path: Path) -> None:
    paths = [path.rename(path.with_suffix(".bin")) for path in _forms(tmp_path)]
    logs = [open_session(path) for path in paths]
    assert [log.physical.encoding for log in logs] == ["jsonl", "zstd", "sqlite"]
    assert [log.event_count for log in logs] == [TURN_EVENTS, TURN_EVENTS, 2]
    assert [session_facts(path) for path in paths] == [derive(log) for log in logs]
    assert [len(session_facts(path).turns) for path in paths] == [1, 1, 1]
    assert cl.open_session(paths[2]) == logs[2]
    raw = paths[0].read_bytes()
    assert open_session(raw, path="x").event_count == session_facts(raw).event_count == TURN_EVENTS


def test_of_several_sessions_one_must_be_chosen(tmp_path: Path) -> None:
    path = make_store(tmp_path / "a.db", 17, [row(0, "turn/start", {}), SECOND])
    for opened in (open_session, session_facts):
        with pytest.raises(FormatError, match="2 sessions: one, two; choose one by its id") as caught:
            opened(path)
        assert caught.value.path == str(path)
        assert "\n" not in str(caught.value)
        assert opened(path, "two").header.id == "two"
        with pytest.raises(FormatError, match="no session 'three'"):
            opened(path, "three")


def test_a_store_of_many_names_the_first_and_one_of_none_says_so(tmp_path: Path) -> None:
    rows = [(f"s{number:02}", 0, "turn/start", 1, "{}", None, None, None) for number in range(20)]
    path = make_store(tmp_path / "a.db", 17, [row(0, "turn/start", {}), *rows])
    with pytest.raises(FormatError, match=r"sessions: .* and \d+ more; choose"):
        open_session(path)


def test_a_file_of_its_own_has_one_id(tmp_path: Path) -> None:
    path = _forms(tmp_path)[0]
    assert open_session(path, "sample").header.id == session_facts(path, "sample").id == "sample"
    for opened in (open_session, session_facts):
        with pytest.raises(FormatError, match=r"holds the session sample, not oth\\u\{001b\}er"):
            opened(path, "oth\x1ber")


def test_a_session_is_named_by_its_folder_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "--app--" / "s1"
    write(folder / "session.jsonl", text(header(id="s1")))
    write(folder / "session.v4.jsonl", text(header(4, id="s1")))
    write(folder / "session.lock", b"")
    monkeypatch.setenv("HOME" if os.name == "posix" else "USERPROFILE", str(tmp_path))
    file = f"{folder}/session.v4.jsonl#s1"
    for named in (folder, str(folder), folder.parent, tmp_path, "~/--app--/s1", f"{folder}#s1", file):
        for opened in (open_session, session_facts):
            told = opened(named)
            assert (told.header.id, told.header.version) == ("s1", 4)
    with pytest.raises(FormatError, match="holds the session s1, not s2"):
        open_session(f"{folder}#s2")


def test_of_several_sessions_in_a_folder_one_must_be_chosen(tmp_path: Path) -> None:
    for name in ("s1", "s2"):
        write(tmp_path / name / "session.jsonl", text(header(id=name)))
    write(tmp_path / "s3" / "session.jsonl", b"no header\n")
    make_store(write(tmp_path / "s4" / "store.db", b""), 17, [row(0, "turn/start", {}), SECOND])
    empty = write(tmp_path / "x" / "y.txt", b"").parent
    told = r"4 session logs in this folder: s1.*session.jsonl, s2.*, s3.*, s4.*store.db; name one"
    with pytest.raises(FormatError, match=told) as caught:
        open_session(tmp_path)
    assert caught.value.path == str(tmp_path)
    for session_id in ("s1", "s2", "one", "two"):
        assert open_session(tmp_path, session_id).header.id == session_id
        assert session_facts(f"{tmp_path}#{session_id}").header.id == session_id
    with pytest.raises(FormatError, match=r"none of the 4 logs in this folder is of the session s9"):
        open_session(tmp_path, "s9")
    with pytest.raises(FormatError, match="no session log in this folder"):
        open_session(empty)


def test_of_several_copies_of_one_session_one_must_be_named(tmp_path: Path) -> None:
    for day in ("monday", "tuesday"):
        write(tmp_path / day / "s1" / "session.jsonl", text(header(id="s1")))
        write(tmp_path / day / "s1" / "session.v4.jsonl", text(header(4, id="s1")))  # the newest of a session counts
    for opened in (open_session, session_facts, follow):
        with pytest.raises(FormatError, match=r"2 logs in this folder are of the session s1: monday.*v4.jsonl, tuesday.*v4"):
            opened(f"{tmp_path}#s1")
    assert open_session(f"{tmp_path / 'monday'}#s1").header.version == 4


def test_a_file_may_have_a_name_with_the_mark(tmp_path: Path) -> None:
    path = write(tmp_path / "a#b.jsonl", text(header(id="one")))
    assert open_session(path).header.id == open_session(f"{path}#one").header.id == "one"
    with pytest.raises(FormatError, match=r"a#c\.jsonl"):
        open_session(tmp_path / "a#c.jsonl")


def test_every_session_of_a_file_is_read_by_itself(tmp_path: Path) -> None:
    bad = ("two", 7, "turn/start", 1, "{}", None, None, None)
    path = make_store(tmp_path / "a.db", 17, [row(0, "turn/start", {}), bad])
    log = write(tmp_path / "a.jsonl", text(header()))
    for each in (each_log, each_facts):
        told = []
        for read in each(path):
            try:
                told.append(read().header.id)
            except FormatError as error:
                told.append(str(error.code))
        assert told == ["one", "CASSETTE_FORMAT"]
        assert [read().header.id for read in each(log)] == ["sample"]


def test_a_missing_log_is_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no such file; check the name") as caught:
        open_session(tmp_path / "none.jsonl")
    assert isinstance(caught.value, FormatError)
    assert caught.value.path == str(tmp_path / "none.jsonl")


def test_the_bytes_of_a_store_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="give its path"):
        open_session(_forms(tmp_path)[2].read_bytes())


def test_a_log_is_shown_in_one_line_without_what_was_said(tmp_path: Path) -> None:
    prompt = {"content": [{"type": "text", "text": "secret"}]}
    rows = [event(0, "user/message", prompt), event(1, "turn/start", {"turn": 1})]
    path = write(tmp_path / "a\nb.jsonl", text(header(id="s\x1b", seedLength=1), *rows) + b"{")
    told = repr(open_session(path))
    assert told.startswith(r"<SessionLog s\u{001b}: format 0, 2 events, 1 of them inherited, 1 problem, ")
    assert told.endswith(r"a\u{000a}b.jsonl>")


def test_progress_counts_the_bytes_of_the_file(tmp_path: Path) -> None:
    for path in _forms(tmp_path)[:2]:
        told: list[tuple[int, int]] = []

        def note(done: int, total: int, told: list[tuple[int, int]] = told) -> None:
            told.append((done, total))

        session_facts(path, progress=note)
        assert told
        assert all(0 < done <= total == path.stat().st_size for done, total in told)
        assert told == sorted(told)
