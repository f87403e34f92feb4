"""Live logs: read on from where it stopped, through torn writes, repairs and replacements."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cassette_lab.errors import FormatError
from cassette_lab.session.follow import Update, follow
from cassette_lab.session.frames import compress_frame
from cassette_lab.session.model import Event
from cassette_lab.session.persistence import StoredSession
from cassette_lab.session.reader import read_session
from cassette_lab.session.store_sqlite import SqliteSessionStore
from tests.unit.session_samples import TURN_EVENTS, delta, event, frames, header, line, text, turn, write
from tests.unit.session_stores import log_turn, new_session


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def told(update: Update) -> list[int]:
    return [each.seq for row in update.rows for each in ([row] if isinstance(row, Event) else row.events())]


ROWS = [*turn(), delta(8, "a"), delta(9, "b"), delta(10, "c"), event(11, "turn/end")]


@pytest.mark.parametrize("zstd", [False, True])
@given(cuts=st.lists(st.integers(0, 2_000), max_size=6))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_pieces_of_any_size_add_up_to_the_log(tmp_path: Path, zstd: bool, cuts: list[int]) -> None:
    batches: list[list[dict[str, Any]]] = [[header()], ROWS[:3], ROWS[3:9], ROWS[9:]]
    data = b"".join(frames(batches)) if zstd else text(*(row for batch in batches for row in batch))
    path = write(tmp_path / "session.jsonl", b"")
    follower = follow(path)
    seen: list[int] = []
    start = 0
    for cut in sorted({*(cut % len(data) for cut in cuts), len(data)}):
        append(path, data[start:cut])
        start = cut
        update = follower.read()
        assert (update.from_seq, update.rewound, update.problem) == (len(seen), False, None)
        seen += told(update)
        assert update.event_count == len(seen)
    assert seen == list(range(12))
    log, whole = follower.log(), read_session(path)
    assert list(log.events()) == list(whole.events())
    assert (log.header, log.physical, log.torn_bytes, log.row_count) == (whole.header, whole.physical, 0, whole.row_count)


def test_nothing_is_told_before_the_header_is_whole(tmp_path: Path) -> None:
    path = write(tmp_path / "session.jsonl", line(header())[:-1])
    follower = follow(path)
    update = follower.read()
    assert (update.rows, follower.header, update.waiting_bytes) == ([], None, len(line(header())) - 1)
    with pytest.raises(FormatError, match="not whole"):
        follower.log()
    append(path, b"\n")
    follower.read()
    assert follower.header is not None


def test_a_torn_tail_that_a_repair_cut_off_and_closed_is_told_once(tmp_path: Path) -> None:
    start = text(header(), *turn(), event(8, "turn/start"))
    path = write(tmp_path / "session.jsonl", start + b'{"type":"step/st')
    follower = follow(path)
    assert told(follower.read()) == list(range(9))
    path.write_bytes(start + text(event(9, "turn/end"), event(10, "session/end-seed")))
    update = follower.read()
    assert (update.from_seq, told(update), update.rewound) == (9, [9, 10], False)


def test_a_log_cut_below_what_was_told_says_from_where_it_differs(tmp_path: Path) -> None:
    path = write(tmp_path / "session.jsonl", text(header(), *turn()))
    follower = follow(path)
    follower.read()
    append(path, text(event(8, "turn/start"), event(9, "step/start")))
    follower.read()
    path.write_bytes(text(header(), *turn(), event(8, "turn/start", {"turn": 7})))
    update = follower.read()
    assert (update.from_seq, told(update), update.rewound, update.event_count) == (8, [8], True, 9)
    assert [each.data for each in follower.log().events(8)] == [{"turn": 7}]
    append(path, line(event(9, "turn/end")))
    assert told(follower.read()) == [9]


def test_a_file_replaced_by_the_same_log_in_other_frames_tells_only_what_is_new(tmp_path: Path) -> None:
    path = write(tmp_path / "session.jsonl.zstd", b"".join(frames([[header()], turn()])))
    follower = follow(path)
    follower.read()
    path.write_bytes(b"".join(frames([[header()], turn()[:2], turn()[2:], [event(8, "turn/start")]])))
    update = follower.read()
    assert (update.from_seq, told(update), update.rewound) == (TURN_EVENTS, [8], False)


def test_another_session_in_the_same_place_is_told_anew(tmp_path: Path) -> None:
    path = write(tmp_path / "session.jsonl", text(header(), *turn()))
    follower = follow(path)
    follower.read()
    path.write_bytes(text(header(id="other"), *turn()))
    update = follower.read()
    assert (update.from_seq, update.rewound, update.event_count) == (0, True, TURN_EVENTS)
    assert follower.log().header.id == "other"


def test_a_broken_row_is_waited_for_until_it_is_repaired(tmp_path: Path) -> None:
    start = text(header(), *turn())
    path = write(tmp_path / "session.jsonl", start + b"\x00\x00\n")
    follower = follow(path)
    update = follower.read()
    assert (update.event_count, update.waiting_bytes) == (TURN_EVENTS, 3)
    assert update.problem is not None
    assert (update.problem.code, update.problem.line) == ("BROKEN_TAIL", 9)
    path.write_bytes(start + line(event(8, "turn/start")))
    update = follower.read()
    assert (update.from_seq, told(update), update.problem) == (8, [8], None)


def test_damage_is_an_error_and_what_was_told_before_stays_so(tmp_path: Path) -> None:
    start = text(header(), *turn())
    path = write(tmp_path / "session.jsonl", start)
    follower = follow(path)
    follower.read()
    append(path, text(event(12, "step/start"), event(13, "turn/end")))
    with pytest.raises(FormatError, match="damaged") as caught:
        follower.read()
    assert caught.value.line == 9
    with pytest.raises(FormatError, match="failed"):
        follower.log()
    path.write_bytes(start + line(event(8, "turn/start")))
    update = follower.read()
    assert (update.from_seq, told(update), update.rewound) == (8, [8], False)


def test_a_line_that_goes_on_in_the_next_frame_is_read_once(tmp_path: Path) -> None:
    data = text(*turn())
    path = write(tmp_path / "session.jsonl.zstd", compress_frame(line(header())) + compress_frame(data[:100]))
    follower = follow(path)
    first = told(follower.read())
    append(path, compress_frame(data[100:]))
    update = follower.read()
    assert update.from_seq == len(first)
    assert first + told(update) == list(range(TURN_EVENTS))


def test_a_file_that_is_gone_is_our_error(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no such file"):
        follow(tmp_path / "missing").read()


class TestStores:
    """One log of a database is followed as a file is."""

    def test_each_reading_tells_what_was_stored_since_the_last_one(self, tmp_path: Path) -> None:
        path = tmp_path / "s.db"
        session = new_session()
        with SqliteSessionStore(path) as store, StoredSession.create(store, session) as keeper:
            log_turn(session)
            keeper.flush()
            follower = follow(path)
            update = follower.read()
            assert (update.from_seq, told(update), update.rewound) == (0, list(range(10)), False)
            assert follower.read() == Update(10, [], 10)
            for text in ("a", "b"):
                keeper.append("assistant/chunk", delta_data(text))
            keeper.flush()
            keeper.append("assistant/chunk", delta_data("c"))
            assert told(follower.read()) == [10, 11]
            keeper.flush()
            update = follower.read()
            assert (update.from_seq, told(update), update.event_count) == (12, [12], 13)
            log, whole = follower.log(), store.load("root")
            assert list(log.events()) == list(whole.events()) == list(session.events)
            assert (log.header, log.row_count, log.boundary, log.path) == (session.header, whole.row_count, 0, str(path))

    def test_a_log_that_was_cut_says_from_where_it_differs(self, tmp_path: Path) -> None:
        path = tmp_path / "s.db"
        session = new_session()
        with SqliteSessionStore(path) as store:
            with StoredSession.create(store, session):
                log_turn(session)
            follower = follow(path, "root")
            follower.read()
            store.write(
                lambda connection: connection.execute("DELETE FROM events WHERE seq >= 5 OR seq = 3")
            )  # 3 to 6 are one packed row
            update = follower.read()
            assert (update.from_seq, told(update), update.rewound, update.event_count) == (3, [], True, 3)
            with StoredSession.resume(store, "root") as keeper:
                expected = list(keeper.session.events)
            update = follower.read()
            assert (update.from_seq, update.rewound, update.event_count) == (3, False, len(expected))
            assert list(follower.log().events()) == expected

    def test_another_session_of_that_id_is_told_anew(self, tmp_path: Path) -> None:
        path = tmp_path / "s.db"
        session = new_session()
        log_turn(session)
        with SqliteSessionStore(path) as store:
            store.create(session.header).append(session.events)
            follower = follow(path)
            follower.read()
            store.write(lambda connection: connection.execute("DELETE FROM sessions"))
            with pytest.raises(FormatError, match="no session"):
                follower.read()
            with pytest.raises(FormatError, match="the last reading"):
                follower.log()
            store.create(replace(session.header, created_at=1)).append(session.events[:3])
            update = follower.read()
            assert (update.from_seq, update.rewound, update.event_count) == (0, True, 3)

    def test_damage_is_told_and_read_past_when_it_is_mended(self, tmp_path: Path) -> None:
        path = tmp_path / "s.db"
        session = new_session()
        log_turn(session)
        log_turn(session, 2)
        with SqliteSessionStore(path) as store:
            writer = store.create(session.header)
            writer.append(session.events[:10])
            follower = follow(path)
            follower.read()
            writer.append(session.events[10:])
            store.write(lambda connection: connection.execute("UPDATE events SET data = '[' WHERE seq = 18"))
            with pytest.raises(FormatError, match="seq 18"):
                follower.read()
            store.write(lambda connection: connection.execute("UPDATE events SET data = '{}' WHERE seq = 18"))
            update = follower.read()
            assert (update.from_seq, told(update), update.rewound) == (10, list(range(10, 20)), False)

    def test_a_session_is_chosen_by_its_id(self, tmp_path: Path) -> None:
        path = tmp_path / "s.db"
        with SqliteSessionStore(path) as store:
            for session_id in ("one", "two"):
                session = new_session(session_id)
                log_turn(session)
                store.create(session.header).append(session.events)
        with pytest.raises(FormatError, match="the store has 2 sessions"):
            follow(path).read()
        for follower in (follow(path, "two"), follow(f"{path}#two")):
            follower.read()
            assert follower.log().header.id == "two"
        log = write(tmp_path / "session.jsonl", text(header()))
        with pytest.raises(FormatError, match="not two"):
            follow(log, "two").read()


def delta_data(text: str) -> dict[str, Any]:
    return {"turn": 1, "step": 1, "chunk": {"type": "text-delta", "index": 0, "text": text}}


def test_a_folder_may_come_after_it_was_named_with_an_id_and_a_follower_shows_how_far_it_is(tmp_path: Path) -> None:
    follower = follow(f"{tmp_path / 'later'}#sample")
    with pytest.raises(FormatError, match="no such file"):
        follower.read()
    assert repr(follower).endswith("later#sample: nothing read yet>")
    path = write(tmp_path / "later" / "s" / "session.jsonl", text(header(), *turn()) + b'{"type"')
    update = follower.read()
    assert repr(update) == "<Update: 8 events from seq 0 on, 8 in the log, 7 bytes waiting>"
    assert repr(follower) == f"<FileFollower {path}: session sample, 8 events, 7 bytes waiting>"
