"""Vectors of ``cassettes/``: valid files with what they say, and invalid ones with where they break."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from cassette_lab import jsonio
from cassette_lab.cassette.columns import Projection, project_cassette
from cassette_lab.cassette.model import Cassette
from cassette_lab.cassette.reader import read_cassette
from cassette_lab.cassette.scan import project
from cassette_lab.cassette.summary import ambiguous_groups, call_documents, inspect, summary
from cassette_lab.cassette.writer import CassetteWriter
from cassette_lab.errors import FormatError
from cassette_lab.jsonio.text import decode_utf8, is_blank, pretty, split_lines
from tests.conformance.case import Case
from tests.conformance.files import file_bytes, unpacked, vectors
from tests.conformance.identity import assert_equal

_SUFFIX = ".cassette.jsonl"


def cases(folder: Path) -> Iterator[Case]:
    """One case for each file."""
    for path in sorted((folder / "valid").glob("*.expected.json")):
        yield Case(f"valid/{path.name.removesuffix('.expected.json')}", partial(_check_valid, path))
    for entry in vectors(folder / "invalid" / "index.json"):
        yield Case(f"invalid/{entry['file'].removesuffix(_SUFFIX)}", partial(_check_invalid, folder / "invalid", entry))


def _check_valid(expectation: Path) -> None:
    expected = jsonio.parse(expectation.read_bytes())
    name = expectation.name.removesuffix(".expected.json")
    data = file_bytes(expectation.with_name(f"{name}{_SUFFIX}"))
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary, f"{name}{_SUFFIX}")
        path.write_bytes(data)
        cassette = read_cassette(path)
        assert_equal(cassette.size_bytes, expected["bytes"], "bytes")
        assert_equal(cassette.file_sha256, expected["sha256"], "sha256")
        _check_rewritten(cassette, Path(temporary, "again", path.name), None if _is_hand_made(name) else data)
        columns = project(path)
        _check_reports(columns, expected)
        of_objects = project_cassette(cassette)
        assert columns.calls.equals(of_objects.calls), "the quick loader's table differs from the exact reader's"
        assert columns.raw_texts == of_objects.raw_texts, "the quick loader's raw texts differ from the exact reader's"


def _is_hand_made(name: str) -> bool:
    """Edited by hand after it was written, as the layout's naming says: then its spelling is not a writer's."""
    return name.startswith("quirk-") or name == "append-missing-newline"


def _check_rewritten(cassette: Cassette, path: Path, data: bytes | None) -> None:
    """Its records written again are the same bytes (where a writer wrote them), and the same facts in any case."""
    with CassetteWriter.open(path, cassette.header) as writer:
        for interaction in cassette.interactions:
            writer.append(interaction)
    if data is not None:
        assert path.read_bytes() == data, "written again, it has other bytes"
    again = read_cassette(path)
    assert again.header == cassette.header, "written again, it has another header"
    for one, other in zip(again.interactions, cassette.interactions, strict=True):
        assert one.hash == other.hash, f"written again, sequence {other.sequence} has another hash"


def _check_reports(projection: Projection, expected: dict[str, Any]) -> None:
    assert_equal(summary(projection), expected["summary"], "summary")
    assert_equal(ambiguous_groups(projection), expected["ambiguousGroups"], "ambiguousGroups")
    document = inspect(projection, show_calls=True)
    text = pretty(document)
    if "inspect" in expected:
        assert_equal(document, expected["inspect"], "inspect")
    if "inspectText" in expected:
        assert text == expected["inspectText"], "the text of inspect differs"
    if "inspectTextSha256" in expected:
        assert_equal(jsonio.digest_bytes(text.encode()), expected["inspectTextSha256"], "digest of the text of inspect")
    calls = list(call_documents(projection))
    if "callCount" in expected:
        assert_equal(len(calls), expected["callCount"], "callCount")
    if "callsSha256" in expected:
        assert_equal(jsonio.digest(calls), expected["callsSha256"], "callsSha256")
    if "firstCalls" in expected:
        assert_equal(calls[: len(expected["firstCalls"])], expected["firstCalls"], "firstCalls")
    if "lastCalls" in expected:
        assert_equal(calls[len(calls) - len(expected["lastCalls"]) :], expected["lastCalls"], "lastCalls")


def _check_invalid(folder: Path, entry: dict[str, Any]) -> None:
    """Refused at its line, by the exact reader and by the quick loader alike."""
    with unpacked(folder / entry["file"]) as path:
        assert path.exists(), "the file of this vector is not there"
        for read in (read_cassette, project):
            _check_refused(read, path, entry)


def _check_refused(read: Callable[[Path], object], path: Path, entry: dict[str, Any]) -> None:
    try:
        read(path)
    except FormatError as error:
        wanted = entry["line"] if entry.get("line") is not None else entry.get("at")
        if wanted is not None:
            assert_equal(error.record, wanted, "line")
        if error.line is not None:
            lines = (number for number, line in split_lines(path.read_bytes()) if not is_blank(decode_utf8(line)))
            before = [number for number in lines if number <= error.line]
            assert_equal([len(before), before[-1]], [error.record, error.line], "physical line")
        return
    raise AssertionError(f"accepted by {read.__name__}")
