"""The quick yes of a writer agrees with the exact check and the exact spelling."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cassette_lab.cassette.model import ErrorFacts, Outcome, RequestMetadata, StoredRequest, Timing
from cassette_lab.cassette.quick_record import is_plainly_valid
from cassette_lab.cassette.schema import RecordError, check_interaction
from cassette_lab.jsonio import canonical
from tests.unit.cassette_samples import DIGEST, interaction

Strategy = st.SearchStrategy[Any]

ODD: Strategy = st.sampled_from(
    [None, True, 0, -1, 1, 1.0, -0.0, 0.5, 1e-6, 1e16, float("nan"), 2**53, "", "x", "\ud800", [], {}]
)
COUNT = st.integers(0, 3) | ODD
TIME = st.floats(0, 10) | st.integers(0, 10) | ODD
NAME = st.text(max_size=3) | ODD
DIGESTS = st.just(DIGEST) | st.just(DIGEST + "\n") | ODD


def odd(strategy: Strategy, usual: Any) -> Strategy:
    """Nearly always as usual, so that one odd member is what decides."""
    return st.integers(0, 40).flatmap(lambda chance: strategy if chance == 0 else st.just(usual))


METADATA = st.builds(
    RequestMetadata,
    odd(COUNT, 1),
    odd(COUNT, 1),
    odd(ODD, usual=False),
    odd(ODD, usual=False),
    odd(NAME, "label"),
    odd(NAME, None),
    odd(NAME, None),
    odd(COUNT, None),
    odd(st.just({"allow": ["a"]}) | st.just({"allow": [1]}), None),
)
BLOCK = odd(st.just({"type": "text"}) | st.just({"type": "text", "text": 1}) | ODD, {"type": "text", "text": "é"})
RESULT = st.fixed_dictionaries(
    {"output": odd(ODD, []) | st.lists(BLOCK, max_size=2), "stopReason": odd(NAME, "completed")},
    optional={"structured": st.recursive(ODD, lambda inner: st.dictionaries(NAME.filter(lambda k: type(k) is str), inner))},
)
OUTCOME = st.builds(lambda result, count: Outcome("result", result, count), RESULT | odd(ODD, {}), odd(COUNT, 0)) | st.builds(
    lambda kind, name, message, code: Outcome(kind, error=ErrorFacts(name, message, code)),
    odd(st.just("other"), "start-error") | st.just("result-error"),
    odd(NAME, "Error"),
    odd(NAME, ""),
    odd(NAME, None),
)
CALL = st.builds(
    lambda **members: replace(interaction(), previous_hash=DIGEST, **members),
    sequence=odd(COUNT, 1),
    occurrence=odd(COUNT, 1),
    call_key=odd(NAME, "root/a~1"),
    parent_key=odd(NAME, "root"),
    parent_context_fingerprint=odd(DIGESTS, DIGEST),
    request_fingerprint=odd(DIGESTS, DIGEST),
    request=st.builds(StoredRequest, METADATA)
    | odd(st.just(StoredRequest(value={"prompt": []})), StoredRequest(RequestMetadata(1, 1, False, False))),
    timing=st.builds(Timing, odd(NAME, "2026"), odd(TIME, 0.25), odd(TIME, 10.5), odd(TIME, None), odd(TIME, None)),
    published=odd(ODD, usual=True) | st.just(value=False),
    local=odd(ODD, usual=False),
    outcome=OUTCOME,
)


@given(CALL)
@settings(max_examples=400, deadline=None)
def test_a_yes_means_that_the_exact_check_passes_and_the_spelling_is_canonical(call: Any) -> None:
    members = call.to_json()
    if not is_plainly_valid(members, "metadata"):
        return
    members["hash"] = DIGEST
    check_interaction(members, "metadata")
    try:
        text = orjson.dumps(members, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:
        assert b"\\ud800" in canonical(members)
    else:
        assert text == canonical(members)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_a_member_too_many_or_too_few_anywhere_gets_no_yes(data: Any) -> None:
    members = interaction().to_json() | {"previousHash": DIGEST}
    place = data.draw(st.sampled_from(["", "request", "request.metadata", "timing", "outcome", "outcome.result"]))
    inner = members
    for name in filter(None, place.split(".")):
        inner = inner[name]
    if data.draw(st.booleans()):
        inner["other"] = 1
    else:
        del inner[data.draw(st.sampled_from(sorted(inner)))]
    if not is_plainly_valid(members, "metadata"):
        return
    check_interaction(members | {"hash": DIGEST}, "metadata")


def test_what_a_recorder_makes_gets_a_yes() -> None:
    for call in (
        interaction(),
        replace(interaction(), outcome=Outcome("result-error", error=ErrorFacts("E", "", "C"))),
        replace(interaction(), outcome=Outcome("start-error", error=ErrorFacts("E", "")), published=False),
        replace(interaction(), timing=Timing("2026", 1, 2.5, 1.5, 2)),
    ):
        assert is_plainly_valid(call.to_json() | {"previousHash": DIGEST}, "metadata")


@pytest.mark.parametrize("storage", ["full"])
def test_a_request_of_the_other_arm_gets_no_yes(storage: Any) -> None:
    assert not is_plainly_valid(interaction().to_json() | {"previousHash": DIGEST}, storage)
    with pytest.raises(RecordError):
        check_interaction(interaction().to_json() | {"previousHash": DIGEST, "hash": DIGEST}, storage)
