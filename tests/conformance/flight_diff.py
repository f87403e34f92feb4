"""Vectors of ``diff/``: how one record differs from another."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from cassette_lab.flight.diff import diff_records
from tests.conformance.case import Case
from tests.conformance.flight_files import document, records
from tests.conformance.identity import assert_equal


def cases(folder: Path) -> Iterator[Case]:
    """One case for each pair of records."""
    for vector in document(folder / "vectors.json").get("cases", ()):
        yield Case(vector["id"], partial(_check, vector))


def _check(vector: dict[str, Any]) -> None:
    before, after = records((vector["from"], vector["to"]))
    assert_equal(diff_records(before, after).to_json(), vector["expected"], "diff")
    changes = vector["expected"]["changes"]
    extended = diff_records(before, after, extended=True).to_json()["changes"]
    assert_equal(extended[: len(changes)], changes, "extended diff begins as")
