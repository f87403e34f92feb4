"""The contract of the stores, held by each: what is stored comes back, one writer at a time, crashes lose nothing."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cassette_lab.errors import ClosedError, ExistingFileError, FormatError, LockedError, MissingFileError
from cassette_lab.jsonio import JsonObject
from cassette_lab.session.persistence import SessionStore, StoredSession
from cassette_lab.session.session import Session, new_header
from tests.unit.session_stores import NOW, STORES, clock, delta, log_turn, new_session, open_store


@pytest.fixture(params=STORES)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def store(kind: str, tmp_path: Path) -> Iterator[SessionStore]:
    store = open_store(kind, tmp_path)
    yield store
    store.close()


def contents(folder: Path) -> list[str]:
    """What is in a folder, without what SQLite keeps beside a database that is open."""
    return sorted(path.name for path in folder.rglob("*") if not path.name.endswith(("-shm", "-wal")))


def stored(store: SessionStore, session: Session) -> None:
    with StoredSession.create(store, session):
        pass


class TestRoundTrip:
    def test_what_is_flushed_comes_back_with_its_header(self, store: SessionStore) -> None:
        session = new_session()
        with StoredSession.create(store, session) as keeper:
            log_turn(session, 1)
            keeper.flush()
            log_turn(session, 2)
        log = store.load("root")
        assert log.header == session.header
        assert list(log.events()) == list(session.events)
        assert (log.problems, log.torn_bytes) == ([], 0)
        assert store.headers() == [session.header]

    def test_all_members_of_an_event_come_back(self, store: SessionStore) -> None:
        session = new_session("~ é/..\\😀", cwd=None)
        log_turn(session)
        session.append("future/thing", {"big": "x" * 10_000, "lone": "\ud800", "n": [1.5, -2, 10**15]}, ignorable=True)
        session.append("compaction/end", {}, time_ms=0)
        session.append("assistant/message", {"message": {"content": []}}, surface_op="append", source_event_seqs=[])
        stored(store, session)
        assert list(store.load(session.header.id).events()) == list(session.events)

    def test_all_members_of_a_header_come_back(self, store: SessionStore) -> None:
        header = new_header(
            session_id="child",
            cwd="C:\\work",
            parent_session="root",
            origin="subagent",
            delegation_depth=2,
            agent_preset="code",
            seed_length=0,
            created_at=NOW,
        )
        session = Session(header)
        session.append("turn/start", {"turn": 1})
        stored(store, session)
        assert store.headers() == [header]
        assert store.load("child").header == header

    def test_nothing_is_there_before_the_first_batch(self, store: SessionStore, tmp_path: Path) -> None:
        before = contents(tmp_path)
        with StoredSession.create(store, new_session()) as keeper:
            keeper.flush()
        assert store.headers() == []
        assert contents(tmp_path) == before
        with pytest.raises(MissingFileError, match="no session 'root' in this store"):
            store.load("root")
        with pytest.raises(MissingFileError):
            store.resume("root")

    def test_sessions_do_not_mix(self, store: SessionStore) -> None:
        sessions = [new_session(f"s{number}") for number in range(3)]
        keepers = [StoredSession.create(store, session) for session in sessions]
        for number, (session, keeper) in enumerate(zip(sessions, keepers, strict=True)):
            for turn in range(number + 1):
                log_turn(session, turn + 1)
                keeper.flush()
        for session, keeper in zip(sessions, keepers, strict=True):
            keeper.close()
            assert list(store.load(session.header.id).events()) == list(session.events)
        assert [header.id for header in store.headers()] == ["s0", "s1", "s2"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(0.5, 1e300) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
times = st.integers(0, 2**53 - 1)
deltas = st.one_of(
    st.fixed_dictionaries({"type": st.sampled_from(["text-delta", "reasoning-delta"]), "index": st.just(0), "text": st.text()}),
    st.fixed_dictionaries(
        {"type": st.just("tool-call-delta"), "index": st.just(1), "id": st.just("c"), "argumentsDelta": st.text()},
        optional={"name": st.just("tool")},
    ),
    st.dictionaries(st.text(), json_values, max_size=3),
)
chunk_runs = st.tuples(
    st.just("assistant/chunk"),
    st.lists(deltas, min_size=1, max_size=2).flatmap(lambda kinds: st.lists(st.sampled_from(kinds), min_size=1, max_size=6)),
)
others = st.tuples(
    st.text(min_size=1).filter(lambda kind: kind.isprintable() and "/message" not in kind and "result" not in kind),
    st.lists(st.dictionaries(st.text(), json_values, max_size=3), min_size=1, max_size=2),
)


@given(
    batches=st.lists(st.lists(chunk_runs | others, max_size=3), min_size=1, max_size=4),
    data=st.data(),
    session_id=st.text(min_size=1, max_size=20).filter(lambda text: "\0" not in text),
    seed_length=st.none() | st.just(0),
)
@settings(max_examples=15, deadline=None)
def test_any_session_comes_back_from_every_store(
    batches: list[list[tuple[str, list[JsonObject]]]], data: st.DataObject, session_id: str, seed_length: int | None
) -> None:
    header = new_header(session_id=session_id, created_at=NOW, seed_length=seed_length)
    session = Session(header)
    ends = []
    for batch in batches:
        for kind, members in batch:
            for member in members:
                value = {"turn": 1, "step": 1, "chunk": member} if kind == "assistant/chunk" else member
                try:
                    session.append(kind, value, time_ms=data.draw(times), ignorable=data.draw(st.booleans()))
                except FormatError as error:
                    assert error.field in ("type", "data")  # noqa: PT017 - names of rows, and -0
        ends.append(len(session.events))
    with tempfile.TemporaryDirectory() as folder:
        for kind in STORES:
            with open_store(kind, Path(folder)) as store:
                writer = store.create(header)
                begin = 0
                for end in ends:
                    writer.append(session.events[begin:end])
                    begin = end
                writer.close()
                if session.events:
                    log = store.load(session_id)
                    assert log.header == header
                    assert list(log.events()) == list(session.events)
                    assert [problem.code for problem in log.problems if problem.code != "UNKNOWN_TYPE"] == []


class TestBatches:
    def test_a_batch_that_does_not_follow_is_refused_and_the_log_is_as_before(self, store: SessionStore) -> None:
        session = new_session()
        log_turn(session)
        writer = store.create(session.header)
        with pytest.raises(FormatError, match="has event 1 where 0 follows"):
            writer.append(session.events[1:])
        writer.append(session.events[:4])
        for wrong in (session.events[3:], session.events[5:], [session.events[4], session.events[6]]):
            with pytest.raises(FormatError, match=r"has event \d where \d follows") as caught:
                writer.append(wrong)
            assert caught.value.field == "seq"
        writer.append(session.events[4:])
        writer.close()
        assert list(store.load("root").events()) == list(session.events)

    def test_a_closed_writer_writes_no_more(self, store: SessionStore) -> None:
        session = new_session()
        log_turn(session)
        writer = store.create(session.header)
        writer.append(session.events[:2])
        writer.close()
        writer.close()
        with pytest.raises(ClosedError):
            writer.append(session.events[2:])
        assert store.load("root").event_count == 2

    def test_closing_the_store_closes_its_writers_and_what_is_pending_is_not_lost_silently(self, store: SessionStore) -> None:
        keeper = StoredSession.create(store, new_session())
        log_turn(keeper.session)
        keeper.flush()
        keeper.append("todo/write", {})
        store.close()
        with pytest.raises(ClosedError):
            keeper.flush()

    def test_what_is_logged_after_the_end_is_refused_and_not_lost_silently(self, store: SessionStore) -> None:
        with StoredSession.create(store, new_session()) as keeper:
            log_turn(keeper.session)
        logged = len(keeper.session.events)
        assert repr(keeper) == f"<StoredSession root: {logged} events, all on disk, closed>"
        assert repr(keeper.session) == f"<Session root: {logged} events>"
        assert repr(store).startswith(("<JsonlStore /", "<SqliteSessionStore /"))
        with pytest.raises(ClosedError, match="resume it to go on"):
            keeper.append("todo/write", {})
        assert len(keeper.session.events) == store.load("root").event_count == logged
        keeper.close()

    def test_a_block_that_raises_still_keeps_what_was_logged(self, store: SessionStore) -> None:
        session = new_session()

        def work() -> None:
            with StoredSession.create(store, session):
                log_turn(session)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            work()
        assert store.load("root").event_count == len(session.events)

    def test_one_session_may_be_kept_in_two_stores(self, store: SessionStore, tmp_path: Path) -> None:
        session = new_session()
        with open_store("raw", tmp_path / "other") as other:
            keepers = [StoredSession.create(each, session) for each in (store, other)]
            for number in range(4):
                log_turn(session, number + 1)
                keepers[number % 2].flush()
            for keeper in keepers:
                keeper.close()
            for each in (store, other):
                assert list(each.load("root").events()) == list(session.events)

    def test_what_is_logged_past_the_keeper_is_kept_too(self, store: SessionStore) -> None:
        session = new_session()
        session.append("assistant/chunk", delta("a"))
        with StoredSession.create(store, session) as keeper:
            session.append("assistant/chunk", delta("b"))
            keeper.append("assistant/chunk", delta("c"))
        assert list(store.load("root").events()) == list(session.events)


class TestTwoWriters:
    def test_the_second_is_refused_until_the_first_has_closed(self, store: SessionStore) -> None:
        session = new_session()
        keeper = StoredSession.create(store, session)
        log_turn(session)
        keeper.flush()
        with pytest.raises(LockedError, match="another writer has the session 'root' open"):
            store.resume("root")
        keeper.close()
        resumed = StoredSession.resume(store, "root")
        with pytest.raises(LockedError):
            StoredSession.resume(store, "root")
        resumed.close()

    def test_an_id_is_taken_once(self, store: SessionStore) -> None:
        first, second = new_session(), new_session()
        one, other = store.create(first.header), store.create(second.header)
        log_turn(first)
        log_turn(second)
        one.append(first.events)
        with pytest.raises(LockedError):
            other.append(second.events)
        one.close()
        with pytest.raises(ExistingFileError, match="another session 'root' was stored meanwhile"):
            other.append(second.events)
        with pytest.raises(ExistingFileError, match="there is a session 'root' already"):
            store.create(second.header)
        assert list(store.load("root").events()) == list(first.events)

    def test_a_forgotten_writer_does_not_lock_for_ever(self, store: SessionStore) -> None:
        session = new_session()
        log_turn(session)
        store.create(session.header).append(session.events)
        store.resume("root").writer.close()

    def test_another_process_is_refused(self, kind: str, store: SessionStore, tmp_path: Path) -> None:
        session = new_session()
        log_turn(session)
        stored(store, session)
        with StoredSession.resume(store, "root"):
            assert (
                run(kind, tmp_path, "store.resume('root')")
                .stderr.splitlines()[-1]
                .startswith("cassette_lab.errors.LockedError")
            )
        assert run(kind, tmp_path, "store.resume('root').writer.close()").returncode == 0


class TestResume:
    def test_a_session_goes_on_behind_an_end_of_its_seed(self, store: SessionStore) -> None:
        session = new_session()
        log_turn(session)
        stored(store, session)
        with StoredSession.resume(store, "root", clock=clock()) as keeper:
            assert keeper.session.header == session.header
            assert list(keeper.session.events[:-1]) == list(session.events)
            last = keeper.session.events[-1]
            assert (last.type, last.data, last.time) == ("session/end-seed", {}, NOW)
            assert len(keeper.session.messages()) == 2
            log_turn(keeper.session, 2)
            expected = list(keeper.session.events)
        assert list(store.load("root").events()) == expected

    def test_a_turn_that_a_crash_left_open_is_closed_on_disk(self, store: SessionStore) -> None:
        session = new_session()
        log_turn(session)
        session.append("turn/start", {"turn": 2})
        session.append("step/start", {"turn": 2, "step": 1})
        stored(store, session)
        resumed = store.resume("root")
        resumed.writer.close()
        closing = [("step/end", {"turn": 2, "step": 1}), ("turn/end", {"turn": 2, "reason": {"kind": "interrupted"}})]
        assert [(event.type, event.data) for event in resumed.closing] == closing
        events = list(store.load("root").events())
        assert [(event.type, event.data) for event in events[-2:]] == closing
        assert {event.time for event in events[-2:]} == {session.events[-1].time}
        assert store.resume("root").closing == []

    @pytest.mark.parametrize("again", [1, 2])
    def test_the_seed_boundary_of_a_fork_is_handed_back_and_does_not_grow(self, store: SessionStore, again: int) -> None:
        parent = new_session()
        log_turn(parent)
        child = Session.fork(parent, session_id="child", clock=clock())
        boundary = len(parent.events)
        with StoredSession.create(store, child):
            log_turn(child, 2)
        for _ in range(again):
            with StoredSession.resume(store, "child") as keeper:
                assert keeper.session.header.seed_length == boundary
                log_turn(keeper.session, 3)
        log = store.load("child")
        assert (log.header.seed_length, log.boundary) == (boundary, boundary)
        assert next(log.own_events()).type == "session/end-seed"

    def test_a_spawned_child_has_no_boundary_even_after_a_resume(self, store: SessionStore) -> None:
        child = Session.spawn(new_session(), session_id="child", clock=clock())
        with StoredSession.create(store, child):
            log_turn(child)
        with StoredSession.resume(store, "child") as keeper:
            assert keeper.session.header.seed_length is None
        log = store.load("child")
        assert (log.header.seed_length, log.boundary) == (None, 0)

    def test_the_first_batch_holds_all_that_was_inherited(self, store: SessionStore) -> None:
        parent = new_session()
        log_turn(parent)
        child = Session.fork(parent, session_id="child")
        with pytest.raises(FormatError, match="must hold all 10 events that were inherited, and has 2"):
            store.create(child.header).append(child.events[:2])
        assert store.headers() == []


def run(kind: str, folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program(kind, folder, code)], capture_output=True, text=True, check=False)


def program(kind: str, folder: Path, code: str) -> str:
    return textwrap.dedent(f"""
        from pathlib import Path
        from cassette_lab.session.persistence import StoredSession
        from tests.unit.session_stores import delta, log_turn, new_session, open_store
        store = open_store({kind!r}, Path({str(folder)!r}))
    """) + textwrap.dedent(code)
