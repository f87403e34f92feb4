from __future__ import annotations

from dataclasses import replace

import pytest

from cassette_lab.cassette.columns import project_cassette
from cassette_lab.cassette.exact import json_number
from cassette_lab.cassette.summary import ambiguous_groups, call_documents, inspect, summary
from cassette_lab.jsonio.text import pretty
from tests.unit.calls import Tape, ask, failure, result


def mixed() -> Tape:
    made = Tape()
    made.add(ask("a"), result(), took=12.0)
    made.add(ask("b"), result(stop_reason="aborted"))
    made.add(ask("c"), result(stop_reason="max-tokens"), took=12.25)
    made.add(ask("d"), failure(start=True))
    made.add(ask("e"), result(stop_reason="a word nobody knows", redactions=2))
    return made


def test_a_summary_counts_by_stop_reason_and_every_other_outcome_has_failed() -> None:
    document = summary(mixed().cassette())
    assert list(document) == [
        "cassetteId", "provider", "interactions", "completed", "failed", "aborted", "ambiguousGroups", "redactedResults",
        "durationMs",
    ]  # fmt: skip
    assert document == {
        "cassetteId": "a-tape",
        "provider": mixed().header.provider.to_json(),
        "interactions": 5,
        "completed": 1,
        "failed": 3,
        "aborted": 1,
        "ambiguousGroups": 0,
        "redactedResults": 1,
        "durationMs": 12.25,
    }


def test_an_empty_cassette_has_a_summary() -> None:
    document = inspect(Tape().cassette(), show_calls=True)
    assert (document["interactions"], document["failed"], document["durationMs"], document["calls"]) == (0, 0, 0, [])


def test_calls_are_shown_by_sequence_with_categories_never_raw_stop_reasons() -> None:
    made = mixed()
    made.calls.reverse()
    calls = list(call_documents(made.cassette()))
    assert [call["sequence"] for call in calls] == [1, 2, 3, 4, 5]
    assert [call.get("stopReason") for call in calls] == ["completed", "aborted", "max-tokens", None, "other"]
    assert list(calls[0]) == [
        "sequence", "callKey", "parentContextFingerprint", "requestFingerprint", "outcome", "stopReason", "durationMs",
    ]  # fmt: skip
    assert calls[3]["outcome"] == "start-error"
    assert "calls" not in inspect(made.cassette())


def test_whole_numbers_are_printed_without_a_point() -> None:
    calls = list(call_documents(mixed().cassette()))
    assert pretty([call["durationMs"] for call in calls[:3]]) == "[\n  12,\n  2.5,\n  12.25\n]"
    assert [json_number(value) for value in (1e300, 2.0**53, 0.0)] == [1e300, 2.0**53, 0]
    assert type(json_number(2.0**53)) is float


def test_ambiguous_groups_are_equal_calls_with_different_outcomes() -> None:
    made = Tape()
    for label, texts in (("a", "112"), ("b", "11"), ("c", "12"), ("d", "1")):
        for text in texts:
            made.add(ask(label), result(text))
    assert ambiguous_groups(made.cassette()) == 2
    assert ambiguous_groups(project_cassette(made.cassette())) == 2


@pytest.mark.parametrize("other", ["root\\ud800", "root\udc00"])
def test_parent_keys_that_look_alike_when_escaped_stay_apart(other: str) -> None:
    made = Tape()
    made.add(ask("a"), result("1"))
    made.add(ask("a"), result("2"))
    made.calls[0] = replace(made.calls[0], parent_key="root\ud800", call_key="k\ud800")
    made.calls[1] = replace(made.calls[1], parent_key=other)
    assert ambiguous_groups(made.cassette()) == 0
    assert next(call_documents(made.cassette()))["callKey"] == "k\ud800"
