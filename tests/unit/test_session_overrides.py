from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cassette_lab.errors import FormatError
from cassette_lab.session.entries import ChunksEntry, HangEntry, ThrowEntry
from cassette_lab.session.overrides import parse_override, read_override
from cassette_lab.session.scripts import load_session_scripts
from tests.unit.replay_samples import FINISH, answer, call, log, words
from tests.unit.session_samples import write

THROW = {"kind": "throw", "chunks": [], "message": "m", "code": "C"}
SAYS = {"kind": "chunks", "chunks": answer("new")}


def test_an_array_replaces_the_script() -> None:
    override = parse_override([SAYS, THROW, {"kind": "hang"}, {"kind": "hang", "readyFile": "ready"}])
    assert override.replacement == [ChunksEntry(answer("new")), ThrowEntry([], "m", "C"), HangEntry(), HangEntry("ready")]
    assert [entry.to_json() for entry in override.replacement] == [
        SAYS,
        THROW,
        {"kind": "hang"},
        {"kind": "hang", "readyFile": "ready"},
    ]


def test_chunks_are_known_by_their_type_and_no_further() -> None:
    assert parse_override([{"kind": "chunks", "chunks": [{"type": "text-delta"}]}]).replacement is not None


def test_patches_replace_single_calls_and_append_one(tmp_path: Path) -> None:
    file = log(tmp_path / "s.jsonl", *call("one"), *call("two"))
    patches = [{"at": 2, "entry": SAYS}, {"at": 0.0, "entry": THROW}]
    override = write(tmp_path / "o.json", json.dumps({"patches": patches}).encode())
    (script,) = load_session_scripts(file, override_file=override)
    assert script.entries[0] == ThrowEntry([], "m", "C")
    assert words(script.entries[1:]) == ["two", "new"]


@pytest.mark.parametrize(
    ("ats", "code", "field"),
    [
        ([3], "PATCH_OUT_OF_RANGE", "patches.0.at"),
        ([2, 3], "PATCH_OUT_OF_RANGE", "patches.1.at"),
        ([0, 0], "PATCH_DUPLICATE", "patches.1.at"),
        ([2, 2], "PATCH_DUPLICATE", "patches.1.at"),
    ],
)
def test_patches_that_hit_nothing_or_the_same(ats: list[int], code: str, field: str) -> None:
    override = parse_override({"patches": [{"at": at, "entry": SAYS} for at in ats]}, path="o.json")
    with pytest.raises(FormatError) as error:
        override.patched([ChunksEntry([FINISH])] * 2)
    assert (error.value.code, error.value.field, error.value.path) == (code, field, "o.json")


@pytest.mark.parametrize(
    ("document", "field"),
    [
        (None, None),
        ({}, None),
        ({"patches": {}}, None),
        ({"patches": [], "more": 1}, None),
        ({"patches": [None]}, "patches.0"),
        ({"patches": [{"at": 0}]}, "patches.0"),
        ({"patches": [{"at": 0, "entry": SAYS, "more": 1}]}, "patches.0"),
        ({"patches": [{"at": -1, "entry": SAYS}]}, "patches.0.at"),
        ({"patches": [{"at": 0.5, "entry": SAYS}]}, "patches.0.at"),
        ({"patches": [{"at": "0", "entry": SAYS}]}, "patches.0.at"),
        ({"patches": [{"at": True, "entry": SAYS}]}, "patches.0.at"),
        ({"patches": [{"at": 0, "entry": {"kind": "nope"}}]}, "patches.0.entry"),
        ([None], "0"),
        ([SAYS, {}], "1"),
        ([{"kind": []}], "0"),
        ([{"kind": "chunks"}], "0"),
        ([{"kind": "chunks", "chunks": {}}], "0.chunks"),
        ([{"kind": "chunks", "chunks": [FINISH, {"type": "zap"}]}], "0.chunks.1"),
        ([{"kind": "chunks", "chunks": [{"type": {}}]}], "0.chunks.0"),
        ([{**THROW, "more": 1}], "0"),
        ([{**THROW, "code": ""}], "0.code"),
        ([{**THROW, "message": 5}], "0.message"),
        ([{"kind": "hang", "readyFile": ""}], "0.readyFile"),
        ([{"kind": "hang", "readyFile": None}], "0.readyFile"),
        ([{"kind": "hang", "chunks": []}], "0"),
    ],
)
def test_a_document_that_is_none_is_refused_by_name(document: Any, field: str | None) -> None:
    with pytest.raises(FormatError) as error:
        parse_override(document, path="o.json")
    assert (error.value.code, error.value.field, error.value.path) == ("OVERRIDE_INVALID", field, "o.json")
    assert field is None or f"at {field}" in str(error.value)


def test_a_file_that_is_no_json(tmp_path: Path) -> None:
    with pytest.raises(FormatError) as error:
        read_override(write(tmp_path / "o.json", b"\xef\xbb\xbf[]"))
    assert error.value.code == "JSON_SYNTAX"
    with pytest.raises(FormatError, match="this is a folder"):
        read_override(tmp_path)
