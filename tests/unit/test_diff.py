from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cassette_lab import jsonio
from cassette_lab.cassette.columns import project_cassette
from cassette_lab.cassette.diff import CassetteDiff, diff
from cassette_lab.cassette.model import Cassette
from cassette_lab.contracts import Capabilities
from tests.unit.calls import Tape, ask, failure, result


def tape(*calls: tuple[str, Any], started: float = 1.0, took: float = 2.5) -> Cassette:
    made = Tape()
    for label, outcome in calls:
        made.add(ask(label), outcome, started=started, took=took)
    return made.cassette()


def test_the_same_run_is_equivalent_whatever_its_order_and_time() -> None:
    one = tape(("a", result("x")), ("b", failure()), took=5.0)
    two = tape(("b", failure()), ("a", result("x")), took=7.25)
    found = diff(one, project_cassette(two))
    assert found.equivalent
    assert found.comparable
    assert [entry["deltaMs"] for entry in found.to_dict()["timing"]] == [2.25, 2.25]
    assert repr(found) == "<CassetteDiff: equivalent: 2 calls, same outcomes>"


def test_each_kind_of_change_is_reported_in_the_order_of_identities() -> None:
    one = tape(("gone", None), ("text", result("x")), ("kind", result()), ("same", None))
    two = tape(("text", result("y")), ("kind", failure(start=True)), ("same", None), ("new", None))
    found = diff(one, two)
    document = found.to_dict()
    assert not document["equivalent"]
    assert document["comparable"]
    assert found.counts == {"added": 1, "removed": 1, "outcomeChanged": 2, "boundaryChanged": 1}
    assert "/new-" in document["added"][0]["callKey"]
    assert "/gone-" in document["removed"][0]["callKey"]
    assert document["boundaryChanged"][0]["fields"] == ["published"]
    kinds = {pair["actual"]["outcomeKind"]: pair for pair in document["outcomeChanged"]}
    assert "stopReason" not in kinds["start-error"]["actual"]
    assert kinds["start-error"]["expected"]["stopReason"] == "completed"
    fingerprints = [entry["requestFingerprint"] for entry in document["timing"]]
    assert fingerprints == sorted(fingerprints)
    assert list(document) == [
        "schemaVersion", "comparable", "equivalent", "expectedInteractions", "actualInteractions", "policyChanges", "issues",
        "expectedAmbiguousGroups", "actualAmbiguousGroups", "added", "removed", "outcomeChanged", "boundaryChanged", "timing",
    ]  # fmt: skip


def test_parent_keys_sort_by_code_units_and_occurrences_by_number() -> None:
    made = Tape()
    keys = ["\ue000", "\U00010000", "b", "a\x00b", "a", "\ud800"]
    for _ in keys:
        made.add()
    made.calls = [replace(call, parent_key=key, occurrence=1, call_key=key) for call, key in zip(made.calls, keys, strict=True)]
    for _ in range(11):
        made.add(ask("many"))
    removed = diff(made.cassette(), Tape().cassette()).to_dict()["removed"]
    assert [call["parentKey"] for call in removed if call["parentKey"] != "root"] == [
        "a", "a\x00b", "b", "\ud800", "\U00010000", "\ue000",
    ]  # fmt: skip
    assert [call["occurrence"] for call in removed if call["parentKey"] == "root"] == list(range(1, 12))
    assert diff(made.cassette(), made.cassette()).equivalent


def test_lone_surrogates_align_with_themselves_not_with_their_escapes() -> None:
    made, other = Tape(), Tape()
    for each, key in ((made, "\ud800"), (other, "\\ud800")):
        each.add()
        each.calls[0] = replace(each.calls[0], parent_key=key)
    assert diff(made.cassette(), other.cassette()).counts["added"] == 1
    assert diff(made.cassette(), made.cassette()).counts["added"] == 0


def test_policies_are_compared_member_by_member() -> None:
    one, two = tape(("a", None)), tape(("a", None))
    facts = replace(two.header.provider, upstream="fork", capabilities=Capabilities(persona=False))
    two = replace(two, header=replace(two.header, provider=facts, redaction_patterns=("x",), cassette_id="other"))
    found = diff(one, two)
    assert found.policy_changes == ["provider.upstream", "provider.capabilities", "redactionPatterns"]
    assert found.comparable
    assert not found.equivalent
    assert "policy: provider.upstream differs" in found.human()


def test_what_cannot_be_compared_says_why() -> None:
    one = tape(("same", result("1")), ("same", result("2")))
    two = replace(one, header=replace(one.header, provider=replace(one.header.provider, inherits_parent_context=True)))
    found = diff(one, two)
    assert not found.comparable
    assert not found.equivalent
    assert found.issues == [
        "expected-ambiguous-duplicate-groups", "actual-ambiguous-duplicate-groups", "parent-context-semantics-changed",
    ]  # fmt: skip
    assert repr(found).startswith("<CassetteDiff: not comparable: ")


def test_json_comes_in_pieces_and_equals_the_document() -> None:
    one = tape(*((f"label {number}", result(f"text {number % 3}")) for number in range(50)), took=2.0)
    two = tape(*((f"label {number}", result(f"text {number % 4}")) for number in range(10, 60)), took=2.0)
    found = diff(one, two)
    pieces = list(found.json_chunks())
    assert max(map(len, pieces)) < 2000
    assert jsonio.canonical(jsonio.parse("".join(pieces))) == jsonio.canonical(found.to_dict())
    assert '"deltaMs": 0\n' in "".join(pieces)


def test_the_timing_table_has_one_row_for_each_common_call() -> None:
    one = tape(("a", result("x")), ("b", None), started=1.0, took=5.0)
    two = tape(("b", None), ("a", result("y")), ("c", None), started=0.5, took=7.0)
    table = diff(one, two).timing_table()
    rows = {row["label"]: row for row in table.to_pylist()}
    assert set(rows) == {"a", "b"}
    assert (rows["a"]["expected_duration_ms"], rows["a"]["actual_duration_ms"], rows["a"]["duration_delta_ms"]) == (
        5.0,
        7.0,
        2.0,
    )
    assert rows["a"]["start_latency_delta_ms"] == -0.5
    assert (rows["a"]["outcome_changed"], rows["b"]["outcome_changed"]) == (True, False)
    assert (rows["a"]["stop_reason"], rows["a"]["outcome_kind"]) == ("completed", "result")


def test_people_read_the_verdict_the_first_changes_and_the_timing() -> None:
    one = tape(*((f"l{number}", None) for number in range(8)), ("x", result("1")), ("evil\x1b", result()), took=5.0)
    two = tape(("x", result("2")), ("evil\x1b", failure()), ("new", None), took=6.5)
    lines = diff(one, two).human()
    assert lines[0] == "different: 1 added, 8 removed, 2 outcomes changed"
    assert [line for line in lines if line.startswith("removed: ")][-1] == "removed: 3 more"
    assert [line.split("-")[0] for line in lines if line.startswith("removed: root")] == [
        f"removed: root/l{n}" for n in range(5)
    ]
    changed = [line for line in lines if line.startswith("outcome changed: ")]
    assert changed[0].endswith(": completed, other contents")
    assert changed[1].endswith(": completed → result-error")
    assert "timing: 2 calls in both, 2 slower, 0 quicker, median +1.5 ms" in lines
    assert "\x1b" not in "".join(lines)


def test_a_hostile_key_cannot_leave_its_place_in_html() -> None:
    made = Tape()
    made.add()
    made.calls[0] = replace(made.calls[0], call_key="<script>\u202e")
    shown = diff(Tape().cassette(), made.cassette())._repr_html_()
    assert "&lt;script&gt;\\u{202e}" in shown
    assert "<script>" not in shown


@pytest.mark.parametrize(("expected", "actual"), [([], []), ([("a", None)], []), ([], [("a", None)])])
def test_empty_cassettes_compare(expected: list[tuple[str, Any]], actual: list[tuple[str, Any]]) -> None:
    found = diff(tape(*expected), tape(*actual))
    assert isinstance(found, CassetteDiff)
    assert found.equivalent == (expected == actual)
    assert found.to_dict()["timing"] == []
    assert found.timing_table().num_rows == 0
    assert len(found.human()) == 1 + (expected != actual)
