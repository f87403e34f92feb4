"""``dates/vectors.json``: would ``createdAt`` be accepted?"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from cassette_lab.jsonio.dates import date_parse_ms, is_iso_or_rfc
from tests.conformance.case import Case
from tests.conformance.files import vectors


def cases(folder: Path) -> Iterator[Case]:
    for vector in vectors(folder / "vectors.json"):
        yield Case(vector["id"], partial(_check, vector))


def _check(vector: dict[str, Any]) -> str | None:
    text = vector["text"]
    accepted = date_parse_ms(text) is not None
    if accepted == vector["accepted"]:
        return None
    assert not is_iso_or_rfc(text), f"accepted: {accepted}, expected {vector['accepted']}"
    return "a free form of date that only the original's engine reads"
