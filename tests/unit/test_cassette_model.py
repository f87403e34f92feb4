"""The facts of a cassette and their JSON."""

from __future__ import annotations

import dataclasses

import pytest

from cassette_lab.cassette.matching import Matcher
from cassette_lab.cassette.model import Cassette, Header, Interaction, Outcome, iso_now, stop_reason_category
from cassette_lab.cassette.schema import SchemaError, check_interaction
from cassette_lab.errors import MismatchError
from cassette_lab.jsonio.dates import date_parse_ms
from tests.unit.calls import ROOT, Tape, ask
from tests.unit.cassette_samples import full, header, interaction, sealed, siblings


@pytest.mark.parametrize("cassette", [siblings(), full()], ids=["metadata", "full"])
def test_what_is_written_reads_back_equal(cassette: tuple[Header, list[Interaction]]) -> None:
    first, calls = cassette
    assert Header.from_json(first.to_json()) == first
    for call in calls:
        members = sealed([first.to_json(), call.to_json()])[1]
        again = Interaction.from_json(members, line=7)
        assert again.to_json() == members
        assert dataclasses.replace(again, previous_hash="", hash="") == call
        assert again.line == 7


def test_integers_may_be_spelled_as_floats() -> None:
    members = sealed([header().to_json(), interaction(3).to_json()])[1]
    members["sequence"], members["occurrence"] = 3.0, 1.0
    again = Interaction.from_json(members)
    assert (again.sequence, type(again.sequence), again.occurrence) == (3, int, 1)


def test_absent_members_are_left_out_and_never_null() -> None:
    members = interaction(1).to_json()
    assert sorted(members["request"]["metadata"]) == ["hasOutputSchema", "hasPersona", "label", "promptBlocks", "promptBytes"]
    assert sorted(members["timing"]) == ["durationMs", "startLatencyMs", "startedAt"]
    assert "hash" not in members


def test_facts_cannot_be_changed() -> None:
    call = interaction(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        call.sequence = 2  # type: ignore[misc]


def test_the_group_is_what_replay_matches_by() -> None:
    call = interaction(1)
    assert call.group == (call.parent_key, call.parent_context_fingerprint, call.request_fingerprint)


@pytest.mark.parametrize("known", ["completed", "aborted", "error", "max-tokens", "refusal"])
def test_known_stop_reasons_are_their_own_category(known: str) -> None:
    assert stop_reason_category(known) == known


@pytest.mark.parametrize("raw", ["", "Completed", "secret thing", "other"])
def test_every_other_stop_reason_is_other(raw: str) -> None:
    assert stop_reason_category(raw) == "other"


def test_an_error_outcome_without_an_error_is_refused_and_does_not_crash() -> None:
    members = sealed([header().to_json(), interaction(1, outcome=Outcome("result-error")).to_json()])[1]
    with pytest.raises(SchemaError, match=r"outcome\.error must be an object, not null"):
        check_interaction(members)


def test_now_is_written_in_utc_with_milliseconds() -> None:
    now = iso_now()
    assert len(now) == len("2026-11-30T10:00:00.000Z")
    assert now.endswith("Z")
    assert date_parse_ms(now) is not None


def test_a_cassette_shows_itself_in_a_line_and_a_small_table() -> None:
    first, calls = siblings()
    cassette = Cassette(dataclasses.replace(first, cassette_id="<b>\x1b"), tuple(calls * 100), "runs/<i>\u202e.jsonl")
    assert repr(cassette).startswith(f"<cassette: runs/<i>\\u{{202e}}.jsonl, {len(calls) * 100} calls, <b>\\u{{001b}}, ")
    assert len(repr(cassette)) < 120
    shown = cassette._repr_html_()
    assert len(shown) < 1_000
    assert "&lt;i&gt;" in shown
    assert "<b>" not in shown
    assert repr(Cassette(first, ())).startswith("<cassette: no file, 0 calls, ")


def test_a_diagnosis_shows_itself_in_a_line() -> None:
    made = Tape()
    made.add(ask("a"))
    matcher = Matcher(made.cassette())
    diagnosis = matcher.diagnose(ask("b"), ROOT)
    assert repr(diagnosis) == f"<Diagnosis: {diagnosis.sentence()}>"
    with pytest.raises(MismatchError) as caught:
        matcher.assert_consumed()
    assert repr(caught.value.diagnostic).startswith("<Unconsumed: 1 of 1 recorded call was never asked for: root/a-")
