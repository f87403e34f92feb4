"""Packed rows and streams: exact shapes, lazy expansion, and back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cassette_lab.session.chunks import (
    Chunk,
    RowError,
    pack_row,
    pack_stream_item,
    read_stream,
    stream_chunks,
    unpack_row,
)
from cassette_lab.session.model import ChunkRun, Event, expand_seqs
from cassette_lab.session.packing import Packer

TEXT_ROW = {
    "type": "text-chunks",
    "seq0": 7,
    "time0": 100,
    "data": {"turn": 1, "step": 2, "index": 0, "dt": [3, -5], "texts": ["a", "", "c"]},
}
TOOL_ROW = {
    "type": "tool-call-chunks",
    "seq0": 0,
    "time0": 5,
    "data": {"turn": 1, "step": 1, "index": 3, "dt": [1], "id": "call", "name": "bash", "args": ["{", "}"]},
}


def changed(row: dict[str, Any], **data: Any) -> dict[str, Any]:
    return {**row, "data": {name: value for name, value in {**row["data"], **data}.items() if value is not ...}}


def test_members_count_up_from_seq0_and_times_are_running_sums() -> None:
    run = unpack_row(TEXT_ROW, 0)
    assert [(event.seq, event.time, event.data["chunk"]) for event in run.events()] == [
        (7, 100, {"type": "text-delta", "index": 0, "text": "a"}),
        (8, 103, {"type": "text-delta", "index": 0, "text": ""}),
        (9, 98, {"type": "text-delta", "index": 0, "text": "c"}),
    ]
    assert (run.members, run.next_seq, run.last_time, run.stored_rows) == (3, 10, 98, 1)


@pytest.mark.parametrize("name", ["bash", ...])
def test_tool_call_deltas_have_an_id_and_a_name_only_where_the_row_has_one(name: Any) -> None:
    run = unpack_row(changed(TOOL_ROW, name=name), 0)
    expected = {"type": "tool-call-delta", "index": 3, "id": "call"} | ({} if name is ... else {"name": name})
    assert [chunk for _, chunk in run.chunks()] == [expected | {"argumentsDelta": part} for part in ("{", "}")]


def test_integral_floats_count_as_integers_and_missing_places_are_put_in() -> None:
    row = changed(TEXT_ROW, dt=[2.0, 1e1], step=1.0)
    del row["seq0"], row["time0"]
    run = unpack_row(row, 40)
    assert (run.seq0, run.time0, list(run.gaps), run.step) == (40, 0, [2, 10], 1)
    assert type(run.step) is int


@pytest.mark.parametrize(
    "row",
    [
        changed(TEXT_ROW, dt=[1]),
        changed(TEXT_ROW, dt=[1, 2, 3]),
        changed(TEXT_ROW, dt=[1.5, 2]),
        changed(TEXT_ROW, dt=[True, 2]),
        changed(TEXT_ROW, dt=["1", 2]),
        changed(TEXT_ROW, dt=[2**53, 0]),
        changed(TEXT_ROW, dt=[2**60, -(2**60)]),
        changed(TEXT_ROW, texts=["a", 1, "c"]),
        changed(TEXT_ROW, texts=[], dt=[]),
        changed(TEXT_ROW, texts="abc"),
        changed(TEXT_ROW, turn="1"),
        changed(TEXT_ROW, turn=True),
        changed(TEXT_ROW, index=None),
        changed(TEXT_ROW, more=1),
        changed(TEXT_ROW, step=...),
        changed(TOOL_ROW, id=3),
        changed(TOOL_ROW, id=...),
        changed(TOOL_ROW, name=3),
        changed(TOOL_ROW, texts=["a"]),
        {**TEXT_ROW, "data": None},
        {**TEXT_ROW, "data": [1]},
        {**TEXT_ROW, "seq0": -1},
        {**TEXT_ROW, "seq0": 0.5},
        {**TEXT_ROW, "time0": "1"},
        {**TEXT_ROW, "ignorable": True},
    ],
)
def test_any_other_shape_is_refused(row: dict[str, Any]) -> None:
    with pytest.raises(RowError):
        unpack_row(row, 0)


def test_a_stream_holds_packed_runs_without_seqs_and_chunks_with_times() -> None:
    stream: list[dict[str, Any]] = [
        {"type": "chunk", "time": 9, "chunk": {"type": "block-start", "index": 0, "blockType": "text"}},
        {"type": "text-chunks", "time0": 10, "index": 0, "dt": [1], "texts": ["x", "y"]},
        {"type": "tool-call-chunks", "time0": 12, "index": 1, "dt": [], "id": "c", "args": ["{}"]},
        {"type": "chunk", "time": 13.0, "chunk": {"type": "finish", "reason": {"kind": "stop"}}},
    ]
    items = list(read_stream(stream, 4, 2, 77))
    run = items[1]
    assert isinstance(run, ChunkRun)
    assert (run.turn, run.step, run.seq0) == (4, 2, 77)
    assert [(time, chunk["type"]) for time, chunk in stream_chunks(stream)] == [
        (9, "block-start"),
        (10, "text-delta"),
        (11, "text-delta"),
        (12, "tool-call-delta"),
        (13, "finish"),
    ]
    packed = [pack_stream_item(item) if isinstance(item, ChunkRun) else item for item in items]
    assert packed[1] == stream[1]
    assert packed[2] == stream[2]
    assert packed[3] == Chunk(13, stream[3]["chunk"])


@pytest.mark.parametrize(
    "stream",
    [
        {},
        [1],
        [{"type": "text-chunks", "seq0": 1, "time0": 1, "index": 0, "dt": [], "texts": ["a"]}],
        [{"type": "text-chunks", "time0": 1, "index": 0, "dt": [0], "texts": ["a"]}],
        [{"type": "chunk", "time": 1, "chunk": {}}],
        [{"type": "chunk", "time": "1", "chunk": {"type": "finish"}}],
        [{"type": "chunk", "time": 1, "chunk": {"type": "finish"}, "more": 1}],
        [{"type": "other", "time": 1}],
    ],
)
def test_a_stream_of_another_shape_is_refused(stream: Any) -> None:
    with pytest.raises(RowError):
        list(read_stream(stream))


FOLDED = Packer(lambda row: (row, 0))
keys = st.tuples(
    st.sampled_from(["text-delta", "reasoning-delta", "tool-call-delta"]),
    st.integers(1, 2),
    st.integers(0, 1),
    st.sampled_from(["a", "b"]),
    st.sampled_from([None, "bash"]),
)


@settings(max_examples=80)
@given(st.lists(st.tuples(keys, st.lists(st.tuples(st.text(max_size=3), st.integers(-5, 50)), max_size=5)), max_size=5))
def test_folded_deltas_expand_to_the_events_they_were(parts: list[tuple[Any, list[tuple[str, int]]]]) -> None:
    events: list[Event] = []
    members = [(key, text, gap) for key, run in parts for text, gap in run]
    for seq, ((kind, step, index, call_id, name), text, gap) in enumerate(members):
        chunk: dict[str, Any] = {"type": kind, "index": index}
        if kind == "tool-call-delta":
            chunk |= {"id": call_id} | ({} if name is None else {"name": name}) | {"argumentsDelta": text}
        else:
            chunk["text"] = text
        events.append(Event("assistant/chunk", seq, 1000 + gap, {"turn": 1, "step": step, "chunk": chunk}))
    rows = FOLDED.rows(events)
    assert [event for row in rows for event in (row.events() if isinstance(row, ChunkRun) else [row])] == events
    for row in filter(lambda row: isinstance(row, ChunkRun), rows):
        again = unpack_row(pack_row(row), 0)
        assert list(again.events()) == list(row.events())
        for count in range(row.members):
            assert list(row.from_member(count).events()) == list(row.events())[count:]


def test_a_chunk_that_says_more_than_a_run_can_hold_stays_alone() -> None:
    plain = {"turn": 1, "step": 1, "chunk": {"type": "text-delta", "index": 0, "text": "a"}}
    events = [
        *(Event("assistant/chunk", seq, 1, plain) for seq in range(3)),
        Event("assistant/chunk", 3, 1, plain, ignorable=True),
        Event("assistant/chunk", 4, 1, {**plain, "more": 1}),
        Event("assistant/chunk", 5, 1.5, plain),
        Event("assistant/chunk", 6, 1, {**plain, "turn": 1.5}),
    ]
    assert [isinstance(row, ChunkRun) for row in FOLDED.rows(events)] == [True, False, False, False, False]


def test_cited_ranges_are_inclusive_and_bounded_by_the_event_that_cites() -> None:
    assert expand_seqs([1, [3, 6], 0, [9, 9]], 10) == [1, 3, 4, 5, 6, 0, 9]
    for hostile in ([[0, 10**15]], [10], [-1], [[3, 2]], ["1"], [[1, 2, 3]], [True], [[0, 9], [0, 9]]):
        with pytest.raises(ValueError, match="event 10"):
            expand_seqs(hostile, 10)
