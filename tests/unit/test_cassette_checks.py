"""The rules between the interactions of one file: sequences, call keys, occurrences."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cassette_lab.cassette.checks import FileChecks, Group
from cassette_lab.cassette.schema import RecordError

A: Group = ("root", "context", "a")
B: Group = ("root", "context", "b")

numbers = st.tuples(st.integers(1, 5), st.integers(0, 5).map("key-{}".format), st.sampled_from([A, B]), st.integers(1, 3))


def has_gap(found: list[int]) -> bool:
    return sorted(found) != list(range(1, len(found) + 1))


@settings(max_examples=200, deadline=None)
@given(st.lists(numbers, max_size=8))
def test_it_agrees_with_counting_everything_anew(added: list[tuple[int, str, Group, int]]) -> None:
    checks = FileChecks()
    taken: list[tuple[int, str, Group, int]] = []
    for sequence, key, group, occurrence in added:
        repeated = (
            sequence in [each[0] for each in taken]
            or key in [each[1] for each in taken]
            or (group, occurrence) in [(each[2], each[3]) for each in taken]
        )
        if repeated:
            with pytest.raises(RecordError, match="used twice"):
                checks.add(sequence, key, group, occurrence)
        else:
            checks.add(sequence, key, group, occurrence)
            taken.append((sequence, key, group, occurrence))
        groups = {each[2] for each in taken}
        gaps = has_gap([each[0] for each in taken]) or any(
            has_gap([each[3] for each in taken if each[2] == group]) for group in groups
        )
        assert checks.complete is not gaps
        if gaps:
            with pytest.raises(RecordError, match="is missing"):
                checks.finish()
        else:
            checks.finish()
        assert checks.count == len(taken)
        assert checks.next_sequence == max((each[0] for each in taken), default=0) + 1
        assert checks.occurrences() == {group: max(each[3] for each in taken if each[2] == group) for group in groups}


@settings(max_examples=100, deadline=None)
@given(st.lists(numbers, max_size=6), numbers)
def test_what_is_taken_back_was_never_there(added: list[tuple[int, str, Group, int]], one: tuple[int, str, Group, int]) -> None:
    checks, other = FileChecks(), FileChecks()
    for each in added:
        try:
            checks.add(*each)
        except RecordError:
            continue
        other.add(*each)
    try:
        checks.add(*one)
    except RecordError:
        return
    checks.discard(*one)
    assert (checks.count, checks.complete, checks.next_sequence) == (other.count, other.complete, other.next_sequence)
    assert checks.occurrences() == other.occurrences()
    checks.add(*one)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ((1, "other", B, 1), "sequence 1 is used twice in this file"),
        ((2, "key", B, 1), "the callKey of sequence 2 is used twice in this file"),
        ((2, "other", A, 1), "occurrence 1 of one call from one parent is used twice in this file"),
    ],
)
def test_a_repetition_is_named(second: tuple[int, str, Group, int], message: str) -> None:
    checks = FileChecks()
    checks.add(1, "key", A, 1)
    with pytest.raises(RecordError) as caught:
        checks.add(*second)
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("added", "message"),
    [
        ([(2, "a", A, 1)], "sequence 1 is missing, though there is a sequence 2"),
        ([(1, "a", A, 1), (9007199254740991, "b", B, 1)], "sequence 2 is missing, though there is a sequence 9007199254740991"),
        ([(1, "a", A, 1), (2, "b", A, 3)], "occurrence 2 of a call is missing, though there is an occurrence 3"),
        ([(1, "a", A, 2)], "occurrence 1 of a call is missing, though there is an occurrence 2"),
    ],
)
def test_the_first_gap_is_named(added: list[tuple[int, str, Group, int]], message: str) -> None:
    checks = FileChecks()
    for each in added:
        checks.add(*each)
    with pytest.raises(RecordError) as caught:
        checks.finish()
    assert caught.value.message == message


def test_many_equal_calls_stay_quick() -> None:
    checks = FileChecks()
    for number in range(1, 30_001):  # a scan of the group for each would be 450 million steps
        checks.add(number, str(number), A, number)
    checks.finish()
