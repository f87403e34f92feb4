"""One secret in every field of a cassette, a session log and a flight record: in no frame without bodies, names aside."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cassette_lab.flight.reader import save_snapshot
from cassette_lab.flight.recorder import FlightRecorder
from cassette_lab.jsonio import canonical, digest, parse
from cassette_lab.server.jupyter.frames import Event, frame
from cassette_lab.server.jupyter.tasks import Named, Task
from cassette_lab.server.jupyter.wishes import TABLES
from cassette_lab.server.jupyter.worker import work
from tests.unit.session_samples import event, header, text, turn
from tests.unit.test_scan import changed, sample, save

CANARY = "CANARY-5f1e"

NAMES = {
    "cassetteId", "provider.cassette", "provider.upstream", "callKey", "parentKey", "request.metadata.label",
    "request.metadata.childProvider", "request.metadata.childModel", "outcome.error.name", "outcome.error.code",
    "request.metadata.toolFilter.allow", "request.metadata.toolFilter.deny",
}  # fmt: skip
"""What tables show of a call: how it is called, and who answered it."""


def test_no_value_of_a_cassette_is_told(tmp_path: Path) -> None:
    lines = sample(12)
    path = tmp_path / "a.cassette.jsonl"
    places = [(number, place) for number in range(len(lines)) for place in places_of(parse(lines[number]))]
    assert len(places) > 200
    outcomes: dict[str, int] = {}
    for number, place in places:
        if ".".join(step for step in place if isinstance(step, str)) in NAMES:
            continue
        save(path, with_canary(lines, number, place))
        told = _told(tmp_path, path.name)
        assert CANARY.encode() not in told.data, place
        outcomes[told.states[-1]] = outcomes.get(told.states[-1], 0) + 1
    assert outcomes["verified"] > 20
    assert outcomes["partial"] + outcomes["broken"] > 20


def test_the_secret_is_there_with_bodies(tmp_path: Path) -> None:
    lines = sample(12)
    (number, place), *_ = [
        (number, place) for number, line in enumerate(lines) for place in places_of(parse(line)) if place[-1] == "message"
    ]
    path = save(tmp_path / "a.cassette.jsonl", with_canary(lines, number, place))
    assert CANARY.encode() in _told(tmp_path, path.name, bodies=True).data


def test_patterns_of_redaction_are_only_counted(tmp_path: Path) -> None:
    lines = changed(sample(3), {0: lambda members: members.update(redactionPatterns=[CANARY])})
    save(tmp_path / "a.cassette.jsonl", lines)
    told = _told(tmp_path, "a.cassette.jsonl")
    assert told.states[-1] == "verified"
    assert CANARY.encode() not in told.data
    assert CANARY.encode() not in _told(tmp_path, "").data


def test_no_text_of_a_log_is_told(tmp_path: Path) -> None:
    chunk = {"turn": 1, "step": 1}
    call = {"type": "tool-call", "id": "c1", "name": "bash", "arguments": json.dumps({"command": CANARY})}
    rows = [
        event(0, "user/message", {"message": {"role": "user", "content": [{"type": "text", "text": CANARY}]}}),
        event(1, "session/title", {"title": CANARY}),
        *turn(2)[:3],
        event(5, "assistant/chunk", {**chunk, "chunk": {"type": "text-delta", "index": 0, "text": CANARY}}),
        event(6, "assistant/message", {**chunk, "message": {"role": "assistant", "content": [call]}}),
        event(7, "tool/call", {**chunk, "callId": "c1", "name": "bash", "arguments": {"command": CANARY}}),
        event(8, "tool/result", {**chunk, "callId": "c1", "content": [{"type": "text", "text": CANARY}], "isError": True}),
        event(9, "step/end", chunk),
        event(10, "turn/end", {"turn": 1, "reason": {"kind": "error", "error": {"message": CANARY}}}),
    ]
    (tmp_path / "session.jsonl").write_bytes(text(header(cwd=f"/home/{CANARY}"), *rows))
    told = _told(tmp_path, "session.jsonl")
    assert told.states[-1] == "verified", told.events
    assert CANARY.encode() not in told.data
    for number in range(len(rows)):
        for broken in (b'{"type":"' + CANARY.encode(), CANARY.encode() + b"\n", json.dumps([CANARY]).encode() + b"\n"):
            (tmp_path / "session.jsonl").write_bytes(text(header(), *rows[:number]) + broken + text(*rows[number:]))
            assert CANARY.encode() not in _told(tmp_path, "session.jsonl").data


def test_no_value_of_a_flight_record_is_told_where_it_breaks_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.flight.json"
    save_snapshot(FlightRecorder().snapshot(), path)
    whole = json.loads(path.read_bytes())
    for place in places_of(whole):
        value = copy.deepcopy(whole)
        _put(value, place, CANARY)
        path.write_text(json.dumps(value))
        assert CANARY.encode() not in _told(tmp_path, path.name).data, place


def test_a_failure_of_our_own_is_told_by_its_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Event] = []

    def fail(*_: object) -> None:
        raise ZeroDivisionError(CANARY)

    monkeypatch.setattr("cassette_lab.server.jupyter.reading.read", fail)

    def tell(event: Event, _data: bytes) -> None:
        told.append(event)

    work(_task(tmp_path, "a.cassette.jsonl"), tell)
    assert CANARY not in json.dumps(told)
    assert told[-2]["problem"]["message"].startswith("reading failed (ZeroDivisionError)")
    assert told[-1]["complete"] is False


class _Told:
    def __init__(self) -> None:
        self.data = b""
        self.events: list[Event] = []

    def __call__(self, event: Event, data: bytes = b"") -> None:
        self.events.append(event)
        self.data += frame(event, data)

    @property
    def states(self) -> list[str]:
        return [event["state"] for event in self.events if event["event"] == "state"]


def _task(root: Path, name: str, *, bodies: bool = False) -> Task:
    place = Named(name, folder=not name)
    return Task(root, (place,), TABLES, compare=False, bodies=bodies, hidden=False, max_rows=10_000, max_reply_bytes=1 << 30,
                max_bytes=1 << 30, max_memory_bytes=1 << 40)  # fmt: skip


def _told(root: Path, name: str, *, bodies: bool = False) -> _Told:
    told = _Told()
    work(_task(root, name, bodies=bodies), told)
    return told


def places_of(value: Any, above: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where a value has texts, numbers and the like."""
    if isinstance(value, dict):
        for name, member in value.items():
            if name not in ("hash", "previousHash"):
                yield from places_of(member, (*above, name))
    elif isinstance(value, list):
        for number, member in enumerate(value):
            yield from places_of(member, (*above, number))
    else:
        yield above


def _put(value: Any, place: tuple[str | int, ...], what: Any) -> None:
    *above, last = place
    for step in above:
        value = value[step]
    value[last] = what


def with_canary(lines: list[bytes], number: int, place: tuple[str | int, ...]) -> list[bytes]:
    """The file with the secret in this place, and right hashes from there on."""
    out = lines[:number]
    previous = parse(out[-1])["hash"] if out else ""
    for at, line in enumerate(lines[number:], number):
        members = parse(line)
        if at == number:
            _put(members, place, CANARY)
        members.pop("hash")
        if at:
            members["previousHash"] = previous
        previous = members["hash"] = digest(members)
        out.append(canonical(members))
    return out
