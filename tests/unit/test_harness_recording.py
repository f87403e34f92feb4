"""The real runtime, recorded against a scripted endpoint, and run again from the recording alone."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cassette_lab.errors import ClosedError, ConfigError, MismatchError
from cassette_lab.flight.model import Snapshot
from cassette_lab.flight.reader import read_snapshot
from cassette_lab.host.harness.current import harness
from cassette_lab.host.harness.recording import HarnessRecording, HarnessReplay, record_harness, replay_harness
from cassette_lab.host.harness.runtime import Harness, HarnessError, HarnessRun
from cassette_lab.notebook.harness_cell import shown_harness
from cassette_lab.server.mock_model import Answer, MockModel, Reply
from cassette_lab.session.finding import find_logs
from cassette_lab.session.reader import read_session
from tests.unit.harness_runs import KEY, OPTIONS, bash, need_runtime, script

MODEL = "deepseek-v4-pro"  # not the default: a replay has to know it


@dataclass(frozen=True)
class Recorded:
    folder: Path
    cwd: Path
    run: HarnessRun
    flights: Snapshot


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    need_runtime()
    base = tmp_path_factory.mktemp("harness")
    cwd = base / "work"
    cwd.mkdir()

    async def record(url: str) -> tuple[HarnessRun, Snapshot | None]:
        async with record_harness(base / "recording", base_url=url, cwd=cwd, model=MODEL, **OPTIONS) as recording:
            assert harness() is recording
            run = await recording.run("PLAN the SECRET work")
        status = recording.status()
        assert (status.prompts, status.sessions, status.calls) == (1, 3, 9)
        return run, recording.flights

    with pytest.MonkeyPatch.context() as patch, MockModel(script(cwd)) as model:
        patch.setenv("HARNESS_TEST_KEY", KEY)
        run, flights = asyncio.run(record(model.base_url))
        assert {request.document["model"] for request in model.requests} == {MODEL}
        assert {request.headers["x-api-key"] for request in model.requests} == {KEY}
    assert flights is not None
    yield Recorded(base / "recording", cwd, run, flights)
    assert runtimes() == []


def runtimes() -> list[str]:
    """Processes of a runtime that are still there."""
    listed = subprocess.run(
        ["ps", "-ww", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return [line for line in listed if "harness-sdk-runtime" in line and f" {os.getpid()} " in line]


def replay(recorded: Recorded, cwd: Path, *prompts: str) -> tuple[list[HarnessRun], HarnessReplay]:
    cwd.mkdir()

    async def run() -> tuple[list[HarnessRun], HarnessReplay]:
        async with replay_harness(recorded.folder, cwd=cwd, **OPTIONS) as again:
            return [await again.run(prompt) for prompt in prompts], again

    return asyncio.run(run())


def tool_calls(folder: Path) -> Counter[Any]:
    logs = [read_session(found.path) for found in find_logs(folder)]
    events = [event for log in logs for event in log.own_rows() if getattr(event, "type", "") == "tool/call"]
    return Counter(str(event.data["name"]) for event in events)  # type: ignore[union-attr]


def test_a_recording_has_the_sessions_and_the_flights(recorded: Recorded) -> None:
    assert recorded.run.text == "Both are back: SECRET result."
    assert (recorded.run.session_id, recorded.run.end_kind, len(recorded.run.children)) == ("session-1", "completed", 2)
    assert sorted(path.name for path in recorded.folder.iterdir()) == ["run.flight.json", "sessions", "trace.jsonl"]
    logs = {read_session(found.path).header.id for found in find_logs(recorded.folder)}
    assert logs == {"session-1", *recorded.run.children}
    assert tool_calls(recorded.folder) == {"bash": 2, "subagent": 2, "write": 1}
    assert {path.name for path in recorded.cwd.iterdir()} == {"notes.txt", "part-1.txt", "part-2.txt"}


def test_its_flights_are_the_requests_of_the_agents(recorded: Recorded) -> None:
    records = recorded.flights.records
    assert [record.to_json() for record in read_snapshot(recorded.folder / "run.flight.json").records] == [
        record.to_json() for record in records
    ]
    assert recorded.flights.health.correlation_misses == 0
    assert Counter(record.session_id for record in records) == {
        "session-1": 5,
        **dict.fromkeys(recorded.run.children, 2),
    }
    first = next(record for record in records if (record.session_id, record.turn, record.step) == ("session-1", 1, 1))
    assert first.outcome.kind == "finished"
    assert first.outcome.finish == "tool-calls"
    assert first.outcome.usage is not None
    assert first.outcome.usage.cache_read_tokens == 64
    assert first.outcome.first_chunk_ms is not None
    assert first.outcome.total_ms is not None
    assert 0 < first.outcome.first_chunk_ms <= first.outcome.total_ms < 10_000
    assert first.prompt_assembly is not None
    assert {tool.name: tool.parameter_nodes for tool in first.request.tools}["bash"] > 10
    assert abs(first.started_at_ms / 1000 - time.time()) < 600


def test_what_the_plugin_told_has_no_content(recorded: Recorded) -> None:
    for name in ("trace.jsonl", "run.flight.json"):
        told = (recorded.folder / name).read_text()
        assert "SECRET" not in told
        assert "file_path" not in told, "names of a schema's members are content, too"
        assert str(recorded.cwd) not in told
    for file in recorded.folder.rglob("*"):
        assert not file.is_file() or KEY.encode() not in file.read_bytes()


def test_it_runs_again_elsewhere_without_key_and_network(
    recorded: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEEPSEEK_BASE_URL", "http://127.0.0.1:9/v1")
    before = {path: path.stat().st_mtime_ns for path in recorded.folder.rglob("*")}
    (run,), again = replay(recorded, tmp_path / "elsewhere", "PLAN the SECRET work")
    assert again.departures == []
    again.assert_as_recorded()
    assert (run.text, run.end_kind, len(run.children)) == (recorded.run.text, "completed", 2)
    assert {path.name: path.read_bytes() for path in (tmp_path / "elsewhere").iterdir()} == {
        path.name: path.read_bytes() for path in recorded.cwd.iterdir()
    }
    assert {path: path.stat().st_mtime_ns for path in recorded.folder.rglob("*")} == before


def test_another_prompt_a_call_and_a_session_too_many_are_told(recorded: Recorded, tmp_path: Path) -> None:
    cwd = tmp_path / "other"
    cwd.mkdir()

    async def run() -> HarnessReplay:
        async with replay_harness(recorded.folder, cwd=cwd, **OPTIONS) as again:
            other = await again.run("PLAN other work")
            assert (other.text, other.end_kind) == (recorded.run.text, "completed"), (
                "the answers are the recorded ones all the same"
            )
            assert (await again.run("And now?", session_id="session-1")).end_kind == "error"
            assert (await again.run("one more")).end_kind == "error"
        return again

    again = asyncio.run(run())
    assert [(found.kind, found.call) for found in again.departures] == [
        *(("changed-request", number) for number in range(1, 6)),
        ("extra-call", 6),
        ("extra-session", 1),
    ]
    assert str(again.departures[0]) == "call 1 of session session-1: message 2 (user) is not the recorded one"
    with pytest.raises(MismatchError, match="and 6 more departures") as caught:
        again.assert_as_recorded()
    assert caught.value.diagnostic["reason"] == "changed-request"


def test_what_is_missing_is_told(recorded: Recorded, tmp_path: Path) -> None:
    _, again = replay(recorded, tmp_path / "nothing")
    assert [found.kind for found in again.departures] == ["missing-session"] * 3

    async def strict() -> None:
        async with replay_harness(recorded.folder, strict=True, cwd=tmp_path, **OPTIONS):
            pass

    with pytest.raises(MismatchError, match=r"the recorded session session-1 was not run \(5 calls\)"):
        asyncio.run(strict())


def test_of_two_at_once_each_block_finds_its_own(tmp_path: Path) -> None:
    need_runtime()

    async def run(name: str) -> None:
        async with record_harness(tmp_path / name) as recording:
            await asyncio.sleep(0.01)
            assert harness() is recording
            assert await asyncio.create_task(found()) is recording

    async def found() -> Any:
        return harness()

    async def both() -> None:
        await asyncio.gather(run("a"), run("b"))

    asyncio.run(both())


def test_a_write_mode_that_is_none_is_told(tmp_path: Path) -> None:
    unknown: Any = "append"
    with pytest.raises(ConfigError, match="create or truncate, not 'append'"):
        HarnessRecording(tmp_path, write_mode=unknown)


def test_a_recording_is_not_written_over(recorded: Recorded) -> None:
    async def run() -> None:
        async with record_harness(recorded.folder):
            pytest.fail("it begins")

    with pytest.raises(ConfigError, match="new or empty folder"):
        asyncio.run(run())


def test_a_recording_may_be_replaced_and_one_of_nothing_is_none(recorded: Recorded, tmp_path: Path) -> None:
    folder = tmp_path / "again"
    shutil.copytree(recorded.folder, folder)
    (folder / "notes.txt").touch()

    async def run() -> None:
        async with record_harness(folder, write_mode="truncate") as recording:
            assert harness() is recording
            assert [path.name for path in folder.iterdir()] == ["trace.jsonl"]
        assert recording.flights is None

    with pytest.raises(ConfigError, match=r"more in this folder than a recording \(notes.txt\)"):
        asyncio.run(run())
    assert (folder / "sessions").is_dir()
    (folder / "notes.txt").unlink()
    asyncio.run(run())
    assert not folder.exists()
    with pytest.raises(ConfigError, match="no run of the harness is being recorded or replayed"):
        harness()


def test_there_is_nothing_to_replay(tmp_path: Path) -> None:
    async def run() -> None:
        async with replay_harness(tmp_path):
            pytest.fail("it begins")

    with pytest.raises(ConfigError, match="record one first"):
        asyncio.run(run())


def test_an_interrupt_ends_the_runtime_with_all_that_it_started(tmp_path: Path) -> None:
    need_runtime()
    mark = f"tail -f /dev/null --pid={os.getpid()}"

    def left() -> list[str]:
        listed = subprocess.run(["ps", "-ww", "-eo", "args"], capture_output=True, text=True, check=True).stdout
        return [line for line in listed.splitlines() if mark in line and "ps -eo" not in line]

    async def run(url: str) -> None:
        runtime = Harness(tmp_path / "home", base_url=url, cwd=tmp_path, **OPTIONS)
        task = asyncio.create_task(runtime.run("work"))
        for _ in range(200):
            await asyncio.sleep(0.05)
            if left():
                break
        assert left()
        began = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - began < 5
        assert left() == []
        assert runtimes() == []
        await runtime.close()
        with pytest.raises(ClosedError):
            await runtime.run("more")

    with MockModel([Answer(tools=[bash(f"{mark} & {mark}", "call_1")])]) as model:
        asyncio.run(run(model.base_url))


def test_python_that_ends_takes_a_runtime_along_that_nobody_closed(tmp_path: Path) -> None:
    need_runtime()
    code = (
        "import asyncio; from cassette_lab.host.harness.runtime import Harness\n"
        "async def main():\n"
        "    harness = await Harness(api_key_env=None).start()\n"
        "    print(harness._process.pid, harness.home, harness._scratch)\n"
        "asyncio.run(main())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path, timeout=60)
    pid, *folders = done.stdout.split()
    deadline = time.monotonic() + 5
    while Path("/proc", pid).exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not Path("/proc", pid).exists()
    assert len(folders) == 2
    assert not any(Path(folder).exists() for folder in folders)


def test_a_runtime_that_dies_is_an_error(tmp_path: Path) -> None:
    need_runtime()

    async def run(url: str) -> None:
        async with Harness(base_url=url, cwd=tmp_path, **OPTIONS) as harness:
            home = harness.home
            assert home is not None
            task = asyncio.create_task(harness.run("work"))
            await asyncio.sleep(0.5)
            harness._process.kill()
            with pytest.raises(HarnessError, match="the DeepSeek Harness runtime"):
                await task
        assert not home.exists(), "a temporary home goes with its runtime"

    with MockModel([Answer("word " * 500, pace_s=0.05)]) as model:
        asyncio.run(run(model.base_url))


def test_a_session_goes_on_in_a_new_runtime(tmp_path: Path) -> None:
    need_runtime()

    async def run(url: str) -> list[HarnessRun]:
        runs = []
        for prompt in ("first", "second"):
            async with Harness(tmp_path / "home", base_url=url, cwd=tmp_path, **OPTIONS) as harness:
                runs.append(await harness.run(prompt, session_id="talk"))
        return runs

    with MockModel([Answer("One."), Answer("Two.")]) as model:
        runs = asyncio.run(run(model.base_url))
        assert [run.text for run in runs] == ["One.", "Two."]
        assert any("first" in text for text in model.requests[1].user_texts)


def test_a_refused_key_is_the_end_of_the_run_and_of_the_line(tmp_path: Path) -> None:
    need_runtime()
    body = b'{"type":"error","error":{"type":"authentication_error","message":"no such key"}}'

    async def run(url: str) -> HarnessRecording:
        async with record_harness(tmp_path / "run", base_url=url, cwd=tmp_path, **OPTIONS) as recording:
            ended = await recording.run("work")
            assert (ended.end_kind, ended.error_code, ended.error_status) == ("error", "AUTH", 401)
            assert "error_code='AUTH', error_status=401" in repr(ended)
        return recording

    with MockModel(lambda _: Reply([body], 401, {"content-type": "application/json"})) as model:
        recording = asyncio.run(run(model.base_url))
    line = shown_harness(recording)["text/plain"]
    assert line.startswith("✕ recorded 1 model call · 1 session · 1 session ended with AUTH (401) · ")


def test_a_start_that_is_cancelled_leaves_nothing(tmp_path: Path) -> None:
    need_runtime()

    async def run(delay_s: float) -> Harness:
        harness = Harness(cwd=tmp_path, **OPTIONS)
        task = asyncio.create_task(harness.start())
        await asyncio.sleep(delay_s)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return harness

    harnesses = [asyncio.run(run(delay_s)) for delay_s in (0.0, 0.002, 0.01, 0.03, 0.1, 0.5)]
    deadline = time.monotonic() + 10
    while (calling() or runtimes()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert (calling(), runtimes()) == ([], [])
    assert [
        folder for each in harnesses for folder in (each.home, each._scratch) if folder is not None and folder.exists()
    ] == []


def calling() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("cassette_lab harness")]


def test_a_start_that_fails_says_why(tmp_path: Path) -> None:
    need_runtime()

    async def run(**options: Any) -> None:
        async with Harness(tmp_path / "home", **{**OPTIONS, **options}):
            pytest.fail("it starts")

    with pytest.raises(HarnessError, match=r"did not start: .*no such file") as caught:
        asyncio.run(run(patches=[tmp_path / "missing.yml"], cwd=tmp_path))
    assert "snapshot" not in str(caught.value), "the runtime's stack tells a user nothing"
    with pytest.raises(ConfigError, match="is no folder"):
        asyncio.run(run(cwd=tmp_path / "missing"))
