"""Flight records in a lab: what a row tells, each record once, found by name and by content, joined to session logs."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from cassette_lab.cli import main
from cassette_lab.errors import FormatError
from cassette_lab.flight.model import (
    Health,
    MessageCounts,
    NamedSize,
    Omissions,
    Outcome,
    PromptAssembly,
    RecordExtra,
    RequestProjection,
    Snapshot,
    ToolShape,
    Usage,
)
from cassette_lab.flight.observer import attach
from cassette_lab.flight.persist import FlightWriter, rotated
from cassette_lab.flight.reader import save_snapshot
from cassette_lab.flight.recorder import FlightRecorder
from cassette_lab.host.agent import Agent
from cassette_lab.host.context import Context
from cassette_lab.host.models.failures import ModelFailure
from cassette_lab.host.models.scripted import Call, ScriptedModel
from cassette_lab.notebook import reports
from cassette_lab.notebook.options import parse
from cassette_lab.tables import Lab, load, write_tables
from cassette_lab.tables.flight_columns import FLIGHT_HEALTH, FLIGHTS
from tests.unit.flight_samples import PROMPT, record
from tests.unit.host_samples import patient
from tests.unit.session_samples import header, text, turn, write

FINISHED = Outcome("finished", finish="stop", total_ms=80.5, first_chunk_ms=12.25, usage=Usage(100, 20, cache_read_tokens=5))
START = 1_700_000_000_000
SNAPSHOTS = Path(__file__).resolve().parents[3] / "shared" / "golden" / "flight"
RUNS = SNAPSHOTS.parent / "session" / "flight"
JOIN = """
    select f.session_id, f.turn, f.step, f.attempt, f.outcome_kind, f.tools, m.finish_kind, m.settled_as
    from flights f join model_calls m using (session_id, turn, step, attempt)
    where not m.inherited order by all
"""


def save(path: Path, *records: Any, auxiliary: tuple[Any, ...] = (), **health: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    save_snapshot(Snapshot(7, Health(**health), tuple(records), auxiliary), path)
    return path


def keep(path: Path, *records: Any, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with FlightWriter(path, **options) as writer:
        for each in records:
            writer.add(each)
            writer.flush()
    return path


def ids(lab: Lab) -> list[str]:
    return list(lab.flights["record_id"].to_pylist())


def test_a_request_is_a_row(tmp_path: Path) -> None:
    counts = MessageCounts(3, {"user": 2, "assistant": 1}, {"user": 2, "plugin:x": 1}, {"text": 4})
    tools = (ToolShape("read", 5), ToolShape("write", 9))
    request = RequestProjection("mock", "m-1", counts, 40, tools, "high", 0.5, 4096, 2)
    omissions = Omissions(request_tools=2, oversized_names=1, prompt_sections=4)
    extra = RecordExtra(error_code="RATE_LIMIT", aborted="user", http_status=429)
    full = record("r1", request=request, prompt_assembly=PROMPT, omissions=omissions, outcome=FINISHED, extra=extra)
    (row,) = load(save(tmp_path / "a.flight.json", full)).flights.to_pylist()
    assert row == {
        "source": "a.flight.json",
        "record_id": "r1",
        "session_id": "s",
        "turn": 1,
        "step": 1,
        "attempt": 1,
        "started_at": dt.datetime(2023, 11, 14, 22, 13, 20, tzinfo=dt.UTC),
        "auxiliary": False,
        "provider": "mock",
        "model": "m-1",
        "reasoning_effort": "high",
        "temperature": 0.5,
        "max_tokens": 4096,
        "stop_sequences": 2,
        "messages": 3,
        "messages_by_role": [("user", 2), ("assistant", 1)],
        "messages_by_source": [("user", 2), ("plugin:x", 1)],
        "blocks_by_type": [("text", 4)],
        "system_characters": 40,
        "tools": 2,
        "schema_nodes": 14,
        "prompt_sections": 1,
        "prompt_contexts": 1,
        "prompt_variables": 1,
        "prompt_characters": 30,
        "prompt_kept": False,
        "outcome_kind": "finished",
        "finish_kind": "stop",
        "error_kind": None,
        "incomplete_reason": None,
        "error_code": "RATE_LIMIT",
        "error_status": 429,
        "aborted_by": "user",
        "ended_by": None,
        "first_chunk_ms": 12.25,
        "duration_ms": 80.5,
        "input_tokens": 100,
        "output_tokens": 20,
        "cache_read_tokens": 5,
        "cache_write_tokens": None,
        "reasoning_tokens": None,
        "request_omissions": 3,
        "prompt_omissions": 4,
    }
    assert [*row][1:] == [field.name for field in FLIGHTS]


def test_what_is_not_known_is_null(tmp_path: Path) -> None:
    bare = record("r1")
    retry = record("r2", attempt=2, extra=RecordExtra(PromptAssembly((NamedSize("a", 3),)), ended_by="run-end"))
    failed = record("r3", step=2, outcome=Outcome("threw", error="timeout-error", total_ms=3, usage=Usage(1.5)))
    title = record("r4", turn=0, step=0, started_at_ms=START + 5, extra=RecordExtra(auxiliary=True))
    path = save(tmp_path / "a.flight.json", failed, retry, bare, auxiliary=(title,))
    one, two, three, four = load(path).flights.to_pylist()
    for name in ("temperature", "max_tokens", "stop_sequences", "prompt_sections", "prompt_characters", "prompt_kept"):
        assert one[name] is None
    for name in ("finish_kind", "error_kind", "first_chunk_ms", "duration_ms", "input_tokens"):
        assert one[name] is None
    assert (two["prompt_sections"], two["prompt_contexts"], two["prompt_characters"], two["prompt_kept"]) == (1, 0, 3, True)
    assert two["ended_by"] == "run-end"
    assert (three["error_kind"], three["duration_ms"], three["input_tokens"]) == ("timeout-error", 3, None)
    assert (four["auxiliary"], four["turn"], four["step"], four["attempt"]) == (True, None, None, None)


def test_a_snapshot_tells_the_health_of_its_recorder_and_a_log_does_not(tmp_path: Path) -> None:
    missed = {"missing-signal": 1, "missing-pending": 2, "agent-mismatch": 3, "session-mismatch": 4}
    counts = {"captured": 9, "completed": 8, "active": 1, "retained": 1, "evicted": 8, "truncated_records": 2}
    health: dict[str, Any] = {**counts, "correlation_misses": 10, "projection_failures": 3, "subscriber_failures": 4}
    snapshot = save(tmp_path / "a.flight.json", record("r1"), correlation_misses_by_reason=missed, **health)
    log = keep(tmp_path / "b.jsonl", record("r2"), record("r3", extra=RecordExtra(auxiliary=True)))
    with log.open("ab") as file:
        file.write(b'{"rec')
    first, second = load(tmp_path).flight_health.to_pylist()
    misses = {f"{reason.replace('-', '_')}_misses": count for reason, count in missed.items()}
    told = {"kind": "snapshot", "records": 1, "auxiliary_records": 0, "revision": 7, "torn_bytes": 0, **health, **misses}
    assert first == {"source": "a.flight.json", "bytes": snapshot.stat().st_size, **told}
    known = {"kind": "log", "records": 1, "auxiliary_records": 1, "bytes": log.stat().st_size, "torn_bytes": 5}
    unknown = {field.name: None for field in FLIGHT_HEALTH if field.name not in known}
    assert second == {"source": "b.jsonl", **known, **unknown}


def test_a_record_that_several_files_have_is_one_row_and_tells_its_end(tmp_path: Path) -> None:
    running, other = record("r1"), record("r2", step=2, started_at_ms=START + 10)
    save(tmp_path / "a.flight.json", running)
    save(tmp_path / "b.flight.json", other, running._replace(outcome=FINISHED))
    save(tmp_path / "c.flight.json", other._replace(outcome=FINISHED), running._replace(outcome=FINISHED))
    lab = load(tmp_path)
    rows = lab.flights.select(["source", "record_id", "outcome_kind"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        ("b.flight.json", "r1", "finished"),
        ("c.flight.json", "r2", "finished"),
    ]
    assert lab.flight_health["records"].to_pylist() == [1, 2, 2]
    assert len(load(tmp_path / "a.flight.json", tmp_path / "a.flight.json").flights) == 1


def test_equal_ids_of_different_requests_stay_apart(tmp_path: Path) -> None:
    save(tmp_path / "a.flight.json", record("r1"))
    save(tmp_path / "b.flight.json", record("r1", session_id="other"))
    assert ids(load(tmp_path)) == ["r1", "r1"]


def test_files_are_found_by_name_and_by_what_is_in_them(tmp_path: Path) -> None:
    save(tmp_path / "a.flight.json", record("r1"))
    save(tmp_path / "deep" / "saved.json", record("r2", turn=2))
    keep(tmp_path / "kept.jsonl", record("r3", turn=3))
    write(tmp_path / "session.jsonl", text(header(id="log"), *turn()))
    (tmp_path / "package.json").write_text('{"info": {}, "records": []}')
    lab = load(tmp_path)
    assert lab.flights["source"].to_pylist() == ["a.flight.json", "deep/saved.json", "kept.jsonl"]
    assert lab.sessions["session_id"].to_pylist() == ["log"]
    assert ids(load(tmp_path / "deep" / "saved.json", tmp_path / "kept.jsonl")) == ["r2", "r3"]
    assert ids(load(str(tmp_path / "**" / "*.flight.json"))) == ["r1"]
    assert ids(load(str(tmp_path / "*"))) == ["r1", "r2", "r3"]


def test_the_full_files_of_a_log_belong_to_it(tmp_path: Path) -> None:
    log = keep(tmp_path / "kept.jsonl", *(record(f"r{number}", step=number) for number in range(1, 4)), max_bytes=600)
    assert rotated(log, 2).is_file()
    lab = load(tmp_path)
    assert ids(lab) == ["r1", "r2", "r3"]
    sizes = [path.stat().st_size for path in tmp_path.iterdir()]
    assert lab.flight_health.select(["source", "bytes"]).to_pylist() == [{"source": "kept.jsonl", "bytes": sum(sizes)}]
    log.unlink()
    assert sorted(ids(load(tmp_path))) == ["r1", "r2"]


def test_a_broken_file_is_a_problem_and_gives_no_rows(tmp_path: Path) -> None:
    save(tmp_path / "good.flight.json", record("r1"))
    document = json.loads((tmp_path / "good.flight.json").read_text())
    document["records"][0]["turn"] = "one"
    (tmp_path / "bad.flight.json").write_text(json.dumps(document))
    log = keep(tmp_path / "bad.jsonl", record("r2", turn=2))
    log.write_bytes(log.read_bytes() + b'{"settled": 1}\n{"nothing": 1}\n')
    (tmp_path / "empty.flight.json").write_bytes(b"")
    with pytest.raises(FormatError, match=r"records\[0\]\.turn"):
        load(tmp_path / "bad.flight.json")
    lab = load(tmp_path, on_error="collect")
    assert ids(lab) == ["r1"]
    problems = {row["source"]: row for row in lab.problems.to_pylist()}
    assert sorted(problems) == ["bad.flight.json", "bad.jsonl", "empty.flight.json"]
    assert problems["bad.jsonl"]["line"] == 3
    assert "turn" in problems["bad.flight.json"]["message"]


def test_hostile_names_are_values(tmp_path: Path) -> None:
    counts = MessageCounts(2, {"\ud800": 1, "\\ud800": 1}, {"\x1b[31m": 2}, {"<b>": 1})
    request = RequestProjection("<script>", "m\ud83d\x1b", counts)
    lab = load(save(tmp_path / "a.flight.json", record("r\udc00", request=request, outcome=FINISHED)))
    (row,) = lab.flights.to_pylist()
    assert row["messages_by_role"] == [("\\ud800", 2)]
    assert lab.sql("select messages_by_role['\\ud800'] as n, model from flights").to_pylist() == [
        {"n": 2, "model": "m\\ud83d\x1b"}
    ]
    shown = lab._repr_mimebundle_()
    assert "<script>" not in shown["text/html"]
    assert "\x1b" not in shown["text/html"] + shown["text/plain"]


def test_the_lab_shows_its_requests(tmp_path: Path) -> None:
    slow = Outcome("finished", finish="stop", total_ms=1900, first_chunk_ms=900, usage=Usage(50, 10))
    rows = [record("r1", outcome=FINISHED), record("r2", step=2, outcome=slow), record("r3", step=3)]
    save(tmp_path / "a.flight.json", *reversed(rows), correlation_misses=2)
    lab = reports.load(parse(f"load {tmp_path}"))  # as the magic does
    shown = lab._repr_mimebundle_()
    assert shown["text/plain"].splitlines()[:3] == [
        "✓ 3 flight records",
        "  3 requests in 1 file of flight records: 2 finished, 1 running · 2 requests not told whose",
        "  mock / m-1 · 3 requests · first chunk 456 ms · total 990 ms (medians)",
    ]
    assert "no calls were recorded" not in shown["text/plain"]
    for cell in ("mock / m-1", "3", "2", "456 ms", "990 ms", "150", "30"):
        assert f"<bdi>{cell}</bdi>" in shown["text/html"]


def test_the_first_line_counts_calls_and_says_which_sessions_failed(tmp_path: Path) -> None:
    async def play() -> None:
        for name, answer in (("good", "Done."), ("bad", ModelFailure("no", code="AUTH"))):
            async with Agent(ScriptedModel(answer), sessions=tmp_path, session_id=name) as agent:
                with contextlib.suppress(ModelFailure):
                    await agent.run("Hi")

    asyncio.run(play())
    save(tmp_path / "a.flight.json", record("r1"))
    first = repr(load(tmp_path)).splitlines()[0]
    assert first == "✓ 2 sessions · 2 turns · 2 model calls · 1 flight record · 1 session failed"


def test_tables_of_flights_are_written_where_there_are_some(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = save(tmp_path / "a.flight.json", record("r1"))
    names = [name for name, _, _ in write_tables(load(path), tmp_path / "tables", format="arrow")]
    assert names == ["cassettes", "calls", "flights", "flight_health", "problems"]
    assert main(["load", str(path), "-o", str(tmp_path / "parquet")]) == 0
    assert re.search(r"^1 row in .*flights\.parquet$", capsys.readouterr().out, re.MULTILINE)
    assert pq.read_table(tmp_path / "parquet" / "flights.parquet").num_rows == 1


def test_retries_and_children_find_their_calls(tmp_path: Path) -> None:
    async def scenario() -> None:
        recorder = FlightRecorder()
        limited = ModelFailure("slow down", code="RATE_LIMIT", status=429, retry_after_s=0)
        async with Context() as host:
            attach(host, recorder)
            parts: dict[str, Any] = {"context": host, "sessions": tmp_path / "logs", "retry": patient([])}
            async with Agent(ScriptedModel("one", "two", "three"), subagents="fork", session_id="parent", **parts) as agent:
                await agent.run("go")
                await asyncio.gather(agent.delegate("x", provider="spawn"), agent.delegate("y", provider="fork"))
            async with Agent(ScriptedModel(limited, "done"), session_id="retried", **parts) as agent:
                await agent.run("go")
        save_snapshot(recorder.snapshot(), tmp_path / "now.flight.json")

    asyncio.run(scenario())
    lab = load(tmp_path)
    assert lab.model_calls["inherited"].to_pylist().count(True) == 1  # what the fork took over is no call of its own
    rows = lab.sql(JOIN).to_pylist()
    assert len(rows) == len(lab.flights) == 5
    retried = [(row["attempt"], row["outcome_kind"], row["finish_kind"]) for row in rows if row["session_id"] == "retried"]
    assert retried == [(1, "threw", "error"), (2, "finished", "stop")]


@pytest.mark.skipif(not SNAPSHOTS.is_dir(), reason="shared data not present")
def test_snapshots_of_the_original_are_loaded_whole() -> None:
    paths = sorted(SNAPSHOTS.rglob("*.flight.json"))
    assert paths
    for path in paths:
        lab = load(path)
        assert len(lab.flights) == len(json.loads(path.read_text("utf-8"))["records"])
        lab.flights.validate(full=True)
    assert len(load(SNAPSHOTS).flight_health) == len(paths)


@pytest.mark.skipif(not RUNS.is_dir(), reason="shared data not present")
def test_requests_of_the_real_runtime_are_the_calls_of_its_logs() -> None:
    runs = [path for path in sorted(RUNS.iterdir()) if path.is_dir()]
    assert runs
    for run in runs:
        lab = load(run)
        rows = lab.sql("""
            select f.model = m.model same, f.duration_ms - m.duration_ms late_ms,
                   f.input_tokens is not distinct from m.input_tokens
                   and f.output_tokens is not distinct from m.output_tokens tokens
            from flights f full join (from model_calls where not inherited) m using (session_id, turn, step, attempt)
        """).to_pylist()
        assert len(rows) == len(lab.flights)
        for row in rows:
            assert row["same"]
            assert row["tokens"]
            assert abs(row["late_ms"]) < 50


def test_requests_are_joined_to_the_calls_of_the_session_logs(tmp_path: Path) -> None:
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    async def scenario() -> None:
        recorder = FlightRecorder()
        recorder.persist(tmp_path / "kept.jsonl")
        async with Context() as host:
            attach(host, recorder)
            model = ScriptedModel([Call("add", a=1, b=2)], "It is 3.", "And again.")
            async with Agent(model, tools=[add], sessions=tmp_path / "logs", session_id="adder", context=host) as agent:
                await agent.run("What is 1 + 2?")
                await agent.run("And now?")
        save_snapshot(recorder.snapshot(), tmp_path / "now.flight.json")
        recorder.dispose()

    asyncio.run(scenario())
    lab = load(tmp_path)
    assert len(lab.flights) == len(lab.model_calls) == 3
    joined = [tuple(row.values()) for row in lab.sql(JOIN)]
    assert [row[:4] for row in joined] == [("adder", 1, 1, 1), ("adder", 1, 2, 1), ("adder", 2, 1, 1)]
    assert [row[4:] for row in joined] == [
        ("finished", 1, "tool-calls", "message"),
        ("finished", 1, "stop", "message"),
        ("finished", 1, "stop", "message"),
    ]
