"""The calls table made from objects: what its columns say, and texts that Arrow cannot hold."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from cassette_lab.cassette.columns import BODIES, CALLS, calls_schema, project_cassette
from cassette_lab.cassette.model import Cassette, Interaction, RequestMetadata, StoredRequest
from cassette_lab.cassette.reader import read_cassette
from cassette_lab.jsonio import canonical, digest
from tests.unit.cassette_samples import full, header, interaction, result, siblings, write


def test_every_column_says_what_it_means_and_in_which_unit() -> None:
    for field in calls_schema(bodies=True):
        assert field.metadata[b"doc"], field.name
        if field.name.endswith(("_ms", "_bytes")):
            assert field.metadata[b"unit"].decode() == field.name.rpartition("_")[2]


def test_a_result_becomes_a_row(tmp_path: Path) -> None:
    projection = project_cassette(read_cassette(write(tmp_path / "a.cassette.jsonl", siblings())))
    assert projection.calls.schema == CALLS
    rows = {row["sequence"]: row for row in projection.calls.to_pylist()}
    output = [{"type": "text", "text": 'quoted "text" \\ and\u2028more'}]
    outcome = {"kind": "result", "redactions": 0, "result": {"output": output, "stopReason": "completed"}}
    outcome["result"] |= {"structured": {"z": 1, "a": [1.5, None]}}  # type: ignore[operator]
    assert rows[1] == {
        "sequence": 1,
        "line": 4,
        "call_key": "root/job-1-0a1b2c3d4e5f~1",
        "parent_key": "root",
        "depth": 1,
        "label": "größer 🎼",
        "parent_context_fingerprint": "sha256:" + "5a" * 32,
        "request_fingerprint": digest({"label": "job 1"}),
        "occurrence": 1,
        "started_at": dt.datetime(2026, 11, 30, 10, 0, 1, tzinfo=dt.UTC),
        "start_latency_ms": 0.25,
        "duration_ms": 11.5,
        "signal_aborted_at_ms": None,
        "dispose_called_at_ms": None,
        "published": True,
        "local": True,
        "outcome_kind": "result",
        "stop_reason": "completed",
        "outcome_fingerprint": digest(outcome),
        "redactions": 0,
        "error_name": None,
        "error_code": None,
        "prompt_blocks": 2,
        "prompt_bytes": 99,
        "has_output_schema": True,
        "has_persona": True,
        "max_depth": 2,
        "child_provider": "scripted",
        "child_model": "small",
        "tools_allow": ["read"],
        "tools_deny": [],
        "output_blocks": 1,
        "output_bytes": len(canonical(output)),
    }
    assert rows[3]["depth"] == 2
    assert rows[2]["dispose_called_at_ms"] == 2.5
    assert (rows[6]["signal_aborted_at_ms"], rows[6]["stop_reason"], rows[6]["output_blocks"]) == (6.75, "aborted", 0)


def test_an_error_has_no_result_and_a_result_no_error(tmp_path: Path) -> None:
    projection = project_cassette(read_cassette(write(tmp_path / "a.cassette.jsonl", siblings())), bodies=True)
    row = projection.calls.slice(3, 1).to_pylist()[0]
    assert (row["outcome_kind"], row["error_name"], row["error_code"]) == ("start-error", "ConnectionError", "OFFLINE")
    assert row["error_message"] == "the model is down"
    assert {row[name] for name in ("stop_reason", "redactions", "output_blocks", "output_bytes", "output", "structured")} == {
        None
    }


def test_a_stored_request_gives_the_same_columns_as_its_metadata(tmp_path: Path) -> None:
    cassette = read_cassette(write(tmp_path / "a.cassette.jsonl", full()))
    first, second = project_cassette(cassette, bodies=True).calls.to_pylist()
    value = cassette.interactions[0].request.value
    assert value is not None
    assert first["prompt"] == canonical(value["prompt"]).decode()
    assert first["prompt_bytes"] == len(canonical(value["prompt"]))
    assert (first["prompt_blocks"], first["max_depth"], first["tools_allow"], first["tools_deny"]) == (6, 0, None, ["write"])
    assert (first["child_provider"], first["child_model"], first["label"]) == ("scripted", None, "look")
    assert (first["has_persona"], first["has_output_schema"], second["has_persona"]) == (True, True, False)
    assert (first["stop_reason"], second["stop_reason"]) == ("refusal", "other")
    assert (second["prompt"], second["prompt_bytes"], second["label"]) == ("[]", 2, None)


def test_bodies_are_there_only_when_asked_for() -> None:
    cassette = Cassette(header(), (replace(interaction(1), line=2),))
    assert not set(BODIES.names) & set(project_cassette(cassette).calls.column_names)
    assert set(BODIES.names) < set(project_cassette(cassette, bodies=True).calls.column_names)


def call_with_label(sequence: int, label: str) -> Interaction:
    metadata = RequestMetadata(1, 1, has_output_schema=False, has_persona=False, label=label, tool_filter={"allow": [label]})
    return interaction(sequence, request=StoredRequest(metadata), outcome=result([{"type": "text", "text": label}]))


def test_lone_surrogates_are_escaped_in_the_table_and_restored_by_raw() -> None:
    labels = ["plain", "half \ud83d", "\\ud83d", "pair 🎼"]
    cassette = Cassette(header(), tuple(call_with_label(number, label) for number, label in enumerate(labels, 1)))
    projection = project_cassette(cassette, bodies=True)
    assert projection.calls["label"].to_pylist() == ["plain", "half \\ud83d", "\\ud83d", "pair 🎼"]
    assert projection.raw("label") == labels
    assert projection.raw("tools_allow") == [[label] for label in labels]
    assert projection.raw("sequence") == [1, 2, 3, 4]
    assert projection.calls["output"][1].as_py() == '[{"text":"half \\ud83d","type":"text"}]'


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-05-04T09:30:00.250Z", dt.datetime(2026, 5, 4, 9, 30, 0, 250_000, tzinfo=dt.UTC)),
        ("2026-05-04", dt.datetime(2026, 5, 4, tzinfo=dt.UTC)),
        ("Mon, 04 May 2026 09:30:00 +0200", dt.datetime(2026, 5, 4, 7, 30, tzinfo=dt.UTC)),
        ("soon", None),
        ("0001-01-01", dt.datetime(1, 1, 1, tzinfo=dt.UTC)),
        ("9999-12-31T23:59:59.999Z", dt.datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=dt.UTC)),
        ("0000-12-31", None),
        ("+010000-01-01", None),
    ],
)
def test_a_time_that_is_no_date_is_null(text: str, moment: dt.datetime | None) -> None:
    call = interaction(1)
    cassette = Cassette(header(), (replace(call, timing=replace(call.timing, started_at=text)),))
    assert project_cassette(cassette).calls["started_at"].to_pylist() == [moment]


def test_a_projection_knows_its_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.cassette.jsonl", siblings())
    cassette = read_cassette(path)
    projection = project_cassette(cassette)
    assert projection.file_sha256 == cassette.file_sha256 == replace(projection, _file_sha256="").file_sha256
    assert projection.size_bytes == path.stat().st_size
    assert projection.last_hash == cassette.interactions[-1].hash
    empty = project_cassette(Cassette(header(), ()))
    assert (empty.last_hash, empty.calls.num_rows, empty.file_sha256) == (header().hash, 0, "")


def test_vocabularies_are_whole_in_every_table_so_that_tables_join() -> None:
    ones = project_cassette(Cassette(header(), (interaction(1),))).calls
    others = project_cassette(Cassette(header(), (interaction(1, outcome=result([], "refusal")),))).calls
    joined = pa.concat_tables([ones, others]).combine_chunks()
    assert joined["stop_reason"].to_pylist() == ["completed", "refusal"]
    assert ones["stop_reason"].chunk(0).dictionary.equals(others["stop_reason"].chunk(0).dictionary)
