"""The lab: what its tables hold, SQL that can do no harm, and a display that shows hostile texts as texts."""

from __future__ import annotations

import copy
import datetime as dt
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cassette_lab.cassette.model import ProviderFacts
from cassette_lab.cassette.reader import read_cassette
from cassette_lab.contracts import Capabilities
from cassette_lab.errors import ConfigError
from cassette_lab.tables import Lab, SqlResult, load, write_tables
from cassette_lab.tables.schemas import FLIGHT_TABLES, SESSION_TABLES, TABLES, VERSION, table_schema
from tests.unit.cassette_samples import full, header, interaction, result, siblings, write
from tests.unit.tables_page import PAGE, page


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    write(tmp_path / "a.cassette.jsonl", siblings())
    write(tmp_path / "b.cassette.jsonl", full())
    (tmp_path / "c.cassette.jsonl").write_text("{}\n")
    return load(tmp_path, on_error="collect")


def test_every_table_has_its_schema_with_documented_columns_and_a_version(lab: Lab) -> None:
    assert tuple(lab.tables) == TABLES == ("cassettes", "calls", *SESSION_TABLES, *FLIGHT_TABLES, "problems")
    for name, table in lab.tables.items():
        assert table.schema.equals(table_schema(name), check_metadata=True)
        assert table.schema.metadata == {b"cassette_lab.table": name.encode(), b"cassette_lab.schema": str(VERSION).encode()}
        assert table.column_names[0] == "source"
        for field in table.schema:
            assert len(field.metadata[b"doc"]) > 5, field.name
            unit = field.metadata.get(b"unit", b"").decode()
            if field.name.endswith("_ms") or pa.types.is_timestamp(field.type):
                assert unit == "ms"
            if field.name.endswith("bytes"):
                assert unit == "bytes"
        table.validate(full=True)
    assert table_schema("calls", bodies=True).names[-4:] == ["prompt", "output", "structured", "error_message"]


def test_the_page_of_the_columns_is_what_the_schemas_say() -> None:
    assert PAGE.read_text("utf-8") == page(), "write it anew: python -m tests.unit.tables_page"


def test_a_cassette_is_a_row(tmp_path: Path) -> None:
    provider = ProviderFacts("mine", "spawn", Capabilities(tool_filter=False), inherits_parent_context=True)
    policy = {"redaction_patterns": ("a+", "half \ud83d"), "redact_secrets": True}
    facts = header(provider=provider, created_at="Mon, 04 May 2026 09:30:00 GMT", **policy)
    path = write(tmp_path / "a.cassette.jsonl", (facts, [interaction(1), interaction(2, outcome=result([], "aborted"))]))
    lab = load(path)
    assert lab.cassettes.to_pylist() == [
        {
            "source": "a.cassette.jsonl",
            "cassette_id": "sample",
            "created_at": dt.datetime(2026, 5, 4, 9, 30, tzinfo=dt.UTC),
            "target": "0.1.0-rc.7",
            "provider": "mine",
            "upstream": "spawn",
            "supports_output_schema": True,
            "supports_depth_limit": True,
            "supports_tool_filter": False,
            "supports_persona": True,
            "inherits_parent_context": True,
            "request_storage": "metadata",
            "redact_secrets": True,
            "redaction_patterns": ["a+", "half \\ud83d"],
            "interactions": 2,
            "completed": 1,
            "failed": 0,
            "aborted": 1,
            "ambiguous_groups": 0,
            "redacted_results": 0,
            "duration_ms": 12.5,
            "bytes": path.stat().st_size,
            "file_sha256": read_cassette(path).file_sha256,
        }
    ]


def test_sql_over_the_tables(lab: Lab) -> None:
    found = lab.sql("select source, count(*) as calls, max(started_at) as last from calls group by 1 order by 1")
    assert found.to_pylist() == [
        {"source": "a.cassette.jsonl", "calls": 8, "last": dt.datetime(2026, 11, 30, 10, 0, 2, tzinfo=dt.UTC)},
        {"source": "b.cassette.jsonl", "calls": 2, "last": dt.datetime(2026, 11, 30, 10, 0, 1, tzinfo=dt.UTC)},
    ]
    assert (found.column_names, found.num_rows, len(found)) == (["source", "calls", "last"], 2, 2)
    assert found["calls"].to_pylist() == [8, 2]
    assert list(found.to_pandas()["calls"]) == [8, 2]
    assert [row["calls"] for row in found] == [8, 2]
    assert pa.table(found).equals(found.table)
    assert lab.sql("select count(*) n from cassettes join problems using (source)")["n"].to_pylist() == [0]
    by_hour = lab.sql("select date_trunc('hour', started_at) h, count(*) n from calls group by 1")
    assert by_hour.to_pylist() == [{"h": dt.datetime(2026, 11, 30, 10, tzinfo=dt.UTC), "n": 10}]


@pytest.mark.parametrize(
    "text",
    [
        "select * from read_csv('{path}')",
        "select * from '{path}'",
        "copy calls to '{path}.copy'",
        "attach '{path}.db'",
        "set enable_external_access = true; select * from read_csv('{path}')",
        "install httpfs",
        "select * from hidden",
    ],
)
def test_sql_reaches_no_file_and_no_variable(lab: Lab, tmp_path: Path, text: str) -> None:
    hidden = pa.table({"secret": [1]})
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    with pytest.raises(ConfigError, match="the SQL cannot be run"):
        lab.sql(text.format(path=secret))
    assert {each.name for each in tmp_path.iterdir()} >= {"secret.csv"}
    assert not list(tmp_path.glob("secret.csv.*"))
    assert len(hidden) == 1


@pytest.mark.parametrize("text", ["", "selekt 1", "select nothing from calls"])
def test_sql_that_gives_no_rows_is_one_sentence(lab: Lab, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        lab.sql(text)
    assert "\n" not in str(caught.value)


def test_a_query_changes_nothing_for_the_next_one(lab: Lab) -> None:
    lab.sql("create or replace temp view calls as select 1 as x; select * from calls")
    assert lab.sql("select count(*) n from calls")["n"].to_pylist() == [10]


def test_pandas(lab: Lab) -> None:
    calls = lab.to_pandas()
    assert calls.shape == (10, 34)
    assert str(calls["started_at"].dtype) == "datetime64[ms, UTC]"
    assert str(calls["outcome_kind"].dtype) == "category"
    assert lab.to_pandas("problems")["line"].tolist() == [1]
    with pytest.raises(
        ConfigError,
        match="there are cassettes, calls, sessions, turns, steps, model_calls, tool_calls, "
        "compactions, notes, flights, flight_health, problems",
    ):
        lab.to_pandas("nothing")


def bundle(shown: Any) -> dict[str, str]:
    found: dict[str, str] = shown._repr_mimebundle_()
    return found


def test_the_lab_shows_counts_problems_and_the_next_step(lab: Lab) -> None:
    text = bundle(lab)["text/plain"]
    assert text == repr(lab)
    first, *rest = text.split("\n")
    assert first == "✕ 2 cassettes verified · 10 calls · 4 failed · 1 aborted · 1 file not loaded"
    assert rest[0] == "  a.cassette.jsonl · 8 calls · 2 failed · 1 aborted"
    assert rest[2].startswith("  ✕ c.cassette.jsonl, line 1: ")
    assert "lab.problems" in text
    assert "lab.sql(" in text
    html = bundle(lab)["text/html"]
    assert html.startswith("<div><b>✕ 2 cassettes verified")
    assert "<td" in html
    assert "<script" not in html


def test_a_whole_and_an_empty_lab(tmp_path: Path) -> None:
    lab = load(write(tmp_path / "a.cassette.jsonl", (header(), [])))
    assert (
        repr(lab)
        == "✓ 1 cassette verified · 0 calls\n  a.cassette.jsonl · 0 calls\n  no calls were recorded in what was loaded"
    )
    assert "not loaded" not in bundle(lab)["text/html"]
    assert lab.sql("select count(*) n from calls")["n"].to_pylist() == [0]
    assert lab.to_pandas().shape == (0, 34)
    assert lab.cassettes["duration_ms"].to_pylist() == [None]


def test_of_many_files_the_first_are_shown(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole", siblings()).read_bytes()
    for number in range(14):
        (tmp_path / f"{number:02}.cassette.jsonl").write_bytes(whole)
        (tmp_path / f"bad-{number:02}.cassette.jsonl").touch()
    text = repr(load(tmp_path, on_error="collect"))
    assert "09.cassette.jsonl" in text
    assert "10.cassette.jsonl" not in text
    assert "… and 4 more cassettes: lab.to_pandas('cassettes')" in text
    assert "… and 4 more files not loaded: lab.to_pandas('problems')" in text


HOSTILE = "<img src=x onerror=alert(1)>\u202e\x1b[31m&"


def test_hostile_names_and_texts_are_shown_as_texts(tmp_path: Path) -> None:
    folder = tmp_path / "evil<script>\u202e"
    folder.mkdir()
    write(folder / "a.cassette.jsonl", (header(), [interaction(1, call_key=HOSTILE)]))
    (folder / "b.cassette.jsonl").write_text(f'{{"kind":"{HOSTILE.replace(chr(27), "")}"}}\n')
    lab = load(tmp_path, on_error="collect")
    for shown in (lab, lab.sql("select call_key, source from calls")):
        for text in bundle(shown).values():
            assert "\u202e" not in text
            assert "\x1b" not in text
        assert "<img" not in bundle(shown)["text/html"]
        assert "<script" not in bundle(shown)["text/html"]
    assert "\\u{202e}" in repr(lab)


def test_a_result_shows_its_first_rows(lab: Lab) -> None:
    assert repr(lab.sql("select 1 as a, 'x' as long_name union all select 22, null order by a")) == (
        "a   long_name\n1   x\n22\n2 rows"
    )
    many = SqlResult(pa.table({"n": list(range(50)), "t": ["y" * 200] * 50}))
    assert repr(many).endswith("50 rows, the first 20 shown; .to_pandas() has all")
    assert many[49] == many[-1] == {"n": 49, "t": "y" * 200}
    assert many["n"].to_pylist() == list(range(50))
    with pytest.raises(IndexError):
        many[50]
    assert "y" * 79 + "…" in repr(many)
    assert "y" * 80 not in repr(many)
    assert bundle(many)["text/html"].count("<tr>") == 21


@pytest.mark.parametrize("name", ["parquet", "arrow"])
def test_tables_are_written_and_read_again(lab: Lab, tmp_path: Path, name: Any) -> None:
    folder = tmp_path / "out" / "tables"
    written = write_tables(lab, folder, format=name)
    names = ["cassettes", "calls", "problems"]  # without sessions there are no tables of any
    assert written == [(table, len(lab.tables[table]), folder / f"{table}.{name}") for table in names]
    assert sorted(each.name for each in folder.iterdir()) == sorted(f"{table}.{name}" for table in names)
    for table, _, path in written:
        again = pq.read_table(path) if name == "parquet" else pa.ipc.open_file(path).read_all()
        assert (again.column_names, again.to_pylist()) == (lab.tables[table].column_names, lab.tables[table].to_pylist())
        assert again.schema.metadata[b"cassette_lab.schema"] == b"1"
        assert again.schema.field("source").metadata[b"doc"]
    write_tables(lab, folder, format=name)


def test_tables_that_cannot_be_written(lab: Lab, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="parquet or arrow, not csv"):
        write_tables(lab, tmp_path, format="csv")  # type: ignore[arg-type]
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="name another folder"):
        write_tables(lab, tmp_path / "file")


def test_numbers_are_shown_short_and_kept_whole() -> None:
    found = SqlResult(pa.table({"ratio": [1 / 3], "ms": [2000 / 3], "tiny": [1e-7 / 3], "whole": [2.0]}))
    assert repr(found).splitlines()[1].split() == ["0.333", "666.667", "3.33e-08", "2.0"]
    assert found["ratio"].to_pylist() == [1 / 3]


def test_a_lab_can_be_copied_and_sent_to_another_process(lab: Lab) -> None:
    for other in (copy.deepcopy(lab), pickle.loads(pickle.dumps(lab))):  # noqa: S301 - our own
        assert dict(other.tables) == dict(lab.tables)
        assert other.root == lab.root
        assert other.sql("select count(*) as calls from calls").to_pylist() == [{"calls": len(lab.calls)}]
