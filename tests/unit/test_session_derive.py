"""The derivation as a whole: the boundary of a fork, row by row as at once, and rows of any shape."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cassette_lab.session.derive import Derivation, derive
from cassette_lab.session.facts import own
from cassette_lab.session.model import ChunkRun
from tests.unit.session_told import AT, ev, finish, message, read, run, tell

_TURN = [
    ev("turn/start", {"turn": 1}),
    ev("step/start", AT),
    run("a", "b"),
    finish(),
    message("ab", usage={"outputTokens": 2}),
    ev("step/end", AT),
    ev("turn/end", {"turn": 1, "reason": {"kind": "completed"}}),
]
_TURN_EVENTS = 8


def _marker(*, inherited: bool = True) -> dict[str, Any]:
    return ev("session/end-seed", {"inherited": True} if inherited else {})


def _newer(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of format 0 without what later formats keep in streams."""
    return [row for row in rows if row["type"] not in {"assistant/chunk", "text-chunks"}]


def test_the_last_marker_is_the_boundary_not_the_first() -> None:
    turn = _newer(_TURN)
    rows = [*turn, _marker(), *turn, _marker(), *turn, _marker(inherited=False), *turn]
    facts = tell(*rows, version=4, isSeeded=True)
    assert [each.inherited for each in facts.turns] == [True, True, False, False]
    assert facts.inherited_events == 2 * len(turn) + 1
    assert facts.message_usage.output_tokens == 4
    assert facts.event_types["session/end-seed"] == 2


def test_markers_in_a_log_that_is_no_fork_move_no_boundary() -> None:
    facts = tell(*_newer(_TURN), _marker(), version=4, isSeeded=False)
    assert len(own(facts.turns)) == 1


def test_a_fork_without_a_marker_has_nothing_of_its_own() -> None:
    facts = tell(*_newer(_TURN), version=3, isSeeded=True)
    assert (own(facts.turns), own(facts.model_calls), dict(facts.event_types)) == ([], [], {})


def test_a_prefix_longer_than_the_log_is_all_inherited() -> None:
    facts = tell(*_TURN, seedLength=99)
    assert (own(facts.turns), facts.message_usage.output_tokens, facts.end_kind) == ([], None, None)


@pytest.mark.parametrize("inherited", range(_TURN_EVENTS + 1))
def test_every_event_is_counted_on_one_side_of_the_boundary(inherited: int) -> None:
    log = read(*_TURN, seedLength=inherited)
    facts = derive(log)
    counted: dict[str, int] = {}
    for event in log.own_events():
        counted[event.type] = counted.get(event.type, 0) + 1
    assert dict(facts.event_types) == counted


@given(cut=st.integers(0, 30), rows=st.lists(st.sampled_from(range(len(_TURN))), max_size=12))
@settings(max_examples=60, deadline=None)
def test_packed_and_single_deltas_tell_the_same_wherever_a_fork_begins(cut: int, rows: list[int]) -> None:
    chosen = [_TURN[number] for number in rows]
    packed = read(*chosen, seedLength=cut)
    single: list[dict[str, Any]] = []
    for row in packed.rows:
        events = row.events() if isinstance(row, ChunkRun) else [row]
        single += [event.to_json() for event in events]
    again = read(*({name: value for name, value in row.items() if name != "seq"} for row in single), seedLength=cut)
    one, other = derive(packed), derive(again)
    names = ("turns", "steps", "model_calls", "tool_calls", "event_types", "first_at", "last_at", "message_usage", "surface")
    for name in names:
        assert getattr(one, name) == getattr(other, name), name


def test_what_was_said_is_told_only_when_asked_for() -> None:
    prompt = {"role": "user", "content": [{"type": "text", "text": "hello"}], "source": {"kind": "user"}}
    rows = [ev("user/message", prompt, surfaceOp="append"), ev("session/title", {"title": "Greetings"})]
    assert [(facts.title, facts.first_prompt) for facts in (tell(*rows), tell(*rows, bodies=True))] == [
        (None, None),
        ("Greetings", "hello"),
    ]


def test_rows_may_come_one_by_one() -> None:
    log = read(*_TURN)
    derivation = Derivation(log.header)
    for row in log.rows:
        derivation.add(row)
    assert derivation.facts(log) == derive(log)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2**60) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["kind", "type", "content", "code", "callId", "text", "config"]), inner, max_size=4)
    ),
    max_leaves=8,
)
_KINDS = sorted(Derivation(read(version=0).header)._handlers.keys() | Derivation(read(version=4).header)._handlers)
_MEMBERS = "turn step callId message reason source usage chunk header error stream inserted start removedCount retryId toolCall"


@given(
    version=st.integers(0, 4),
    rows=st.lists(
        st.tuples(st.sampled_from(_KINDS), st.dictionaries(st.sampled_from(_MEMBERS.split()), _JSON, max_size=5), _JSON),
        max_size=6,
    ),
)
@settings(max_examples=150, deadline=None)
def test_events_with_any_members_are_told_without_an_error(version: int, rows: list[tuple[str, Any, Any]]) -> None:
    events = [ev(kind, {**data, "stream": []}, surfaceOp=operation) for kind, data, operation in rows]
    log = read(*events, version=version)
    assert derive(log, bodies=True).event_count == log.event_count
