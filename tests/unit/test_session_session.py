"""A session in memory: seqs, frozen events, what is refused, and how children begin."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cassette_lab.errors import FormatError, SurfaceError
from cassette_lab.jsonio import JsonObject
from cassette_lab.session.model import ChunkRun, Event, Row, SessionHeader
from cassette_lab.session.packing import MOST_ROW_BYTES, Packer
from cassette_lab.session.session import Session, check_header, new_header

NOW = 1_700_000_000_000


def clock() -> Callable[[], int]:
    return itertools.count(NOW).__next__


def session(**members: Any) -> Session:
    return Session(new_header(session_id="root", created_at=NOW, **members), clock=clock())


def user(text: str) -> JsonObject:
    return {"id": f"m-{text}", "role": "user", "content": [{"type": "text", "text": text}], "source": {"kind": "user"}}


def turn(log: Session, number: int, text: str = "hello") -> None:
    log.append("turn/start", {"turn": number})
    log.append("user/message", user(text), surface_op="append")
    log.append("turn/end", {"turn": number, "reason": {"kind": "completed"}})


class TestHeader:
    def test_a_new_header_has_an_id_a_time_and_no_seed(self) -> None:
        one, other = new_header(), new_header()
        assert one.id != other.id
        assert one.version == 0
        assert one.delegation_depth == 0
        assert one.seed_length is None
        assert isinstance(one.created_at, int)
        assert one.to_json().keys() == {"type", "version", "id", "createdAt", "delegationDepth"}

    @pytest.mark.parametrize(
        ("members", "field"),
        [
            ({"session_id": ""}, "id"),
            ({"cwd": ""}, "cwd"),
            ({"origin": "fork"}, "origin"),
            ({"created_at": -1}, "createdAt"),
            ({"created_at": 1.5}, "createdAt"),
            ({"delegation_depth": None}, "delegationDepth"),
            ({"seed_length": -1}, "seedLength"),
            ({"agent_preset": 3}, "agentPreset"),
        ],
    )
    def test_bad_members_are_refused_by_name(self, members: dict[str, Any], field: str) -> None:
        with pytest.raises(FormatError) as caught:
            new_header(**members)
        assert caught.value.field == field

    def test_later_formats_are_not_written(self) -> None:
        with pytest.raises(FormatError, match=r"format 3; only format 0 is written"):
            check_header(SessionHeader(3, "x", NOW, 0, is_seeded=False))
        with pytest.raises(FormatError) as caught:
            check_header(SessionHeader(0, "x", NOW, 0, is_seeded=False))
        assert caught.value.field == "isSeeded"


class TestAppend:
    def test_seqs_are_contiguous_and_times_are_now(self) -> None:
        log = session()
        turn(log, 1)
        assert [(event.seq, event.time) for event in log.events] == [(0, NOW), (1, NOW + 1), (2, NOW + 2)]
        assert log.append("todo/write", {}, time_ms=5).time == 5

    def test_events_cannot_be_changed_and_are_no_ones_but_the_logs(self) -> None:
        log = session()
        data: JsonObject = {"turn": 1, "list": [{"a": 1}], "object": {"b": [2]}}
        event = log.append("turn/start", data)
        data["list"][0]["a"] = 9
        assert event.data == {"turn": 1, "list": [{"a": 1}], "object": {"b": [2]}}
        for change in (
            lambda: event.data.update(turn=2),
            lambda: event.data.__setitem__("turn", 2),
            lambda: event.data.pop("turn"),
            lambda: event.data["list"].append(1),
            event.data["list"][0].clear,
            lambda: event.data["object"]["b"].__setitem__(0, 3),
        ):
            with pytest.raises(TypeError, match="cannot be changed"):
                change()
        assert event.data["turn"] == 1

    def test_a_deep_copy_can_be_changed(self) -> None:
        event = session().append("turn/start", {"turn": 1, "list": [{"a": 1}]})
        mine = copy.deepcopy(event.data)
        mine["list"][0]["a"] = 2
        assert (mine, event.data["list"]) == ({"turn": 1, "list": [{"a": 2}]}, [{"a": 1}])
        assert type(mine) is dict

    def test_frozen_data_is_json_to_every_library(self) -> None:
        event = session().append("turn/start", {"turn": 1, "list": [{"a": 1}]})
        assert json.loads(json.dumps(event.data)) == orjson.loads(orjson.dumps(event.data)) == event.data

    def test_the_events_are_read_only_and_grow(self) -> None:
        log = session()
        events = log.events
        assert len(events) == 0
        turn(log, 1)
        assert [event.type for event in events] == ["turn/start", "user/message", "turn/end"]
        assert not hasattr(events, "append")

    @pytest.mark.parametrize(
        ("kind", "data", "more", "field"),
        [
            ("", {}, {}, "type"),
            (3, {}, {}, "type"),
            ("text-chunks", {}, {}, "type"),
            ("session", {}, {}, "type"),
            ("\ud800", {}, {}, "type"),
            ("todo/write", [], {}, "data"),
            ("todo/write", {"x": object()}, {}, "data"),
            ("todo/write", {"x": float("nan")}, {}, "data"),
            ("todo/write", {1: 2}, {}, "data"),
            ("todo/write", {}, {"time_ms": -1}, "time"),
            ("todo/write", {}, {"time_ms": 1.5}, "time"),
            ("todo/write", {}, {"ignorable": 1}, "ignorable"),
            ("user/message", {}, {}, "surfaceOp"),
            ("user/message", {}, {"surface_op": {"op": "replace", "start": 0, "end": 0}}, "surfaceOp"),
            ("user/message", {}, {"surface_op": "append", "source_event_seqs": [7]}, "sourceEventSeqs"),
            ("todo/write", {}, {"surface_op": "append"}, "surfaceOp"),
        ],
    )
    def test_what_no_log_can_hold_is_refused_and_leaves_nothing(
        self, kind: Any, data: Any, more: dict[str, Any], field: str
    ) -> None:
        log = session()
        with pytest.raises((FormatError, SurfaceError)) as caught:
            log.append(kind, data, **more)
        assert caught.value.field == field
        assert len(log.events) == 0
        assert log.append("turn/start", {"turn": 1}).seq == 0

    def test_data_nested_too_deep_or_in_a_circle_is_refused(self) -> None:
        deep: Any = []
        for _ in range(250):
            deep = [deep]
        with pytest.raises(FormatError, match="nested more than 200 levels"):
            session().append("todo/write", {"x": deep})
        circle: list[Any] = []
        circle.append(circle)
        with pytest.raises(FormatError, match="nested more than"):
            session().append("todo/write", {"x": circle})


# Members of a delta: the usual ones, and what is not as usual in each place.
texts = st.text() | st.sampled_from(["", "\ud83d\ude00", "\udc00", 3, None])
numbers = st.integers(0, 3) | st.sampled_from([2**53 - 1, 2**53, -(2**53), True, 1.0, "1", None])
chunks = st.fixed_dictionaries(
    {"type": st.sampled_from(["text-delta", "reasoning-delta", "tool-call-delta", "usage"]), "index": numbers},
    optional={"text": texts, "id": texts, "name": texts, "argumentsDelta": texts, "more": st.just(1)},
)


@given(
    data=st.fixed_dictionaries({"turn": numbers, "step": numbers, "chunk": chunks}, optional={"more": st.just(1)}),
    ignorable=st.booleans() | st.just(0),
    time_ms=st.sampled_from([0, NOW, -1, 1.5, 2**53]),
)
@example({"turn": 1, "step": 1, "chunk": {"type": "text-delta", "index": 0, "text": "\ud83d\ude00"}}, False, 0)
@example({"turn": 1, "step": 1, "chunk": {"type": "text-delta", "index": 2**53, "text": ""}}, False, 0)
@example(
    {"turn": 1, "step": 1, "chunk": {"type": "tool-call-delta", "index": 0, "id": "\ud83d\ude00", "argumentsDelta": ""}},
    False,
    0,
)
@settings(max_examples=200)
def test_deltas_are_checked_and_frozen_as_all_other_events_are(data: JsonObject, ignorable: Any, time_ms: Any) -> None:
    logged: list[Any] = []
    for kind in ("assistant/chunk", "todo/write"):  # the first is the way of deltas
        try:
            event = session().append(kind, data, ignorable=ignorable, time_ms=time_ms)
        except FormatError as error:
            logged.append((error.field, error.message.replace(kind, "")))
        else:
            with pytest.raises(TypeError):
                event.data["chunk"]["type"] = ""
            with pytest.raises(TypeError):
                event.data["turn"] = 0
            logged.append((event[1:], ascii(event.data["chunk"])))
    assert logged[0] == logged[1]


ROWS = Packer(lambda row: (row, 0))


class TestBatches:
    def test_a_batch_that_follows_the_last_one_is_packed_while_it_is_logged(self) -> None:
        packed: list[Row] = []

        def encode(row: Row) -> tuple[Row, int]:
            packed.append(row)
            return row, 0

        log, packer = session(), Packer(encode)
        turn(log, 1)
        log.pack(packer, 0)
        assert packed == log.batch(packer, 0) == list(log.events)
        for text in ("a", "b", "c"):
            log.append("assistant/chunk", delta(text))
        turn(log, 2)
        made = len(packed)
        batch = log.batch(packer, 3)
        log.pack(None)
        log.append("todo/write", {})
        run, *others = batch.rows
        assert isinstance(run, ChunkRun)
        assert (run.seq0, run.texts, others) == (3, ["a", "b", "c"], log.events[6:-1])
        assert (list(batch), len(packed)) == (log.events[3:-1], made)

    @pytest.mark.parametrize("start", [0, 2, 5, 7])
    def test_a_batch_may_begin_anywhere(self, start: int) -> None:
        log = session()
        for number in range(8):
            log.append("assistant/chunk", delta("x", index=number // 5))
            if number == 2:
                log.batch(ROWS, 1)
        batch = log.batch(ROWS, start)
        assert list(batch) == log.events[start:]
        assert [event for row in batch.rows for event in ([row] if isinstance(row, Event) else row.events())] == batch
        assert log.batch(ROWS, len(log.events)) == []

    def test_what_is_too_large_for_the_store_is_refused_before_it_counts(self) -> None:
        def refuse(row: Row) -> tuple[Row, int]:
            if isinstance(row, Event) and row.type == "user/message":
                raise FormatError("too large")
            return row, 0

        log, packer = session(), Packer(refuse)
        log.pack(packer, 0)
        log.append("assistant/chunk", delta("x"))
        with pytest.raises(FormatError, match="too large"):
            log.append("user/message", user("x"), surface_op="append")
        log.append("assistant/chunk", delta("y"))
        assert log.messages() == []
        assert [event.seq for event in log.batch(packer, 0)] == [0, 1]

    def test_a_delta_that_no_packed_row_can_hold_stands_alone(self) -> None:
        log = session()
        log.pack(ROWS, 0)
        for size in (1, 1, 1, MOST_ROW_BYTES, 1, 1, 1):
            log.append("assistant/chunk", delta("x" * size))
        assert [type(row) for row in log.batch(ROWS, 0).rows] == [ChunkRun, Event, ChunkRun]


def delta(text: str, index: int = 0) -> JsonObject:
    return {"turn": 1, "step": 1, "chunk": {"type": "text-delta", "index": index, "text": text}}


class TestSurface:
    def test_messages_are_what_the_model_sees(self) -> None:
        log = session()
        turn(log, 1, "one")
        turn(log, 2, "two")
        assert log.messages() == [user("one"), user("two")]
        log.append("user/message", user("both"), surface_op={"op": "replace", "start": 1, "end": 4}, source_event_seqs=[1, 4])
        assert log.messages() == [user("both")]

    def test_a_refused_replacement_leaves_the_surface(self) -> None:
        log = session()
        turn(log, 1, "one")
        turn(log, 2, "two")
        with pytest.raises(SurfaceError, match="without citing it"):
            log.append("user/message", user("x"), surface_op={"op": "replace", "start": 1, "end": 4}, source_event_seqs=[4])
        assert log.messages() == [user("one"), user("two")]


class TestChildren:
    def test_a_spawned_child_inherits_nothing_and_says_nothing_of_it(self) -> None:
        parent = session(cwd="/w")
        turn(parent, 1)
        child = Session.spawn(parent, session_id="child", agent_preset="code", clock=clock())
        assert child.header == SessionHeader(0, "child", NOW, 1, "/w", "root", "subagent", "code")
        assert child.header.seed_length is None
        assert len(child.events) == 0

    def test_a_fork_inherits_up_to_the_last_turn_that_ended_and_stamps_how_much(self) -> None:
        parent = session(cwd="/w")
        turn(parent, 1)
        parent.append("turn/start", {"turn": 2})
        child = Session.fork(parent, clock=clock())
        assert child.header.seed_length == 3
        assert list(child.events[:3]) == list(parent.events[:3])
        assert [(event.type, event.data, event.seq) for event in child.events[3:]] == [("session/end-seed", {}, 3)]
        assert child.messages() == [user("hello")]

    def test_a_fork_in_the_first_turn_is_not_seeded_at_all(self) -> None:
        parent = session()
        parent.append("turn/start", {"turn": 1})
        child = Session.fork(parent)
        assert child.header.seed_length is None
        assert (child.header.parent_session, child.header.origin, child.header.delegation_depth) == ("root", "subagent", 1)
        assert len(child.events) == 0

    def test_a_forks_fork_counts_all_that_it_inherits(self) -> None:
        parent = session()
        turn(parent, 1)
        child = Session.fork(parent, clock=clock())
        turn(child, 2)
        grandchild = Session.fork(child, clock=clock())
        assert grandchild.header.seed_length == 7
        assert grandchild.header.delegation_depth == 2

    def test_the_length_of_a_seed_says_nothing(self) -> None:
        first = session()
        turn(first, 1)
        again = Session(first.header, seed=first.events, clock=clock())
        assert again.header.seed_length is None
        assert [event.type for event in again.events][-1] == "session/end-seed"
        seeded = new_header(session_id="x", seed_length=1, created_at=NOW)
        assert Session(seeded, seed=first.events).header.seed_length == 1

    def test_a_seed_shorter_than_what_was_inherited_is_refused(self) -> None:
        with pytest.raises(FormatError, match="4 events are inherited, and the seed has 0") as caught:
            Session(new_header(seed_length=4))
        assert caught.value.field == "seedLength"

    def test_a_seed_with_a_gap_is_refused(self) -> None:
        with pytest.raises(FormatError, match="has event 1 where 0 follows"):
            Session(new_header(), seed=[Event("turn/start", 1, NOW, {})])

    def test_ranges_of_cited_seqs_are_written_out(self) -> None:
        seed = [Event("turn/start", seq, NOW, {"turn": seq}) for seq in range(4)]
        seed.append(Event("assistant/message", 4, NOW, {"message": {}}, False, [[0, 2], 3], "append"))
        assert Session(new_header(), seed=seed).events[4].source_event_seqs == [0, 1, 2, 3]
