"""Forks, and families of sessions: what a fork inherited counts once, its boundary is the last marker, and orphans, missing
parents and cycles each have their place once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import cassette_lab as cl
from cassette_lab.cli import main
from cassette_lab.tables.schemas import table_schema
from cassette_lab.tables.tree import tree
from tests.unit.session_files import ASKED_EVENTS, asked, log_file
from tests.unit.session_samples import START_MS
from tests.unit.session_told import AT, ev

COUNTED = ("turns", "steps", "model_calls", "tool_calls", "input_tokens", "output_tokens")
ONCE = [1, 1, 1, 1, 100, 10]


def of(lab: cl.Lab, session_id: str, *names: str) -> list[Any]:
    """These columns of one session."""
    (row,) = [row for row in lab.sessions.to_pylist() if row["session_id"] == session_id]
    return [row[name] for name in names]


def later(number: int, at: int) -> list[dict[str, Any]]:
    """A turn of format 4: one model call with its stream, no tools; six events."""
    place = {"turn": number, "step": 1}
    used = {"inputTokens": 100, "outputTokens": 10}
    said = {"type": "text-chunks", "time0": START_MS + at + 5, "index": 0, "dt": [10], "texts": ["Hel", "lo"]}
    end = {"type": "chunk", "time": START_MS + at + 20, "chunk": {"type": "finish", "reason": {"kind": "stop"}}}
    content = [{"type": "text", "text": "Hello"}]
    data = {**place, "message": {"role": "assistant", "content": content}, "usage": used, "stream": [said, end]}
    return [
        ev("turn/start", {"turn": number}, at),
        ev("step/start", place, at + 1),
        ev("subagent/catalog", {"version": 2, "childId": f"c{number}", "mode": "one-shot"}, at + 2),
        ev("assistant/message", data, at + 21, surfaceOp="append"),
        ev("step/end", place, at + 22),
        ev("turn/end", {"turn": number, "reason": {"kind": "completed"}}, at + 23),
    ]


MARK = ev("session/end-seed", {"inherited": True}, 1_000)


# The inherited prefix


@pytest.mark.parametrize("name", ["session.jsonl", "session.jsonl.zstd"])
def test_the_prefix_of_a_fork_is_counted_in_its_parent_only(tmp_path: Path, name: str) -> None:
    log_file(tmp_path / "root" / name, *asked(1), id="root")
    own = [ev("session/end-seed", {}, 99), *asked(2, at=100, end={"kind": "max-tokens"})]
    log_file(tmp_path / "fork" / name, *asked(1), *own, id="fork", parentSession="root", seedLength=ASKED_EVENTS)
    lab = cl.load(tmp_path)
    assert of(lab, "root", *COUNTED, "inherited_events") == [*ONCE, 0]
    assert of(lab, "fork", *COUNTED, "inherited_events", "events") == [*ONCE, ASKED_EVENTS, 2 * ASKED_EVENTS + 1]
    assert of(lab, "fork", "started_at", "end_kind")[0].timestamp() * 1_000 == START_MS + 99
    placed_rows = lab.tree().to_pylist()
    assert [(row["session_id"], row["input_tokens_with_subagents"], row["turns_with_subagents"]) for row in placed_rows] == [
        ("root", 200, 2),
        ("fork", 100, 1),
    ]
    for table in ("turns", "steps", "model_calls", "tool_calls"):
        told = lab.sql(f"select session_id, turn, inherited from {table} order by 1 desc, 2").to_pylist()  # noqa: S608
        assert [list(row.values()) for row in told] == [["root", 1, False], ["fork", 1, True], ["fork", 2, False]]
    assert lab.sql("select sum(output_tokens) n from model_calls where not inherited").to_pylist() == [{"n": 20}]
    assert lab.turns["end_kind"].to_pylist() == ["completed", "max-tokens", "completed"]


def test_a_prefix_that_ends_inside_a_packed_row_counts_its_members(tmp_path: Path) -> None:
    lab = cl.load(log_file(tmp_path / "session.jsonl", *asked(1), seedLength=3))
    calls = lab.model_calls.select(["inherited", "chunks", "text_chars", "output_tokens"]).to_pylist()
    assert [list(row.values()) for row in calls] == [[True, 1, 3, None], [False, 2, 2, 10]]
    assert of(lab, "sample", "inherited_events", "turns", "model_calls", "tool_calls") == [3, 0, 1, 1]
    assert lab.build_events(expand=True)["inherited"].to_pylist() == [True] * 3 + [False] * 7
    counted = lab.sql("select inherited, sum(members) n from events group by 1 order by 1 desc")
    assert counted.to_pylist() == [{"inherited": True, "n": 3}, {"inherited": False, "n": 7}]


def test_a_fork_of_everything_has_nothing_of_its_own(tmp_path: Path) -> None:
    lab = cl.load(log_file(tmp_path / "session.jsonl", *asked(1), seedLength=ASKED_EVENTS))
    assert of(lab, "sample", *COUNTED, "started_at", "end_kind", "notes") == [0, 0, 0, 0, None, None, None, None, 0]


def test_of_several_markers_the_last_that_says_inherited_is_the_boundary(tmp_path: Path) -> None:
    grandparents, parents, own = later(1, 0), later(2, 100), later(3, 200)
    resumed = ev("session/end-seed", {}, 300)
    rows = [*grandparents, MARK, *parents, MARK, *own, resumed, *later(4, 400)]
    lab = cl.load(log_file(tmp_path / "session.v4.jsonl", *rows, version=4, isSeeded=True, parentSession="root"))
    assert of(lab, "sample", "inherited_events", "turns", "model_calls", "input_tokens") == [13, 2, 2, 200]
    assert lab.turns.select(["turn", "inherited"]).to_pylist() == [
        {"turn": number, "inherited": number < 3} for number in (1, 2, 3, 4)
    ]
    first = lab.sql("select type, seq from events where not inherited order by seq limit 1")
    assert first.to_pylist() == [{"type": "session/end-seed", "seq": 13}]


def test_a_marker_in_a_log_that_is_not_seeded_moves_nothing(tmp_path: Path) -> None:
    rows = [*later(1, 0), MARK, ev("session/end-seed", {}, 90), *later(2, 100)]
    lab = cl.load(log_file(tmp_path / "session.v4.jsonl", *rows, version=4))
    assert of(lab, "sample", "inherited_events", "turns", "input_tokens") == [0, 2, 200]


def test_a_seeded_log_without_a_marker_counts_nothing_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = log_file(tmp_path / "session.v4.jsonl", *later(1, 0), version=4, isSeeded=True)
    assert of(cl.load(path), "sample", "inherited_events", "turns", "input_tokens", "notes") == [6, 0, None, 1]
    assert main(["session", str(path)]) == 0
    assert "no session/end-seed says where they end" in capsys.readouterr().out


# Families


def family(folder: Path, **parents: str | None) -> cl.Lab:
    """One session of one turn for each name, created in this order, with its parent."""
    for number, (name, parent) in enumerate(parents.items()):
        members: dict[str, Any] = {} if parent is None else {"parentSession": parent, "origin": "subagent"}
        log_file(folder / name / "session.jsonl", *asked(1), id=name, createdAt=START_MS + number, **members)
    return cl.load(folder)


def placed(lab: cl.Lab) -> list[tuple[str, int, bool, int, int]]:
    return [
        (row["session_id"], row["depth"], row["parent_missing"], row["sessions"], row["input_tokens_with_subagents"])
        for row in lab.tree().to_pylist()
    ]


def test_orphans_stand_alone_and_say_that_their_parent_is_missing(tmp_path: Path) -> None:
    lab = family(tmp_path, orphan="gone", root=None, child="root", below="orphan", other="gone")
    assert placed(lab) == [
        ("orphan", 0, True, 2, 200),
        ("below", 1, False, 1, 100),
        ("root", 0, False, 2, 200),
        ("child", 1, False, 1, 100),
        ("other", 0, True, 1, 100),
    ]
    assert lab.sql("select sum(input_tokens) n from sessions").to_pylist() == [{"n": 500}]


def test_a_parent_that_is_damaged_leaves_its_children_readable(tmp_path: Path) -> None:
    family(tmp_path, root=None, child="root")
    bad = tmp_path / "root" / "session.jsonl"
    bad.write_bytes(bad.read_bytes().replace(b'"step/start"', b'"step/start', 1))
    lab = cl.load(tmp_path, on_error="collect")
    assert placed(lab) == [("child", 0, True, 1, 100)]
    assert len(lab.problems) == 1


def test_a_cycle_of_parents_ends_and_counts_every_session_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lab = family(tmp_path, a="c", b="a", c="b", itself="itself", hanging="b", below="hanging")
    assert placed(lab) == [
        ("a", 0, False, 1, 100),
        ("b", 0, False, 3, 300),
        ("hanging", 1, False, 2, 200),
        ("below", 2, False, 1, 100),
        ("c", 0, False, 1, 100),
        ("itself", 0, False, 1, 100),
    ]
    assert main(["sessions", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("6 sessions · 6 turns · ")


def test_children_that_only_their_parent_names_are_told_and_counted_nowhere(tmp_path: Path) -> None:
    path = log_file(tmp_path / "session.v4.jsonl", *later(1, 0), version=4, id="root")
    assert placed(cl.load(path)) == [("root", 0, False, 1, 100)]
    started = {"role": "tool", "toolCallId": "c1", "content": [{"type": "text", "text": "started subagent far"}]}
    rows = [
        ev("tool/call", {**AT, "callId": "c1", "name": "subagent", "arguments": "{}"}, 5),
        ev("tool/result", {**AT, "message": started}, 6, surfaceOp="append"),
    ]
    lab = cl.load(log_file(tmp_path / "other" / "session.v4.jsonl", *rows, version=4))
    assert lab.tool_calls["child_session_id"].to_pylist() == ["far"]


def test_a_sum_of_a_family_that_no_column_can_hold_is_unknown(tmp_path: Path) -> None:
    most = {"inputTokens": 2**53 - 1, "outputTokens": 1}
    for name, parent in (("root", {}), ("child", {"parentSession": "root"})):
        rows = [row for number in range(1, 1_000) for row in asked(number, usage=most)]
        members: dict[str, Any] = {"id": name, **parent}
        log_file(tmp_path / name / "session.jsonl", *rows, **members)
    told = cl.load(tmp_path).tree().to_pylist()
    assert [row["input_tokens"] for row in told] == [999 * (2**53 - 1)] * 2
    assert [row["input_tokens_with_subagents"] for row in told] == [None, 999 * (2**53 - 1)]
    assert [row["output_tokens_with_subagents"] for row in told] == [1_998, 999]


@pytest.mark.parametrize("shape", ["chain", "circle", "star"])
def test_a_family_of_thousands_is_placed_once_each(shape: str) -> None:
    count = 3_000
    parent = {"chain": lambda n: n + 1, "circle": lambda n: (n + 1) % count, "star": lambda _: 0}[shape]
    names = table_schema("sessions").names
    rows = [{**dict.fromkeys(names), "session_id": str(n), "parent_session": str(parent(n)), "turns": 1} for n in range(count)]
    placed_rows = tree(pa.Table.from_pylist(rows, schema=table_schema("sessions"))).to_pylist()
    assert sorted(int(row["session_id"]) for row in placed_rows) == list(range(count))
    assert sum(row["turns_with_subagents"] for row in placed_rows if row["depth"] == 0) == count
    assert max(row["depth"] for row in placed_rows) == {"chain": count - 1, "circle": 0, "star": 1}[shape]
