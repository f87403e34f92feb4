"""Vectors of the session layout's ``flight/``: a tree that a runtime wrote, and the flight records of the same run."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from cassette_lab import jsonio
from cassette_lab.flight.model import FlightRecord
from cassette_lab.flight.reader import read_flights
from cassette_lab.session.derive import derive
from cassette_lab.session.facts import ModelCall
from cassette_lab.session.finding import find_logs
from cassette_lab.session.reader import read_session
from tests.conformance.case import Case
from tests.conformance.identity import assert_equal
from tests.conformance.session_facts import tree_cases


def cases(folder: Path) -> Iterator[Case]:
    """The cases of each tree, and one for its snapshot: the log has a call for each request, with the same end."""
    for path in sorted(folder.glob("*/expected.json")):
        scenario = path.parent
        yield from tree_cases(scenario.name, scenario / "sessions", jsonio.parse(path.read_bytes()), whole=True)
        yield Case(f"{scenario.name}/snapshot", partial(_check, scenario))


def _check(scenario: Path) -> None:
    flights = read_flights(scenario / "snapshot.json")
    assert flights.snapshot is not None, "this is no snapshot"
    assert_equal(flights.snapshot.health.retained, len(flights.records), "records retained")
    calls = {
        (facts.header.id, call.turn, call.step, call.attempt): call
        for facts in (derive(read_session(found.path)) for found in find_logs(scenario / "sessions"))
        for call in facts.model_calls
        if not call.inherited
    }
    for record in flights.records:
        place = (record.session_id, record.turn, record.step, record.attempt)
        call = calls.get(place)
        if call is not None:
            _check_call(record, call)
        else:
            assert record.outcome.kind != "finished", f"no call was logged at {place}"


def _check_call(record: FlightRecord, call: ModelCall) -> None:
    outcome = record.outcome
    if outcome.kind == "finished":
        assert_equal(call.finish_kind, outcome.finish, "finish")
        assert_equal([call.provider, call.model], [record.request.provider, record.request.model], "model")
    elif outcome.kind == "threw" and call.finish_kind is not None:
        assert call.finish_kind in {"error", "aborted"}, f"the log says {call.finish_kind}"
    if outcome.usage is not None and call.usage is not None:
        for name in ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"):
            assert_equal(getattr(call.usage, name), getattr(outcome.usage, name), name)
