"""Tables that more than one row of a log, or more than one log, is looked at for: children, compactions, notes, time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cassette_lab.tables import Lab, load
from cassette_lab.tables.spending import PARTS
from tests.unit.session_samples import START_MS, header, text, write
from tests.unit.session_told import AT, ev, finish, message


def _log(folder: Path, name: str, *rows: dict[str, Any], at: int = 0, version: int = 0, **members: Any) -> None:
    lines = text(
        header(version, id=name, createdAt=START_MS + at, **members), *({**row, "seq": seq} for seq, row in enumerate(rows))
    )
    write(folder / name / f"session{f'.v{version}' if version else ''}.jsonl", lines)


def _call(call_id: str, at: int, name: str = "subagent", label: str | None = None) -> dict[str, Any]:
    arguments = json.dumps({} if label is None else {"description": label})
    return ev("tool/call", {**AT, "callId": call_id, "name": name, "arguments": arguments}, at)


def _result(call_id: str, at: int, answer: str = "done") -> dict[str, Any]:
    message = {"role": "tool", "toolCallId": call_id, "content": [{"type": "text", "text": answer}], "isError": False}
    return ev("tool/result", {**AT, "message": message}, at, surfaceOp="append")


def _turn(start: int, end: int, *rows: dict[str, Any], number: int = 1) -> list[dict[str, Any]]:
    reason = {"kind": "completed"}
    return [ev("turn/start", {"turn": number}, start), *rows, ev("turn/end", {"turn": number, "reason": reason}, end)]


def _descriptor(label: str) -> dict[str, Any]:
    return ev("subagent/descriptor", {"version": 3, "mode": "one-shot", "provider": "spawn", "label": label})


def _children(lab: Lab) -> dict[str, tuple[str | None, str | None]]:
    return {row["call_id"]: (row["child_session_id"], row["child_linked_by"]) for row in lab.tool_calls.to_pylist()}


def _family(folder: Path) -> None:
    """A parent of format 0, whose calls name no child, and two children of which one has a label."""
    calls = [_call("c1", 10, label="one"), _call("c2", 12, label="two"), _result("c1", 30), _result("c2", 40)]
    _log(folder, "root", *_turn(0, 200, *calls, _call("c3", 100), _result("c3", 150)))
    _log(folder, "b", *_turn(15, 29, _descriptor("two")), at=15, parentSession="root")
    _log(folder, "a", *_turn(110, 140), at=110, parentSession="root")


def test_a_childs_own_log_tells_which_call_started_it(tmp_path: Path) -> None:
    _family(tmp_path / "monday")
    lab = load(tmp_path)
    assert _children(lab) == {"c1": (None, None), "c2": ("b", "label"), "c3": ("a", "interval")}
    assert "relations" not in lab.tables
    assert load(tmp_path / "monday" / "root").tool_calls["child_session_id"].null_count == 3


def test_two_runs_with_equal_ids_have_each_their_own_children(tmp_path: Path) -> None:
    _family(tmp_path / "monday")
    _family(tmp_path / "tuesday")
    (tmp_path / "tuesday" / "b" / "session.jsonl").unlink()
    told = {
        (row["source"].split("/")[-3], row["call_id"]): row["child_session_id"] for row in load(tmp_path).tool_calls.to_pylist()
    }
    assert (told["monday", "c2"], told["tuesday", "c2"], told["tuesday", "c3"]) == ("b", None, "a")
    joined = load(tmp_path).sql("""
        select calls.source, children.source as child_source from tool_calls calls
        join sessions children on children.source = calls.child_source and children.session_id = calls.child_session_id
    """)
    assert len(joined) == 3
    assert all(row["source"].split("/")[-3] == row["child_source"].split("/")[-3] for row in joined)


def test_a_label_that_two_calls_have_tells_nothing(tmp_path: Path) -> None:
    calls = [_call("c1", 10, label="same"), _call("c2", 12, label="same"), _result("c1", 30), _result("c2", 40)]
    _log(tmp_path, "root", *_turn(0, 50, *calls))
    _log(tmp_path, "child", *_turn(15, 29, _descriptor("same")), at=15, parentSession="root")
    assert set(_children(load(tmp_path)).values()) == {(None, None)}


def test_a_child_with_another_label_was_not_started_by_the_only_call_that_ran(tmp_path: Path) -> None:
    _log(tmp_path, "root", *_turn(0, 50, _call("c1", 10, label="one"), _result("c1", 30)))
    _log(tmp_path, "child", *_turn(15, 29, _descriptor("other")), at=15, parentSession="root")
    assert _children(load(tmp_path)) == {"c1": (None, None)}


def test_a_catalog_tells_it_without_the_childs_log(tmp_path: Path) -> None:
    noted = {"childId": "far", "childCreatedAt": START_MS + 12, "mode": "one-shot", "label": "one"}
    calls = [_call("c1", 10, label="one"), ev("subagent/catalog", noted, 13), _result("c1", 30)]
    background = [_call("c2", 31, label="two"), _result("c2", 32, "started subagent near")]
    _log(tmp_path, "root", *_turn(0, 50, *calls, *background), version=4, isSeeded=False)
    assert _children(load(tmp_path)) == {"c1": ("far", "label"), "c2": ("near", "result")}


def test_a_compaction_is_a_row_and_tokens_add_up_with_it(tmp_path: Path) -> None:
    known = {"compactionId": "k", "turn": 1}
    rows = [
        ev("step/start", AT, 1),
        finish(at=5),
        message("x", at=6, usage={"inputTokens": 100, "outputTokens": 10}),
        ev("compaction/start", known, 10),
        ev(
            "compaction/summary",
            {**known, "provider": "p", "model": "m", "shadowedTokenCount": 70, "usage": {"inputTokens": 40, "outputTokens": 4}},
            18,
        ),
        ev("compaction/end", known, 20),
        ev("compaction/start", {"compactionId": "f", "turn": None}, 22),
        ev("compaction/end", {"compactionId": "f", "turn": None, "error": {"message": "no"}}, 25),
    ]
    _log(tmp_path, "s", *_turn(0, 30, *rows))
    lab = load(tmp_path)
    names = ["turn", "compaction_id", "duration_ms", "summarised", "failed", "model", "compacted_tokens", "input_tokens"]
    assert [list(row.values()) for row in lab.compactions.select(names).to_pylist()] == [
        [1, "k", 10, True, False, "m", 70, 40],
        [None, "f", 3, False, True, None, None, None],
    ]
    hint = next(line.strip() for line in repr(lab).splitlines() if "lab.sql(" in line)
    sums = lab.sql(hint.removeprefix('lab.sql("').removesuffix('")'))
    assert sum(row["sum(output_tokens)"] for row in sums) == lab.sessions["output_tokens"].to_pylist()[0] == 14


def test_what_to_know_about_a_log_is_a_row(tmp_path: Path) -> None:
    _log(tmp_path, "s", *_turn(0, 30, ev("shape/new", {}, 10)))
    with (tmp_path / "s" / "session.jsonl").open("ab") as file:
        file.write(b'{"type": "turn/sta')
    lab = load(tmp_path)
    rows = lab.notes.to_pylist()
    assert [(row["session_id"], row["code"], row["line"]) for row in rows] == [
        ("s", "TORN_TAIL", 5),
        ("s", "UNKNOWN_TYPE", None),
    ]
    assert "'shape/new'" in rows[1]["message"]
    assert lab.sessions["notes"].to_pylist() == [2]
    assert "1 log with notes: lab.notes" in repr(lab)
    assert len(lab.problems) == 0


@pytest.fixture
def spent(tmp_path: Path) -> dict[str, dict[str, Any]]:
    """A parent that asks, waits for a child in the background and then for a person; and the child."""
    asked = [
        ev("step/start", AT, 10),
        ev("assistant/chunk", {**AT, "chunk": {"type": "text-delta", "index": 0, "text": "x"}}, 40),
        finish("tool-calls", 60),
        message("x", at=60),
        _call("t1", 60, "read"),
        _call("t2", 70, "grep"),
        _result("t1", 80),
        _call("s1", 80, label="one"),
        _result("s1", 82, "started subagent child"),
        _result("t2", 90),
        ev("step/end", AT, 95),
    ]
    _log(tmp_path, "root", *_turn(0, 100, *asked), *_turn(400, 410, number=2))
    _log(tmp_path, "child", *_turn(81, 281), at=81, parentSession="root")
    return {row["session_id"]: row for row in load(tmp_path).time_spent()}


def test_every_instant_counts_once_and_the_parts_add_up(spent: dict[str, dict[str, Any]]) -> None:
    told = {name: spent["root"][name] for name in ("duration_ms", *PARTS)}
    assert told == {
        "duration_ms": 410,
        "waiting_ms": 30,
        "streaming_ms": 20,
        "compacting_ms": 0,
        "back_off_ms": 0,
        "tools_ms": 30,
        "subagents_ms": 191,
        "other_ms": 20,
        "idle_ms": 119,
    }
    assert sum(told[name] for name in PARTS) == told["duration_ms"]
    assert spent["child"]["other_ms"] == spent["child"]["duration_ms"] == 200


def test_time_in_turns_is_a_column(tmp_path: Path) -> None:
    _log(
        tmp_path, "s", *_turn(0, 100), *_turn(400, 410, number=2), ev("turn/start", {"turn": 3}, 500), ev("step/start", AT, 530)
    )
    assert load(tmp_path).sessions.select(["duration_ms", "active_ms"]).to_pylist() == [{"duration_ms": 530, "active_ms": 140}]


def test_a_log_without_times_has_no_parts(tmp_path: Path) -> None:
    _log(tmp_path, "s", *({key: value for key, value in row.items() if key != "time"} for row in _turn(0, 30)))
    (row,) = load(tmp_path).time_spent()
    assert {row[name] for name in ("duration_ms", *PARTS)} == {None}


def test_a_lab_without_logs_has_no_rows_of_time() -> None:
    assert load("tests/data", on_error="collect").time_spent().num_rows == 0
