"""Stores in adverse conditions: killed writers, writers that race for a session, a disk that is full."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from cassette_lab.session.follow import follow
from cassette_lab.session.model import ChunkRun, Event, Row
from cassette_lab.session.packing import Packer
from cassette_lab.session.persistence import StoredSession
from cassette_lab.session.repair import Cut, cut_file
from cassette_lab.session.store_jsonl import JsonlStore
from cassette_lab.session.store_sqlite import SqliteSessionStore
from cassette_lab.surface import Surface, fold_surface
from tests.unit.session_stores import STORES, delta, log_turn, new_session, open_store, user

TIMEOUT_S = 60
KINDS = sorted(STORES)


def run(*arguments: str) -> str:
    """What a Python program of ours prints; it must end well."""
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, encoding="utf-8", timeout=TIMEOUT_S, check=False
    )
    assert not done.returncode, done.stderr
    return done.stdout


@pytest.mark.parametrize("kind", ["raw", "sqlite", "zstd"])
def test_killed_again_and_again_a_session_keeps_all_that_was_flushed(kind: str, tmp_path: Path) -> None:
    happened = json.loads(run("-m", "tests.unit.session_kills", kind, str(tmp_path), "8", "1"))
    assert happened["flushes"] >= 4
    assert happened["events"] > happened["flushes"]


RACE = """
    import os, sys
    from pathlib import Path
    from cassette_lab.errors import ExistingFileError, LockedError
    from cassette_lab.session.persistence import StoredSession
    from tests.unit.session_stores import log_turn, new_session, open_store

    kind, folder, way = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    start, starting = os.pipe()
    end, ending = os.pipe()

    def race():
        os.close(starting)
        os.close(ending)
        os.read(start, 1)
        store = open_store(kind, folder)
        try:
            if way == "resume":
                keeper = StoredSession.resume(store, "root")
            else:
                keeper = StoredSession.create(store, new_session("root"))
                log_turn(keeper.session)
            keeper.flush()
        except (LockedError, ExistingFileError) as error:
            os.write(1, f"{type(error).__name__} {error.message}\\n".encode())
            return
        os.write(1, b"wrote\\n")
        os.read(end, 1)
        keeper.close()

    for _ in range(4):
        if not os.fork():
            code = 1
            try:
                race()
                code = 0
            finally:
                os._exit(code)
    os.close(starting)  # now they all read on
    codes = [os.wait()[1] for _ in range(3)]
    os.close(ending)  # and the one that is left
    sys.exit(any([*codes, os.wait()[1]]))
"""
REFUSALS = {
    "LockedError another writer has the session 'root' open; close that one, or fork the session",
    "ExistingFileError another session 'root' was stored meanwhile; take another id",
    "ExistingFileError there is a session 'root' already; go on with it by resume=…, or take another session_id",
}


@pytest.mark.parametrize("kind", KINDS)
def test_of_several_that_race_for_a_session_one_writes_and_the_others_are_told(kind: str, tmp_path: Path) -> None:
    for way, events in (("create", 10), ("resume", 11)):
        *refused, wrote = sorted(run("-c", textwrap.dedent(RACE), kind, str(tmp_path), way).splitlines())
        assert (len(refused), wrote) == (3, "wrote")
        assert set(refused) <= REFUSALS
        with open_store(kind, tmp_path) as store:
            log = store.load("root")
            assert (log.event_count, log.problems) == (events, [])


FULL = """
    import resource, sys
    from pathlib import Path
    from cassette_lab.errors import FormatError
    from cassette_lab.session.persistence import StoredSession
    from tests.unit.session_stores import log_turn, new_session, open_store

    def limit(size):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    def refused(sentence, function):
        try:
            function()
        except FormatError as error:
            assert sentence in error.message, error
        else:
            raise AssertionError("it was written")

    kind, folder = sys.argv[1], Path(sys.argv[2])
    session = new_session()
    store = open_store(kind, folder / "there")
    keeper = StoredSession.create(store, session)
    log_turn(session)
    keeper.flush()
    largest = max(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    limit(largest + 200)
    for number in range(60):
        session.append("todo/write", {"text": "".join(map(chr, range(64 * number, 64 * number + 400)))})
    for _ in range(2):
        refused("could not be written", keeper.flush)
        assert store.load("root").event_count == 10
    limit(resource.RLIM_INFINITY)
    keeper.close()
    assert list(store.load("root").events()) == list(session.events)

    if kind == "sqlite":
        sys.exit()
    store = open_store(kind, folder / "new")
    keeper = StoredSession.create(store, new_session())
    log_turn(keeper.session)
    limit(100)
    refused("the log could not be made", keeper.flush)
    assert not (folder / "new").exists()
    limit(resource.RLIM_INFINITY)
    keeper.close()
    assert store.load("root").event_count == 10
"""


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_that_the_disk_has_no_room_for_is_taken_back_and_written_later(kind: str, tmp_path: Path) -> None:
    run("-c", textwrap.dedent(FULL), kind, str(tmp_path))


@pytest.mark.parametrize("encoding", ["zstd", "jsonl"])
def test_whoever_follows_a_log_goes_on_when_a_repair_made_it_shorter(tmp_path: Path, encoding: str) -> None:
    store = JsonlStore(tmp_path, encoding="zstd" if encoding == "zstd" else "jsonl")
    session = new_session()
    with StoredSession.create(store, session) as keeper:
        for number in (1, 2, 3):
            log_turn(session, number)
            keeper.flush()
    path = store.locate(session.header)
    follower = follow(path)
    assert follower.read().event_count == 30
    whole = path.read_bytes()
    cut_file(path, Cut(len(whole) - 20, b""))  # the disk lost the end of what had been read
    resumed = store.resume("root")
    kept = resumed.log.event_count
    assert kept < 30
    update = follower.read()
    assert (update.rewound, update.problem) == (True, None)
    assert update.from_seq <= kept
    resumed.writer.append([session.events[0]._replace(seq=resumed.writer.next_seq, data=delta("on"))])
    resumed.writer.close()
    follower.read()
    assert list(follower.log().events()) == list(store.load("root").events())


class TestInterrupts:
    """An interrupt (of a cell, say) at any moment of logging or flushing: the session goes on as if nothing had been."""

    @pytest.mark.parametrize("kind", ["raw", "sqlite", "zstd"])
    def test_at_any_moment(self, kind: str, tmp_path: Path) -> None:
        happened = json.loads(run("-c", textwrap.dedent(INTERRUPTS), kind, str(tmp_path)))
        assert happened["interrupted"] > happened["flushes"]

    @pytest.mark.parametrize("statement", range(5))
    @pytest.mark.parametrize("first", [True, False])
    def test_behind_any_statement_of_a_transaction(self, tmp_path: Path, statement: int, first: bool) -> None:
        session = new_session()
        log_turn(session)
        with SqliteSessionStore(tmp_path / "s.db") as store, StoredSession.create(store, session) as keeper:
            if not first:
                keeper.flush()
                log_turn(session, 2)
            real: Any = store._connection
            store._connection = Interrupted(real, statement)  # type: ignore[assignment]
            with pytest.raises(KeyboardInterrupt):
                keeper.flush()
            store._connection = real
            log_turn(session, 3)
            keeper.flush()
            assert list(store.load("root").events()) == list(session.events)

    @pytest.mark.parametrize("function", ["write", "fsync", "link", "unlink"])
    @pytest.mark.parametrize("first", [True, False])
    def test_behind_any_step_of_writing_a_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, first: bool
    ) -> None:
        session = new_session()
        log_turn(session)
        store = JsonlStore(tmp_path)
        with StoredSession.create(store, session) as keeper:
            if not first:
                keeper.flush()
                log_turn(session, 2)
            with monkeypatch.context() as patched:
                patched.setattr(os, function, interrupted_once(getattr(os, function)))
                with pytest.raises(KeyboardInterrupt) if first or function in ("write", "fsync") else nullcontext():
                    keeper.flush()
            log_turn(session, 3)
        assert list(store.load("root").events()) == list(session.events)
        assert not list(tmp_path.rglob("*.tmp"))

    def test_while_rows_are_made(self) -> None:
        session = new_session()
        asked: list[Row] = []

        def encode(row: Row) -> tuple[Row, int]:
            asked.append(row)
            if interrupts and isinstance(row, ChunkRun):
                interrupts.pop()
                raise KeyboardInterrupt
            return row, 0

        packer = Packer(encode)
        session.pack(packer, 0)
        for interrupt in ("while the next event is logged", "while the batch is made"):
            start = len(session.events)
            for text in ("a", "b", "c"):
                session.append("assistant/chunk", delta(text))
            interrupts = [interrupt]
            if interrupt == "while the next event is logged":
                with pytest.raises(KeyboardInterrupt):
                    session.append("todo/write", {})
            else:
                with pytest.raises(KeyboardInterrupt):
                    session.batch(packer, start)
            rows = session.batch(packer, start).rows
            events = [each for row in rows for each in ([row] if isinstance(row, Event) else row.events())]
            assert events == session.events[start:]

    @pytest.mark.parametrize("step", ["append", "_link"])
    def test_while_a_message_is_put_on_the_surface(self, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
        session = new_session()
        log_turn(session)
        with monkeypatch.context() as patched:
            patched.setattr(Surface, step, interrupted_once(getattr(Surface, step)))
            with pytest.raises(KeyboardInterrupt):
                session.append("user/message", user("lost"), surface_op="append")
        session.append("todo/write", {})
        session.append("user/message", user("kept"), surface_op="append")
        assert session.messages() == fold_surface([event.to_json() for event in session.events])
        assert user("lost") not in session.messages()


class Interrupted:
    """A connection that is interrupted when it has done its n-th statement."""

    def __init__(self, real: sqlite3.Connection, statement: int) -> None:
        self._real = real
        self._left = statement

    def execute(self, *arguments: Any) -> Any:
        return self._done(self._real.execute(*arguments))

    def executemany(self, *arguments: Any) -> Any:
        return self._done(self._real.executemany(*arguments))

    @property
    def in_transaction(self) -> bool:
        return self._real.in_transaction

    def _done(self, result: Any) -> Any:
        self._left -= 1
        if self._left == -1:
            raise KeyboardInterrupt
        return result


def interrupted_once(real: Any) -> Any:
    """The function, interrupted when it has done its work for the first time."""
    calls = iter([True])

    def function(*arguments: Any, **options: Any) -> Any:
        result = real(*arguments, **options)
        if next(calls, False):
            raise KeyboardInterrupt
        return result

    return function


INTERRUPTS = """
    import contextlib, json, random, signal, sys
    from collections import Counter
    from pathlib import Path
    from cassette_lab.session.persistence import StoredSession
    from cassette_lab.surface import fold_surface
    from tests.unit.session_stores import delta, new_session, open_store, user

    def interrupt(*_):
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    dice, happened = random.Random(1), Counter()

    def interrupted(function, longest_s):
        try:
            signal.setitimer(signal.ITIMER_REAL, 1e-6 + dice.random() * longest_s)
            function()
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            happened["interrupted"] += 1

    def log():
        for number in range(dice.randrange(1, 12)):
            if dice.random() < 0.8:
                session.append("assistant/chunk", delta(str(number)))
            else:
                session.append("user/message", user(str(number)), surface_op="append")

    for number in range(25):
        session = new_session(f"s{number}")
        with open_store(sys.argv[1], Path(sys.argv[2])) as store, StoredSession.create(store, session) as keeper:
            for flush in range(6):
                for _ in range(3):
                    interrupted(log, 2e-4)
                interrupted(keeper.flush, 6e-4 if flush else 1.5e-3)
                happened["flushes"] += 1
            assert session.messages() == fold_surface([event.to_json() for event in session.events])
            session.append("todo/write", {})
            keeper.flush()
            assert list(store.load(session.header.id).events()) == list(session.events)
    print(json.dumps(happened))
"""
