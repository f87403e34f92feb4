"""``canonical/vectors.json``: JSON text in, canonical text and digest out, or refused at the named stage."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from cassette_lab.jsonio import CanonicalError, JsonSyntaxError, canonical, digest, parse
from tests.conformance.case import Case
from tests.conformance.files import vectors


def cases(folder: Path) -> Iterator[Case]:
    for vector in vectors(folder / "vectors.json"):
        yield Case(vector["id"], partial(_check, vector))


def _check(vector: dict[str, Any]) -> None:
    deep = "repeat" in vector
    if deep:
        text = vector["repeat"] * vector["n"] + vector["inner"] + vector["close"] * vector["n"]
    else:
        text = vector["input_json"]
    try:
        value = parse(text)
    except JsonSyntaxError:
        assert vector.get("error"), "refused as JSON"
        assert vector.get("stage") in (None, "parse"), "refused as JSON, expected only no canonical form"
        return
    try:
        written = canonical(value)
    except CanonicalError:
        assert vector.get("error"), "refused as canonical JSON"
        assert vector.get("stage") in (None, "canonical"), "parsed, expected to be refused as JSON"
        return
    assert not vector.get("error"), "accepted"
    assert digest(value) == vector["sha256"]
    if deep:
        assert len(written.decode().encode("utf-16-le")) // 2 == vector["canonicalLength"]
    else:
        assert written.decode() == vector["canonical"]
