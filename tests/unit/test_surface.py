from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cassette_lab.errors import SurfaceError
from cassette_lab.surface import fold_surface, inherited_prefix, surface_seqs


def user(seq: int, text: str = "", **members: Any) -> dict[str, Any]:
    return {
        "type": "user/message",
        "seq": seq,
        "surfaceOp": "append",
        "data": {"role": "user", "content": [{"type": "text", "text": text or str(seq)}]},
        **members,
    }


def replacing(seq: int, start: int, end: int, sources: list[int], **members: Any) -> dict[str, Any]:
    return user(seq, surfaceOp={"op": "replace", "start": start, "end": end}, sourceEventSeqs=sources, **members)


def tool_result(seq: int, text: str, *, step: int = 1, **members: Any) -> dict[str, Any]:
    block = {"type": "tool-result", "toolCallId": "c", "content": [{"type": "text", "text": text}]}
    return user(seq, **{"type": "tool/result", "data": {"step": step, "message": {"content": [block]}}, **members})


def texts(messages: list[Any]) -> list[str]:
    return [message["content"][0]["text"] for message in messages]


def test_messages_stand_in_order_and_other_events_leave_no_trace() -> None:
    events = [{"type": "turn/start", "seq": 0}, user(1, "a"), {"type": "tool/call", "seq": 2}, user(3, "b")]
    assert texts(fold_surface(events)) == ["a", "b"]


def test_a_message_is_the_data_of_a_user_and_the_message_of_others() -> None:
    assistant = {"content": [{"type": "text", "text": "hello"}]}
    events = [user(0, "a"), user(1, type="assistant/message", data={"turn": 1, "message": assistant})]
    assert fold_surface(events) == [events[0]["data"], assistant]


def test_an_assistant_message_without_content_is_left_out() -> None:
    assert fold_surface([user(0, type="assistant/message", data={"message": {"content": []}})]) == []


def test_a_replacement_takes_the_place_of_a_span_by_position() -> None:
    events = [user(0), user(1), user(2), replacing(3, 0, 1, [0, 1]), replacing(4, 3, 2, [2, 3]), user(5)]
    assert surface_seqs(events[:4]) == [3, 2]
    assert surface_seqs(events) == [4, 5]  # 3 stands before 2, though its number is greater


def test_sources_may_hold_more_than_what_is_shadowed() -> None:
    assert surface_seqs([user(0), user(1), replacing(2, 1, 1, [0, 1])]) == [0, 2]


def test_whole_floats_count_as_seqs() -> None:
    assert surface_seqs([user(0), user(1, surfaceOp={"op": "replace", "start": 0.0, "end": 0}, sourceEventSeqs=[0.0])]) == [1]


@pytest.mark.parametrize(
    ("events", "says"),
    [
        (["x"], "event 0 is not an object"),
        ([user(1)], "its position"),
        ([{**user(0), "seq": False}], "its position"),
        ([user(0, surfaceOp=None)], "needs a surfaceOp"),
        ([user(0, surfaceOp={"op": "insert", "start": 0, "end": 0})], "needs a surfaceOp"),
        (
            [user(0), replacing(1, 0, 0, [0]) | {"surfaceOp": {"op": "replace", "start": 0, "end": 0, "x": 1}}],
            "needs a surfaceOp",
        ),
        ([user(0), replacing(1, 0, 0, [0]) | {"surfaceOp": {"op": "replace", "start": "0", "end": 0}}], "no seq"),
        ([user(0), user(1), replacing(2, True, 1, [1])], "no seq"),
        ([user(0), replacing(1, 0, 0, [])], "empty sourceEventSeqs"),
        ([user(0), user(1), replacing(2, 0, 1, [0])], "without citing"),
        ([user(0), replacing(1, 0, 0, [0, 0])], "twice"),
        ([user(0), replacing(1, 0, 0, [1])], "no earlier event"),
        ([user(0, sourceEventSeqs="0")], "no array"),
        ([user(0), replacing(1, 4, 4, [0])], "not on the surface"),
        ([user(0), user(1), replacing(2, 1, 0, [0, 1])], "behind its end"),
        ([user(0), replacing(1, 0, 0, [0]), replacing(2, 0, 0, [0])], "not on the surface"),
        ([{"type": "turn/end", "seq": 0, "surfaceOp": "append"}], "must not carry surfaceOp"),
        ([{"type": "turn/end", "seq": 0, "sourceEventSeqs": [0]}], "must not carry sourceEventSeqs"),
        ([user(0, type=[], surfaceOp="append")], "must not carry surfaceOp"),
        ("events", "must be an array, not str"),
        (None, "must be an array, not NoneType"),
    ],
)
def test_a_broken_surface_is_told_in_a_sentence(events: Any, says: str) -> None:
    with pytest.raises(SurfaceError, match=says):
        fold_surface(events)


@pytest.mark.parametrize("data", [None, {}, "x", {"message": None}])
def test_a_node_without_its_message_is_on_the_surface_all_the_same(data: Any) -> None:
    assert fold_surface([user(0, type="assistant/message", data=data)]) == [None]


def test_a_tool_result_may_be_rewritten_in_its_content_only() -> None:
    original = tool_result(0, "long")
    operation: dict[str, Any] = {"surfaceOp": {"op": "replace", "start": 0, "end": 0}, "sourceEventSeqs": [0]}
    messages = fold_surface([original, tool_result(1, "short", **operation)])
    assert messages[0]["content"][0]["content"][0]["text"] == "short"
    with pytest.raises(SurfaceError, match=r"more of a tool/result than message.content\[0\].content"):
        fold_surface([original, tool_result(1, "short", step=2, **operation)])
    with pytest.raises(SurfaceError, match="exactly one tool/result"):
        fold_surface([user(0), tool_result(1, "short", **operation)])


@pytest.mark.parametrize(
    ("seq", "kept"),
    [
        (1, 2),
        (2, 3),
        (-1, 0),
        (-2, 2),
        (0.5, 1),
        (9, 3),
        (float("inf"), 3),
        (float("-inf"), 0),
        (float("nan"), 0),
        (None, 1),
        (True, 2),
        ("1", 3),
        ("x", 0),
        ([], 0),
        ({}, 0),
    ],
)
def test_the_prefix_is_cut_as_slice_cuts(seq: Any, kept: int) -> None:
    assert len(inherited_prefix([user(0), user(1), {"type": "turn/end", "seq": seq}])) == kept


def test_there_is_no_prefix_without_a_finished_turn() -> None:
    assert inherited_prefix([user(0), user(1)]) == []
    assert inherited_prefix([{"type": "turn/end"}]) == []


@settings(max_examples=60, deadline=None)
@given(st.lists(st.none() | st.tuples(st.floats(0, 1), st.floats(0, 1)), max_size=25))
def test_replacing_keeps_the_same_order_as_a_plain_list(script: list[tuple[float, float] | None]) -> None:
    events: list[dict[str, Any]] = []
    surface: list[int] = []
    for seq, span in enumerate(script):
        if surface and span is not None:
            first, last = sorted(round(place * (len(surface) - 1)) for place in span)
            shadowed = surface[first : last + 1]
            events.append(replacing(seq, shadowed[0], shadowed[-1], shadowed))
            surface[first : last + 1] = [seq]
        else:
            events.append(user(seq))
            surface.append(seq)
    assert surface_seqs(events) == surface


def test_thousands_of_replacements_fold_in_linear_time() -> None:
    count = 20_000
    events = [user(seq) for seq in range(count)]
    events += [replacing(count + index, index, index, [index]) for index in range(count)]
    assert surface_seqs(events) == list(range(count, 2 * count))
