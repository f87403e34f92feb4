"""A scan shared with a second process: the same rows and refusals, nothing left behind, and no need for that process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cassette_lab.cassette.reader import read_cassette
from cassette_lab.cassette.scan import project, ranges, sharing
from cassette_lab.cassette.scan.part import FEW_BYTES
from tests.unit.test_scan import assert_same, changed, refusal, sample, save

CALLS = 200

WITHOUT_PANDAS = "from cassette_lab.cassette.without_pandas import do_without_pandas\ndo_without_pandas()\n"
"""Not needed, and quicker."""


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Many ranges in a small file; no process is left after the test."""
    monkeypatch.setattr(ranges, "BLOCK_BYTES", 60_000)
    yield
    sharing._Worker.end_current()


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the ranges that the second process was given."""
    numbers: list[int] = []
    give = sharing._Worker.give

    def noted(worker: sharing._Worker, number: int, task: dict[str, Any]) -> None:
        numbers.append(number)
        give(worker, number, task)

    monkeypatch.setattr(sharing._Worker, "give", noted)
    return numbers


def worker() -> sharing._Worker:
    current = sharing._Worker.current()
    assert current is not None
    return current


def relabelled() -> list[bytes]:
    """Calls of which some hold lone surrogates, and blank lines, spread over all ranges."""

    def surrogate(record: dict[str, Any]) -> None:
        record["request"]["metadata"]["label"] = f"{record['sequence']}\ud83d"

    lines = changed(sample(3 * CALLS), dict.fromkeys(range(1, 3 * CALLS, 50), surrogate))
    return [line + b"\n\n" if number % 90 == 0 else line for number, line in enumerate(lines)]


def test_both_processes_together_give_what_one_gives(tmp_path: Path, given: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "BLOCK_BYTES", FEW_BYTES + 9_000)  # for the block tier
    path = tmp_path / "a.cassette.jsonl"
    path.write_bytes(b"\n".join(relabelled()))
    for _ in range(2):
        assert_same(project(path, workers=2, bodies=True, digest=True), path)
    assert given


def test_the_same_process_serves_one_file_after_the_other(tmp_path: Path) -> None:
    path = save(tmp_path / "a.cassette.jsonl", sample(CALLS))
    project(path, workers=2)
    first = worker().process
    project(path, workers=2)
    assert worker().process is first


def test_a_broken_line_is_refused_the_same_wherever_it_stands(tmp_path: Path) -> None:
    lines = sample(CALLS)
    for place in (1, CALLS // 2, CALLS):
        broken = [*lines[:place], lines[place].replace(b'"occurrence":1', b'"occurrence":2'), *lines[place + 1 :]]
        path = save(tmp_path / "a.cassette.jsonl", broken)
        expected = refusal(read_cassette, path)
        for _ in range(3):
            assert refusal(lambda file: project(file, workers=2), path) == expected
    without = save(tmp_path / "b.cassette.jsonl", [*lines[:100], *lines[101:]])
    assert refusal(lambda file: project(file, workers=2), without) == refusal(read_cassette, without)


def test_a_second_process_that_is_killed_is_done_without(tmp_path: Path) -> None:
    path = save(tmp_path / "a.cassette.jsonl", sample(CALLS))
    process = worker().process
    assert process is not None
    process.kill()
    process.wait()
    assert_same(project(path, workers=2, bodies=True), path)


def test_a_second_process_that_is_killed_at_work_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path / "a.cassette.jsonl", sample(CALLS))
    give = sharing._Worker.give

    def killed(worker: sharing._Worker, number: int, task: dict[str, Any]) -> None:
        give(worker, number, task)
        if worker.process is not None:
            os.kill(worker.process.pid, signal.SIGKILL)

    monkeypatch.setattr(sharing._Worker, "give", killed)
    assert_same(project(path, workers=2, bodies=True), path)


def test_a_second_process_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "_PATIENCE_SECONDS", 0.2)
    path = save(tmp_path / "a.cassette.jsonl", sample(CALLS))
    process = worker().process
    assert process is not None
    os.kill(process.pid, signal.SIGSTOP)
    assert_same(project(path, workers=2, bodies=True), path)
    assert process.poll() is not None


def test_a_second_process_that_cannot_be_started_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "missing"))
    path = save(tmp_path / "a.cassette.jsonl", sample(CALLS))
    assert_same(project(path, workers=2, bodies=True), path)


def test_after_an_interrupt_no_old_answer_is_taken_for_a_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, other = (
        save(tmp_path / "a.cassette.jsonl", sample(CALLS)),
        save(tmp_path / "b.cassette.jsonl", sample(CALLS, "plain")),
    )

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    for where in ("scan_part", "_part"):
        with monkeypatch.context() as patch:
            patch.setattr(sharing, where, interrupted)
            with pytest.raises(KeyboardInterrupt):
                project(path, workers=2)
        assert_same(project(other, workers=2, bodies=True), other)


def test_another_thread_does_not_wait(tmp_path: Path) -> None:
    path = save(tmp_path / "a.cassette.jsonl", sample(CALLS))
    found: list[Any] = []
    with sharing._Worker.lock:
        thread = threading.Thread(target=lambda: found.append(project(path, workers=2)))
        thread.start()
        thread.join(30)
    assert found[0].calls.num_rows == CALLS


def test_nothing_of_the_users_program_runs_twice_and_nothing_is_left(tmp_path: Path) -> None:
    path = save(tmp_path / "a.cassette.jsonl", sample(CALLS))
    (tmp_path / "numpy.py").write_text("raise SystemExit('a file of the user was imported')")
    (tmp_path / "program.py").write_text(
        "import sys\n"
        "here = sys.path.pop(0)\n"
        f"{WITHOUT_PANDAS}"
        "from cassette_lab.cassette import scan\n"
        "from cassette_lab.cassette.scan import sharing\n"
        "scan.BLOCK_BYTES = 60_000\n"
        f"print('rows', scan.project({str(path)!r}, workers=2).calls.num_rows)\n"
        "print('process', sharing._Worker.current().process.pid)\n"
    )
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    rows, process = done.stdout.split()[1::2]
    assert (int(rows), done.stderr) == (CALLS, "")
    assert not runs(int(process))


def test_the_second_process_ends_when_the_first_is_killed() -> None:
    program = (
        "import os, signal\n"
        "from cassette_lab.cassette.scan import sharing\n"
        "print(sharing._Worker.current().process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    deadline = time.monotonic() + 30
    while runs(int(done.stdout)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not runs(int(done.stdout))


def runs(process: int) -> bool:
    try:
        return " Z " not in Path(f"/proc/{process}/stat").read_text()
    except FileNotFoundError:
        return False


def test_a_forked_process_leaves_the_second_process_to_its_parent(tmp_path: Path) -> None:
    path = save(tmp_path / "a.cassette.jsonl", sample(CALLS))
    program = (
        "import os\n"
        f"{WITHOUT_PANDAS}"
        "from cassette_lab.cassette import scan\n"
        "scan.BLOCK_BYTES = 60_000\n"
        f"load = lambda: scan.project({str(path)!r}, workers=2).calls.num_rows\n"
        "load()\n"
        "child = os.fork()\n"
        "if not child:\n"
        f"    os._exit(load() != {CALLS})\n"
        "print(os.waitpid(child, 0)[1], load())\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert (done.stdout.split(), done.stderr) == (["0", str(CALLS)], "")
