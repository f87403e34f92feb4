"""What a recording answers, in which order, and which departures it tells; without a runtime."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cassette_lab.errors import ConfigError, FormatError, MismatchError
from cassette_lab.host.harness.channel import TICK
from cassette_lab.host.harness.recorded import (
    RecordedCall,
    RecordedSession,
    difference,
    load_sessions,
    route_of,
    with_live_names,
)
from cassette_lab.host.harness.script import HarnessScript
from cassette_lab.jsonio import JsonObject

FINISH: JsonObject = {"type": "finish", "reason": {"kind": "stop"}}


def digests(*messages: str) -> JsonObject:
    return {"tools": "t", "messages": [["user", message] for message in messages]}


def call(text: str, asked: JsonObject | None = None, rank: int | None = None, gap_ms: float = 0.0) -> RecordedCall:
    return RecordedCall([{"type": "text-delta", "index": 0, "text": text}, FINISH], asked, rank, gap_ms)


def session(session_id: str, *calls: RecordedCall, parent: str | None = None, created_at: float = 0) -> RecordedSession:
    return RecordedSession(session_id, parent, "/recorded/work", created_at, list(calls))


class Live:
    """A live run, as the plugin tells of it."""

    def __init__(self, script: HarnessScript) -> None:
        self.script = script
        self.streams = 0
        self.answers: dict[int, JsonObject] = {}

    def take(self, answers: Sequence[JsonObject]) -> None:
        for answer in answers:
            self.answers[answer["stream"]] = answer

    def ask(self, session_id: str, asked: JsonObject | None = None, parent: str | None = None) -> int:
        self.streams += 1
        request: JsonObject = {"e": "request", "session": session_id}
        self.take(self.script.hear({**request, **({"parent": parent} if parent else {})}))
        self.take(
            self.script.hear({"e": "stream", "stream": self.streams, "sessionId": session_id, "digests": asked or digests()})
        )
        return self.streams

    def end(self, stream: int) -> None:
        self.take(self.script.hear({"e": "done", "stream": stream}))

    def text(self, stream: int) -> str | None:
        answer = self.answers.get(stream)
        if answer is None:
            return None
        return str(answer["error"]["message"] if "error" in answer else answer["chunks"][0].get("text"))


def kinds(script: HarnessScript) -> list[tuple[str, str, int]]:
    return [(found.kind, found.session_id, found.call) for found in script.departures()]


def test_a_run_as_it_was() -> None:
    script = HarnessScript([session("root", call("one", digests("a")), call("two", digests("a", "b")))])
    live = Live(script)
    assert live.text(live.ask("root", digests("a"))) == "one"
    assert kinds(script) == [("missing-calls", "root", 2)]
    assert live.text(live.ask("root", digests("a", "b"))) == "two"
    assert script.departures() == []
    script.assert_as_recorded()


def test_departures_are_told_and_the_run_goes_on() -> None:
    script = HarnessScript([session("root", call("one", digests("a")), call("two", digests("b"))), session("other", call("x"))])
    live = Live(script)
    assert live.text(live.ask("root", digests("z"))) == "one"
    assert live.text(live.ask("root", digests("b"))) == "two"
    assert live.text(live.ask("root")) == "the recording has only 2 calls of this session"
    assert live.text(live.ask("stranger")) == "this session is not in the recording"
    assert live.text(live.ask("stranger")) == "this session is not in the recording"
    assert kinds(script) == [
        ("changed-request", "root", 1),
        ("extra-call", "root", 3),
        ("extra-session", "stranger", 1),
        ("missing-session", "other", 1),
    ]
    with pytest.raises(MismatchError, match=r"call 1 of session root: message 1 \(user\) is not the recorded one"):
        script.assert_as_recorded()


def test_children_are_known_by_their_parent_and_their_first_request() -> None:
    children = [session(f"child-{n}", call(f"answer {n}", digests(f"task {n}")), parent="root", created_at=n) for n in range(4)]
    grand = session("grand", call("deep", digests("task 2")), parent="child-2", created_at=9)
    script = HarnessScript([session("root", call("go")), *children, grand])
    live = Live(script)
    live.ask("root")
    for n in (2, 0, 3, 1):
        assert live.text(live.ask(f"live-{n}", digests(f"task {n}"), parent="root")) == f"answer {n}"
    assert live.text(live.ask("live-grand", digests("task 2"), parent="live-2")) == "deep"
    assert script.departures() == []


def test_a_child_that_begins_otherwise_takes_the_next_one() -> None:
    script = HarnessScript([session("root", call("go")), session("child", call("answer", digests("task")), parent="root")])
    live = Live(script)
    live.ask("root")
    assert live.text(live.ask("live", digests("another task"), parent="root")) == "answer"
    assert kinds(script) == [("changed-request", "child", 1)]


class TestOrder:
    def two(self, **options: Any) -> tuple[HarnessScript, Live]:
        sessions = [
            session("root", call("r1", rank=0), call("r2", rank=2)),
            session("child", call("c1", rank=1), call("c2", rank=3, gap_ms=90), parent="root"),
        ]
        script = HarnessScript(sessions, **options)
        return script, Live(script)

    def test_answers_come_in_the_order_of_the_recording(self) -> None:
        _, live = self.two()
        first = live.ask("root")
        assert live.text(first) == "r1"
        live.end(first)
        second = live.ask("root")
        assert live.text(second) is None, "the child's first answer had come before"
        child = live.ask("child", parent="root")
        assert live.text(child) == "c1"
        assert live.text(second) is None
        live.end(child)
        assert live.text(second) == "r2"
        last = live.ask("child")
        assert live.text(last) is None
        live.end(second)
        assert live.answers[last]["delayMs"] == 90

    def test_patience_has_an_end(self) -> None:
        now = 0.0
        script, live = self.two(clock=lambda: now)
        live.end(live.ask("root"))
        stream = live.ask("root")
        live.take(script.hear(TICK))
        assert live.text(stream) is None
        now = 30.0
        live.take(script.hear(TICK))
        assert live.text(stream) == "r2"


def test_a_call_that_was_cut_off_waits_for_the_cancellation() -> None:
    cut = RecordedCall([{"type": "text-delta", "index": 0, "text": "par"}])
    live = Live(HarnessScript([session("root", cut, call("after"))]))
    assert live.answers[live.ask("root")]["hangs"] is True
    assert live.answers[live.ask("root")]["hangs"] is False


def test_names_of_the_recording_become_those_of_the_run() -> None:
    arguments = json.dumps({"to": "child-7", "file": "/recorded/work/a.txt"})
    deltas = [
        {"type": "tool-call-delta", "index": 1, "id": "c", "name": "send", "argumentsDelta": arguments[:12]},
        {"type": "tool-call-delta", "index": 1, "id": "c", "argumentsDelta": arguments[12:]},
    ]
    block = {"type": "tool-call", "id": "c", "name": "send", "arguments": arguments}
    text = {"type": "text-delta", "index": 0, "text": "child-"}
    chunks = [text, {"type": "block-end", "index": 0, "block": {"type": "text", "text": "child-"}}, *deltas]
    chunks.append({"type": "block-end", "index": 1, "block": block})
    renamed = with_live_names([*chunks, FINISH], {"child-7": "live-1", "/recorded/work": "/live"})
    wanted = json.dumps({"to": "live-1", "file": "/live/a.txt"})
    assert renamed == [
        *chunks[:2],
        {**deltas[0], "argumentsDelta": wanted},
        {**chunks[-1], "block": {**block, "arguments": wanted}},
        FINISH,
    ]
    assert with_live_names(chunks, {"other": "x"}) is chunks


@pytest.mark.parametrize(
    ("live", "told"),
    [
        (digests("a", "b"), None),
        (digests("a", "c"), "message 2 (user) is not the recorded one"),
        (
            {"tools": "t", "messages": [["user", "a"], ["tool", "b"]]},
            "message 2 (tool instead of user) is not the recorded one",
        ),
        (digests("a"), "the request has 1 messages instead of 2"),
        ({**digests("a", "b"), "tools": "u"}, "the tools are not the recorded ones"),
    ],
)
def test_what_is_different(live: JsonObject, told: str | None) -> None:
    assert difference(digests("a", "b"), live) == told


class TestFolders:
    def write(self, folder: Path, *trace: JsonObject) -> Path:
        logs = folder / "sessions" / "--work--" / "root"
        logs.mkdir(parents=True)
        header = {
            "type": "session",
            "version": 4,
            "id": "root",
            "createdAt": 1,
            "cwd": "/w",
            "isSeeded": False,
            "delegationDepth": 0,
        }
        message = {"role": "assistant", "content": [{"type": "text", "text": "Hi"}], "source": {"kind": "model"}}
        stream = [
            {"type": "chunk", "time": 2, "chunk": {"type": "block-start", "index": 0, "blockType": "text"}},
            {"type": "text-chunks", "time0": 3, "index": 0, "dt": [1], "texts": ["H", "i"]},
        ]
        events = [
            {"type": "assistant/attempt", "seq": 0, "time": 2, "data": {"turn": 1, "step": 1, "stream": stream[:1]}},
            {
                "type": "assistant/message",
                "seq": 1,
                "time": 5,
                "data": {
                    "turn": 1,
                    "step": 1,
                    "message": message,
                    "stream": [*stream, {"type": "chunk", "time": 5, "chunk": FINISH}],
                },
            },
        ]
        (logs / "session.v4.jsonl").write_text("".join(json.dumps(line) + "\n" for line in (header, *events)))
        if trace:
            first = {"format": "cassette-lab/harness-trace", "version": 1}
            (folder / "trace.jsonl").write_text("".join(json.dumps(line) + "\n" for line in (first, *trace)))
        return folder

    def test_logs_alone_are_enough(self, tmp_path: Path) -> None:
        (only,) = load_sessions(self.write(tmp_path))
        assert [(len(each.chunks), each.is_whole, each.rank) for each in only.calls] == [(1, False, None), (4, True, None)]
        assert [chunk.get("text") for chunk in only.calls[1].chunks] == [None, "H", "i", None]

    def test_a_trace_tells_of_requests_and_order(self, tmp_path: Path) -> None:
        asked = [{"e": "stream", "stream": n, "marked": True, "sessionId": "root", "digests": digests(str(n))} for n in (1, 2)]
        title = {"e": "stream", "stream": 9, "marked": False, "sessionId": "root", "options": {"purpose": "title"}}
        ends = [{"e": "return", "stream": 1, "t": 5.0}, {"e": "done", "stream": 2, "t": 7.5}]
        (only,) = load_sessions(self.write(tmp_path, asked[0], ends[0], title, asked[1], ends[1]))
        assert [(each.rank, each.digests) for each in only.calls] == [(0, digests("1")), (1, digests("2"))]

    def test_a_trace_tells_which_model_was_asked(self, tmp_path: Path) -> None:
        route = {"provider": "p", "model": "large"}
        asked = {"e": "stream", "stream": 1, "marked": True, "sessionId": "root", "digests": digests("1"), "options": route}
        title = {**asked, "stream": 2, "marked": False, "options": {**route, "model": "tiny", "purpose": "title"}}
        folder = self.write(tmp_path, title, asked)
        assert route_of(folder) == route
        (only,) = load_sessions(folder)
        assert only.calls[0].digests == {**digests("1"), **route}
        other = {**digests("1"), **route, "model": "small"}
        assert difference(only.calls[0].digests, other) == "the model is p / small instead of p / large"
        (folder / "trace.jsonl").unlink()
        assert route_of(folder) == {}

    def test_a_torn_last_line_is_left_out_and_others_are_refused(self, tmp_path: Path) -> None:
        folder = self.write(tmp_path, {"e": "request"})
        trace = folder / "trace.jsonl"
        whole = trace.read_text()
        trace.write_text(whole + '{"e": "str')
        load_sessions(folder)
        trace.write_text(whole + "nonsense\n")
        with pytest.raises(FormatError, match="line 3"):
            load_sessions(folder)
        trace.write_text("{}\n")
        with pytest.raises(FormatError, match="no trace of a harness"):
            load_sessions(folder)

    def test_there_is_none(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="record one first"):
            load_sessions(tmp_path)
