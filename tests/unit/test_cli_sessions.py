"""sessions and session: folders, logs and stores, told without what was said."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import cassette_lab as cl
from cassette_lab.cli import main
from tests.unit.session_samples import START_MS, event, frames, header, text, turn, write
from tests.unit.session_told import AT, chunk, ev, finish, message, run
from tests.unit.test_session_sqlite import make_store, row

_USAGE = {"inputTokens": 100, "outputTokens": 10, "cacheReadTokens": 5}


def _spoken() -> list[dict[str, Any]]:
    """One turn in which secrets are said: a model call, a tool that fails."""
    prompt = {"role": "user", "content": [{"type": "text", "text": "secret prompt"}], "source": {"kind": "user"}}
    answer = {"role": "tool", "toolCallId": "c1", "content": [{"type": "text", "text": "secret answer"}], "isError": True}
    rows = [
        ev("turn/start", {"turn": 1}, 10),
        ev("step/start", AT, 12),
        ev("user/message", prompt, 13, surfaceOp="append"),
        ev("request/context", {"provider": "p", "model": "m\x1b[31m"}, 15),
        run("secret ", "text", at=25, gap=20),
        finish("tool-calls", 50),
        message("secret text", at=51, usage=_USAGE),
        ev("tool/call", {**AT, "callId": "c1", "name": "read", "arguments": '{"secret":1}'}, 55),
        ev("tool/result", {**AT, "message": answer, "error": {"code": "FS_NOT_FOUND"}}, 60, surfaceOp="append"),
        ev("step/end", AT, 62),
        ev("turn/end", {"turn": 1, "reason": {"kind": "completed"}}, 70),
    ]
    seq = 0
    for each in rows:
        packed = "time0" in each
        each["seq0" if packed else "seq"] = seq
        seq += len(each["data"]["texts"]) if packed else 1
    return rows


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A project's folder: a session, its subagent, one that is torn, and one that is damaged."""
    folder = tmp_path / "store" / "--p--"
    write(folder / "a-root" / "session.jsonl", text(header(id="root"), *_spoken()))
    child = frames([[header(id="child", parentSession="root", origin="subagent")], turn()])
    write(folder / "b-child" / "session.jsonl.zstd", b"".join(child))
    write(folder / "c-torn" / "session.jsonl", text(header(id="torn"), *turn()[:4]) + b'{"type":"to')
    write(folder / "d-bad" / "session.jsonl", text(header(id="bad"), turn()[0]) + b"oops\n" + text(turn()[-1]))
    return tmp_path / "store"


def test_a_folder_is_listed_and_what_cannot_be_read_hides_nothing(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sessions", str(store)]) == 1
    told = capsys.readouterr()
    head, torn, root, child, total = told.out.splitlines()
    assert head.split()[:2] == ["session", "started"]
    date = "2027-01-15 08:00:00"
    counts = ["60", "ms", "1", "1", "1", "100", "5", "10", "completed", "0"]
    assert root.split() == ["root", *date.split(), *counts, "a-root/session.jsonl"]
    assert child.startswith("  child ")  # below its parent
    assert child.split()[-1] == "b-child/session.jsonl.zstd"
    assert torn.split()[-3:] == ["open", "1", "c-torn/session.jsonl"]
    assert total.startswith("3 sessions · 3 turns · ")
    assert "100 tokens in, 5 from caches, 10 out" in total
    assert told.err.count("\n") == 1
    assert told.err.startswith(f"cassette-lab: not read: {store / '--p--' / 'd-bad' / 'session.jsonl'}, line 3: ")
    assert "secret" not in told.out + told.err


def test_the_list_is_a_document(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sessions", str(store), "--json"]) == 1
    shown = capsys.readouterr().out
    document = json.loads(shown)
    assert document["path"] == str(store)
    assert "secret" not in shown
    assert [each["id"] for each in document["sessions"]] == ["root", "child", "torn"]
    root = document["sessions"][0]
    assert (root["startedAt"], root["durationMs"], root["end"]) == ("2027-01-15T08:00:00.010Z", 60, "completed")
    assert (root["turns"], root["modelCalls"], root["toolCalls"], root["toolErrors"]) == (1, 1, 1, 1)
    assert (root["tokens"], root["parent"], root["notes"]) == (_USAGE, None, 0)
    totals = document["totals"]
    assert (totals["sessions"], totals["turns"], totals["toolErrors"], totals["tokens"]) == (3, 3, 1, _USAGE)
    assert totals["startedAt"] == min(each["startedAt"] for each in document["sessions"])
    (problem,) = document["problems"]
    assert (problem["file"], problem["line"]) == (str(store / "--p--" / "d-bad" / "session.jsonl"), 3)


def test_one_log_is_summed_up(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = str(store / "--p--" / "a-root" / "session.jsonl")
    assert main(["session", log]) == 0
    shown = capsys.readouterr().out
    lines = {line[2:14].strip(): line[16:] for line in shown.splitlines()[1:]}
    assert shown.startswith(f"{log}\n")
    assert lines["turns"] == "1 turn: 1 completed"
    assert lines["tool"] == "read: 1 call, 1 error (1 FS_NOT_FOUND), median 5.0 ms"
    assert lines["model"].startswith(r"p / m\u{001b}[31m: 1 call, 0 failed, first chunk after 10")
    assert "secret" not in shown
    assert "\x1b" not in shown
    assert main(["session", log, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["format"], document["steps"], document["turnEnds"]) == (0, 1, {"completed": 1})
    assert (document["events"], document["rows"], document["encoding"]) == (12, 11, "jsonl")
    assert document["tools"][0]["errorCodes"] == {"FS_NOT_FOUND": 1}
    (model,) = document["models"]
    assert (model.pop("errorCodes"), model.pop("failed")) == ({}, 0)
    assert model == {"provider": "p", "model": "m\x1b[31m", "calls": 1, "firstChunkMs": 10, "tokensPerSecond": 500}
    assert "secret" not in str(document)


def test_what_shortened_a_conversation_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = [
        ev("compaction/start", {"compactionId": "a"}, 10),
        ev("compaction/summary", {"compactionId": "a", "usage": {"inputTokens": 9, "outputTokens": 1}}, 20),
        ev("compaction/end", {"compactionId": "a"}, 30),
        ev("compaction/end", {"compactionId": "b", "error": {}}, 40),
        ev("compaction/prune", {}, 50),
    ]
    folder = write(
        tmp_path / "s1" / "session.jsonl", text(header(), *({**each, "seq": at} for at, each in enumerate(events)))
    ).parent
    assert main(["session", str(folder)]) == 0
    assert "  shortened     2 compactions (1 failed), 20 ms, 9 tokens in, 1 out; 1 prune\n" in capsys.readouterr().out
    assert main(["session", str(folder), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["compactions"], document["failedCompactions"], document["prunes"]) == (2, 1, 1)
    assert (document["compactionMs"], document["compactionTokens"]) == (20, {"inputTokens": 9, "outputTokens": 1})


def test_what_is_wrong_with_a_log_is_told(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["session", str(store / "--p--" / "c-torn" / "session.jsonl")]) == 0
    assert "  note          line 6: the last line is not whole (11 bytes)" in capsys.readouterr().out
    assert main(["session", str(store / "--p--" / "d-bad" / "session.jsonl"), "--json"]) == 1
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert ", line 3: " in told.err


def test_of_a_store_one_session_is_chosen_and_all_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    second = ("two", 0, "turn/start", START_MS, '{"turn":1}', None, None, None)
    broken = ("zwei", 0, "turn/start", START_MS, "{", None, None, None)
    path = str(make_store(tmp_path / "s.db", 17, [row(0, "turn/start", {"turn": 1}), second, broken]))
    assert main(["session", path]) == 1
    assert (
        "3 sessions: one, two, zwei; choose one by its id (session_id, or behind the path: PATH#ID)" in capsys.readouterr().err
    )
    for words in ([path, "--id", "two"], [f"{path}#two"]):
        assert main(["session", *words, "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert (document["id"], document["end"], document["encoding"]) == ("two", "open", "sqlite")
    assert main(["sessions", f"{path}#two"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[0] == "two"
    assert main(["sessions", path, "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert [each["id"] for each in document["sessions"]] == ["one", "two"]
    assert "zwei" in document["problems"][0]["message"]


def test_nothing_to_list_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (tmp_path, tmp_path / "none"):
        assert main(["sessions", str(path)]) == 1
        told = capsys.readouterr()
        assert (told.out, told.err.count("\n")) == ("", 1)
    assert main(["sessions", str(tmp_path), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["totals"]["sessions"] == 0


def test_names_of_a_log_cannot_draw_on_the_screen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "\x1b]0;x\x07\n\u202e" + "y" * 10_000
    rows = [ev("turn/start", {"turn": 1}, 1), ev("turn/end", {"turn": 1, "reason": {"kind": hostile}}, 2)]
    rows = [{**each, "seq": seq} for seq, each in enumerate(rows)]
    path = write(
        tmp_path / "a.jsonl", text(header(id=hostile, parentSession=hostile, cwd=hostile), *rows, chunk("x", 3, seq=2))
    )
    for words in (["sessions", str(path)], ["session", str(path)]):
        assert main(words) == 0
        told = capsys.readouterr()
        assert not {"\x1b", "\x07", "\u202e"} & set(told.out + told.err)
    assert main(["sessions", str(path), "--json"]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert json.loads(shown)["sessions"][0]["id"] == hostile


def test_paths_patterns_and_ids_are_listed_each_session_once(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME" if os.name == "posix" else "USERPROFILE", str(tmp_path))
    named = ["~/store/*/a-*", str(store / "--p--" / "a-root" / "session.jsonl"), f"{store}#child", "~/store/**/*.zstd"]
    assert main(["sessions", *named, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert ([each["id"] for each in document["sessions"]], document["paths"]) == (["root", "child"], named)
    assert main(["sessions", "~/store/x*"]) == 1
    assert "no session log matches this pattern" in capsys.readouterr().err


def test_a_child_stands_below_the_parent_that_lies_nearest_and_circles_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for day, at in (("monday", 0), ("tuesday", 50)):
        write(tmp_path / day / "z" / "session.jsonl", text(header(id="root"), event(0, "turn/start", time=START_MS + at)))
        write(
            tmp_path / day / "a" / "session.jsonl",
            text(header(id="child", parentSession="root"), event(0, "turn/start", time=START_MS + at + 9)),
        )
    write(tmp_path / "c" / "session.jsonl", text(header(id="c", parentSession="d")))
    write(tmp_path / "d" / "session.jsonl", text(header(id="d", parentSession="c")))
    write(tmp_path / "e" / "session.jsonl", text(header(id="e", parentSession="gone")))
    assert main(["sessions", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()[1:-1]
    assert [line.partition("session.jsonl")[0].split()[-1] for line in lines[:4]] == [
        "monday/z/",
        "monday/a/",
        "tuesday/z/",
        "tuesday/a/",
    ]
    assert [line.startswith("  child") for line in lines[:4]] == [False, True, False, True]
    assert sorted(line.split()[0] for line in lines[4:]) == ["c", "d", "e"]
    assert sum("(child of gone)" in line for line in lines) == 1


def test_a_log_is_verified_as_far_as_its_format_has_rules(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project = store / "--p--"
    assert main(["verify", str(write(store / "x" / "y" / "session.jsonl", text(header())).parents[1])]) == 0
    assert main(["verify", str(project / "b-child")]) == 0
    shown = capsys.readouterr().out
    assert "session.jsonl.zstd: the session log follows its format" in shown
    assert "2 zstd frames decode, and the checksums that they have fit" in shown
    assert "no hash chain" in shown
    assert main(["verify", str(project / "c-torn" / "session.jsonl"), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["kind"], document["whole"], document["events"]) == ("session-log", False, 5)
    assert [each["code"] for each in document["notes"]] == ["TORN_TAIL"]
    assert main(["verify", f"{store}#bad"]) == 1
    assert ", line 3: " in capsys.readouterr().err


def test_inspect_sums_a_log_up_and_diff_says_what_it_is(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = str(store / "--p--" / "a-root" / "session.jsonl")
    assert main(["session", log]) == 0
    expected = capsys.readouterr().out
    assert main(["inspect", log]) == 0
    assert capsys.readouterr().out == expected
    assert main(["diff", log, log]) == 1
    assert "session.jsonl: this is a session log, and diff compares cassettes" in capsys.readouterr().err
    with pytest.raises(cl.FormatError, match="this is a session log, not a cassette; see `cassette-lab session`"):
        cl.diff(log, log)


def test_why_a_session_ended_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    failure = {"kind": "error", "error": {"message": "secret", "code": "AUTH", "status": 401}}
    rows = [ev("turn/start", {"turn": 1}, 1), ev("turn/end", {"turn": 1, "reason": failure}, 2)]
    log = write(tmp_path / "a.jsonl", text(header(), *({**each, "seq": at} for at, each in enumerate(rows))))
    assert main(["session", str(log)]) == 0
    shown = capsys.readouterr().out
    assert "  end           error AUTH\n" in shown
    assert "1 turn: 1 error (1 AUTH)\n" in shown
    assert "1.0 ms of it in turns" in shown
    assert main(["sessions", str(log)]) == 0
    assert " error AUTH " in capsys.readouterr().out
    assert main(["session", str(log), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["endCode"], document["turnErrorCodes"], document["turnMs"]) == ("AUTH", {"AUTH": 1}, 1)


def test_an_older_generation_beside_a_torn_log_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "a" / "session.v3.jsonl", text(header(3)))
    write(tmp_path / "a" / "session.jsonl", text(header(), *turn()))
    newest = write(tmp_path / "a" / "session.v4.jsonl", text(header(4)) + b'{"type"')
    assert main(["session", str(tmp_path)]) == 0
    assert "session.v3.jsonl beside it is an older generation of the session, which was left alone" in capsys.readouterr().out
    for data in (b"", b'{"ty', b"none\n"):
        newest.write_bytes(data)
        assert main(["session", str(newest)]) == 1
        assert "session.v3.jsonl beside it is an older generation" in capsys.readouterr().err
    newest.write_bytes(text(header(4)))
    assert main(["session", str(newest), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["notes"] == []


def test_a_file_that_is_named_as_zstd_and_is_none_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["session", str(write(tmp_path / "session.jsonl.zstd", b"random\n"))]) == 1
    assert "begins with no zstd frame" in capsys.readouterr().err


def test_a_session_that_has_just_begun_is_told_and_no_error(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(store / "x" / "session.jsonl", b"")
    (store / "--p--" / "d-bad" / "session.jsonl").unlink()
    assert main(["sessions", str(store)]) == 0
    assert "has just begun" in capsys.readouterr().err
