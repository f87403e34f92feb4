"""Vectors of ``insight/``: filters, explanations and statistics of records."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from cassette_lab.flight.insight import explain, filtered, stats
from cassette_lab.flight.recorder import FlightConfig
from tests.conformance.case import Case
from tests.conformance.flight_files import document, records
from tests.conformance.identity import assert_equal


def cases(folder: Path) -> Iterator[Case]:
    """One case for each window of records."""
    for vector in document(folder / "vectors.json").get("cases", ()):
        yield Case(vector["id"], partial(_check, vector))


def _check(vector: dict[str, Any]) -> None:
    window = records(vector["records"])
    thresholds = FlightConfig.from_json(vector["thresholds"])
    expected = vector["expected"]
    for name, ids in expected["filters"].items():
        assert_equal([each.id for each in filtered(window, name, thresholds)], ids, f"filter {name}")
    told = [{"id": each.id, "facts": [fact.to_json() for fact in explain(each, thresholds)]} for each in window]
    assert_equal(told, expected["explain"], "explain")
    assert_equal(stats(window).to_json(), expected["stats"], "stats")
