"""Flight records in files: saved snapshots and logs that survive a crash."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cassette_lab.errors import ConfigError, FormatError, LockedError, MissingFileError
from cassette_lab.flight.members import _Node, _record, record_from_json
from cassette_lab.flight.model import (
    ERROR_KINDS,
    FlightRecord,
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
from cassette_lab.flight.persist import FlightWriter, rotated
from cassette_lab.flight.quick import quick_record
from cassette_lab.flight.reader import read_flights, read_log, read_snapshot, save_snapshot
from cassette_lab.flight.recorder import FlightRecorder
from tests.unit.flight_samples import PROMPT, record

DONE = Outcome("finished", finish="stop", total_ms=2.5, first_chunk_ms=1.25, usage=Usage(3, 1, cache_read_tokens=2))
RETRY = RecordExtra(PROMPT, "RATE_LIMIT", "user", ended_by="run-end", http_status=429)

_texts = st.text(st.characters(), max_size=8)
_counts = st.dictionaries(_texts, st.integers(0, 9), max_size=3)
_amounts = st.none() | st.integers(0, 2**53 - 1) | st.floats(0, 1e9)
_prompts = st.builds(
    PromptAssembly,
    st.lists(st.builds(NamedSize, _texts, st.integers(0, 9)), max_size=2).map(tuple),
    st.lists(st.builds(NamedSize, _texts, st.integers(0, 9)), max_size=2).map(tuple),
    st.lists(_texts, max_size=2).map(tuple),
    st.lists(_texts, max_size=2).map(tuple),
)
_requests = st.builds(
    RequestProjection,
    _texts,
    _texts,
    st.builds(MessageCounts, st.integers(0, 9), _counts, _counts, _counts),
    st.integers(0, 9),
    st.lists(st.builds(ToolShape, _texts, st.integers(0, 9)), max_size=2).map(tuple),
    st.none() | _texts,
    st.none() | st.floats(-5, 5),
    st.none() | st.integers(0, 2**53 - 1),
    st.none() | st.integers(0, 9),
)
_usages = st.none() | st.builds(Usage, _amounts, _amounts, _amounts, _amounts, _amounts)
_times = st.floats(0, 1e9)
_none = st.none()
_outcomes = (
    st.just(Outcome("running"))
    | st.builds(Outcome, st.just("finished"), _texts, _none, _none, _times, _amounts, _usages)
    | st.builds(Outcome, st.just("threw"), _none, st.sampled_from(ERROR_KINDS), _none, _times, _none, _usages)
    | st.builds(Outcome, st.just("incomplete"), _none, _none, st.just("consumer-threw"), _times, _amounts, _none)
)
_records = st.builds(
    FlightRecord,
    _texts,
    _texts,
    st.integers(0, 9),
    st.integers(0, 9),
    st.integers(1, 9),
    st.integers(0, 2**42),
    _requests,
    st.none() | _prompts,
    st.builds(Omissions, *[st.integers(0, 3)] * 10),
    _outcomes,
    st.builds(
        RecordExtra,
        st.none() | _prompts,
        st.sampled_from([None, "TIMEOUT", "OTHER"]),
        st.sampled_from([None, "user", "timeout", "dispose"]),
        st.booleans(),
        st.sampled_from([None, "run-end"]),
    ),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_records)
def test_a_record_is_read_as_it_was_written(made: FlightRecord) -> None:
    written = json.loads(json.dumps([made.to_json(), made.extra.to_json()]))
    assert record_from_json(*written) == made


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_records, st.data())
def test_the_quick_reader_is_right_or_silent(made: FlightRecord, data: st.DataObject) -> None:
    written = json.loads(json.dumps(made.to_json()))
    if data.draw(st.booleans()):
        place = written
        while True:
            name = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
            if not place[name] or not isinstance(place[name], (dict, list)) or data.draw(st.integers(0, 3)) == 0:
                break
            place = place[name]
        place[name] = data.draw(st.sampled_from([None, -1, 1.5, 3.0, True, "x", [], {}, float("inf"), 2**53, {"kind": "stop"}]))
    quick = quick_record(written, {})
    if quick is not None:
        assert _record(_Node(written, ""), {}) == quick


class TestSnapshots:
    def test_what_goes_beyond_the_protocol_stands_beside_it(self, tmp_path: Path) -> None:
        recorder = FlightRecorder()
        recorder.insert(record("a"))
        recorder.settle("a", DONE, RETRY)
        recorder.insert_auxiliary(record("b", extra=RecordExtra(auxiliary=True)))
        snapshot, path = recorder.snapshot(), tmp_path / "run.flight.json"
        save_snapshot(snapshot, path)
        value = json.loads(path.read_text(encoding="utf-8"))
        extensions = value.pop("extensions")
        assert value == snapshot.to_json()
        assert [name for name in value["records"][0] if name == "extra"] == []
        assert extensions["cassette_lab"]["extras"]["a"]["errorCode"] == "RATE_LIMIT"
        assert read_snapshot(path) == snapshot
        assert read_flights(path).auxiliary == snapshot.auxiliary
        assert [each.name for each in tmp_path.iterdir()] == ["run.flight.json"]

    def test_a_plain_one_is_the_protocols(self, tmp_path: Path) -> None:
        path = tmp_path / "plain.flight.json"
        save_snapshot(Snapshot(records=(record(),)), path)
        assert set(json.loads(path.read_text(encoding="utf-8"))) == {"info", "revision", "health", "records"}

    @pytest.mark.parametrize(
        ("change", "field"),
        [
            (lambda value: value.pop("info"), "info"),
            (lambda value: value["info"].update(protocolVersion=2), "info.protocolVersion"),
            (lambda value: value.update(revision=-1), "revision"),
            (lambda value: value["health"].update(captured="1"), "health.captured"),
            (lambda value: value["health"]["correlationMissesByReason"].pop("missing-signal"),
             "health.correlationMissesByReason.missing-signal"),
            (lambda value: value["records"].append(7), "records[1]"),
            (lambda value: value["records"].append(value["records"][0]), "records[1].id"),
            (lambda value: value["records"][0].update(schemaVersion=2), "records[0].schemaVersion"),
            (lambda value: value["records"][0]["request"]["tools"].append({"name": "x"}),
             "records[0].request.tools[1].parameterNodes"),
            (lambda value: value["records"][0]["outcome"].update(kind="odd"), "records[0].outcome.kind"),
            (lambda value: value["records"][0]["outcome"].update(kind="finished"), "records[0].outcome.finish"),
            (lambda value: value["records"][0]["request"].update(temperature=None), "records[0].request.temperature"),
            (lambda value: value.update(extensions={"cassette_lab": {"extras": {"r1": {"errorCode": "private"}}}}),
             "extensions.cassette_lab.extras.r1.errorCode"),
        ],
    )  # fmt: skip
    def test_what_breaks_the_format_is_named(self, tmp_path: Path, change: Any, field: str) -> None:
        value = Snapshot(records=(record(),)).to_json()
        change(value)
        path = tmp_path / "broken.flight.json"
        path.write_text(json.dumps(value), encoding="utf-8")
        with pytest.raises(FormatError) as raised:
            read_flights(path)
        assert (raised.value.field, raised.value.path) == (field, str(path))
        assert field in str(raised.value)

    @pytest.mark.parametrize("text", ["", "[]", "{", "7", '{"a":1,"a":2}', "\ufeff{}"])
    def test_what_is_none(self, tmp_path: Path, text: str) -> None:
        path = tmp_path / "none.flight.json"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(FormatError):
            read_flights(path)

    def test_a_missing_file(self, tmp_path: Path) -> None:
        with pytest.raises(MissingFileError):
            read_snapshot(tmp_path / "none")


class TestLogs:
    def test_a_record_is_told_by_its_last_line(self, tmp_path: Path) -> None:
        path = tmp_path / "flights.jsonl"
        recorder = FlightRecorder(1)
        recorder.insert(record("before"))
        recorder.persist(path)
        recorder.insert(record("a"))
        recorder.settle("before", DONE, RETRY)  # has left the ring
        recorder.settle("a", DONE)
        recorder.insert_auxiliary(record("b", extra=RecordExtra(auxiliary=True)))
        recorder.insert(record("\ud800\u202e"))
        recorder.dispose()
        flights = read_flights(path)
        assert [(each.id, each.outcome.kind) for each in flights.records] == [
            ("\ud800\u202e", "running"), ("a", "finished"), ("before", "finished"),
        ]  # fmt: skip
        assert flights.records[2].extra == RETRY
        assert [each.id for each in flights.auxiliary] == ["b"]
        assert path.read_bytes().isascii()

    def test_writing_waits_for_the_loops_next_turn(self, tmp_path: Path) -> None:
        path = tmp_path / "flights.jsonl"

        async def run() -> None:
            recorder = FlightRecorder()
            recorder.persist(path)
            empty = path.stat().st_size
            recorder.insert(record())
            recorder.settle("r1", DONE)
            assert path.stat().st_size == empty
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert len(path.read_bytes().splitlines()) == 3
            recorder.dispose()

        asyncio.run(run())

    def test_a_killed_process_leaves_a_log_that_goes_on(self, tmp_path: Path) -> None:
        path = tmp_path / "flights.jsonl"
        code = (
            "import os, sys; from cassette_lab.flight.recorder import FlightRecorder;"
            "from tests.unit.flight_samples import record;"
            "recorder = FlightRecorder(); recorder.persist(sys.argv[1]); recorder.insert(record('a')); os._exit(9)"
        )
        assert subprocess.run([sys.executable, "-c", code, str(path)], check=False, timeout=60).returncode == 9
        with path.open("ab") as file:
            file.write(b'{"record":{"schemaVersion":1,"id":"torn')
        flights = read_flights(path)
        assert ([each.id for each in flights.records], flights.torn_bytes) == (["a"], 39)
        with FlightWriter(path) as writer:
            writer.add(record("b"))
        assert [each.id for each in read_flights(path).records] == ["b", "a"]
        assert read_flights(path).torn_bytes == 0

    def test_files_are_bounded(self, tmp_path: Path) -> None:
        path = tmp_path / "flights.jsonl"
        with FlightWriter(path, max_bytes=4_000, keep=2) as writer:
            for number in range(60):
                writer.add(record(f"r{number}"))
        files = sorted(tmp_path.iterdir())
        assert files == [path, rotated(path, 1), rotated(path, 2)]
        assert all(file.stat().st_size <= 4_000 for file in files)
        names = [each.id for each in read_log(path).records]
        assert names == [f"r{number}" for number in range(59, 59 - len(names), -1)]
        assert len(names) > len(read_log(path, rotated_too=False).records) > 0

    def test_a_record_larger_than_a_file_is_kept_whole(self, tmp_path: Path) -> None:
        path = tmp_path / "flights.jsonl"
        with FlightWriter(path, max_bytes=10, keep=0) as writer:
            writer.add(record("a"))
            writer.add(record("b"))
        assert [each.id for each in read_log(path).records] == ["b"]

    def test_one_writer_at_a_time(self, tmp_path: Path) -> None:
        path = tmp_path / "flights.jsonl"
        recorder = FlightRecorder()
        writer = recorder.persist(path, fsync=True)
        with pytest.raises(LockedError):
            FlightWriter(path)
        with pytest.raises(ConfigError, match="already"):
            recorder.persist(tmp_path / "other.jsonl")
        writer.close()
        writer.close()
        recorder.insert(record())
        recorder.persist(tmp_path / "other.jsonl").close()
        assert [each.id for each in read_flights(tmp_path / "other.jsonl").records] == ["r1"]

    def test_another_file_is_left_alone(self, tmp_path: Path) -> None:
        for number, text in enumerate(("precious", "precious\n", '{"format":"other"}\n')):
            path = tmp_path / f"{number}.txt"
            path.write_text(text, encoding="utf-8")
            with pytest.raises(FormatError, match="not the log"):
                FlightWriter(path)
            assert path.read_text(encoding="utf-8") == text
        with pytest.raises(ConfigError, match="cannot be opened"):
            FlightWriter(tmp_path / "no" / "such" / "folder")
        with pytest.raises(ConfigError, match="max_bytes"):
            FlightWriter(tmp_path / "x", max_bytes=0)

    def test_a_write_that_fails_ends_the_writing_only(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        recorder = FlightRecorder()
        writer = recorder.persist(tmp_path / "flights.jsonl")

        def full(*_: Any) -> int:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("cassette_lab.flight.persist.os.write", full)
        recorder.insert(record())
        assert recorder.settle("r1", DONE)
        assert writer.closed
        assert writer.failure is not None

    @pytest.mark.parametrize(
        ("line", "field"),
        [
            ("7", ""),
            ("{}", ""),
            ("{", None),
            ('{"record":{"id":"a"},"record":{"id":"b"}}', None),
            ('{"record":{}}', "record.schemaVersion"),
            ('{"settled":"x"}', "outcome"),
        ],
    )
    def test_a_bad_line_is_named(self, tmp_path: Path, line: str, field: str | None) -> None:
        path = tmp_path / "flights.jsonl"
        with FlightWriter(path) as writer:
            writer.add(record())
        with path.open("a", encoding="utf-8") as file:
            file.write(f"\n{line}\n")
        with pytest.raises(FormatError) as raised:
            read_log(path)
        assert (raised.value.line, raised.value.field) == (4, field)


class TestUnderStrain:
    def test_a_log_that_is_rotated_while_it_is_read(self, tmp_path: Path) -> None:
        path = tmp_path / "run.jsonl"
        recorder = FlightRecorder()
        recorder.persist(path, max_bytes=20_000, keep=2)
        recorder.insert(record("0"))
        done = threading.Event()

        def read() -> int:
            times = 0
            while not done.is_set():
                numbers = [int(each.id) for each in read_log(path).records]
                assert numbers == list(range(numbers[0], numbers[0] - len(numbers), -1))
                times += 1
            return times

        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(read)
            for number in range(1, 400):
                recorder.insert(record(str(number)))
                time.sleep(0.001)
            done.set()
            assert reading.result() > 0
        recorder.dispose()
        assert read_log(path).records[0].id == "399"

    def test_threads_share_a_log(self, tmp_path: Path) -> None:
        path = tmp_path / "run.jsonl"
        recorder = FlightRecorder(1)
        recorder.persist(path)

        async def some(name: str) -> None:
            for number in range(40):
                recorder.insert(record(f"{name}{number}"))
                await asyncio.sleep(0)

        with ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda name: asyncio.run(some(name)), "abc"))
        recorder.dispose()
        assert {each.id for each in read_log(path).records} == {f"{name}{number}" for name in "abc" for number in range(40)}

    def test_a_device_is_no_log(self) -> None:  # others than this one never come to an end
        with pytest.raises(ConfigError, match="an ordinary file"):
            FlightWriter(os.devnull)

    @pytest.mark.parametrize("options", [{"max_bytes": "1"}, {"keep": -1}, {"keep": 1.5}, {"max_bytes": True}])
    def test_options_are_whole_numbers(self, tmp_path: Path, options: dict[str, Any]) -> None:
        with pytest.raises(ConfigError, match="max_bytes is a number of bytes"):
            FlightWriter(tmp_path / "run.jsonl", **options)

    def test_a_path_that_cannot_be(self) -> None:
        with pytest.raises(ConfigError, match="cannot be opened"):
            FlightWriter("\0")
