"""Vectors of ``sqlite/``: stores of sessions, and every event as the reference loads it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

from cassette_lab import jsonio
from cassette_lab.session.derive import derive
from cassette_lab.session.facts import SessionFacts
from cassette_lab.session.model import SessionLog
from cassette_lab.session.opening import read_logs
from cassette_lab.session.reader import read_session
from cassette_lab.session.sqlite import SqliteStore
from tests.conformance.case import Case
from tests.conformance.identity import assert_equal


def cases(folder: Path) -> Iterator[Case]:
    """One case for each session of each store, and one for what the store holds."""
    for path in sorted(folder.glob("*/*/expected.json")):
        expected = jsonio.parse(path.read_bytes())
        store = path.with_name("sessions.db")
        name = path.parent.relative_to(folder).as_posix()
        yield Case(f"{name}/store", partial(_check_store, store, expected))
        for session_id, session in expected["sessions"].items():
            yield Case(f"{name}/{session_id}", partial(_check_session, store, session_id, session))


def _check_store(path: Path, expected: dict[str, Any]) -> None:
    with SqliteStore(path) as store:
        assert_equal(store.schema, expected["schema"], "schema")
    found = [log.header.id if isinstance(log, SessionLog) else str(log) for log in read_logs(path.parent)]
    assert_equal(sorted(found), sorted(expected["sessions"]), "sessions")


def _check_session(path: Path, session_id: str, expected: dict[str, Any]) -> None:
    with SqliteStore(path) as store:
        log = store.read(session_id)
    header = log.header.to_json()
    header.pop("type")
    assert_equal(header, expected["header"], "header")
    assert_equal([event.to_json() for event in log.events()], expected["events"], "events")
    _check_told_alike(log, expected)


def _check_told_alike(log: SessionLog, expected: dict[str, Any]) -> None:
    """The store's rows, packed as they are, tell what the reference's events tell one by one."""
    lines = [{"type": "session", **expected["header"]}, *expected["events"]]
    file = read_session(b"".join(jsonio.canonical(line) + b"\n" for line in lines))
    one, other = derive(log, bodies=True), derive(file, bodies=True)
    for field in fields(SessionFacts):
        if field.name not in {"path", "physical", "row_count"}:
            assert getattr(one, field.name) == getattr(other, field.name), f"{field.name} differ"
