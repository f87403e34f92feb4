"""What closes a turn that a crash left open, and where a torn file is cut."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from cassette_lab.jsonio import JsonObject
from cassette_lab.session.frames import compress_frame
from cassette_lab.session.model import Event
from cassette_lab.session.repair import Cut, closing_events, cut_file, find_cut
from cassette_lab.session.session import Session, new_header


def log(*events: tuple[str, JsonObject]) -> list[Event]:
    return [Event(kind, seq, 100 - seq, data) for seq, (kind, data) in enumerate(events)]


def asks(*call_ids: str, step: int = 1) -> tuple[str, JsonObject]:
    blocks: list[Any] = [{"type": "tool-call", "id": call_id, "name": "x", "arguments": "{}"} for call_id in call_ids]
    return "assistant/message", {"turn": 1, "step": step, "message": {"role": "assistant", "content": blocks}}


def calls(call_id: str) -> tuple[str, JsonObject]:
    return "tool/call", {"turn": 1, "step": 1, "callId": call_id, "name": "x", "arguments": "{}"}


def answers(call_id: str) -> tuple[str, JsonObject]:
    return "tool/result", {"turn": 1, "step": 1, "message": {"source": {"kind": "tool", "callId": call_id}, "content": []}}


START = ("turn/start", {"turn": 1})
STEP = ("step/start", {"turn": 1, "step": 1})
END_STEP = ("step/end", {"turn": 1, "step": 1})
END = ("turn/end", {"turn": 1, "reason": {"kind": "completed"}})
INTERRUPTED = ("turn/end", {"turn": 1, "reason": {"kind": "interrupted"}})


class TestClosing:
    @pytest.mark.parametrize(
        "events", [log(), log(("todo/write", {})), log(START, STEP, END_STEP, END), log(START, END, ("session/title", {}))]
    )
    def test_what_is_closed_needs_nothing(self, events: list[Event]) -> None:
        assert closing_events(events) == []

    def test_an_open_step_and_turn_end_at_the_time_of_the_last_event(self) -> None:
        closing = closing_events(log(START, STEP))
        assert [(event.type, event.data) for event in closing] == [END_STEP, INTERRUPTED]
        assert [(event.seq, event.time) for event in closing] == [(2, 99), (3, 99)]

    def test_a_turn_between_steps_has_no_step_to_end(self) -> None:
        assert [(event.type, event.data) for event in closing_events(log(START, STEP, END_STEP))] == [INTERRUPTED]

    def test_a_call_that_was_started_has_an_unknown_outcome_and_one_that_was_not_is_told(self) -> None:
        events = log(START, STEP, asks("a", "b", "c"), calls("a"), answers("a"), calls("b"))
        first, second, *rest = closing_events(events)
        assert first.data["message"]["source"] == {"kind": "tool", "callId": "b"}
        assert first.data["error"] == {"name": "ToolOutcomeUnknownError", "code": "TOOL_OUTCOME_UNKNOWN"}
        assert (first.source_event_seqs, first.surface_op) == ([5], "append")
        block = second.data["message"]["content"][0]
        assert (block["type"], block["toolCallId"], block["isError"]) == ("tool-result", "c", True)
        assert second.data["error"] == {"name": "ToolNotStartedError", "code": "TOOL_NOT_STARTED"}
        assert second.source_event_seqs is None
        assert [(event.type, event.data) for event in rest] == [END_STEP, INTERRUPTED]

    def test_calls_of_an_earlier_step_or_turn_are_no_longer_open(self) -> None:
        events = log(START, STEP, asks("a"), calls("a"), END_STEP, ("step/start", {"turn": 1, "step": 2}))
        assert [event.type for event in closing_events(events)] == ["step/end", "turn/end"]
        events = log(START, STEP, asks("a"), END, ("turn/start", {"turn": 2}))
        assert [event.type for event in closing_events(events)] == ["turn/end"]

    def test_a_closed_log_folds_and_goes_on(self) -> None:
        session = Session(new_header(), clock=itertools.count(1).__next__)
        session.append(*START)
        session.append(*STEP)
        session.append(*asks("a", "b"), surface_op="append")
        session.append(*calls("a"))
        events = [*session.events, *closing_events(session.events)]
        again = Session(session.header, seed=events)
        assert closing_events(again.events) == []
        assert [message["role"] for message in again.messages()] == ["assistant", "user", "user"]


class TestCut:
    def test_a_raw_log_is_cut_behind_its_last_good_line(self, tmp_path: Path) -> None:
        path = tmp_path / "session.jsonl"
        path.write_bytes(b'{"a":1}\n{"b"')
        cut = find_cut(path, 8)
        assert cut == Cut(8, b"")
        cut_file(path, cut)
        assert path.read_bytes() == b'{"a":1}\n'

    def test_lines_of_a_torn_frame_are_saved_in_one_of_their_own(self, tmp_path: Path) -> None:
        path = tmp_path / "session.jsonl.zstd"
        head, body = compress_frame(b"head\n"), compress_frame(b"one\ntwo\nthree")
        path.write_bytes(head + body)
        path.chmod(0o640)
        cut = find_cut(path, len("head\none\ntwo\n"))
        assert cut == Cut(len(head), b"one\ntwo\n")
        cut_file(path, cut)
        assert path.read_bytes() == head + compress_frame(b"one\ntwo\n")
        assert path.stat().st_mode & 0o777 == 0o640
        assert list(tmp_path.iterdir()) == [path]

    def test_a_file_that_is_whole_is_left_as_it_is(self, tmp_path: Path) -> None:
        path = tmp_path / "session.jsonl.zstd"
        data = compress_frame(b"head\n") + compress_frame(b"one\n")
        path.write_bytes(data)
        before = path.stat().st_mtime_ns
        cut = find_cut(path, len("head\none\n"))
        assert cut == Cut(len(data), b"")
        cut_file(path, cut)
        assert (path.read_bytes(), path.stat().st_mtime_ns) == (data, before)
