"""Vectors of ``state/``: a recorder step by step, its listeners and its configuration.

``tick`` is one phase of what was put off until then; what is awaited goes on after every step, as microtasks do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from cassette_lab.errors import ConfigError
from cassette_lab.flight.members import outcome_from_json
from cassette_lab.flight.model import (
    NOTHING_OMITTED,
    OMISSION_NAMES,
    FlightRecord,
    MessageCounts,
    Omissions,
    RequestProjection,
)
from cassette_lab.flight.recorder import FlightConfig, FlightRecorder
from tests.conformance.case import Case
from tests.conformance.flight_files import document
from tests.conformance.identity import assert_equal

_MICROTASKS = 5
_QUERY = {"sessionId": "session_id", "turn": "turn", "step": "step", "provider": "provider", "model": "model"}
_QUERY |= {"outcome": "outcome", "limit": "limit"}


def cases(folder: Path) -> Iterator[Case]:
    """One case for each scenario and each configuration."""
    vectors = document(folder / "scenarios.json")
    for scenario in vectors.get("scenarios", ()):
        yield Case(scenario["id"], partial(_check, scenario))
    for vector in vectors.get("config", ()):
        yield Case(vector["id"], partial(_check_config, vector))


def _check_config(vector: dict[str, Any]) -> None:
    found: dict[str, Any]
    try:
        found = {"config": FlightConfig.from_json(vector["input"]).to_json()}
    except ConfigError:
        found = {"threw": "error"}
    expected = vector["expected"]
    assert_equal(found, {"threw": "error"} if "threw" in expected else expected, "configuration")


def _check(scenario: dict[str, Any]) -> None:
    asyncio.run(_play(scenario))


async def _play(scenario: dict[str, Any]) -> None:
    due: list[Callable[[], None]] = []
    constructed = scenario.get("expected", {}).get("constructThrew")
    try:
        recorder = FlightRecorder(scenario["capacity"], later=due.append)
    except ConfigError as error:
        assert_equal(_error(error), constructed, "constructor")
        return
    assert constructed is None, "the original refuses this capacity"
    stage = _Stage(recorder, due)
    for number, step in enumerate(scenario["steps"], 1):
        stage.deliveries.clear()
        found: dict[str, Any] = {}
        try:
            returned = stage.act(step)
        except ConfigError as error:
            found["threw"] = _error(error)
        else:
            if "returned" in step["expected"]:
                found["returned"] = returned
        for _ in range(_MICROTASKS):
            await asyncio.sleep(0)
        snapshot = recorder.snapshot()
        found |= {
            "revision": snapshot.revision,
            "health": snapshot.health.to_json(),
            "retained": [record.id for record in snapshot.records],
            "deliveries": stage.deliveries,
        }
        assert_equal(found, step["expected"], f"step {number} ({step['op']})")
    stage.release_all()
    await asyncio.sleep(0)


def _error(error: ConfigError) -> str:
    return "range-error" if error.code == "OUT_OF_RANGE" else "error"


class _Stage:
    """A recorder and the listeners of a scenario."""

    def __init__(self, recorder: FlightRecorder, due: list[Callable[[], None]]) -> None:
        self.recorder = recorder
        self.deliveries: list[list[Any]] = []
        self._due = due
        self._undo: dict[str, Callable[[], None]] = {}
        self._pending: dict[str, list[asyncio.Future[None]]] = {}
        self._steps: dict[str, Callable[[dict[str, Any]], Any]] = {
            "insert": self._insert,
            "settle": lambda step: recorder.settle(step["id"], outcome_from_json(step["outcome"])),
            "miss": lambda step: recorder.miss(step["reason"]),
            "projection-failure": lambda _: recorder.projection_failed(),
            "query": self._query,
            "latest": lambda step: _id(recorder.latest(step.get("sessionId"))),
            "get": lambda step: _kind(recorder.get(step["id"])),
            "diff": self._diff,
            "subscribe": self._subscribe,
            "unsubscribe": lambda step: self._undo.get(step["listener"], lambda: None)(),
            "release": self._release,
            "dispose": lambda _: recorder.dispose(),
            "tick": lambda _: self._tick(),
        }

    def act(self, step: dict[str, Any]) -> Any:
        return self._steps[step["op"]](step)

    def release_all(self) -> None:
        for pending in self._pending.values():
            for future in pending:
                future.cancel()

    def _tick(self) -> None:
        phase = list(self._due)
        self._due.clear()
        for call in phase:
            call()

    def _insert(self, step: dict[str, Any]) -> None:
        given = step.get("omissions") or {}
        omissions = Omissions(**{OMISSION_NAMES[name]: count for name, count in given.items()}) if given else NOTHING_OMITTED
        request = RequestProjection("mock", "m-1", MessageCounts(0, {}, {}, {}))
        self.recorder.insert(FlightRecord(step["id"], step.get("session", "s1"), 1, 1, 1, 0, request, omissions=omissions))

    def _query(self, step: dict[str, Any]) -> list[str]:
        query: Mapping[str, Any] = {_QUERY[name]: value for name, value in step["query"].items()}
        return [record.id for record in self.recorder.query(**query)]

    def _diff(self, step: dict[str, Any]) -> dict[str, Any]:
        result = self.recorder.diff(step["from"], step["to"])
        if result.diff is None:
            return {"kind": result.kind, "ids": list(result.ids)}
        diff = result.diff
        ends = {"from": diff.from_id, "to": diff.to_id}
        return {"kind": result.kind, **ends, "changed": diff.changed, "changeCount": len(diff.changes)}

    def _subscribe(self, step: dict[str, Any]) -> None:
        name, mode = step["listener"], step["mode"]
        missed = False

        def listener(change: dict[str, int]) -> Any:
            nonlocal missed
            self.deliveries.append([name, change["revision"]])
            if mode == "slow":
                future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._pending.setdefault(name, []).append(future)
                return future
            if mode == "throw":
                raise ValueError(name)
            if mode == "reject":
                return _rejected(name)
            if mode == "unsubscribe-self":
                self._undo[name]()
            if mode == "unsubscribe-other":
                self._undo[step["other"]]()
            if mode == "miss-once" and not missed:
                missed = True
                self.recorder.miss("missing-signal")
            return None

        self._undo[name] = self.recorder.subscribe(listener)

    def _release(self, step: dict[str, Any]) -> bool:
        pending = self._pending.get(step["listener"])
        if not pending:
            return False
        future = pending.pop(0)
        if step.get("fail"):
            future.set_exception(ValueError(step["listener"]))
        else:
            future.set_result(None)
        return True


async def _rejected(name: str) -> None:
    raise ValueError(name)


def _id(record: FlightRecord | None) -> str | None:
    return None if record is None else record.id


def _kind(record: FlightRecord | None) -> str | None:
    return None if record is None else record.outcome.kind
