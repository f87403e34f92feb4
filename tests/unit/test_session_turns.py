"""Turns and steps: how they ended, and how long they waited and took."""

from __future__ import annotations

from typing import Any

import pytest

from cassette_lab.session.facts import own
from tests.unit.session_samples import START_MS
from tests.unit.session_told import AT, ev, tell


def _end(reason: Any, at: int = 50) -> dict[str, Any]:
    return ev("turn/end", {"turn": 1, "reason": reason}, at)


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ({"kind": "completed"}, ("completed", None, None, None)),
        ({"kind": "max-tokens"}, ("max-tokens", None, None, None)),
        ({"kind": "aborted", "reason": {"kind": "parent"}}, ("aborted", "parent", None, None)),
        ({"kind": "aborted"}, ("aborted", None, None, None)),
        ({"kind": "interrupted"}, ("interrupted", None, None, None)),
        ({"kind": "error", "error": {"message": "no", "code": "AUTH", "status": 401}}, ("error", None, "AUTH", 401)),
        ({"kind": "error", "step": 2, "message": "no", "code": "OLD"}, ("error", None, "OLD", None)),
        ({"kind": "error", "step": 2, "failure": {"message": "no", "code": "OLDER"}}, ("error", None, "OLDER", None)),
        ("disposed", ("disposed", None, None, None)),
        (None, (None, None, None, None)),
        ([], (None, None, None, None)),
    ],
)
def test_a_turn_ends_as_its_reason_says_in_every_spelling(reason: Any, told: tuple[object, ...]) -> None:
    facts = tell(ev("turn/start", {"turn": 1}, 10), _end(reason))
    (turn,) = facts.turns
    assert (turn.end_kind, turn.end_cause, turn.error_code, turn.error_status) == told
    assert turn.duration_ms == 40
    assert facts.end_kind == told[0]
    assert not facts.is_open


def test_a_turn_without_an_end_is_open_and_has_no_kind() -> None:
    facts = tell(
        ev("turn/start", {"turn": 1}), ev("step/start", AT), ev("step/end", AT), ev("step/start", {"turn": 1, "step": 2})
    )
    assert facts.is_open
    assert facts.end_kind is None
    assert facts.turns[0].duration_ms is None
    assert [(step.step, step.is_open) for step in facts.steps] == [(1, False), (2, True)]


def test_an_end_without_a_start_is_told_as_it_is() -> None:
    facts = tell(_end({"kind": "completed"}), ev("step/end", AT, 60))
    assert (facts.turns[0].start_seq, facts.turns[0].end_kind, facts.turns[0].duration_ms) == (None, "completed", None)
    assert (facts.steps[0].start_seq, facts.steps[0].end_seq) == (None, 1)


def test_a_clock_that_stepped_back_gives_no_duration() -> None:
    facts = tell(ev("turn/start", {"turn": 1}, 100), _end({"kind": "completed"}, at=50))
    assert facts.turns[0].duration_ms is None
    assert (facts.first_at, facts.last_at) == (START_MS + 50, START_MS + 100)


def _splice(at: int, inserted: int = 0, removed: int = 0, target: str = "next-turn", **members: Any) -> dict[str, Any]:
    data = {"target": target, "start": 0, "inserted": [{"role": "user"}] * inserted, **members}
    return ev("agent/inbox/spliced", data | ({"removedCount": removed} if removed else {}), at)


def test_queueing_is_from_the_inbox_to_the_turn() -> None:
    facts = tell(
        _splice(10, inserted=1),
        ev("turn/start", {"turn": 1}, 12),
        _splice(13, removed=1),
        ev("step/start", AT, 14),
        _splice(20, inserted=1),
        _splice(25, inserted=1, target="next-step"),
        _splice(26, removed=1, target="next-step"),
        _end({"kind": "completed"}, 50),
        ev("turn/start", {"turn": 2}, 51),
        _splice(52, removed=1),
    )
    assert [turn.queued_ms for turn in facts.turns] == [2, 31]


def test_messages_that_join_a_turn_wait_for_its_next_step() -> None:
    second, third = {"turn": 1, "step": 2}, {"turn": 1, "step": 3}
    facts = tell(
        ev("turn/start", {"turn": 1}, 10),
        ev("step/start", AT, 11),
        _splice(20, inserted=1, target="next-step"),
        _splice(24, inserted=1, target="next-step"),
        ev("step/end", AT, 30),
        _splice(31, removed=1, target="next-step"),
        _splice(32, removed=1, target="next-step"),
        ev("step/start", second, 33),
        _splice(34, inserted=1, target="next-step"),
        _splice(35, removed=1, target="next-step", outcome="canceled"),
        ev("step/end", second, 40),
        ev("step/start", third, 41),
    )
    assert [(step.queued_ms, step.duration_ms) for step in facts.steps] == [(None, 19), (13, 7), (None, None)]
    assert facts.turns[0].queued_at is None


def test_what_nobody_took_joins_no_later_turn() -> None:
    facts = tell(
        _splice(1, inserted=1, target="next-step"),
        _splice(2, removed=1, target="next-step"),
        ev("turn/start", {"turn": 1}, 10),
        ev("step/start", AT, 11),
        _splice(12, target=["next-step"]),  # type: ignore[arg-type]
    )
    assert facts.steps[0].queued_at is None


def test_a_message_taken_back_began_no_turn() -> None:
    facts = tell(_splice(10, inserted=2), ev("turn/start", {"turn": 1}, 12), _splice(13, removed=1, outcome="canceled"))
    assert facts.turns[0].queued_at is None


def test_what_a_turn_takes_behind_its_first_step_did_not_begin_it() -> None:
    facts = tell(ev("turn/start", {"turn": 1}, 12), ev("step/start", AT, 14), _splice(20, inserted=1), _splice(30, removed=1))
    assert facts.turns[0].queued_at is None


def test_times_of_zero_are_unknown() -> None:
    rows = [{**row, "time": 0} for row in (ev("turn/start", {"turn": 1}), _end({"kind": "completed"}))]
    facts = tell(*rows)
    assert (facts.turns[0].started_at, facts.turns[0].duration_ms, facts.first_at) == (None, None, None)
    assert facts.end_kind == "completed"


def test_turn_numbers_go_on_in_a_fork_and_only_its_own_count() -> None:
    parent = [ev("turn/start", {"turn": 1}, 1), _end({"kind": "completed"}, 2)]
    facts = tell(*parent, ev("turn/start", {"turn": 2}, 30), seedLength=2, parentSession="parent")
    assert [(turn.turn, turn.inherited) for turn in facts.turns] == [(1, True), (2, False)]
    assert [turn.turn for turn in own(facts.turns)] == [2]
    assert (facts.first_at, facts.is_open) == (START_MS + 30, True)
