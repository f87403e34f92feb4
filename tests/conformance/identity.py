"""Vectors of ``identity/``: fingerprints of requests and parents, call keys, the topology tracker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from cassette_lab import jsonio
from cassette_lab.cassette.identity import (
    RequestIdentity,
    normalize_parent_context,
    normalize_request,
    parent_context_fingerprint,
    request_fingerprint,
)
from cassette_lab.cassette.topology import Reservation, TopologyTracker
from cassette_lab.contracts import ABSENT, ParentAgent
from cassette_lab.errors import CassetteLabError, IdentityError, SurfaceError
from tests.conformance.case import Case
from tests.conformance.files import vectors


def cases(folder: Path) -> Iterator[Case]:
    """One case for each vector of ``vectors.json``, and for each script of ``topology.json``."""
    for vector in vectors(folder / "vectors.json"):
        yield Case(vector["id"], partial(_check_vector, vector))
    for script in vectors(folder / "topology.json"):
        yield Case(f"topology/{script['id']}", partial(_check_topology, script))


def parent_agent(parent: Mapping[str, Any]) -> ParentAgent:
    """The parent a vector describes."""
    services = parent.get("services") or {}
    return ParentAgent(
        id=parent["id"],
        options=parent.get("options", {}),
        header=parent.get("header", {}),
        events=parent.get("events"),
        composed_preset=services.get("composedPreset", ABSENT),
        sandbox_override=services.get("sandboxOverride", ABSENT),
        approval_present=services.get("approval", False) is not False,
    )


def error_code(error: Exception) -> str:
    """The word the vectors have for an error."""
    if isinstance(error, IdentityError):
        return "TypeError"
    if isinstance(error, SurfaceError):
        return "Error"
    return error.code if isinstance(error, CassetteLabError) else type(error).__name__


def assert_equal(actual: Any, expected: Any, what: str) -> None:
    """Compare two JSON values exactly (``1`` and ``true`` differ, ``1`` and ``1.0`` do not)."""
    actual, expected = jsonio.canonical(actual), jsonio.canonical(expected)
    assert actual == expected, f"{what}: {actual!r} instead of {expected!r}"


def _check_vector(vector: dict[str, Any]) -> None:
    parent = parent_agent(vector["parent"])
    inherits = vector["parent"].get("inheritsParentContext", False)

    def request() -> dict[str, Any]:
        normalized = normalize_request(vector["request"])
        return {
            "normalizedRequest": normalized,
            "requestFingerprint": request_fingerprint(normalized),
            "requestMetadata": RequestIdentity(normalized).metadata_json(),
        }

    def context() -> dict[str, Any]:
        normalized = normalize_parent_context(parent, inherits)
        return {
            "normalizedParentContext": normalized,
            "parentContextFingerprint": parent_context_fingerprint(normalized),
        }

    def reservation() -> dict[str, Any]:
        reserved = TopologyTracker(inherits).reserve(vector["request"], parent)
        return {"parentKey": reserved.parent_key, "callKey": reserved.call_key, "occurrence": reserved.occurrence}

    for step, error_member in ((request, "requestError"), (context, "parentError"), (reservation, "reserveError")):
        try:
            found = step()
            error = None
        except CassetteLabError as raised:
            found, error = {}, error_code(raised)
        assert_equal(error, vector.get(error_member), error_member)
        for name, value in found.items():
            assert_equal(value, vector[name], name)


def _check_topology(script: dict[str, Any]) -> None:
    existing = [
        Reservation(
            call.get("callKey", ""),
            call["parentKey"],
            call["parentContextFingerprint"],
            call["requestFingerprint"],
            call["occurrence"],
        )
        for call in script.get("existing") or ()
    ]
    tracker = TopologyTracker(script["inheritsParentContext"], existing)
    for number, step in enumerate(script["steps"]):
        try:
            found = _topology_step(tracker, step)
        except CassetteLabError as error:
            found = {"error": error_code(error)}
        assert_equal(found, step["expect"], f"step {number}, {step['op']}")


def _topology_step(tracker: TopologyTracker, step: dict[str, Any]) -> dict[str, Any]:
    operation = step["op"]
    if operation == "registerLocalChild":
        tracker.register_local_child(parent_agent(step["child"]), step["callKey"])
        return {}
    parent = parent_agent(step["parent"])
    if operation == "parentKey":
        return {"parentKey": tracker.parent_key(parent)}
    if operation == "peekParentKey":
        return {"parentKey": tracker.peek_parent_key(parent)}
    if operation != "reserve":
        raise AssertionError(f"unknown operation {operation}")
    reserved = tracker.reserve(step["request"], parent)
    return {
        "parentKey": reserved.parent_key,
        "callKey": reserved.call_key,
        "occurrence": reserved.occurrence,
        "parentContextFingerprint": reserved.parent_context_fingerprint,
        "requestFingerprint": reserved.request_fingerprint,
    }
