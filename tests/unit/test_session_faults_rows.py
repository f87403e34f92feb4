"""Rows that are damaged, odd or easily missed: seqs that step back or come twice, counts that are none, packed rows, tool
results, unknown events, and turns that ended otherwise than well."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import cassette_lab as cl
from cassette_lab.cli import main
from cassette_lab.session.frames import compress_frame
from tests.unit.session_files import ASKED_EVENTS, asked, log_file, numbered
from tests.unit.session_samples import header, line, text, write
from tests.unit.session_told import AT, chunk, ev, finish, message, run


def loaded(tmp_path: Path, *rows: dict[str, Any], version: int = 0, bodies: bool = False, **members: Any) -> cl.Lab:
    return cl.load(log_file(tmp_path / "log" / "session.jsonl", *rows, version=version, **members), bodies=bodies)


def only(lab: cl.Lab, table: str, *names: str) -> list[Any]:
    """These columns of the one row of a table."""
    (row,) = lab.tables[table].select(list(names)).to_pylist()
    return list(row.values())


# Seqs


@pytest.mark.parametrize("name", ["session.jsonl", "session.jsonl.zstd"])
def test_one_seq_that_steps_back_in_the_middle_is_damage_with_file_and_line(tmp_path: Path, name: str) -> None:
    rows = numbered([*asked(1), *asked(2, at=100)])
    rows[12]["seq"] -= 1
    bad = log_file(tmp_path / "bad" / name, *rows)
    log_file(tmp_path / "good" / name, *asked(1), id="good")
    with pytest.raises(cl.FormatError, match=r"the row has seq 13, which was there before; next is 14") as caught:
        cl.load(tmp_path)
    assert (caught.value.path, caught.value.line, caught.value.field) == (str(bad), 14, "seq")
    assert (caught.value.frame is None) == (name == "session.jsonl")
    lab = cl.load(tmp_path, on_error="collect")
    assert lab.sessions["session_id"].to_pylist() == ["good"]
    assert lab.problems["line"].to_pylist() == [14]


@pytest.mark.parametrize("packed", [False, True])
def test_two_writers_that_appended_the_same_seqs_are_damage_not_two_turns(tmp_path: Path, packed: bool) -> None:
    first, second = numbered([*asked(1), *asked(2, at=100)])[9:], numbered([*asked(1), *asked(2, at=103)])[9:]
    lines = [line(header()), *map(line, numbered(asked(1)))]
    if packed:  # each flushed its batch as a frame
        batches = [b"".join(lines[:1]), b"".join(lines[1:]), text(*first), text(*second)]
        path = write(tmp_path / "session.jsonl.zstd", b"".join(map(compress_frame, batches)))
    else:
        path = write(tmp_path / "session.jsonl", b"".join(lines) + text(*first) + text(*second))
    with pytest.raises(cl.FormatError, match="two writers may have appended") as caught:
        cl.load(path)
    assert (caught.value.line, caught.value.frame) == (20, 4 if packed else None)
    assert main(["session", str(path)]) == 1


def test_what_the_second_writer_left_unfinished_is_left_out_and_told(tmp_path: Path) -> None:
    rows = [*numbered([*asked(1), *asked(2, at=100)]), *numbered([*asked(1), *asked(2, at=100)[:-1]])[9:]]
    lab = loaded(tmp_path, *rows)
    assert only(lab, "sessions", "turns", "events", "output_tokens", "notes") == [2, 2 * ASKED_EVENTS, 20, 1]
    assert cl.open_session(tmp_path / "log" / "session.jsonl").problems[0].code == "BROKEN_TAIL"


# Token counts


@pytest.mark.parametrize("count", [-7, 2.5, -0.5, 1e300, "12", None, True, [5], {"n": 1}])
def test_a_token_count_that_is_none_is_unknown_and_spoils_no_sum(tmp_path: Path, count: Any) -> None:
    odd = asked(1, usage={"inputTokens": count, "outputTokens": 3, "cacheReadTokens": count, "totalTokens": count})
    lab = loaded(tmp_path, *odd, *asked(2, at=100))
    assert lab.model_calls["input_tokens"].to_pylist() == [None, 100]
    assert lab.model_calls["output_tokens"].to_pylist() == [3, 10]
    assert only(lab, "sessions", "input_tokens", "output_tokens", "cache_read_tokens", "total_tokens") == [100, 13, None, None]
    assert lab.tree().table["input_tokens_with_subagents"].to_pylist() == [100]
    alone = loaded(tmp_path / "alone", *asked(1, usage={"inputTokens": count}))
    assert only(alone, "sessions", "input_tokens", "output_tokens") == [None, None]


def test_a_count_spelled_as_a_double_is_a_count(tmp_path: Path) -> None:
    assert only(
        loaded(tmp_path, *asked(1, usage={"inputTokens": 12.0, "outputTokens": 0})), "sessions", "input_tokens", "output_tokens"
    ) == [12, 0]


def test_sums_of_counts_that_no_column_can_hold_are_unknown(tmp_path: Path) -> None:
    rows = [row for number in range(1, 1_100) for row in asked(number, usage={"inputTokens": 2**53 - 1, "outputTokens": 1})]
    lab = loaded(tmp_path, *rows)
    assert only(lab, "sessions", "input_tokens", "output_tokens") == [None, 1_099]
    assert lab.tree().table["output_tokens_with_subagents"].to_pylist() == [1_099]
    assert "1 session" in repr(lab)


# What is easily missed


def test_packed_rows_of_every_kind_and_their_texts_are_read(tmp_path: Path) -> None:
    rows = [
        ev("turn/start", {"turn": 1}, 1),
        ev("step/start", AT, 2),
        run("th", "", "ink", at=10, row="reasoning-chunks"),
        run("Hel", "lo", at=40),
        run(" you", at=70),
        run('{"pa', 'th":1}', at=80, row="tool-call-chunks", name="read"),
        finish("tool-calls", 99),
        ev("turn/end", {"turn": 1, "reason": {"kind": "completed"}}, 100),
    ]
    lab = loaded(tmp_path, *rows, bodies=True)
    names = ("chunks", "reasoning_chars", "text_chars", "argument_chars", "first_chunk_ms", "duration_ms", "text", "reasoning")
    assert only(lab, "model_calls", *names) == [9, 5, 9, 10, 8.0, 97.0, "Hello you", "think"]
    assert lab.events["members"].to_pylist() == [1, 1, 3, 2, 1, 2, 1, 1]
    assert len(lab.build_events(expand=True)) == only(lab, "sessions", "events")[0] == 12
    # One by one, or as one string instead of an array: the former is the same, the latter is no row.
    single = [*rows[:2], *(chunk("text-delta", 40, index=0, text=each) for each in ("Hel", "lo")), *rows[6:]]
    assert only(loaded(tmp_path / "single", *single, bodies=True), "model_calls", "chunks", "text") == [3, "Hello"]
    rows[3]["data"]["texts"] = "Hello"
    with pytest.raises(cl.FormatError) as caught:
        loaded(tmp_path / "joined", *rows)
    assert (caught.value.line, caught.value.field) == (5, "data.texts")


def test_streams_inside_the_events_of_later_formats_are_read(tmp_path: Path) -> None:
    stream = [
        {"type": "chunk", "time": ev("", at=10)["time"], "chunk": {"type": "block-start", "index": 0, "blockType": "text"}},
        {"type": "text-chunks", "time0": ev("", at=20)["time"], "index": 0, "dt": [5, -2], "texts": ["a", "b", "c"]},
        {"type": "chunk", "time": ev("", at=30)["time"], "chunk": {"type": "usage", "usage": {"outputTokens": 3}}},
        {"type": "chunk", "time": ev("", at=31)["time"], "chunk": {"type": "finish", "reason": {"kind": "stop"}}},
    ]
    rows = [ev("turn/start", {"turn": 1}, 1), ev("step/start", AT, 2)]
    for version in (2, 3, 4):
        lab = loaded(tmp_path / str(version), *rows, ev("assistant/attempt", {**AT, "stream": stream}, 33), version=version)
        names = ("settled_as", "chunks", "text_chars", "finish_kind", "output_tokens", "first_chunk_ms", "duration_ms")
        assert only(lab, "model_calls", *names) == ["attempt", 6, 3, "stop", 3, 8.0, 29.0]
        assert only(lab, "sessions", "model_calls", "output_tokens", "events") == [1, 3, 3]


@pytest.mark.parametrize("version", [0, 4])
@pytest.mark.parametrize("is_error", [True, False])
def test_the_result_of_a_tool_is_found_in_both_shapes(tmp_path: Path, version: int, is_error: bool) -> None:
    body = {"toolCallId": "c1", "content": [{"type": "text", "text": "grün"}], "isError": is_error}
    answer = {"role": "tool", **body} if version == 4 else {"role": "user", "content": [{"type": "tool-result", **body}]}
    error = {"error": {"name": "ToolError", "code": "FS_NOT_FOUND"}} if is_error else {}
    rows = [
        ev("tool/call", {**AT, "callId": "c1", "name": "read", "arguments": "{}"}, 10),
        ev("tool/result", {**AT, "message": answer, **error}, 25, surfaceOp="append"),
    ]
    lab = loaded(tmp_path, *rows, version=version, bodies=True)
    told = only(lab, "tool_calls", "is_error", "error_name", "error_code", "duration_ms", "result_bytes", "result")
    assert told == [is_error, *(["ToolError", "FS_NOT_FOUND"] if is_error else [None, None]), 15.0, 5, "grün"]
    assert only(lab, "sessions", "tool_calls", "tool_errors") == [1, int(is_error)]


# Unknown events


def test_unknown_events_are_kept_and_told_unless_they_may_be_ignored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [*asked(1)[:-1], ev("weather/report", {"wind": 5}, 31), ev("weather/report", {}, 31), asked(1)[-1]]
    lab = loaded(tmp_path, *rows)
    assert only(lab, "sessions", "events", "turns", "end_kind", "notes") == [ASKED_EVENTS + 2, 1, "completed", 1]
    assert lab.events["type"].to_pylist().count("weather/report") == 2
    assert main(["session", str(tmp_path / "log" / "session.jsonl")]) == 0
    assert "no events of type 'weather/report' (2 of them)" in capsys.readouterr().out
    for row in rows[-3:-1]:
        row["ignorable"] = True
    lab = loaded(tmp_path, *rows)
    assert only(lab, "sessions", "events", "turns", "end_kind", "notes") == [ASKED_EVENTS + 2, 1, "completed", 0]


# Ends that are no success


@pytest.mark.parametrize(
    ("reason", "kind", "cause", "code"),
    [
        ({"kind": "max-tokens"}, "max-tokens", None, None),
        ({"kind": "aborted", "reason": {"kind": "user"}}, "aborted", "user", None),
        ({"kind": "aborted"}, "aborted", None, None),
        ({"kind": "interrupted"}, "interrupted", None, None),
        ({"kind": "blocked"}, "blocked", None, None),
        ({"kind": "error", "error": {"message": "no", "code": "RATE_LIMIT", "status": 429}}, "error", None, "RATE_LIMIT"),
    ],
)
def test_a_turn_that_ended_otherwise_is_no_success(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], reason: Any, kind: str, cause: str | None, code: str | None
) -> None:
    lab = loaded(tmp_path, *asked(1), *asked(2, at=100, end=reason))
    assert lab.turns["end_kind"].to_pylist() == ["completed", kind]
    assert lab.turns.select(["end_cause", "error_code"]).to_pylist()[1] == {"end_cause": cause, "error_code": code}
    assert only(lab, "sessions", "turns", "end_kind", "error_code", "open") == [2, kind, code, False]
    assert f"2 turns · 2 model calls · {kind}" in repr(lab)
    assert main(["session", str(tmp_path / "log" / "session.jsonl")]) == 0
    shown = capsys.readouterr().out
    assert "completed" not in shown.partition("  end ")[2].partition("\n")[0]
    assert f"2 turns: 1 completed, 1 {kind}" in shown


def test_a_call_without_a_result_is_neither_a_success_nor_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row for row in asked(1) if row["type"] != "tool/result"]
    lab = loaded(tmp_path, *rows)
    assert only(lab, "tool_calls", "is_error", "duration_ms", "result_bytes") == [None, None, None]
    assert only(lab, "sessions", "tool_calls", "tool_errors") == [1, 0]
    assert main(["session", str(tmp_path / "log" / "session.jsonl")]) == 0
    assert "read: 1 call, 0 errors, 1 without a result" in capsys.readouterr().out
    lab = loaded(tmp_path / "cut", *rows[:-2])
    assert only(lab, "sessions", "end_kind", "open") == [None, True]
    assert lab.turns["end_kind"].to_pylist() == [None]


def test_a_model_call_that_was_cut_or_failed_is_no_message(tmp_path: Path) -> None:
    start = [ev("turn/start", {"turn": 1}), ev("step/start", AT, 1)]
    for rows, told in (
        ([run("Hel")], ["none", None, None, False]),
        ([run("Hel"), finish("error", failure={"code": "SERVER"})], ["none", "error", "SERVER", False]),
        ([run("Hel"), finish("max-tokens"), message("Hel")], ["message", "max-tokens", None, False]),
        ([run("Hel"), message("Hel", interrupted=True)], ["message", None, None, True]),
    ):
        lab = loaded(tmp_path, *start, *rows)
        assert only(lab, "model_calls", "settled_as", "finish_kind", "error_code", "interrupted") == told
