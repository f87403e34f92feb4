"""``%%cassette … --harness`` in a real kernel, with the real runtime: run again without key and network, departures told."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cassette_lab.server.mock_model import Answer, MockModel, ToolUse
from cassette_lab.session.finding import find_logs
from tests.notebooks.kernels import Kernel, kernel_in
from tests.unit.harness_runs import KEY, OPTIONS, bash, child, need_runtime

PROMPT = "PLAN the work"
SCRIPT = {
    "PLAN": [
        Answer("I write it down.", tools=[ToolUse("write", {"file_path": "notes.txt", "content": "the plan"}, "call_1")]),
        Answer("I delegate.", tools=[child(1)]),
        Answer("I wait."),
        Answer("All is done."),
    ],
    "PART-1": [Answer("Part one is done.")],
    "BUSY": [Answer(tools=[bash(f"tail -f /dev/null --pid={os.getpid()}", "call_2")])],
}
RUN = f"""
run = await cl.harness().run("{PROMPT}")
run.text, run.end_kind, len(run.children)
"""
DONE = "('All is done.', 'completed', 1)"


@pytest.fixture(scope="module")
def model() -> Iterator[MockModel]:
    with MockModel(SCRIPT) as mock:
        yield mock


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory, model: MockModel) -> Iterator[Kernel]:
    """A kernel that has recorded a run, in ``runs/first``, of tools that worked in ``one``."""
    need_runtime()
    folder = tmp_path_factory.mktemp("harness")
    for name in ("one", "two", "three"):
        (folder / name).mkdir()
    with kernel_in(folder) as kernel:
        switch = OPTIONS["environment"]
        ready = kernel.run(f"import asyncio, os\nimport cassette_lab as cl\nos.environ |= {switch} | {{'MY_KEY': {KEY!r}}}")
        assert ready.ok
        assert kernel.run(f"url = {model.base_url!r}").ok
        ran = kernel.run(
            f"%%cassette record runs/first --harness --base-url {{url}} --api-key-env MY_KEY --cwd one{RUN}", timeout=60
        )
        assert ran.ok, ran.traceback
        assert ran.result == DONE
        assert re.fullmatch(r"● recorded 5 model calls · 2 sessions · [\d.]+ s · runs/first", ran.lines[-1])
        assert 'alt="5 calls over' in ran.displays[-1]["text/html"]
        assert {request.headers["x-api-key"] for request in model.requests} == {KEY}
        assert kernel.run("del os.environ['MY_KEY'], url").ok
        yield kernel


def test_a_recording_is_a_folder_that_load_reads(harness: Kernel) -> None:
    folder = harness.folder / "runs" / "first"
    assert sorted(path.name for path in folder.iterdir()) == ["run.flight.json", "sessions", "trace.jsonl"]
    assert len(list(find_logs(folder))) == 2
    assert (harness.folder / "one" / "notes.txt").read_text() == "the plan"
    counted = harness.run("lab = cl.load('runs/first')\nlab.sessions.num_rows, lab.flights.num_rows, lab.model_calls.num_rows")
    assert counted.result == "(2, 5, 5)"


def test_it_runs_again_without_key_and_network(harness: Kernel, model: MockModel) -> None:
    asked = len(model.requests)
    task = (
        f"async def work():\n    global run\n    run = await cl.harness().run({PROMPT!r})\ntask = asyncio.create_task(work())"
    )
    ran = harness.run(f"%%cassette replay runs/first --harness --strict --cwd two\n{task}", timeout=60)
    assert ran.ok, ran.traceback
    assert harness.run("run.text, run.end_kind, len(run.children)").result == DONE, "a cell waits for its prompts"
    assert re.fullmatch(r"▶ replayed 5 of 5 model calls · as recorded · [\d.]+ s · runs/first", ran.lines[-1])
    assert (harness.folder / "two" / "notes.txt").read_text() == "the plan"
    assert len(model.requests) == asked
    assert "Error" in harness.run("cl.harness()").error


def test_departures_stand_below_the_cell(harness: Kernel) -> None:
    cell = (
        "%%cassette replay runs/first --harness --cwd three\n"
        "again = cl.harness()\n"
        "%cassette status\n"
        "await again.run('PLAN other work')\n"
        "(await again.run('and now?', session_id='session-1')).end_kind"
    )
    ran = harness.run(cell, timeout=60)
    assert ran.ok, ran.traceback
    assert ran.result == "'error'"
    line, table = ran.lines[-2:]
    assert re.fullmatch(r"▶ replayed 5 of 5 model calls · 5 departures from the recording · [\d.]+ s · runs/first", line)
    assert (
        table.splitlines()[0]
        == "  another request: calls 1 to 4 of session session-1: message 2 (user) is not the recorded one"
    )
    assert table.splitlines()[-1] == "  a call too many: session session-1 asks for more than the recorded 4 calls"
    assert ran.displays[-1]["text/html"].count("<tr>") == 2
    assert harness.run("again").result == f"{line}\n{table}"
    assert harness.run("', '.join(each.kind for each in again.departures[3:])").result == "'changed-request, extra-call'"


def test_what_is_missing_is_told_and_with_strict_an_error(harness: Kernel) -> None:
    ran = harness.run("%%cassette replay runs/first --harness\nx = 1")
    assert ran.ok
    assert "replayed 0 of 5 model calls · 2 departures from the recording" in ran.lines[-2]
    assert "  a session too few: the recorded session session-1 was not run (4 calls)" in ran.lines[-1]
    ran = harness.run("%%cassette replay runs/first --harness --strict\nx = 1")
    assert ran.error.startswith(
        "MismatchError: the run departed from the recording: the recorded session session-1 was not run"
    )
    assert len(ran.traceback.splitlines()) == 1


def test_an_interrupt_ends_the_runtime_and_its_tools(harness: Kernel, model: MockModel) -> None:
    mark = f"tail\0-f\0/dev/null\0--pid={os.getpid()}\0".encode()

    def left() -> bool:
        return any(mark in _arguments(entry) for entry in Path("/proc").glob("[0-9]*/cmdline"))

    cell = harness.begin(
        f"%%cassette record runs/stopped --harness --base-url {model.base_url} --no-key --cwd one\n"
        "await cl.harness().run('BUSY work')"
    )
    deadline = time.monotonic() + 30
    while not left() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left()
    began = time.monotonic()
    harness.interrupt()
    ran = harness.wait(cell)
    assert time.monotonic() - began < 5
    assert ran.error.startswith("KeyboardInterrupt")
    assert "recorded 1 model call · 1 session" in ran.lines[-1]
    assert ran.lines[-1].endswith("stopped by KeyboardInterrupt · runs/stopped")
    assert not left()
    assert harness.run("%cassette status").result == "○ no cassette is active: calls are made live and are not recorded"
    assert harness.run("cl.load('runs/stopped').sessions.num_rows").result == "1"


def _arguments(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize(
    ("cell", "sentence"),
    [
        ("%%cassette record runs/first --harness\n1", "runs/first: a harness run is recorded into a new or empty folder"),
        ("%%cassette record one --harness --write-mode truncate\n1", "more in this folder than a recording (notes.txt)"),
        ("%%cassette replay one --harness\n1", "one: there is no recorded run of the harness here: record one first"),
        ("%%cassette replay runs/first\n1", "runs/first: this is a folder with a run of the harness; --harness replays it"),
        ("%cassette record runs/new --harness", "--harness is for a cell: %%cassette record runs/new --harness"),
        (
            "%%cassette replay runs/first --harness\n%cassette record a.jsonl",
            "the replay of the harness in runs/first is active, and there is one at a time; it ends with its block",
        ),
        ("%%cassette replay runs/first --harness\n%cassette stop", "the replay of runs/first was not begun by a line"),
        ("%%cassette record a.jsonl\n%cassette record b --harness", "the record of a.jsonl is active"),
    ],
)
def test_a_mistake_is_one_sentence(harness: Kernel, cell: str, sentence: str) -> None:
    ran = harness.run(cell)
    assert not ran.ok
    assert sentence in ran.traceback
    assert len(ran.traceback.splitlines()) == 1


def test_nothing_run_leaves_nothing(harness: Kernel) -> None:
    assert "● recorded nothing: no prompt was run" in harness.run("%%cassette record runs/none --harness\n1").lines[-1]
    assert not (harness.folder / "runs" / "none").exists()


def test_without_the_extra_a_sentence_names_it(harness: Kernel) -> None:
    assert harness.run("import sys\nkept, sys.modules['deepseek_harness'] = sys.modules['deepseek_harness'], None").ok
    ran = harness.run("%%cassette record runs/none --harness\n1")
    assert harness.run("sys.modules['deepseek_harness'] = kept").ok
    assert ran.error.startswith("ConfigError: the real harness needs its SDK: install cassette-lab with its extra `harness`")
    assert len(ran.traceback.splitlines()) == 1
    assert not (harness.folder / "runs" / "none").exists()
