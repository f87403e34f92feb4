"""Vectors of ``match/``: scripts of calls against recorded cassettes, with their diagnoses."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from cassette_lab.cassette.matching import Matcher
from cassette_lab.cassette.reader import read_cassette
from cassette_lab.errors import CassetteLabError, MismatchError
from tests.conformance.case import Case
from tests.conformance.files import unpacked, vectors
from tests.conformance.identity import assert_equal, error_code, parent_agent


def cases(folder: Path) -> Iterator[Case]:
    """One case for each scenario."""
    for scenario in vectors(folder / "scenarios.json"):
        yield Case(scenario["id"], partial(_check, folder, scenario))


def _check(folder: Path, scenario: dict[str, Any]) -> None:
    options = scenario.get("options") or {}
    try:
        with unpacked(folder / "cassettes" / Path(scenario["cassette"]).name) as path:
            cassette = read_cassette(path)
        matcher = Matcher(
            cassette,
            duplicate_policy=options.get("duplicatePolicy", "reject"),
            allow_redacted=options.get("allowRedactedReplay", False),
        )
        constructed = "ok"
    except CassetteLabError as error:
        constructed = error_code(error)
    assert_equal(constructed, scenario["construct"], "construct")
    if constructed != "ok":
        return
    for number, step in enumerate(scenario["steps"]):
        _check_step(matcher, step, f"step {number}, {step['op']}")


def _check_step(matcher: Matcher, step: dict[str, Any], what: str) -> None:
    expected = step["expect"]
    found: dict[str, Any] = {}
    try:
        if step["op"] == "match":
            call = matcher.match(step["request"], parent_agent(step["parent"]))
            found = {"callKey": call.call_key, "sequence": call.sequence, "occurrence": call.occurrence}
        elif step["op"] == "diagnose":
            diagnosis = matcher.diagnose(step["request"], parent_agent(step["parent"]))
            found = {"diagnostic": diagnosis.to_json()}
        elif step["op"] == "assertConsumed":
            matcher.assert_consumed()
            found = {"ok": True}
        else:
            raise AssertionError(f"unknown operation {step['op']}")
    except CassetteLabError as error:
        found = {"error": error_code(error)}
        if step["op"] == "assertConsumed":
            found["ok"] = False
        elif isinstance(error, MismatchError):
            diagnosis = error.diagnostic
            found["diagnostic"] = diagnosis.to_json()
    if (wanted := (expected.get("diagnostic") or {}).get("candidates")) is not None and "diagnostic" in found:
        _check_candidates(found["diagnostic"]["candidates"], wanted, diagnosis.total_candidates, what)
        expected = {**expected, "diagnostic": {**expected["diagnostic"], "candidates": found["diagnostic"]["candidates"]}}
    assert_equal(found, expected, what)


def _check_candidates(found: list[Any], expected: list[Any], total: int, what: str) -> None:
    """The candidates are the expected ones; a bounded diagnosis has some of them, in their order, and says how many."""
    assert_equal(total, len(expected), f"{what}: number of candidates")
    if total > len(found):
        kept = {candidate["sequence"] for candidate in found}
        expected = [candidate for candidate in expected if candidate["sequence"] in kept]
    assert_equal(found, expected, f"{what}: candidates")
