"""Vectors of ``diff/``: reports of two files, as a document, as text, and as an exit code's meaning."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from cassette_lab import jsonio
from cassette_lab.cassette.diff import diff
from cassette_lab.errors import CassetteLabError
from tests.conformance.case import Case
from tests.conformance.files import unpacked, vectors
from tests.conformance.identity import assert_equal, error_code


def cases(folder: Path) -> Iterator[Case]:
    """One case for each pair of files."""
    for case in vectors(folder / "cases.json"):
        yield Case(case["id"], partial(_check, folder / "files", case))


def _check(files: Path, case: dict[str, Any]) -> None:
    try:
        with unpacked(files / case["expected"]) as expected, unpacked(files / case["actual"]) as actual:
            found = diff(expected, actual)
    except CassetteLabError as error:
        assert_equal(error_code(error), case.get("error"), "error")
        return
    assert_equal(None, case.get("error"), "error")
    document = found.to_dict()
    assert_equal(document, case["diff"], "diff")
    assert_equal(found.equivalent, case["exitCode"] == 0, "equivalent")
    assert_equal(found.comparable, document["comparable"], "comparable")
    text = "".join(found.json_chunks())
    if "jsonText" in case:
        assert text == case["jsonText"], f"text differs: {text!r}"
    if "jsonTextSha256" in case:
        assert_equal(jsonio.digest_bytes(text.encode()), case["jsonTextSha256"], "digest of the text")
