"""The conversation, and the surface that the model sees of it."""

from __future__ import annotations

from typing import Any

from cassette_lab.session.transcript import transcript
from tests.unit.session_told import AT, ev, message, read, tell


def _user(text: str, op: Any = "append", kind: str = "user", **members: Any) -> dict[str, Any]:
    data = {"role": "user", "content": [{"type": "text", "text": text}], "source": {"kind": kind}}
    return ev("user/message", data, surfaceOp=op, **members)


def _replace(version: int, start: int, end: int) -> dict[str, Any]:
    return (
        {"op": "replace", "startSeq": start, "endSeq": end} if version >= 3 else {"op": "replace", "start": start, "end": end}
    )


def _compacted(version: int) -> list[dict[str, Any]]:
    checkpoint = _user("summary", _replace(version, 0, 1), "compact-checkpoint", sourceEventSeqs=[[0, 1]])
    return [_user("one"), message("two"), _user("three"), checkpoint, message("four", interrupted=True)]


def test_a_checkpoint_takes_the_place_of_what_it_sums_up_on_the_surface_only() -> None:
    for version in range(5):
        facts = tell(*_compacted(version), version=version)
        assert (facts.surface.nodes, facts.surface.replacements, facts.surface.problem) == ((3, 2, 4), 1, None)
        entries = list(transcript(read(*_compacted(version), version=version)))
        assert [(entry.role, entry.text) for entry in entries] == [
            ("user", "one"),
            ("assistant", "two"),
            ("user", "three"),
            ("assistant", "four"),
        ]
        assert [entry.interrupted for entry in entries] == [False, False, False, True]


def test_a_span_that_starts_behind_its_end_by_number_may_stand_before_it_by_place() -> None:
    rows = [*_compacted(4), _user("again", _replace(4, 3, 2), sourceEventSeqs=[2, 3])]
    assert tell(*rows, version=4).surface.nodes == (5, 4)


def test_a_broken_surface_ends_before_the_event_that_broke_it_and_says_why() -> None:
    broken: list[tuple[Any, list[Any] | None, str]] = [
        (_replace(4, 0, 9), [0], "not on the surface"),
        (_replace(4, 1, 0), [0, 1], "starts behind its end"),
        (_replace(4, 0, 1), [0], "without citing it"),
        (_replace(0, 0, 1), [0, 1], "needs a surfaceOp"),
        (_replace(4, 0, 1), [7], "no earlier event"),
        (None, None, "needs a surfaceOp"),
    ]
    for operation, cited, words in broken:
        members: dict[str, Any] = {} if cited is None else {"sourceEventSeqs": cited}
        surface = tell(_user("one"), _user("two"), _user("three", operation, **members), _user("four"), version=4).surface
        assert surface.nodes == (0, 1)
        assert words in (surface.problem or "")


def test_what_a_format_does_not_know_is_not_on_its_surface() -> None:
    rows = [
        ev("system/message", {**AT, "message": {"content": []}}, surfaceOp="append"),
        ev("developer/message", {**AT, "message": {"content": []}}, surfaceOp="append"),
    ]
    assert [tell(*rows, version=version).surface.nodes for version in (2, 3, 4)] == [(), (0,), (0, 1)]


def test_a_tools_answer_reads_the_same_in_every_format() -> None:
    told = {"toolCallId": "c", "content": [{"type": "text", "text": "out"}], "isError": True}
    older = {"message": {"role": "user", "content": [{"type": "tool-result", **told}]}}
    newer = {"message": {"role": "tool", **told}}
    for data, version in ((older, 0), (newer, 4)):
        log = read(ev("tool/result", {**AT, **data}, surfaceOp="append"), version=version)
        (entry,) = transcript(log)
        assert (entry.role, entry.text, entry.call_id, entry.is_error, entry.turn) == ("tool", "out", "c", True, 1)


def test_a_fork_shows_its_parents_words_only_when_asked() -> None:
    marker = ev("session/end-seed", {"inherited": True})
    log = read(_user("parent's"), marker, _user("own"), version=4, isSeeded=True, parentSession="p")
    assert [entry.text for entry in transcript(log)] == ["own"]
    assert [(entry.text, entry.inherited) for entry in transcript(log, inherited=True)] == [("parent's", True), ("own", False)]
