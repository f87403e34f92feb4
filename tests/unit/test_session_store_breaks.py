"""Stores in adverse conditions: killed writers, writers that race for a session, a disk that is full."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from cassette_lab.session.follow import follow
from cassette_lab.session.persistence import StoredSession
from cassette_lab.session.repair import Cut, cut_file
from cassette_lab.session.store_jsonl import JsonlStore
from tests.unit.session_stores import STORES, delta, log_turn, new_session, open_store

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
    "ExistingFileError there is a session 'root' already; resume it, or take another id",
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
