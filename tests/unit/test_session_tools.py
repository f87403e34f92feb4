"""Tool calls, their results in every spelling, and what stands behind them."""

from __future__ import annotations

from typing import Any

import pytest

from cassette_lab.session.facts import own
from tests.unit.session_samples import START_MS
from tests.unit.session_told import AT, ev, tell


def _call(call_id: str = "c1", name: str = "bash", arguments: str = '{"é":1}', at: int = 10) -> dict[str, Any]:
    return ev("tool/call", {**AT, "callId": call_id, "name": name, "arguments": arguments}, at)


def _result(spelling: str, text: str = "né", *, is_error: bool = False, at: int = 30, **members: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": text}, {"type": "image", "data": "…"}]
    told = {"content": content, "isError": is_error}
    spellings: dict[str, dict[str, Any]] = {
        "tool role": {"message": {"role": "tool", "toolCallId": "c1", **told}},
        "user role": {"message": {"role": "user", "content": [{"type": "tool-result", "toolCallId": "c1", **told}]}},
        "no message": {"callId": "c1", **told},
    }
    data = spellings[spelling]
    return ev("tool/result", {**AT, **data, **members}, at, surfaceOp="append")


@pytest.mark.parametrize("spelling", ["tool role", "user role", "no message"])
def test_a_result_answers_its_call_in_every_spelling(spelling: str) -> None:
    failed = _result(spelling, is_error=True, error={"name": "ReadError", "code": "FS_NOT_FOUND"})
    facts = tell(_call(), failed, bodies=True)
    (call,) = facts.tool_calls
    assert (call.call_id, call.name, call.turn, call.step) == ("c1", "bash", 1, 1)
    assert (call.is_error, call.error_name, call.error_code) == (True, "ReadError", "FS_NOT_FOUND")
    assert (call.duration_ms, call.argument_bytes, call.result_bytes) == (20, 8, 3)
    assert (call.arguments, call.result) == ('{"é":1}', "né")
    assert tell(_call(), _result(spelling)).tool_calls[0].is_error is False


def test_what_a_tool_was_told_and_said_is_left_out_unless_asked_for() -> None:
    (call,) = tell(_call(), _result("tool role")).tool_calls
    assert (call.arguments, call.result, call.has_result) == (None, None, True)


def test_a_call_without_a_result_is_neither_right_nor_wrong() -> None:
    (call,) = tell(_call()).tool_calls
    assert (call.is_error, call.has_result, call.ended_at, call.duration_ms, call.result_bytes) == (
        None,
        False,
        None,
        None,
        None,
    )


def test_a_rewritten_copy_and_a_second_result_change_nothing() -> None:
    rewritten = _result("tool role", "short", at=90) | {"surfaceOp": {"op": "replace", "startSeq": 1, "endSeq": 1}}
    facts = tell(_call(), _result("tool role"), rewritten, _result("tool role", is_error=True, at=95), version=4)
    (call,) = facts.tool_calls
    assert (call.is_error, call.duration_ms) == (False, 20)


def test_the_same_id_in_the_inherited_part_and_in_the_forks_own_are_two_calls() -> None:
    facts = tell(_call(), _call(at=50), _result("user role", at=60), seedLength=1)
    assert [(call.inherited, call.has_result) for call in facts.tool_calls] == [(True, False), (False, True)]
    facts = tell(_call(), _result("user role", at=60), seedLength=1)
    assert (own(facts.tool_calls), facts.tool_calls[0].has_result) == ([], False)


def test_calls_made_by_code_stand_apart_with_their_parent() -> None:
    names = {"rootCallId": "c1", "parentCallId": "c1", "name": "read"}
    facts = tell(
        _call(name="run_code"),
        ev("tool/code-dispatch-start", {**names, "subCallId": "c1:1"}, 11),
        ev("tool/code-dispatch", {**names, "subCallId": "c1:1", "isError": True, "content": [], "error": {"code": "NO"}}, 15),
        ev("tool/code-dispatch", {**names, "subCallId": "c1:2", "isError": False, "content": []}, 19),
    )
    assert [call.call_id for call in facts.tool_calls] == ["c1"]
    told = [(call.call_id, call.parent_call_id, call.is_error, call.error_code, call.duration_ms) for call in facts.dispatches]
    assert told == [("c1:1", "c1", True, "NO", 4), ("c1:2", "c1", False, None, None)]


def test_a_job_tells_when_the_work_really_ended() -> None:
    job = {"jobId": "j", "kind": "bash", "startedAt": START_MS + 11, "toolCall": {"callId": "c1", "rootCallId": "c0"}}
    facts = tell(
        _call(),
        ev("job/registered", job, 11),
        _result("tool role"),
        ev("job/settled", {**job, "finishedAt": START_MS + 911, "status": "completed", "cause": "producer"}, 912),
        version=4,
    )
    (told,) = facts.jobs
    assert (told.call_id, told.root_call_id, told.kind, told.status, told.cause) == (
        "c1",
        "c0",
        "bash",
        "completed",
        "producer",
    )
    assert told.duration_ms == 900


@pytest.mark.parametrize("data", [{}, {"callId": 7, "name": [], "arguments": {}}, {"turn": -1, "step": 1.5}])
def test_members_of_a_wrong_type_are_unknown(data: dict[str, Any]) -> None:
    facts = tell(ev("tool/call", data), ev("tool/result", data, surfaceOp="append"), ev("job/settled", data))
    (call,) = facts.tool_calls
    assert (call.turn, call.call_id, call.name, call.argument_bytes) == (None, None, None, None)
