"""Stores in SQLite: what is decoded, what is refused, and that nothing is left beside them."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cassette_lab.errors import FormatError
from cassette_lab.session.finding import find_logs
from cassette_lab.session.frames import compress_frame
from cassette_lab.session.model import ChunkRun
from cassette_lab.session.seqs import decode_seqs, encode_seqs
from cassette_lab.session.sqlite import APPLICATION_ID, NoStoreError, SqliteStore, read_sqlite

HEADER_COLUMNS = "id, version, created_at, cwd, parent_session, seed_length, origin, delegation_depth, agent_preset"


def make_store(path: Path, schema: int, rows: list[tuple[Any, ...]], *, application_id: int = APPLICATION_ID) -> Path:
    """A store with the sessions ``one`` and, where a row belongs to it, ``two``; rows begin with the session."""
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {schema}")
    connection.execute(f"PRAGMA application_id = {application_id}")
    last = ", ignorable" if schema >= 17 else ""
    connection.execute(f"CREATE TABLE sessions ({HEADER_COLUMNS})")
    connection.execute(f"CREATE TABLE events (session_id, seq, type, time, data, source_event_seqs, surface_op{last})")
    for number, name in enumerate(sorted({"one", *(row[0] for row in rows)})):
        values = (name, 0, 1_000 + number, None, None, None, None, 0, None)
        connection.execute("INSERT INTO sessions VALUES (?,?,?,?,?,?,?,?,?)", values)
    for row in rows:
        connection.execute(f"INSERT INTO events VALUES ({','.join('?' * len(row))})", row)  # noqa: S608
    connection.commit()
    connection.close()
    return path


PACKED = {"turn": 1, "step": 1, "index": 0, "dt": [1, -1], "texts": ["a", "b", "c"]}
LARGE = {"text": "long " * 2_000}


def row(seq: int, kind: str, data: Any, **columns: Any) -> tuple[Any, ...]:
    data = data if isinstance(data, (str, bytes)) else json.dumps(data)
    return ("one", seq, kind, 5 + seq, data, columns.get("cited"), columns.get("op"), columns.get("ignorable"))


def test_schema_17_packed_rows_frames_marks_and_cited_seqs(tmp_path: Path) -> None:
    rows = [
        row(0, "turn/start", {"turn": 1}),
        row(1, "text-chunks", PACKED, ignorable=0),
        row(4, "user/message", compress_frame(json.dumps(LARGE).encode()), op='"append"', cited=encode_seqs([3, 1])),
        row(5, "plugin/x", {}, ignorable=1, cited=b""),
    ]
    with SqliteStore(make_store(tmp_path / "a.db", 17, rows)) as store:
        assert (store.schema, store.ids) == (17, ["one"])
        log = store.read("one")
    assert isinstance(log.rows[1], ChunkRun)
    events = list(log.events())
    assert [event.seq for event in events] == list(range(6))
    assert [event.time for event in events[1:4]] == [6, 7, 6]
    assert (events[4].data, events[4].surface_op, events[4].source_event_seqs) == (LARGE, "append", [3, 1])
    assert (events[5].ignorable, events[5].source_event_seqs) == (True, [])
    assert (log.row_count, log.physical.encoding, log.problems) == (4, "sqlite", [])


def test_schema_14_has_one_row_for_each_event_and_json_seqs(tmp_path: Path) -> None:
    delta = {"turn": 1, "step": 1, "chunk": {"type": "text-delta", "index": 0, "text": "a"}}
    rows = [row(0, "assistant/chunk", delta)[:7], row(1, "user/message", {"role": "user"}, cited="[0]", op='"append"')[:7]]
    log = read_sqlite(make_store(tmp_path / "a.db", 14, rows))
    assert [event.to_json() for event in log.events()] == [
        {"type": "assistant/chunk", "seq": 0, "time": 5, "data": delta},
        {"type": "user/message", "seq": 1, "time": 6, "data": {"role": "user"}, "sourceEventSeqs": [0], "surfaceOp": "append"},
    ]


@pytest.mark.parametrize(
    ("schema", "application_id"), [(3, 0), (2, 0), (13, APPLICATION_ID), (15, APPLICATION_ID), (18, APPLICATION_ID)]
)
def test_any_other_schema_is_refused_by_its_number(tmp_path: Path, schema: int, application_id: int) -> None:
    path = make_store(tmp_path / "a.db", schema, [], application_id=application_id)
    with pytest.raises(FormatError, match=f"schema {schema}; read are 14 and 17"):
        SqliteStore(path)
    assert [(found.kind, found.problem) for found in find_logs(tmp_path)] == [("store", None)]


def test_other_databases_are_no_store_and_are_left_alone(tmp_path: Path) -> None:
    path = make_store(tmp_path / "a.db", 17, [], application_id=7)
    connection = sqlite3.connect(tmp_path / "b.db")
    connection.execute("PRAGMA journal_mode = wal")
    connection.execute("CREATE TABLE sessions (x)")
    connection.close()
    for each in (path, tmp_path / "b.db"):
        with pytest.raises(NoStoreError):
            SqliteStore(each)
    assert [found.problem is None for found in find_logs(tmp_path)] == [False]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a.db", "b.db"]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (row(2, "turn/end", {}), "seq 1 is missing"),
        (row(1, "turn/end", "{"), "not JSON"),
        (row(1, "turn/end", b"\x28\xb5\x2f\xfdxxxxxxxxxx"), "zstd"),
        (row(1, "turn/end", {}, cited=b"\x80"), "varint"),
        (row(1, "turn/end", {}, ignorable=2), "ignorable"),
        (row(1, "turn/end", {}, ignorable=0), "only runs"),
        (row(1, "text-chunks", PACKED), "marked"),
        (row(1, "text-chunks", {**PACKED, "dt": [1], "texts": ["a", "b"]}, ignorable=0), "3 to 1,024"),
        (row(1, "text-chunks", {**PACKED, "dt": [1]}, ignorable=0), "difference"),
    ],
)
def test_a_bad_row_names_session_and_seq(tmp_path: Path, bad: tuple[Any, ...], message: str) -> None:
    path = make_store(
        tmp_path / "a.db", 17, [row(0, "turn/start", {}), bad, ("two", 0, "turn/start", 1, "{}", None, None, None)]
    )
    with SqliteStore(path) as store:
        with pytest.raises(FormatError, match=f"session 'one', seq {bad[1]}: .*{message}"):
            store.read("one")
        assert store.read("two").event_count == 1


def test_a_store_in_wal_mode_is_read_with_its_wal_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = make_store(tmp_path / "a.db", 17, [row(0, "turn/start", {})])
    writer = sqlite3.connect(path)
    writer.execute("PRAGMA journal_mode = wal")
    writer.execute("INSERT INTO events VALUES ('one', 1, 'turn/end', 6, '{}', NULL, NULL, NULL)")
    writer.commit()
    assert read_sqlite(path).event_count == 2
    writer.close()
    assert read_sqlite(path).event_count == 2
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.db"]


def test_one_session_is_meant_only_where_there_is_one(tmp_path: Path) -> None:
    path = make_store(tmp_path / "a.db", 17, [("two", 0, "turn/start", 1, "{}", None, None, None)])
    with pytest.raises(FormatError, match="2 sessions"):
        read_sqlite(path)
    assert read_sqlite(path, "two").event_count == 1
    with pytest.raises(FormatError, match="no session 'three'"):
        read_sqlite(path, "three")


def test_what_is_no_database_or_a_broken_one_is_our_error(tmp_path: Path) -> None:
    path = make_store(tmp_path / "a.db", 17, [row(0, "turn/start", {})])
    data = path.read_bytes()
    for broken in (b"", b"hello", data[:100], data[:5_000], data[:4_096] + b"\xff" * (len(data) - 4_096)):
        path.write_bytes(broken)
        with pytest.raises(FormatError):
            read_sqlite(path)


def test_a_store_that_was_cut_anywhere_is_refused_never_read_in_part(tmp_path: Path) -> None:
    path = make_store(tmp_path / "a.db", 17, [row(0, "turn/start", {}), row(1, "turn/end", {})])
    data = path.read_bytes()
    for cut in (*range(8_193, len(data), 501), 4_096, 8_192):
        path.write_bytes(data[:cut])
        with pytest.raises(FormatError, match=r"cut short|malformed"):
            read_sqlite(path)


def test_a_name_in_a_broken_schema_that_is_no_utf8_is_our_error(tmp_path: Path) -> None:
    path = make_store(tmp_path / "a.db", 17, [row(0, "turn/start", {})])
    path.write_bytes(path.read_bytes().replace(b"sessionssessions", b"sessio\xc7ssessions"))
    with pytest.raises(FormatError, match="malformed database schema"):
        read_sqlite(path)


@given(st.lists(st.integers(0, 2**53 - 1), max_size=20))
@settings(max_examples=80)
def test_cited_seqs_round_trip_in_their_only_spelling(seqs: list[int]) -> None:
    assert decode_seqs(encode_seqs(seqs)) == seqs


def test_cited_seqs_in_another_spelling_are_refused() -> None:
    assert encode_seqs([3, 4, 1]) == bytes([3, 2, 5])
    for data in (b"\x80\x00", b"\x01\x80\x00", b"\x81", b"\x00\x01", b"\xff" * 9 + b"\x01"):
        with pytest.raises(ValueError, match=r"varint|seq"):
            decode_seqs(data)
