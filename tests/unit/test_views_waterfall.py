"""The waterfall of a session: rows in the order of a run, subagents below their calls, waits cut out, endings marked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import cassette_lab as cl
from cassette_lab.errors import ConfigError
from cassette_lab.views import Drawing
from cassette_lab.views.bars import Bar, Segment, bars_text
from cassette_lab.views.layout import Label
from cassette_lab.views.theme import CATEGORIES, TIMES
from cassette_lab.views.timelines import timeline_drawing as timeline
from cassette_lab.views.waterfalls import waterfall_drawing as waterfall
from tests.unit.session_samples import START_MS, header, text, write
from tests.unit.session_told import AT, ev, finish, message
from tests.unit.test_views_charts import bars, hovers, texts
from tests.unit.views_samples import audit

SAMPLES = Path(__file__).parents[2] / "notebooks" / "samples" / "sessions"


@pytest.fixture(scope="module")
def lab() -> cl.Lab:
    return cl.load(SAMPLES)


def rows(drawing: Drawing) -> list[str]:
    """The rows of the text form, without the title and the notes."""
    return drawing.draw_text(100)


def _log(folder: Path, name: str, *events: dict[str, Any], **members: Any) -> None:
    write(
        folder / name / "session.jsonl",
        text(header(id=name, **members), *({**row, "seq": seq} for seq, row in enumerate(events))),
    )


def test_a_subagent_stands_below_the_call_that_started_it(lab: cl.Lab) -> None:
    drawing = waterfall(lab)
    names = [row.split("  ")[0] if not row.startswith(" ") else row.strip().split("  ")[0] for row in rows(drawing)]
    assert names == [
        "release-check", "model 1.1", "read", "model 1.2", "grep", "model 1.3", "model 2.1",
        "subagent → check-limits", "check-limits", "model 1.1", "grep", "grep", "model 1.2",
        "subagent → run-tests", "run-tests", "model 1.1", "bash", "model 1.2",
        "subagent_fork → second-opinion", "second-opinion", "model 2.1", "model 2.2",
    ]  # fmt: skip
    assert drawing.title == "Waterfall · release-check · 3 subagents"
    assert "the longest of 2 runs; cl.waterfall(lab, id) shows another one" in drawing.notes


def test_how_things_ended_stands_beside_them(lab: cl.Lab) -> None:
    shown = texts(waterfall(lab))
    for words in (
        f"2.4 s · after 1 {TIMES} SERVER", "14 ms · FS_NOT_FOUND", "3.6 s · limit", "11.6 s · ABORTED", "565 ms · aborted",
        f"4.1 s · after 2 {TIMES} RATE_LIMIT", "6.2 s idle",
    ):  # fmt: skip
        assert words in shown, words
    aborted = [bar for bar in bars(waterfall(lab)) if (bar.get("fill") or "").endswith("hatched)")]
    assert len(aborted) == 3, "the call of an aborted subagent, and its last model call, the pale part and the rest"


def test_the_table_beside_it_tells_begin_duration_and_end(lab: cl.Lab) -> None:
    cells = waterfall(lab).cells
    assert cells.headers == ("session", "call", "begins", "duration", "how it ended")
    assert ("release-check", "model 1.1", "7.0 ms", "2.4 s", "SERVER, then completed") in cells.rows
    assert ("· second-opinion", "model 2.1", "14.5 s", "4.1 s", "RATE_LIMIT, then RATE_LIMIT, then completed") in cells.rows


def test_a_wait_for_a_message_is_cut_out_and_told(lab: cl.Lab) -> None:
    drawing = waterfall(lab, "night-report")
    assert "time since the first turn, waits cut out (s)" in texts(drawing)
    assert "dotted line: the sessions waited for a message, 1 min 00 s, 10 min 00 s, which is cut out" in drawing.notes
    assert "1.7 s · AUTH · open" in texts(drawing)
    assert [row[2] for row in drawing.cells.rows] == ["7.0 ms", "1 min 01 s", "11 min 01 s"]


def test_too_many_calls_are_drawn_as_a_row_for_each_session(lab: cl.Lab) -> None:
    drawing = waterfall(lab, max_rows=10)
    assert [row.strip().split("  ")[0] for row in rows(drawing)] == [
        "release-check",
        "check-limits",
        "run-tests",
        "second-opinion",
    ]
    assert "18 calls: a row for each session; cl.waterfall(lab, id) shows one alone" in drawing.notes
    assert "3.6 s · 4 calls · 1 error" in texts(drawing)
    assert drawing.cells.rows[2] == ("· run-tests", "3", "0", "14.5 s", "11.5 s")
    few = waterfall(lab, max_rows=2)
    assert len(rows(few)) == 2
    assert any("2 sessions left out" in note for note in few.notes)


def test_one_of_several_runs_is_named(lab: cl.Lab) -> None:
    assert waterfall(lab, "second-opinion").title == "Waterfall · second-opinion"
    assert waterfall(SAMPLES, "check-limits").title == "Waterfall · check-limits"
    with pytest.raises(ConfigError, match="there is no session nobody in this lab"):
        waterfall(lab, "nobody")


def test_a_lab_without_sessions_or_times_says_so(tmp_path: Path) -> None:
    nothing = waterfall(cl.load(Path(__file__).parents[1] / "data" / "cassettes", on_error="collect"))
    assert "There is no session log in this lab." in texts(nothing)
    _log(tmp_path, "s", *({"type": each, "data": {"turn": 1}} for each in ("turn/start", "turn/end")))
    assert waterfall(tmp_path).text() == "Waterfall · s\nThis log has no times.\nThis log has no times."


def test_the_timeline_of_a_lab_with_sessions_alone_is_their_waterfall(lab: cl.Lab) -> None:
    assert timeline(lab).title == waterfall(lab).title
    assert timeline(SAMPLES).title == waterfall(lab).title
    assert timeline(audit()).title.startswith("Timeline")


def test_what_a_log_calls_things_is_shown_escaped_and_nothing_that_was_said(tmp_path: Path) -> None:
    call = {**AT, "callId": "c", "name": "<script>alert(1)</script>\u202e", "arguments": '{"secret": "word"}'}
    _log(
        tmp_path,
        "root",
        ev("turn/start", {"turn": 1}, 0),
        ev("step/start", AT, 1),
        finish("error", at=400, failure={"code": "<b>BAD", "message": "secret"}),
        message("secret", at=401),
        ev("tool/call", call, 410),
        ev("turn/end", {"turn": 1, "reason": {"kind": "blocked"}}, 900),
    )
    drawing = waterfall(tmp_path)
    page = drawing.html()
    assert "<script" not in page
    assert "secret" not in page + drawing.text()
    assert "\u202e" not in page
    assert any("\\u{202e}" in hover for hover in hovers(drawing))
    assert "900 ms · blocked" in texts(drawing)
    assert "0 ms · no result" in texts(drawing)


def test_a_long_session_is_a_small_picture(tmp_path: Path) -> None:
    events = [ev("turn/start", {"turn": 1}, 0)]
    for step in range(1, 3_001):
        at = {"turn": 1, "step": step}
        events += [
            ev("step/start", at, step * 10),
            ev("tool/call", {**at, "callId": f"c{step}", "name": "bash", "arguments": ""}, step * 10 + 1),
        ]
        body = {"role": "tool", "toolCallId": f"c{step}", "content": [], "isError": step % 500 == 0}
        events.append(ev("tool/result", {**at, "message": body}, step * 10 + 8, surfaceOp="append"))
    events.append(ev("turn/end", {"turn": 1, "reason": {"kind": "completed"}}, 30_100))
    _log(tmp_path, "long", *events, createdAt=START_MS)
    drawing = waterfall(tmp_path)
    assert "3,000 calls · 6 errors" in " ".join(texts(drawing))
    assert len(drawing.svg) < 400_000
    assert len(drawing.html(still=False)) < 500_000
    assert drawing.cells.rows == [("long", "3,000", "6", "0 ms", "30.1 s")]


def test_many_subagents_are_a_small_picture(tmp_path: Path) -> None:
    _log(
        tmp_path, "root", ev("turn/start", {"turn": 1}, 0), ev("turn/end", {"turn": 1, "reason": {"kind": "completed"}}, 9_000)
    )
    for number in range(150):
        events = [ev("turn/start", {"turn": 1}, number)]
        for step in range(1, 60):
            at = {"turn": 1, "step": step}
            called = {**at, "callId": f"c{step}", "name": "bash", "arguments": ""}
            body = {"role": "tool", "toolCallId": f"c{step}", "content": [], "isError": step % 7 == 0}
            events += [
                ev("tool/call", called, step * 100),
                ev("tool/result", {**at, "message": body}, step * 100 + 40, surfaceOp="append"),
            ]
        _log(tmp_path, f"child-{number}", *events, parentSession="root", createdAt=START_MS + number)
    drawing = waterfall(tmp_path)
    assert any("a row for each session, 71 sessions left out" in note for note in drawing.notes)
    assert len(drawing.svg) < 2_000_000
    assert len(rows(drawing)) == 80


def test_a_long_id_is_whole_beside_its_bar() -> None:
    name = "release-check-2026-11-30-evening-1"
    line, *_ = bars_text([Bar(Label(name), (Segment(0.0, 1.0, CATEGORIES["completed"], ""),), "1.0 ms")], 1.0, 88)
    assert line.startswith(f"{name}  █")
