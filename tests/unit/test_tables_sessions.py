"""Session logs in a lab: beside cassettes, one row each, inherited parts never counted, bodies only when asked for."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from cassette_lab.errors import ConfigError, FormatError
from cassette_lab.session.frames import compress_frame
from cassette_lab.tables import load, write_tables
from cassette_lab.tables.session_names import session_names
from cassette_lab.views import report, time_went, waterfall
from tests.unit.cassette_samples import siblings, write
from tests.unit.session_samples import START_MS, header
from tests.unit.session_told import AT, chunk, ev, finish, message, run

_PROMPT = {"role": "user", "content": [{"type": "text", "text": "secret prompt"}], "source": {"kind": "user"}}


def _rows(name: str = "s") -> list[dict[str, Any]]:
    """One turn of 11 events: a model call and a tool that fails."""
    answer = {"role": "tool", "toolCallId": "c1", "content": [{"type": "text", "text": "secret answer"}], "isError": True}
    return [
        ev("turn/start", {"turn": 1}, 10),
        ev("step/start", AT, 12),
        ev("user/message", _PROMPT, 13, surfaceOp="append"),
        ev("request/context", {"provider": "p", "model": f"model-{name}"}, 15),
        run("secret ", "text", at=25, gap=20),
        chunk("usage", 46, usage={"inputTokens": 100, "outputTokens": 10}),
        finish("tool-calls", 50),
        message("secret text", at=51, usage={"inputTokens": 100, "outputTokens": 10, "cacheReadTokens": 5}),
        ev("tool/call", {**AT, "callId": "c1", "name": "read", "arguments": '{"secret":1}'}, 55),
        ev("tool/result", {**AT, "message": answer, "error": {"code": "FS_NOT_FOUND"}}, 60, surfaceOp="append"),
        ev("step/end", AT, 62),
        ev("turn/end", {"turn": 1, "reason": {"kind": "completed"}}, 70),
    ]


def _log(path: Path, rows: list[dict[str, Any]], version: int = 0, **members: Any) -> Path:
    lines, seq = [json.dumps(header(version, **members))], 0
    for row in rows:
        packed = "time0" in row
        lines.append(json.dumps({**row, "seq0" if packed else "seq": seq}))
        seq += len(row["data"]["texts"]) if packed else 1
    path.parent.mkdir(parents=True, exist_ok=True)
    data = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(b"".join(map(compress_frame, data.splitlines(keepends=True))) if path.suffix == ".zstd" else data)
    return path


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A session, a fork of it that inherited the whole turn, and a cassette."""
    folder = tmp_path / "runs"
    _log(folder / "--p--" / "main" / "session.jsonl", _rows(), id="main")
    fork = [*_rows(), ev("session/end-seed", {}, 100), *_rows("fork")]
    _log(
        folder / "--p--" / "fork" / "session.jsonl.zstd",
        fork,
        id="fork",
        parentSession="main",
        seedLength=13,
        createdAt=START_MS + 80,
    )
    write(folder / "a.cassette.jsonl", siblings())
    (folder / "--p--" / "main" / "session.lock").touch()
    shutil.copytree(folder / "--p--" / "main", folder / "session_projcache" / "main")
    monkeypatch.chdir(tmp_path)
    return folder


def test_logs_and_cassettes_stand_in_one_lab(runs: Path) -> None:
    lab = load(runs)
    assert (len(lab.cassettes), len(lab.calls), len(lab.problems)) == (1, 8, 0)
    assert lab.sessions["source"].to_pylist() == ["runs/--p--/fork/session.jsonl.zstd", "runs/--p--/main/session.jsonl"]
    counts = ["session_id", "turns", "steps", "model_calls", "tool_calls", "tool_errors", "input_tokens", "total_tokens"]
    told = {
        "turns": 1,
        "steps": 1,
        "model_calls": 1,
        "tool_calls": 1,
        "tool_errors": 1,
        "input_tokens": 100,
        "total_tokens": None,
    }
    assert lab.sessions.select(counts).to_pylist() == [{"session_id": name, **told} for name in ("fork", "main")]
    row = lab.sessions.to_pylist()[1]
    assert (row["format"], row["end_kind"], row["open"], row["encoding"]) == (0, "completed", False, "jsonl")
    assert (row["started_at"], row["duration_ms"]) == (dt.datetime.fromtimestamp(START_MS / 1000 + 0.010, dt.UTC), 60)
    assert "1 cassette verified" in repr(lab)
    assert "2 sessions · 2 turns · 2 model calls · 2 tool errors" in repr(lab)


def test_what_a_fork_inherited_is_there_and_marked(runs: Path) -> None:
    lab = load(runs / "--p--" / "fork")
    for name in ("turns", "steps", "model_calls", "tool_calls"):
        assert lab.tables[name]["inherited"].to_pylist() == [True, False]
    assert lab.model_calls["model"].to_pylist() == ["model-s", "model-fork"]


def test_a_model_call_is_a_row(runs: Path) -> None:
    (row,) = load(runs / "--p--" / "main").model_calls.to_pylist()
    assert (row["turn"], row["step"], row["attempt"], row["provider"], row["model"]) == (1, 1, 1, "p", "model-s")
    assert (row["started_by"], row["first_chunk_ms"], row["duration_ms"]) == ("request/context", 10, 35)
    assert (row["settled_as"], row["finish_kind"], row["error_code"]) == ("message", "tool-calls", None)
    assert (row["output_tokens"], row["cache_read_tokens"], row["reasoning_tokens"]) == (10, 5, None)
    assert (row["tokens_per_second"], row["text_chars"]) == (500, 11)


def test_nothing_that_was_said_leaves_a_log_unless_bodies_are_asked_for(runs: Path) -> None:
    assert "secret" not in str([table.to_pylist() for table in load(runs / "--p--").tables.values()])
    lab = load(runs / "--p--" / "main", bodies=True)
    assert lab.sessions.select(["first_prompt", "final_text", "title"]).to_pylist() == [
        {"first_prompt": "secret prompt", "final_text": "secret text", "title": None}
    ]
    assert lab.model_calls["text"].to_pylist() == ["secret text"]
    assert lab.tool_calls.select(["arguments", "result"]).to_pylist() == [
        {"arguments": '{"secret":1}', "result": "secret answer"}
    ]


def test_events_are_the_stored_rows_or_one_by_one(runs: Path) -> None:
    lab = load(runs)
    assert "events" not in lab.tables
    main = lab.sql("select seq, type, members, turn, inherited from events where session_id = 'main' order by seq")
    assert len(main) == 12
    assert main.to_pylist()[4] == {"seq": 4, "type": "text-chunks", "members": 2, "turn": 1, "inherited": False}
    fork = lab.sql("select sum(members) n, count(*) filter (inherited) old from events where session_id = 'fork'")
    assert fork.to_pylist() == [{"n": 27, "old": 12}]
    every = lab.build_events(expand=True)
    assert (len(every), set(every["members"].to_pylist())) == (40, {1})
    assert "data" not in every.column_names
    assert len(lab.to_pandas("events")) == 37


def test_the_data_of_events_is_a_body(runs: Path) -> None:
    lab = load(runs / "--p--" / "main", bodies=True)
    data = lab.events["data"].to_pylist()
    assert json.loads(data[0]) == {"turn": 1}
    assert json.loads(data[4]) == {**AT, "index": 0, "dt": [20], "texts": ["secret ", "text"]}


def test_a_lab_without_logs_has_no_events(runs: Path) -> None:
    assert len(load(runs / "a.cassette.jsonl").events) == 0


def test_the_highest_generation_of_a_session_counts(runs: Path) -> None:
    newer = [row for row in _rows() if row["type"] not in {"assistant/chunk", "text-chunks"}]
    newer.append(ev("turn/start", {"turn": 2}, 99))
    _log(runs / "--p--" / "main" / "session.v3.jsonl", newer, 3, id="main")
    for given in ("runs", "runs/**"):
        lab = load(given)
        assert lab.sql("select format, turns, open from sessions where session_id = 'main'").to_pylist() == [
            {"format": 3, "turns": 2, "open": True}
        ]
    assert load(runs / "--p--" / "main" / "session.jsonl").sessions["format"].to_pylist() == [0]


def test_a_torn_log_is_kept_up_to_its_last_whole_line(runs: Path) -> None:
    path = runs / "--p--" / "main" / "session.jsonl"
    path.write_bytes(path.read_bytes()[:-9])
    row = load(path).sessions.to_pylist()[0]
    assert (row["open"], row["end_kind"], row["notes"]) == (True, None, 1)
    assert row["torn_bytes"] > 0


def test_a_folder_without_any_log_or_cassette_says_so(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no cassette or session log"):
        load(tmp_path)


def test_the_tree_sums_up_subagents_once(runs: Path) -> None:
    _log(runs / "orphan" / "session.jsonl", _rows(), id="orphan", parentSession="gone", createdAt=START_MS + 90)
    names = ["session_id", "depth", "parent_missing", "sessions", "input_tokens", "input_tokens_with_subagents"]
    assert [list(row.values()) for row in load(runs).tree().table.select(names).to_pylist()] == [
        ["main", 0, False, 2, 100, 200],
        ["fork", 1, False, 1, 100, 100],
        ["orphan", 0, True, 1, 100, 100],
    ]


def test_runs_with_equal_ids_keep_their_own_children(runs: Path) -> None:
    shutil.copytree(runs / "--p--", runs / "copy")
    told = load(runs).tree().to_pylist()
    assert sorted((row["session_id"], row["sessions"], row["source"].split("/")[1]) for row in told) == [
        ("fork", 1, "--p--"), ("fork", 1, "copy"), ("main", 2, "--p--"), ("main", 2, "copy"),
    ]  # fmt: skip
    assert not any(row["parent_missing"] or row["parent_ambiguous"] for row in told)


def test_a_parent_elsewhere_is_taken_only_where_it_is_the_only_one(runs: Path) -> None:
    shutil.move(runs / "--p--" / "fork", runs / "far" / "away" / "below" / "fork")
    (child,) = (row for row in load(runs).tree().to_pylist() if row["session_id"] == "fork")
    assert (child["depth"], child["parent_missing"], child["parent_ambiguous"]) == (1, False, False)
    shutil.copytree(runs / "--p--" / "main", runs / "backup" / "main")
    tree = load(runs).tree()
    (child,) = (row for row in tree.to_pylist() if row["session_id"] == "fork")
    assert (child["depth"], child["parent_missing"], child["parent_ambiguous"]) == (0, False, True)
    assert "fork (parent ambiguous)" in repr(tree)


def test_the_tree_of_one_session_shows_itself_indented(runs: Path) -> None:
    shown = repr(load(runs).tree("main")).splitlines()
    assert [line.split("  ")[0] for line in shown[:2]] == ["session", "main"]
    assert shown[2].startswith("  fork ")
    assert load(runs).tree("fork").num_rows == 1
    shutil.copytree(runs / "--p--", runs / "copy")
    with pytest.raises(
        ConfigError, match=r"2 sessions of this lab are called main; name one as runs/--p--#main, runs/copy#main"
    ):
        load(runs).tree("main")
    for folder in ("runs/copy/main/session.jsonl", "runs/copy", "runs/copy/", str(runs / "copy")):
        told = load(runs).tree(f"{folder}#main").to_pylist()
        assert [(row["source"].split("/")[1], row["session_id"]) for row in told] == [("copy", "main"), ("copy", "fork")]
    with pytest.raises(ConfigError, match="there is no session nobody"):
        load(runs).tree("nobody")
    for nobody in ("runs/cop#main", "#main", "runs/copy#", "\0#main"):
        with pytest.raises(ConfigError, match="there is no session"):
            load(runs).tree(nobody)
    with pytest.raises(ConfigError, match="2 sessions of this lab are called runs#main"):
        load(runs).tree("runs#main")


def test_sessions_of_one_id_are_shown_with_their_folders(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert session_names(["a/x", "b/y"], ["one", "two"]) == ["one", "two"]
    assert session_names(["a/b/x", "a/c/x", "a/c/y", "z"], ["one", "one", "two", "one"]) == [
        "a/b#one",
        "a/c#one",
        "two",
        "z#one",
    ]
    shutil.copytree(runs / "--p--", runs / "copy")
    lab = load(runs)
    for shown in (repr(lab), lab._repr_mimebundle_()["text/html"], repr(lab.tree()), "\n".join(time_went(lab).draw_text(120))):
        assert "runs/--p--#main" in shown
        assert "runs/copy#main" in shown
    page = report(lab, runs / "report.html").read_text()
    assert "runs/copy#main" in page
    assert waterfall(lab, "runs/copy#main").title.startswith("Waterfall · runs/copy#main")
    monkeypatch.chdir(runs)
    assert waterfall(load("copy"), "copy#main").title.startswith("Waterfall · main"), "from the working directory, too"


def test_the_duration_with_subagents_ends_with_the_last_of_them(runs: Path) -> None:
    main, _ = load(runs).tree()
    assert (main["duration_ms"], main["duration_ms_with_subagents"]) == (60, 90)


def test_tables_of_sessions_are_written_where_there_are_any(runs: Path, tmp_path: Path) -> None:
    written = write_tables(load(runs), tmp_path / "out")
    assert [name for name, _, _ in written] == [
        "cassettes",
        "calls",
        "sessions",
        "turns",
        "steps",
        "model_calls",
        "tool_calls",
        "compactions",
        "notes",
        "problems",
    ]


def test_texts_and_times_that_no_column_can_hold_are_still_loaded(tmp_path: Path) -> None:
    rows = [
        ev("turn/start", {"turn": 1}, 10**15),
        ev("turn/end", {"turn": 1, "reason": {"kind": "half \ud83d"}}, 10**17),
        ev("llm/retry", {"delayMs": 10**30}, 10**30),
        message("x", usage={"inputTokens": 2**53 - 1}),
    ]
    path = _log(tmp_path / "session.jsonl", rows, id="half \ud83d")
    lab = load(path)
    assert lab.sessions["session_id"].to_pylist() == ["half \\ud83d"]
    assert lab.turns.select(["started_at", "end_kind"]).to_pylist() == [{"started_at": None, "end_kind": "half \\ud83d"}]
    assert lab.sessions["input_tokens"].to_pylist() == [2**53 - 1]
