"""Vectors of ``command/``: answers of ``/flight`` in facts, and the bounds of their texts.

Whether a text was cut depends on its words, so it is advisory; that it stays within its bound is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from cassette_lab.errors import ConfigError
from cassette_lab.flight.command import command_input, run_command
from cassette_lab.flight.messages import resolve_locale
from cassette_lab.flight.model import Snapshot
from cassette_lab.flight.recorder import FlightConfig
from cassette_lab.flight.wording import MOST_CHARACTERS, bound_text
from tests.conformance.case import Case
from tests.conformance.flight_files import document, health, records
from tests.conformance.identity import assert_equal

_ADVISORY = frozenset({"truncated"})


def cases(folder: Path) -> Iterator[Case]:
    """One case for each line, bound and locale."""
    vectors = document(folder / "scenarios.json")
    fixtures = vectors.get("fixtures", {})
    for vector in vectors.get("cases", ()):
        yield Case(vector["id"], partial(_check, vector, fixtures))
    for vector in vectors.get("bound", ()):
        yield Case(vector["id"], partial(_check_bound, vector))
    for vector in vectors.get("locale", ()):
        yield Case(vector["id"], partial(_check_locale, vector))


def _check(vector: dict[str, Any], fixtures: dict[str, Any]) -> None:
    expected = vector["expected"]
    words = command_input(vector["line"])
    if words is None:
        assert expected["kind"] == "unresolved", "the line is no command"
        return
    assert_equal(words, vector["input"], "input")
    fixture = fixtures[vector["fixture"]]
    snapshot = Snapshot(0, health(fixture["health"]), records(fixture["records"]))
    thresholds = FlightConfig.from_json({"capacity": fixture["capacity"], **fixture["thresholds"]})
    result = run_command(words, snapshot, fixture["sessionId"], locale=vector["locale"], thresholds=thresholds)
    found: dict[str, Any]
    if result.error is not None:
        found = {"kind": "error", "error": result.error, "prefix": result.prefix}
    else:
        found = {
            "kind": "success",
            "withinBound": _units(result.text) <= MOST_CHARACTERS,
            "view": result.view,
            "ids": list(result.ids),
            "facts": result.facts,
            "filter": result.filter,
            "limit": result.limit,
        }
    assert result.text, "an answer without words"
    present = {name: value for name, value in found.items() if value is not None}
    assert_equal(present, {name: value for name, value in expected.items() if name not in _ADVISORY}, "answer")


def _check_bound(vector: dict[str, Any]) -> None:
    text = vector["unit"] * vector["repeat"] + vector["tail"]
    marker = "#" * vector["markerCodeUnits"]
    found: dict[str, Any]
    try:
        bound, truncated = bound_text(text, vector["max"], marker)
    except ConfigError as error:
        found = {"threw": "range-error" if error.code == "OUT_OF_RANGE" else "error"}
    else:
        kept = bound.removesuffix(marker) if truncated else bound
        assert text.startswith(kept), "another text"
        found = {"truncated": truncated, "keptCodeUnits": _units(kept), "totalCodeUnits": _units(bound)}
    assert_equal(found, vector["expected"], "bound")


def _check_locale(vector: dict[str, Any]) -> None:
    assert_equal(resolve_locale(vector["preference"]), vector["expected"], "locale")


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
