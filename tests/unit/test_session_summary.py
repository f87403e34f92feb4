"""What a session's summary says of its subagents and of time: unknown is null, never an empty list."""

from __future__ import annotations

from typing import Any

from cassette_lab.session.summary import summary
from tests.unit.session_samples import START_MS
from tests.unit.session_told import AT, ev, tell

_ASKED = ev("tool/call", {**AT, "callId": "c", "name": "subagent", "arguments": "{}"}, 10)


def _answer(text: str) -> dict[str, Any]:
    message = {"role": "tool", "toolCallId": "c", "content": [{"type": "text", "text": text}], "isError": False}
    return ev("tool/result", {**AT, "message": message}, 12, surfaceOp="append")


def test_a_log_without_a_catalog_does_not_tell_that_there_are_no_children() -> None:
    assert summary(tell(_ASKED, _answer("done"), version=0))["children"] is None
    assert summary(tell(_ASKED, _answer("started subagent far"), version=0))["children"] == ["far"]


def test_a_log_with_a_catalog_tells_its_children_or_that_there_are_none() -> None:
    noted = ev("subagent/catalog", {"childId": "near", "childCreatedAt": START_MS, "mode": "one-shot"}, 11)
    assert summary(tell(_ASKED, noted, _answer("done"), version=4))["children"] == ["near"]
    assert summary(tell(version=4))["children"] == []


def test_calls_that_only_started_a_subagent_are_counted() -> None:
    (tool,) = summary(tell(_ASKED, _answer("started subagent far"), version=0))["tools"]
    assert (tool["background"], tool["durationMs"]) == (1, 2)


def test_time_in_turns_goes_on_in_an_open_one() -> None:
    end = ev("turn/end", {"turn": 1, "reason": {"kind": "completed"}}, 30)
    told = summary(tell(ev("turn/start", {"turn": 1}, 0), end, ev("turn/start", {"turn": 2}, 90), ev("step/start", AT, 95)))
    assert (told["turnMs"], told["durationMs"]) == (35, 95)


def test_the_first_prompt_keeps_its_blocks_apart() -> None:
    content = [{"type": "text", "text": "look"}, {"type": "image"}, {"type": "text", "text": "here"}]
    facts = tell(ev("user/message", {"role": "user", "content": content}, 1, surfaceOp="append"), bodies=True)
    assert facts.first_prompt == "look\nhere"
