"""Parents and children: who started whom, and what does not fit together."""

from __future__ import annotations

from typing import Any

from cassette_lab.session.facts import SessionFacts
from cassette_lab.session.links import link
from tests.unit.session_samples import START_MS
from tests.unit.session_told import AT, ev, finish, message, run, tell


def _session(name: str, *rows: dict[str, Any], parent: str | None = None, at: int = 0, version: int = 0) -> SessionFacts:
    members: dict[str, Any] = {} if parent is None else {"parentSession": parent, "origin": "subagent"}
    return tell(*rows, version=version, id=name, createdAt=START_MS + at, **members)


def _call(call_id: str, label: str = "", name: str = "subagent", at: int = 10) -> dict[str, Any]:
    arguments = f'{{"description": "{label}", "prompt": "…"}}'
    return ev("tool/call", {**AT, "callId": call_id, "name": name, "arguments": arguments}, at)


def _result(call_id: str, text: str = "done", at: int = 20) -> dict[str, Any]:
    message = {"role": "tool", "toolCallId": call_id, "content": [{"type": "text", "text": text}], "isError": False}
    return ev("tool/result", {**AT, "message": message}, at, surfaceOp="append")


def _descriptor(label: str) -> dict[str, Any]:
    return ev("subagent/descriptor", {"version": 3, "mode": "one-shot", "provider": "fork", "label": label})


def test_a_background_child_is_named_by_its_call_its_catalog_and_its_settlement() -> None:
    source = {"kind": "subagent-settled", "senderSessionId": "child"}
    parent = _session(
        "root",
        _call("c1", "part 1"),
        ev(
            "subagent/catalog",
            {"childId": "child", "childCreatedAt": START_MS + 12, "mode": "continuable", "label": "part 1"},
            13,
        ),
        _result("c1", "started subagent child"),
        ev("user/message", {"role": "user", "content": [], "source": source}, 90, surfaceOp="append"),
        version=4,
    )
    forest = link([_session("child", parent="root", at=12), parent])
    found = forest.links["child"]
    assert found.call is not None
    assert (found.call.call_id, found.linked_by) == ("c1", "result")
    assert found.catalog is not None
    assert found.catalog.label == "part 1"
    assert found.settlement is not None
    assert found.settlement.settled_at == START_MS + 90
    assert (forest.roots, forest.children) == (("root",), {"root": ("child",)})
    assert (forest.missing_parents, forest.missing_children, forest.disagreements) == ({}, {}, ())


def test_parallel_one_shot_children_are_told_apart_by_their_labels() -> None:
    parent = _session("root", _call("c1", "one"), _call("c2", "two"), _result("c1"), _result("c2"))
    children = [
        _session("b", _descriptor("one"), parent="root", at=15),
        _session("a", _descriptor("two"), parent="root", at=14),
    ]
    links = link([parent, *children]).links
    told = {name: (each.call.call_id if each.call else None, each.linked_by) for name, each in links.items()}
    assert told == {"b": ("c1", "label"), "a": ("c2", "label")}


def test_a_child_without_a_label_was_started_by_the_only_call_that_ran_then() -> None:
    parent = _session("root", _call("c1", "x"), _result("c1"), _call("c2", "y", at=30), _result("c2", at=40))
    found = link([parent, _session("child", parent="root", at=35)]).links["child"]
    assert found.call is not None
    assert (found.call.call_id, found.linked_by) == ("c2", "interval")


def test_where_two_calls_or_two_children_fit_nothing_is_guessed() -> None:
    parent = _session("root", _call("c1", "same"), _call("c2", "same"), _result("c1"), _result("c2"))
    child = _session("child", _descriptor("same"), parent="root", at=15)
    assert link([parent, child]).links["child"].call is None
    parent = _session("root", _call("c1", "x"), _result("c1"))
    twins = [_session(name, parent="root", at=15) for name in ("a", "b")]
    assert {each.call for each in link([parent, *twins]).links.values()} == {None}


def test_only_tools_that_delegate_start_children() -> None:
    parent = _session("root", _call("c1", "x", name="bash"), _result("c1", "started subagent child"))
    assert link([parent, _session("child", parent="root", at=15)]).links["child"].call is None


def test_an_orphan_is_a_root_whose_parent_is_missing() -> None:
    forest = link([_session("orphan", parent="gone"), _session("root")])
    assert set(forest.roots) == {"orphan", "root"}
    assert forest.missing_parents == {"orphan": "gone"}
    assert forest.links == {}


def test_a_child_that_only_its_parent_names_is_told_as_missing() -> None:
    catalog = ev("subagent/catalog", {"childId": "gone", "mode": "one-shot"})
    forest = link([_session("root", catalog, version=4)])
    assert forest.missing_children == {"root": ("gone",)}


def test_a_catalog_and_a_header_that_disagree_are_told() -> None:
    catalog = ev("subagent/catalog", {"childId": "child", "mode": "one-shot"})
    forest = link([_session("root", catalog, version=4), _session("child", parent="other"), _session("other")])
    assert forest.disagreements == ("child",)
    assert forest.children == {"other": ("child",)}


def test_a_cycle_ends_and_every_session_has_its_place_once() -> None:
    sessions = [_session("a", parent="c"), _session("b", parent="a"), _session("c", parent="b"), _session("d", parent="c")]
    sessions.append(_session("self", parent="self"))
    forest = link(sessions)
    assert set(forest.cycles) == {"a", "b", "c", "self"}
    assert sorted(forest.walk()) == [("a", 0), ("b", 0), ("c", 0), ("d", 1), ("self", 0)]


def test_a_forest_is_walked_parents_first_in_the_order_they_were_created() -> None:
    sessions = [
        _session("grand", parent="late", at=30),
        _session("late", parent="root", at=20),
        _session("early", parent="root", at=10),
        _session("root"),
    ]
    assert list(link(sessions).walk()) == [("root", 0), ("early", 1), ("late", 1), ("grand", 2)]


def test_the_cost_of_a_tree_counts_every_session_once_and_no_inherited_part() -> None:
    told = [run("a"), finish(), message("a", usage={"inputTokens": 100, "outputTokens": 5})]
    own_part = [run("b"), finish(), message("b", usage={"inputTokens": 7})]
    fork = tell(*told, *own_part, id="fork", parentSession="root", seedLength=3)
    forest = link([_session("root", *told), fork])
    assert forest.usage("root").to_json() == {"inputTokens": 107, "outputTokens": 5}
    assert forest.usage("fork").to_json() == {"inputTokens": 7}


def test_a_chain_of_thousands_is_no_problem() -> None:
    sessions = [_session(str(number), parent=str(number - 1) if number else None) for number in range(3_000)]
    forest = link(sessions)
    assert max(depth for _, depth in forest.walk()) == 2_999
