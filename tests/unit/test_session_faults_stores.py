"""Stores in SQLite that are damaged in one of their sessions: the others are there, and every table agrees on which."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import cassette_lab as cl
from tests.unit.test_session_sqlite import make_store, row

TURN: list[tuple[Any, ...]] = [
    row(0, "turn/start", {"turn": 1}),
    row(1, "turn/end", {"turn": 1, "reason": {"kind": "completed"}}),
]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store of three sessions with one turn each."""
    rows = [(name, *each[1:]) for name in ("one", "two", "zwei") for each in TURN]
    return make_store(tmp_path / "store.db", 17, rows)


def damage(store: Path, statement: str) -> None:
    connection = sqlite3.connect(store)
    connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET data = '{' WHERE session_id = 'two' AND seq = 1",
        "UPDATE events SET seq = 7 WHERE session_id = 'two' AND seq = 1",
        "UPDATE events SET type = NULL WHERE session_id = 'two' AND seq = 0",
        "UPDATE events SET ignorable = 0 WHERE session_id = 'two' AND seq = 0",
        "UPDATE sessions SET version = 9 WHERE id = 'two'",
        "DELETE FROM sessions WHERE id = 'two'",
        "UPDATE sessions SET parent_session = 5 WHERE id = 'two'",
    ],
)
def test_one_bad_session_of_a_store_is_a_problem_and_in_no_table(store: Path, statement: str) -> None:
    damage(store, statement)
    with pytest.raises(cl.FormatError, match="session 'two'"):
        cl.load(store)
    lab = cl.load(store, on_error="collect")
    assert lab.sessions["session_id"].to_pylist() == ["one", "zwei"]
    assert "session 'two'" in lab.problems["message"][0].as_py()
    assert sorted(set(lab.events["session_id"].to_pylist())) == ["one", "zwei"]
    assert lab.sql("select count(*) n from events").to_pylist() == [{"n": 4}]


def test_a_store_in_the_middle_of_a_transaction_is_refused_not_read_half_old_half_new(tmp_path: Path) -> None:
    path = make_store(tmp_path / "store.db", 17, [row(seq, "todo/write", {"x": "y" * 500}) for seq in range(400)])
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("PRAGMA cache_size = 5")  # so that changes reach the file before they are committed
    writer.execute("BEGIN")
    writer.execute("UPDATE events SET data = '{}' WHERE seq < 150")
    killed = tmp_path / "killed"
    killed.mkdir()
    for name in ("store.db", "store.db-journal"):
        shutil.copy(tmp_path / name, killed)
    with pytest.raises(cl.FormatError, match="a transaction has not ended"):
        cl.load(killed / "store.db")
    assert {file.name for file in killed.iterdir()} == {"store.db", "store.db-journal"}
    with closing(sqlite3.connect(killed / "store.db")) as connection:
        connection.execute("SELECT count(*) FROM events").fetchone()  # whoever may write undoes it
    assert cl.load(killed / "store.db").sessions["events"].to_pylist() == [400]
    writer.execute("ROLLBACK")
    writer.close()


def test_a_session_that_was_damaged_after_it_was_loaded_is_an_error_of_the_events(store: Path) -> None:
    lab = cl.load(store)
    damage(store, "UPDATE events SET data = '{' WHERE session_id = 'two' AND seq = 1")
    with pytest.raises(cl.FormatError, match="session 'two', seq 1"):
        lab.events  # noqa: B018 - asking builds them
    store.unlink()
    with pytest.raises(cl.FormatError, match="no such file"):
        lab.events  # noqa: B018
