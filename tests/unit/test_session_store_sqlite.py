"""Sessions in a database: its layout, how rows are stored, whose databases are refused, and what is noticed."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import orjson
import pytest

from cassette_lab.errors import ClosedError, FormatError
from cassette_lab.jsonio import JsonObject
from cassette_lab.session import store_sqlite
from cassette_lab.session.frames import decode_one
from cassette_lab.session.lines import LogFile
from cassette_lab.session.persistence import StoredSession
from cassette_lab.session.reader import read_session
from cassette_lab.session.seqs import decode_seqs
from cassette_lab.session.session import new_header
from cassette_lab.session.sqlite import SqliteStore
from cassette_lab.session.store_sqlite import SqliteSessionStore
from tests.unit.session_stores import NOW, delta, log_turn, new_session

GOLDEN = Path(__file__).resolve().parents[3] / "shared" / "golden" / "session"


def stored(path: Path, *kinds: tuple[str, JsonObject]) -> list[tuple[Any, ...]]:
    """The rows that these events become."""
    session = new_session()
    for kind, data in kinds:
        session.append(kind, data)
    with SqliteSessionStore(path) as store, StoredSession.create(store, session):
        pass
    return rows(path)


def rows(path: Path, query: str = "SELECT seq, type, time, data, ignorable FROM events ORDER BY seq") -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def layout(path: Path) -> list[Any]:
    """Every table's columns with types, constraints and keys."""
    tables = ("persistence_state", "sessions", "events")
    found: list[Any] = [rows(path, f"PRAGMA table_info({name})") for name in tables]
    found += [rows(path, f"PRAGMA {name}") for name in ("application_id", "user_version", "foreign_key_list(events)")]
    return [*found, rows(path, "SELECT name, strict FROM pragma_table_list WHERE type = 'table' AND name NOT LIKE 'sqlite%'")]


class TestLayout:
    def test_it_is_that_of_schema_17(self, tmp_path: Path) -> None:
        golden = GOLDEN / "sqlite" / "schema17" / "real-fork-long" / "sessions.db"
        if not golden.is_file():
            pytest.skip("shared data not present")
        copied = Path(shutil.copy(golden, tmp_path / "golden.db"))
        stored(tmp_path / "ours.db")
        assert layout(tmp_path / "ours.db") == layout(copied)

    def test_the_harness_stored_the_same_rows(self, tmp_path: Path) -> None:
        if not GOLDEN.is_dir():
            pytest.skip("shared data not present")
        golden = shutil.copytree(GOLDEN / "sqlite" / "schema17" / "real-fork-long", tmp_path / "golden") / "sessions.db"
        golden.chmod(0o600)
        with SqliteStore(golden) as theirs, SqliteSessionStore(tmp_path / "ours.db") as store:
            for session_id in theirs.ids:
                log = theirs.read(session_id)
                with_writer = store.create(log.header)
                with_writer.append(list(log.events()))
                with_writer.close()
                assert list(store.load(session_id).events()) == list(log.events())
        columns = "session_id, seq, type, time, typeof(data), source_event_seqs, surface_op, ignorable"
        query = f"SELECT {columns} FROM events ORDER BY 1, 2"  # noqa: S608 - names of ours
        ours, others = rows(tmp_path / "ours.db", query), rows(golden, query)
        assert [row for row in ours if row[-1] != 0] == [row for row in others if row[-1] != 0]
        query = "SELECT id, version, created_at, cwd, parent_session, seed_length, origin FROM sessions ORDER BY 1"
        assert rows(tmp_path / "ours.db", query) == rows(golden, query)

    def test_batches_are_synced_in_a_write_ahead_log(self, tmp_path: Path) -> None:
        found: dict[str, Any] = {}

        def look(connection: sqlite3.Connection) -> None:
            for name in ("journal_mode", "synchronous", "foreign_keys"):
                found[name] = connection.execute(f"PRAGMA {name}").fetchone()[0]

        with SqliteSessionStore(tmp_path / "s.db") as store:
            store.write(look)
        assert found == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}

    def test_only_the_owner_reads_a_new_database(self, tmp_path: Path) -> None:
        SqliteSessionStore(tmp_path / "new" / "s.db").close()
        assert (tmp_path / "new" / "s.db").stat().st_mode & 0o077 == 0

    def test_every_batch_counts_up_the_revision(self, tmp_path: Path) -> None:
        session = new_session()
        with SqliteSessionStore(tmp_path / "s.db") as store, StoredSession.create(store, session) as keeper:
            for number in (1, 2, 3):
                log_turn(session, number)
                keeper.flush()
        assert rows(tmp_path / "s.db", "SELECT revision FROM sessions") == [(3,)]


class TestRows:
    def test_a_run_of_three_is_one_row_with_the_mark_0(self, tmp_path: Path) -> None:
        found = stored(tmp_path / "s.db", *[("assistant/chunk", delta(text)) for text in ("a", "", "b")])
        data = '{"turn":1,"step":1,"index":0,"dt":[1,1],"texts":["a","","b"]}'
        assert found == [(0, "text-chunks", NOW, data, 0)]

    def test_two_are_not_packed_and_1_025_are_cut(self, tmp_path: Path) -> None:
        assert [row[1] for row in stored(tmp_path / "two.db", *[("assistant/chunk", delta("a"))] * 2)] == [
            "assistant/chunk"
        ] * 2
        found = stored(tmp_path / "many.db", *[("assistant/chunk", delta("a"))] * 1_025)
        assert [row[:2] for row in found] == [(0, "text-chunks"), (1_024, "assistant/chunk")]

    def test_a_packed_row_holds_at_most_1_mib(self, tmp_path: Path) -> None:
        found = stored(tmp_path / "s.db", *[("assistant/chunk", delta(os.urandom(50_000).hex()))] * 30)
        sizes = [len(decode_one(row[3], 1 << 21)) for row in found]
        assert max(sizes) <= 1 << 20
        assert {row[1] for row in found} == {"text-chunks"}

    def test_data_of_4_096_bytes_is_a_frame_where_that_is_smaller(self, tmp_path: Path) -> None:
        bare = len('{"x":""}')
        found = stored(
            tmp_path / "s.db",
            ("todo/write", {"x": "a" * (4_095 - bare)}),
            ("todo/write", {"x": "a" * (4_096 - bare)}),
            ("todo/write", {"x": "é" * ((4_096 - bare) // 2)}),
            ("todo/write", {"x": "".join(map(chr, range(0x4E00, 0x9000)))}),
        )
        assert [type(row[3]) for row in found[:3]] == [str, bytes, bytes]
        assert orjson.loads(decode_one(found[1][3], 1 << 20)) == {"x": "a" * (4_096 - bare)}
        assert found[1][3][4] & 4  # a checksum

    def test_data_that_does_not_get_smaller_stays_text(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(store_sqlite, "compress_frame", lambda text: text + b"!")
        assert type(stored(tmp_path / "s.db", ("todo/write", {"x": "a" * 5_000}))[0][3]) is str

    def test_sources_are_varints_and_the_operation_is_json(self, tmp_path: Path) -> None:
        session = new_session()
        log_turn(session)
        session.append("assistant/message", {"message": {"content": []}}, surface_op="append", source_event_seqs=[])
        session.append("future/thing", {}, ignorable=True)
        with SqliteSessionStore(tmp_path / "s.db") as store, StoredSession.create(store, session):
            pass
        found = rows(tmp_path / "s.db", "SELECT source_event_seqs, surface_op, ignorable FROM events ORDER BY seq")
        assert [row for row in found if row[0] is not None] == [
            (bytes([3, 2, 2, 2]), '"append"', None),
            (b"", '"append"', None),
        ]
        assert decode_seqs(bytes([3, 2, 2, 2])) == [3, 4, 5, 6]
        assert found[-1] == (None, None, 1)


class TestOthers:
    @pytest.mark.parametrize(("schema", "age"), [(1, "older"), (3, "older"), (14, "older"), (16, "older"), (18, "newer")])
    def test_any_other_schema_is_refused_and_left_as_it_is(self, tmp_path: Path, schema: int, age: str) -> None:
        path = tmp_path / "s.db"
        stored(path, ("turn/start", {"turn": 1}))
        connection = sqlite3.connect(path)
        connection.execute(f"PRAGMA user_version = {schema}")
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.close()
        before = path.read_bytes()
        with pytest.raises(FormatError, match=f"an? {age} schema, {schema}; written is 17, and nothing is migrated"):
            SqliteSessionStore(path)
        assert path.read_bytes() == before

    @pytest.mark.parametrize("schema", [0, 17])
    def test_another_programs_database_is_refused(self, tmp_path: Path, schema: int) -> None:
        path = tmp_path / "s.db"
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE sessions (id)")
        connection.execute(f"PRAGMA user_version = {schema}")
        connection.close()
        before = path.read_bytes()
        with pytest.raises(FormatError, match="another program's"):
            SqliteSessionStore(path)
        assert path.read_bytes() == before

    def test_what_is_no_database_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "text").write_text("hello, this is no database, and it is long enough to be one" * 10)
        for path in (tmp_path / "text", tmp_path):
            with pytest.raises(FormatError, match="the database cannot be opened"):
                SqliteSessionStore(path)

    def test_text_that_sqlite_cannot_hold_is_refused(self, tmp_path: Path) -> None:
        with SqliteSessionStore(tmp_path / "s.db") as store:
            for header, field in ((new_header(session_id="\ud800"), "id"), (new_header(cwd="a\0b"), "cwd")):
                with pytest.raises(FormatError) as caught:
                    store.create(header)
                assert caught.value.field == field


class TestChanges:
    def test_whoever_writes_without_the_lock_is_noticed(self, tmp_path: Path) -> None:
        session = new_session()
        with SqliteSessionStore(tmp_path / "s.db") as store:
            keeper = StoredSession.create(store, session)
            log_turn(session, 1)
            keeper.flush()
            store.write(lambda connection: connection.execute("UPDATE sessions SET revision = revision + 1"))
            log_turn(session, 2)
            with pytest.raises(FormatError, match="something else wrote into session 'root'"):
                keeper.flush()
            assert store.load("root").event_count == 10

    def test_a_batch_that_fails_in_the_middle_leaves_nothing_of_itself(self, tmp_path: Path) -> None:
        session = new_session()
        path = tmp_path / "s.db"
        with SqliteSessionStore(path) as store:
            writer = store.create(session.header)
            log_turn(session)
            writer.append(session.events[:4])
            trigger = "CREATE TEMP TRIGGER stop BEFORE INSERT ON events WHEN NEW.seq = 8 BEGIN SELECT RAISE(FAIL, 'full'); END"
            store.write(lambda connection: connection.execute(trigger))
            with pytest.raises(FormatError, match=r"could not be written \(full\); the store is as before"):
                writer.append(session.events[4:])
            assert store.load("root").event_count == 4
            store.write(lambda connection: connection.execute("DROP TRIGGER stop"))
            writer.append(session.events[4:])
            assert list(store.load("root").events()) == list(session.events)

    def test_a_damaged_log_is_not_gone_on_with(self, tmp_path: Path) -> None:
        stored(tmp_path / "s.db", *[("turn/start", {"turn": 1})] * 3)
        with SqliteSessionStore(tmp_path / "s.db") as store:
            store.write(lambda connection: connection.execute("DELETE FROM events WHERE seq = 1"))
            with pytest.raises(FormatError, match="seq 1 is missing"):
                store.resume("root")

    @pytest.mark.parametrize("change", ["removed", "moved", "replaced"])
    def test_nothing_is_written_into_a_database_that_is_no_longer_there(self, tmp_path: Path, change: str) -> None:
        path = tmp_path / "data" / "s.db"
        session = new_session()
        with SqliteSessionStore(path) as store:
            keeper = StoredSession.create(store, session)
            log_turn(session, 1)
            keeper.flush()
            if change == "removed":
                shutil.rmtree(path.parent)
            else:
                path.rename(tmp_path / "moved.db")
            if change == "replaced":
                path.write_bytes(b"")
            log_turn(session, 2)
            for _ in range(2):
                with pytest.raises(FormatError, match="the database was removed or replaced while it was open"):
                    keeper.flush()

    def test_a_closed_store_says_so(self, tmp_path: Path) -> None:
        store = SqliteSessionStore(tmp_path / "s.db")
        store.close()
        store.close()
        with pytest.raises(ClosedError):
            store.create(new_header())

    def test_looking_into_an_open_database_does_not_take_its_locks(self, tmp_path: Path) -> None:
        path = tmp_path / "s.db"
        session = new_session()
        with SqliteSessionStore(path) as store, StoredSession.create(store, session) as keeper:
            log_turn(session)
            keeper.flush()
            file = LogFile(path)
            assert file.at(0, 6) == b"SQLite"
            file.close()
            with pytest.raises(FormatError):
                read_session(path)
            with SqliteStore(path) as reading:
                assert reading.ids == ["root"]
            # The last one to close a database removes its -wal; another process is the last if our locks are gone.
            subprocess.run([sys.executable, "-c", CLOSES.format(path=str(path))], check=True)
            assert path.with_name("s.db-wal").exists()
            log_turn(session, 2)
        with SqliteStore(path) as reading:
            assert reading.read("root").event_count == len(session.events)


CLOSES = textwrap.dedent("""
    import sqlite3
    connection = sqlite3.connect({path!r})
    connection.execute("SELECT count(*) FROM events").fetchone()
    connection.close()
""")
