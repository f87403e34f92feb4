"""The logs that the benchmarks measure on are valid, the same every time, and have both forms of deltas."""

from __future__ import annotations

from pathlib import Path

import cassette_lab as cl
from cassette_lab.session.model import CHUNK_TYPE, ChunkRun
from cassette_lab.session.reader import read_session
from cassette_lab.session.scripts import load_session_scripts
from tests.benchmarks.session_logs import DELTAS, log_file, small_logs

SIZE_BYTES = 300_000


def test_a_log_has_turns_with_packed_and_with_single_deltas(tmp_path: Path) -> None:
    raw, compressed = (log_file(tmp_path, SIZE_BYTES, encoding) for encoding in ("jsonl", "zstd"))
    log = read_session(raw)
    assert raw.stat().st_size >= SIZE_BYTES
    assert not log.problems
    assert not log.torn_bytes
    single = [line for line in raw.read_bytes().split(b"\n") if b'-delta"' in line and CHUNK_TYPE.encode() in line]
    packed = [line for line in raw.read_bytes().split(b"\n") if b'-chunks","seq0"' in line]
    turns = cl.load(raw).turns.num_rows
    assert turns % 2 == 0
    assert len(single) == turns // 2 * (DELTAS + DELTAS // 16)
    assert len(packed) == turns // 2 * 4
    assert any(isinstance(row, ChunkRun) for row in log.rows)
    other = read_session(compressed)
    assert list(other.events()) == list(log.events())
    assert len(load_session_scripts(raw)[0].entries) == turns * 2


def test_a_log_is_the_same_every_time(tmp_path: Path) -> None:
    first, second = (tmp_path / name for name in ("first", "second"))
    first.mkdir()
    second.mkdir()
    assert log_file(first, SIZE_BYTES, "zstd").read_bytes() == log_file(second, SIZE_BYTES, "zstd").read_bytes()


def test_small_sessions_make_a_store(tmp_path: Path) -> None:
    lab = cl.load(small_logs(tmp_path, 9, "zstd"))
    assert (lab.sessions.num_rows, lab.turns.num_rows, lab.problems.num_rows) == (9, 18, 0)
    assert len(set(lab.sessions["session_id"].to_pylist())) == 9
