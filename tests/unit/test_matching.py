from __future__ import annotations

from typing import Any

import pytest

from cassette_lab.cassette.diagnosis import CANDIDATES_KEPT, Diagnosis
from cassette_lab.cassette.matching import Matcher, Unconsumed
from cassette_lab.contracts import ParentAgent
from cassette_lab.errors import AmbiguityError, ConfigError, IdentityError, MismatchError
from cassette_lab.jsonio import canonical
from tests.unit.calls import ROOT, Tape, ask, failure, result

LIVE = ParentAgent(id="another process")


def tape(*labels: str, full: bool = False) -> Tape:
    made = Tape(full=full)
    for label in labels:
        made.add(ask(label))
    return made


def mismatch(matcher: Matcher, request: dict[str, Any], parent: ParentAgent = LIVE) -> Diagnosis:
    with pytest.raises(MismatchError) as caught:
        matcher.match(request, parent)
    diagnosis: Diagnosis = caught.value.diagnostic
    assert diagnosis.to_dict() == matcher.diagnose(request, parent).to_dict()
    return diagnosis


def test_siblings_match_in_any_order_and_each_once() -> None:
    matcher = Matcher(tape("a", "b", "c").cassette())
    assert [matcher.match(ask(label), LIVE).sequence for label in "cab"] == [3, 1, 2]
    assert (matcher.consumed, matcher.remaining) == (3, 0)
    matcher.assert_consumed()
    assert mismatch(matcher, ask("a")).reason == "group-exhausted"


def test_equal_calls_come_in_the_order_of_their_occurrence() -> None:
    made = Tape()
    for text in ("one", "two", "three"):
        made.add(ask("same"), result(text))
    made.calls.reverse()
    matcher = Matcher(made.cassette(), duplicate_policy="sequence")
    assert [matcher.match(ask("same"), LIVE).occurrence for _ in range(3)] == [1, 2, 3]


def test_a_released_call_is_matched_again_in_its_place() -> None:
    made = Tape()
    for _ in range(3):
        made.add(ask("same"))
    matcher = Matcher(made.cassette())
    first, second = matcher.match(ask("same"), LIVE), matcher.match(ask("same"), LIVE)
    matcher.release(first)
    matcher.release(first)
    assert matcher.remaining == 2
    assert not matcher.is_consumed(first)
    assert matcher.match(ask("same"), LIVE) is first
    matcher.release(second)
    matcher.release(first)
    assert [matcher.match(ask("same"), LIVE).occurrence for _ in range(3)] == [1, 2, 3]


def test_equal_calls_with_different_outcomes_are_refused() -> None:
    made = Tape()
    made.add(ask("same"), result("one"))
    made.add(ask("same"), result("two"))
    with pytest.raises(AmbiguityError, match=r"1 group.*root/same-\w+~1.*--duplicates sequence"):
        Matcher(made.cassette())
    assert Matcher(made.cassette(), duplicate_policy="sequence").remaining == 2


@pytest.mark.parametrize("second", [failure(), failure(code="X"), result(redactions=1), result(stop_reason="refusal")])
def test_kind_code_redactions_and_stop_reason_make_outcomes_different(second: Any) -> None:
    made = Tape()
    made.add(ask("same"), failure() if second.kind != "result" and second.error.code else result())
    made.add(ask("same"), second)
    with pytest.raises(AmbiguityError):
        Matcher(made.cassette(), allow_redacted=True)


def test_equal_calls_with_equal_outcomes_are_not_ambiguous() -> None:
    made = Tape()
    made.add(ask("same"), result("one"))
    made.add(ask("same"), result("one"))
    assert Matcher(made.cassette()).remaining == 2


def test_redacted_results_are_refused_unless_allowed_and_after_ambiguity() -> None:
    made = Tape()
    made.add(ask("secret"), result(redactions=1))
    made.add(ask("broken"), failure())
    with pytest.raises(MismatchError, match=r"1 recorded result.*root/secret-.*--allow-redacted"):
        Matcher(made.cassette())
    assert Matcher(made.cassette(), allow_redacted=True).match(ask("secret"), LIVE).sequence == 1
    made.add(ask("secret"), result())
    with pytest.raises(AmbiguityError):
        Matcher(made.cassette())


def test_only_a_match_makes_a_parent_the_root() -> None:
    matcher = Matcher(tape("a", "b").cassette())
    mismatch(matcher, ask("x"), ParentAgent(id="first"))
    matcher.match(ask("a"), ParentAgent(id="second"))
    with pytest.raises(AmbiguityError):
        matcher.match(ask("b"), ParentAgent(id="first"))
    with pytest.raises(IdentityError):
        matcher.match(ask("b", toolFilter={"x": []}), ParentAgent(id="second"))
    assert matcher.match(ask("b"), ParentAgent(id="second")).sequence == 2


def test_a_diagnosis_of_a_match_consumes_nothing() -> None:
    matcher = Matcher(tape("a").cassette())
    diagnosis = matcher.diagnose(ask("a"), LIVE)
    assert diagnosis.status == "match"
    assert diagnosis.candidate is not None
    assert not diagnosis.candidate.consumed
    assert diagnosis.explain() == [f'the call "a" of root matches #1 {diagnosis.candidate.call_key}']
    assert matcher.match(ask("a"), LIVE).sequence == 1


@pytest.mark.parametrize(
    ("request_members", "parent", "reason", "candidates", "differing"),
    [
        (ask("a"), ParentAgent(id="x", options={"m": 1}), "parent-context-changed", [1], ("parentContext",)),
        (ask("a", "longer text"), LIVE, "request-changed", [1, 2], ("promptBytes",)),
        (ask("a", "xook at it"), LIVE, "request-changed", [1, 2], ("request",)),
        (ask("b", persona="p"), LIVE, "request-changed", [1, 2], ("hasPersona",)),
        (ask("c", maxDepth=2), LIVE, "request-changed", [1, 2], ("label", "maxDepth")),
        (
            ask("b", agentOptions={"provider": "p", "model": "m"}, outputSchema={}, toolFilter={"allow": []}),
            ParentAgent(id="x", header={"cwd": "/"}),
            "parent-and-request-changed",
            [1, 2],
            ("parentContext", "hasOutputSchema", "childProvider", "childModel", "toolFilter"),
        ),
    ],
)
def test_a_mismatch_has_a_reason_candidates_and_what_differs(
    request_members: dict[str, Any], parent: ParentAgent, reason: str, candidates: list[int], differing: tuple[str, ...]
) -> None:
    diagnosis = mismatch(Matcher(tape("a", "b").cassette()), request_members, parent)
    assert diagnosis.reason == reason
    assert [candidate.sequence for candidate in diagnosis.candidates] == candidates
    assert diagnosis.nearest()[0].differing == differing
    assert diagnosis.total_candidates == len(candidates)


def test_a_parent_that_the_cassette_does_not_know() -> None:
    made = Tape()
    child = ParentAgent(id="child", header={"origin": "subagent"})
    made.add(ask("outer"), child=child)
    made.add(ask("inner"), parent=child)
    made.calls.pop(0)
    diagnosis = mismatch(Matcher(made.cassette()), ask("inner"))
    assert diagnosis.reason == "parent-not-found"
    assert diagnosis.candidates[0].differing == ("parentKey", "parentContext")


def test_a_stored_request_tells_which_member_differs() -> None:
    made = Tape(full=True)
    made.add(ask("a", agentOptions={"temperature": 0.1}, outputSchema={"x": 1}))
    made.add(ask("b", "look at me"), redactions=1)
    diagnosis = mismatch(Matcher(made.cassette()), ask("a", agentOptions={"temperature": 0.2}, outputSchema={"x": 1}))
    assert [candidate.differing for candidate in diagnosis.candidates] == [("agentOptions",), ("hasOutputSchema", "label")]
    assert mismatch(Matcher(made.cassette()), ask("b")).nearest()[0].differing == ("request",)  # redacted: not comparable
    assert diagnosis.candidates[0].to_json()["requestMetadata"] == {
        "label": "a", "promptBlocks": 1, "promptBytes": 37, "hasOutputSchema": True, "hasPersona": False,
    }  # fmt: skip


def test_the_nearest_twenty_candidates_are_kept_in_sequence_order() -> None:
    made = Tape()
    for number in range(300):
        made.add(ask("wanted" if number % 10 == 5 else f"other {number}", f"text {number}"))
    made.calls = made.calls[1::2] + made.calls[::2]
    matcher = Matcher(made.cassette())
    for number in range(150):
        matcher.match(ask("wanted" if number % 10 == 5 else f"other {number}", f"text {number}"), LIVE)
    diagnosis = mismatch(matcher, ask("wanted", "another text"))
    assert diagnosis.total_candidates == 300
    kept = [candidate.sequence for candidate in diagnosis.candidates]
    assert len(kept) == CANDIDATES_KEPT
    # label and sizes: all of the label, those nearest to where the replay stands
    assert kept == sorted(sorted(range(6, 300, 10), key=lambda sequence: abs(sequence - 151))[:CANDIDATES_KEPT])
    assert diagnosis.to_dict()["totalCandidates"] == 300
    assert diagnosis.to_dict()["candidates"][0]["differing"] == ["promptBytes"]
    assert "totalCandidates" not in diagnosis.to_json()


def test_people_read_what_was_asked_why_what_is_near_and_what_to_do() -> None:
    matcher = Matcher(tape("audit", "docs").cassette())
    matcher.match(ask("docs"), LIVE)
    lines = mismatch(matcher, ask("audit", "look at it twice")).explain()
    assert lines[0] == 'asked: the call "audit" of root, 1 prompt block of 43 bytes'
    assert lines[1] == "why: nothing recorded for this request; a call with the same label was recorded"
    assert lines[2].endswith(": prompt length 37 recorded, 43 now")
    assert lines[3] == "near: 1 other recorded call"
    assert lines[-1].startswith("next: ")
    assert "--write-mode truncate" in lines[-1]


def arguments_of(**values: Any) -> dict[str, Any]:
    """The request of a call of an ``@subagent`` with these arguments."""
    return ask("audit", canonical(values).decode())


@pytest.mark.parametrize(
    ("asked", "arguments", "difference"),
    [
        ({"path": "x", "model": "b"}, ("model",), "argument model differs"),
        ({"path": "x", "model": "longer"}, ("model",), "argument model differs"),
        ({"path": "y", "model": "b"}, ("model", "path"), "arguments model, path differ"),
        ({"path": "x", "model": "a", "secret": "hunter2"}, ("secret",), "argument secret differs"),
        ({"path": "x"}, ("model",), "argument model differs"),
    ],
)
def test_arguments_that_differ_are_named_without_their_values(
    asked: dict[str, Any], arguments: tuple[str, ...], difference: str
) -> None:
    made = Tape(full=True)
    made.add(arguments_of(path="x", model="a"))
    made.add(ask("docs", canonical(asked).decode()))
    diagnosis = mismatch(Matcher(made.cassette()), arguments_of(**asked))
    (nearest,) = diagnosis.nearest()
    assert (nearest.arguments, nearest.difference()) == (arguments, difference)
    assert diagnosis.sentence().startswith(
        f"nothing recorded for this request; a call with the same label was recorded: {difference}; "
    )
    assert diagnosis.to_dict()["candidates"][0]["arguments"] == list(arguments)
    assert "arguments" not in diagnosis.to_json()["candidates"][0]
    told = "\n".join([*diagnosis.explain(), diagnosis.sentence(), str(diagnosis.to_dict())])
    assert "hunter2" not in told
    assert "request_storage" not in told


def test_where_the_file_keeps_no_arguments_the_way_to_see_them_is_told() -> None:
    made = Tape()
    made.add(arguments_of(path="x", model="a"))
    matcher = Matcher(made.cassette())
    tip = 'record with request_storage="full" (--request-storage full) to see which argument differs'
    for asked, difference in (("b", "same size, other content"), ("longer", "prompt length differs")):
        diagnosis = mismatch(matcher, arguments_of(path="x", model=asked))
        assert diagnosis.nearest()[0].difference() == difference
        assert diagnosis.sentence().endswith(f"; {tip}")
        assert diagnosis.explain()[-1] == f"tip: {tip}"
    assert "tip" not in str(mismatch(matcher, ask("docs", "x")).explain())


@pytest.mark.parametrize(
    "prompt",
    ["not JSON", "[1]", '{"b":1,"a":2}', '{"path": "x"}', "{", '{"a":-0}', '{"path":"x","model":"redacted"}'],
)
def test_other_prompts_have_no_arguments(prompt: str) -> None:
    made = Tape(full=True)
    made.add(ask("audit", prompt), redactions=int("redacted" in prompt))
    (nearest,) = mismatch(Matcher(made.cassette()), arguments_of(path="x", model="a")).nearest()
    assert nearest.arguments == ()
    made = Tape(full=True)
    made.add(arguments_of(path="x", model="a"))
    if "redacted" not in prompt:
        (nearest,) = mismatch(Matcher(made.cassette()), ask("audit", prompt)).nearest()
        assert (nearest.arguments, nearest.hidden) == ((), False)


def test_differences_in_words() -> None:
    made = Tape(full=True)
    made.add(ask("a", agentOptions={"temperature": 0.1}, outputSchema={"x": 1}))
    made.add(ask("b", persona="p"))
    matcher = Matcher(made.cassette())
    for asked, difference in (
        (ask("a", agentOptions={"temperature": 0.2}, outputSchema={"x": 1}), "agent options differ"),
        (ask("b", persona="q"), "persona differs"),
        (ask("b", "xook at it", persona="q"), "persona differs; same size, other content"),
        (ask("b", "xook at it!", maxDepth=2), "prompt length, persona, maximum depth differ"),
    ):
        assert mismatch(matcher, asked).nearest()[0].difference() == difference


def test_hostile_text_is_shown_escaped_and_cut() -> None:
    made = Tape()
    made.add(ask("evil\x1b[31m\u202e" + "x" * 200))
    diagnosis = mismatch(Matcher(made.cassette()), ask("live\x07"))
    shown = "\n".join([*diagnosis.explain(), diagnosis.sentence()])
    assert "\\u{001b}" in shown
    assert "\\u{202e}" in shown
    assert "\\u{0007}" in shown
    assert not {"\x1b", "\x07", "\u202e"} & set(shown)
    assert "x" * 61 not in shown


def test_what_was_never_asked_for_is_counted_and_named() -> None:
    matcher = Matcher(tape("a", "b", "c", "d", "e").cassette())
    matcher.match(ask("b"), LIVE)
    with pytest.raises(MismatchError, match=r"^4 of 5 recorded calls were never asked for: .* and 1 more$") as caught:
        matcher.assert_consumed()
    unconsumed = caught.value.diagnostic
    assert isinstance(unconsumed, Unconsumed)
    assert [call["sequence"] for call in unconsumed.to_dict()["calls"]] == [1, 3, 4, 5]
    assert unconsumed.explain()[0] == "4 of 5 recorded calls were never asked for"


def nested_tape() -> Tape:
    """a, and below it b and below that c; then d beside a."""
    made = Tape()
    child = ParentAgent(id="child", header={"origin": "subagent"})
    grandchild = ParentAgent(id="grandchild", header={"origin": "subagent"})
    made.add(ask("a"), child=child)
    made.add(ask("b"), parent=child, child=grandchild)
    made.add(ask("c"), parent=grandchild)
    made.add(ask("d"))
    return made


def test_calls_below_a_consumed_one_are_covered_where_that_is_wanted() -> None:
    strict, covered = (Matcher(nested_tape().cassette(), nested=policy) for policy in ("strict", "covered"))
    for matcher in (strict, covered):
        matcher.match(ask("d"), LIVE)
        assert [call.sequence for call in matcher.missing()] == [1, 2, 3]
        matcher.match(ask("a"), LIVE)
    assert [call.sequence for call in strict.missing()] == [2, 3]
    assert covered.missing() == []
    covered.assert_consumed()
    with pytest.raises(MismatchError) as caught:
        strict.assert_consumed()
    assert caught.value.diagnostic.to_dict()["missing"] == 2


def test_keys_that_point_in_a_circle_cover_nothing() -> None:
    made = nested_tape()
    first, second = made.calls[0], made.calls[1]
    object.__setattr__(first, "parent_key", second.call_key)
    matcher = Matcher(made.cassette(), nested="covered")
    matcher.match(ask("d"), LIVE)
    assert [call.sequence for call in matcher.missing()] == [1, 2, 3]


def test_unknown_policies_are_refused() -> None:
    with pytest.raises(ConfigError, match="reject or sequence"):
        Matcher(tape("a").cassette(), duplicate_policy="first")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="strict or covered"):
        Matcher(tape("a").cassette(), nested="loose")  # type: ignore[arg-type]


def test_the_history_counts_for_an_inheriting_provider() -> None:
    def parent(text: str) -> ParentAgent:
        data = {"content": [{"type": "text", "text": text}]}
        message = {"type": "user/message", "seq": 0, "surfaceOp": "append", "data": data}
        return ParentAgent(id=ROOT.id, events=[message, {"type": "turn/end", "seq": 1}])

    made = Tape(inherits=True)
    made.add(ask(), parent=parent("one"))
    matcher = Matcher(made.cassette())
    assert mismatch(matcher, ask(), parent("two")).reason == "parent-context-changed"
    assert matcher.match(ask(), parent("one")).sequence == 1


def test_leftovers_below_a_replayed_call_name_the_way_out() -> None:
    matcher = Matcher(nested_tape().cassette())
    matcher.match(ask("a"), LIVE)
    matcher.match(ask("d"), LIVE)
    with pytest.raises(MismatchError) as caught:
        matcher.assert_consumed()
    assert str(caught.value).startswith(
        "2 of 4 recorded calls were never asked for; all 2 lie below a call that was replayed: replay with nested='covered' "
        "(--nested covered); they are root/a-"
    )
    unconsumed = caught.value.diagnostic
    assert unconsumed.to_dict()["below"] == 2
    assert unconsumed.explain()[-1] == (
        "all 2 lie below a call that was replayed: replay with nested='covered' (--nested covered)"
    )


def test_other_leftovers_are_told_apart() -> None:
    matcher = Matcher(nested_tape().cassette())
    matcher.match(ask("a"), LIVE)
    with pytest.raises(
        MismatchError, match=r"^3 of 4 recorded calls were never asked for; 2 of them lie below a call"
    ) as caught:
        matcher.assert_consumed()
    assert caught.value.diagnostic.explain()[-1].startswith("replay all of them")
    covered = Matcher(nested_tape().cassette(), nested="covered")
    covered.match(ask("a"), LIVE)
    with pytest.raises(MismatchError, match=r"^1 of 4 recorded calls was never asked for: root/d-") as caught:
        covered.assert_consumed()
    assert caught.value.diagnostic.below == 0
