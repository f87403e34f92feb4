from __future__ import annotations

from typing import Any

import pytest

from cassette_lab.cassette.identity import RequestIdentity
from cassette_lab.cassette.topology import TopologyTracker
from cassette_lab.contracts import ParentAgent
from cassette_lab.errors import AmbiguityError, CassetteLabError, IdentityError
from tests.unit.calls import ROOT, Tape, ask

SUBAGENT = ParentAgent(id="child", header={"origin": "subagent"})


def test_the_first_top_level_parent_is_the_root_and_the_only_one() -> None:
    tracker = TopologyTracker(inherits_parent_context=False)
    assert tracker.peek_parent_key(ParentAgent(id="other")) == "root"
    assert tracker.parent_key(ROOT) == "root"
    assert tracker.parent_key(ROOT) == "root"
    with pytest.raises(AmbiguityError, match="second top-level agent"):
        tracker.peek_parent_key(ParentAgent(id="other"))


def test_ids_are_compared_as_text() -> None:
    tracker = TopologyTracker(inherits_parent_context=False)
    tracker.parent_key(ParentAgent(id=5))
    assert tracker.parent_key(ParentAgent(id="5")) == "root"
    assert tracker.parent_key(ParentAgent(id=5.0)) == "root"  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [[], {}, b"x", float("nan")])
def test_an_agent_without_a_name_has_no_place(name: Any) -> None:
    with pytest.raises(IdentityError, match="id of an agent"):
        TopologyTracker(inherits_parent_context=False).parent_key(ParentAgent(id=name))


def test_calls_of_a_registered_child_stand_below_its_call() -> None:
    tracker = TopologyTracker(inherits_parent_context=False)
    outer = tracker.reserve(ask("outer"), ROOT)
    with pytest.raises(AmbiguityError, match="no call through this cassette has started"):
        tracker.reserve(ask("inner"), SUBAGENT)
    tracker.register_local_child(SUBAGENT, outer.call_key)
    inner = tracker.reserve(ask("inner"), SUBAGENT)
    assert inner.parent_key == outer.call_key
    assert inner.call_key.startswith(f"{outer.call_key}/inner-")


def test_a_child_has_one_place() -> None:
    tracker = TopologyTracker(inherits_parent_context=False)
    tracker.register_local_child(SUBAGENT, "root/a~1")
    tracker.register_local_child(SUBAGENT, "root/a~1")
    with pytest.raises(AmbiguityError, match="two places"):
        tracker.register_local_child(SUBAGENT, "root/b~1")
    assert tracker.parent_key(SUBAGENT) == "root/a~1"
    tracker.parent_key(ROOT)
    with pytest.raises(AmbiguityError, match="two places"):
        tracker.register_local_child(ROOT, "root/a~1")


def test_occurrences_count_within_parent_context_and_request() -> None:
    tracker = TopologyTracker(inherits_parent_context=False)
    changed = ParentAgent(id=ROOT.id, options={"model": "m"})
    calls = [(ask("a"), ROOT), (ask("b"), ROOT), (ask("a"), changed), (ask("a"), ROOT), (ask("a"), changed)]
    assert [tracker.reserve(request, parent).occurrence for request, parent in calls] == [1, 1, 1, 2, 2]


def test_recorded_calls_go_on_counting() -> None:
    tape = Tape()
    tape.add(ask("a"))
    tape.add(ask("a"))
    tracker = TopologyTracker(inherits_parent_context=False, existing=reversed(tape.calls))
    assert tracker.reserve(ask("a"), ParentAgent(id="in another process")).occurrence == 3
    assert tracker.reserve(ask("b"), ParentAgent(id="in another process")).occurrence == 1


@pytest.mark.parametrize(
    ("request_members", "parent"),
    [
        (ask(toolFilter={"x": 1}), ROOT),
        (ask() | {"label": None}, ROOT),
        (ask() | {"label": 7}, ROOT),
        (ask(), ParentAgent(id="x", options={"o": object()})),
        (ask(), SUBAGENT),
    ],
)
def test_a_call_that_fails_leaves_nothing(request_members: dict[str, Any], parent: ParentAgent) -> None:
    tracker = TopologyTracker(inherits_parent_context=False)
    with pytest.raises(CassetteLabError):
        tracker.reserve(request_members, parent)
    reserved = tracker.reserve(ask(), ParentAgent(id="the real root"))
    assert (reserved.parent_key, reserved.occurrence) == ("root", 1)


def test_a_label_is_needed_as_text_only_where_a_place_is_reserved() -> None:
    identity = RequestIdentity(ask() | {"label": None})
    assert identity.metadata_json()["label"] is None
    tracker = TopologyTracker(inherits_parent_context=False)
    assert tracker.identify(identity, ROOT).group[0] == "root"
    with pytest.raises(IdentityError, match="label of a request must be a string"):
        tracker.reserve(identity, ROOT)
