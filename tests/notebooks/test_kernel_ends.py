"""How recordings end in a real kernel: interrupts, locks, restarts, line forms over several cells."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from pathlib import Path

import pytest

from cassette_lab.cassette.model import Interaction
from cassette_lab.cassette.reader import read_cassette
from tests.notebooks.conftest import AGENTS
from tests.notebooks.kernels import Kernel, kernel_in

MOST_S = 5.0
STUBBORN = """
@cl.subagent("stubborn")
async def stubborn():
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass
"""


def interrupted(kernel: Kernel, cell: str, *, times: int = 1) -> tuple[str, float, list[str]]:
    """The error, the seconds from the interrupt to the end, and the lines of a cell that is interrupted while it runs."""
    running = kernel.begin(cell)
    kernel.wait(running, until="ready")
    time.sleep(0.2)
    began = time.monotonic()
    for _ in range(times):
        kernel.interrupt()
        time.sleep(0.1)
    ran = kernel.wait(running)
    return ran.error, time.monotonic() - began, ran.lines


def aborted(kernel: Kernel, file: str) -> list[bool]:
    assert not (kernel.folder / f"{file}.writer.lock").exists()
    return [stopped(call) for call in read_cassette(kernel.folder / file).interactions]


def stopped(call: Interaction) -> bool:
    if call.outcome.result is not None:
        return bool(call.outcome.result["stopReason"] == "aborted")
    return call.outcome.error is not None and call.outcome.error.name in ("AbortError", "CancelledError")


@pytest.mark.parametrize(
    "body",
    [
        "await audit('a', delay=60)",
        "await asyncio.gather(audit('a', delay=60), audit('b', delay=60))",
        "task = asyncio.create_task(audit('a', delay=60))\nawait asyncio.sleep(0.01)\ntime.sleep(60)",
        "task = asyncio.create_task(audit('a', delay=60))\nawait asyncio.sleep(0.01)\nwhile True: pass",
        "await busy(60)",
        "await asyncio.gather(audit('a', delay=60), busy(60))",
    ],
    ids=["awaiting", "gather", "sleeping", "busy", "busy agent", "busy agent beside another"],
)
def test_an_interrupt_aborts_the_calls_and_closes_the_file(kernel: Kernel, file: str, body: str) -> None:
    error, seconds, lines = interrupted(kernel, f"%%cassette record {file}\nprint('ready', flush=True)\n{body}")
    assert error.startswith("KeyboardInterrupt")
    assert seconds < MOST_S
    assert "stopped by KeyboardInterrupt" in lines[-1]
    outcomes = aborted(kernel, file)
    assert outcomes
    assert all(outcomes)
    assert kernel.run("1 + 1").result == "2"


@pytest.mark.parametrize(
    "call", ["await agent.run('hi')", "await agent.delegate('hi')", "await asyncio.gather(agent.run('hi'), asyncio.sleep(60))"]
)
def test_an_interrupt_stops_an_agent_in_a_plain_cell(kernel: Kernel, call: str) -> None:
    cell = f"agent = cl.Agent(cl.ScriptedModel(cl.Say('late', delay_s=60)))\nprint('ready', flush=True)\n{call}"
    error, seconds, _ = interrupted(kernel, cell)
    assert error.partition(":")[0] in ("KeyboardInterrupt", "CancelledError")
    assert seconds < MOST_S
    assert not kernel.run("print(agent.is_running)").error


def test_a_plain_body_is_interrupted_too(kernel: Kernel, file: str) -> None:
    error, seconds, _ = interrupted(
        kernel, f"%%cassette record {file}\nprint('ready', flush=True)\nimport time\ntime.sleep(60)"
    )
    assert error.startswith("KeyboardInterrupt")
    assert seconds < MOST_S
    assert aborted(kernel, file) == []


def test_an_interrupt_while_the_cell_waits_for_its_calls(kernel: Kernel, file: str) -> None:
    body = "task = asyncio.create_task(audit('a', delay=60))\nawait asyncio.sleep(0.01)\nprint('ready', flush=True)"
    error, seconds, _ = interrupted(kernel, f"%%cassette record {file}\n{body}")
    assert error.startswith(("KeyboardInterrupt", "CassetteLabError"))
    assert seconds < MOST_S
    assert aborted(kernel, file) == [True]


def test_a_body_may_take_an_interrupt_and_go_on(kernel: Kernel, file: str) -> None:
    body = "try:\n    await asyncio.sleep(60)\nexcept asyncio.CancelledError:\n    print(await audit('after'))"
    error, _, lines = interrupted(kernel, f"%%cassette record {file}\nprint('ready', flush=True)\n{body}")
    assert error == ""
    assert "recorded 1 call" in lines[-1]
    assert aborted(kernel, file) == [False]


def test_several_interrupts_leave_a_whole_file(kernel: Kernel, file: str) -> None:
    kernel.run(STUBBORN)
    error, seconds, _ = interrupted(kernel, f"%%cassette record {file}\nprint('ready', flush=True)\nawait stubborn()", times=3)
    assert error.startswith("KeyboardInterrupt")
    assert seconds < MOST_S + 1
    assert aborted(kernel, file) == [True]
    assert kernel.run("1 + 1").result == "2"


def test_an_interrupted_replay_ends_at_once(kernel: Kernel, file: str) -> None:
    assert kernel.run(f"%%cassette record {file}\nawait audit('a', delay=1)").ok
    error, seconds, _ = interrupted(
        kernel,
        f"%%cassette replay {file} --timing recorded --speed 0.01\nprint('ready', flush=True)\nawait audit('a', delay=1)",
    )
    assert error.startswith("KeyboardInterrupt")
    assert seconds < MOST_S
    assert kernel.run(f"%%cassette replay {file}\nawait audit('a', delay=1)").result == "'audited a'"


def test_recording_again_offers_the_ways_on(kernel: Kernel, file: str) -> None:
    cell = f"%%cassette record {file}{{}}\nawait audit('a')"
    assert kernel.run(cell.format("")).ok
    ran = kernel.run(cell.format(""))
    assert ran.error.startswith("ExistingFileError")
    assert len(ran.traceback.splitlines()) == 1
    assert all(word in ran.traceback for word in (f"{file}: ", "truncate", "append", "once"))
    assert "2 in the file" in kernel.run(cell.format(" --write-mode append")).lines[0]
    assert "recorded 1 call ·" in kernel.run(cell.format(" --write-mode truncate")).lines[0]
    assert "replayed 1 of 1 call" in kernel.run(cell.format(" --write-mode once")).lines[0]


def test_line_forms_span_cells(kernel: Kernel, file: str) -> None:
    assert kernel.run(f"%cassette record {file}").lines == [f"● recording until %cassette stop · {file}"]
    assert kernel.run("await asyncio.gather(audit('a'), audit('b'))").ok
    assert kernel.run("task = asyncio.create_task(audit('c', delay=0.3))").ok
    status = kernel.run("%cassette status").result
    assert re.fullmatch(rf"● recording · 3 calls · running: audit · \d+ s · {re.escape(file)}", str(status))
    refused = kernel.run(f"%%cassette record x{file}\nawait audit('d')")
    assert refused.error.startswith("ConfigError")
    assert f"record of {file} is active" in refused.traceback
    assert "%cassette stop ends it" in refused.traceback
    assert f"record of {file} is active" in kernel.run(f"%cassette replay {file}").traceback
    assert f"record of {file} is open" in kernel.run("%unload_ext cassette_lab").traceback
    (line,) = kernel.run("%cassette stop").lines
    assert "recorded 3 calls" in line
    assert kernel.run("task.done()").result == "True"
    assert kernel.run("%cassette status").result == "○ no cassette is active: calls are made live and are not recorded"
    assert "there is nothing to stop" in kernel.run("%cassette stop").traceback

    kernel.run(f"%cassette replay {file}")
    kernel.run("calls.clear()")
    assert kernel.run("await audit('b')").result == "'audited b'"
    assert kernel.run("await audit('a')\nawait audit('c', delay=0.3)\n%cassette stop").ok
    assert kernel.run("calls").result == "[]"


def test_stop_says_what_was_not_asked_for_and_what_still_runs(kernel: Kernel, file: str) -> None:
    kernel.run(f"%%cassette record {file}\nawait asyncio.gather(audit('a'), audit('b'))")
    kernel.run(f"%cassette replay {file}")
    kernel.run("await audit('a')")
    ran = kernel.run("%cassette stop")
    assert ran.error.startswith("MismatchError")
    assert "1 of 2 recorded calls was never asked for" in ran.traceback
    kernel.run(f"%cassette record {file} --write-mode truncate")
    kernel.run("task = asyncio.create_task(audit('slow', delay=60))")
    ran = kernel.run("%cassette stop --max-wait 0.2")
    assert "1 call still ran" in ran.error
    assert aborted(kernel, file) == [True]


def test_stop_inside_a_block_or_function(kernel: Kernel, file: str) -> None:
    kernel.run(f"%cassette record {file}")
    assert kernel.run("await audit('a')\nif True:\n    %cassette stop\n").ok
    kernel.run("await asyncio.sleep(0.3)")  # there the end is not waited for
    assert kernel.run("%cassette status").result == "○ no cassette is active: calls are made live and are not recorded"
    assert aborted(kernel, file) == [False]


def test_a_nested_cassette_names_the_first(kernel: Kernel, file: str) -> None:
    ran = kernel.run(f"%%cassette record {file}\nasync with cl.replay('x.jsonl'): pass")
    assert ran.error.startswith("ConfigError")
    assert file in ran.traceback
    ran = kernel.run(f"async with cl.record('a{file}'):\n    %cassette record x{file}")
    assert f"record of a{file} is active" in ran.traceback


def test_two_kernels_one_file(kernel: Kernel, file: str, tmp_path: Path) -> None:
    kernel.run(f"%cassette record {file}")
    with kernel_in(tmp_path) as other:
        other.run(AGENTS)
        target = kernel.folder / file
        ran = other.run(f"%%cassette record '{target}' --write-mode append\nawait audit('a')")
        assert ran.error.startswith("LockedError")
        pid = kernel.run("import os; os.getpid()").result
        assert f"process {pid} on " in ran.traceback
        assert " since " in ran.traceback
        assert len(ran.traceback.splitlines()) == 1
        kernel.run("await audit('a')\n%cassette stop")
        both = [other.begin(f"%%cassette replay '{target}'\nawait audit('a')"), None]
        assert kernel.run(f"%%cassette replay {file}\nawait audit('a')").ok
        assert both[0] is not None
        assert other.wait(both[0]).ok


def test_a_lock_left_by_a_killed_kernel_is_released(kernel: Kernel, file: str, tmp_path: Path) -> None:
    with kernel_in(tmp_path) as first:
        first.run(AGENTS)
        pid = int(first.run("import os; os.getpid()").result or 0)
        running = first.begin(
            f"%%cassette record {file}\nawait audit('a')\nprint('ready', flush=True)\nawait audit('b', delay=60)"
        )
        first.wait(running, until="ready")
        os.kill(pid, signal.SIGKILL)
        end = time.monotonic() + 10
        while first.manager.is_alive() and time.monotonic() < end:
            time.sleep(0.05)
    assert (tmp_path / f"{file}.writer.lock").is_dir()
    target = tmp_path / file
    assert len(read_cassette(target).interactions) == 1
    ran = kernel.run(f"%%cassette record '{target}'\nawait audit('c')")
    assert f"released the lock that process {pid} left behind" in ran.lines[0]
    assert ran.error.startswith("ExistingFileError")  # the write mode's own rule comes next
    assert "--write-mode truncate" in ran.traceback
    ran = kernel.run(f"%%cassette record '{target}' --write-mode append\nawait audit('c')")
    assert ran.ok, ran.error
    assert "2 in the file" in ran.lines[-1]


def test_a_lock_of_another_machine_is_not_touched(kernel: Kernel, file: str) -> None:
    lock = kernel.folder / f"{file}.writer.lock"
    lock.mkdir()
    marker = {"ownerToken": "t", "pid": 4, "acquiredAt": "2026-01-01T00:00:00.000Z", "host": "elsewhere\u001b[31m"}
    (lock / "t.json").write_text(json.dumps(marker))
    ran = kernel.run(f"%%cassette record {file}\nawait audit('a')")
    assert ran.error.startswith("LockedError")
    assert "process 4 on elsewhere" in ran.traceback
    assert (lock / "t.json").exists()


def test_a_kernel_that_ends_while_it_records_closes_the_file(tmp_path: Path, file: str) -> None:
    with kernel_in(tmp_path) as first:
        first.run(AGENTS)
        first.run(f"%cassette record {file}")
        first.run("await audit('a')")
        first.client.shutdown()
        end = time.monotonic() + 10
        while first.manager.is_alive() and time.monotonic() < end:
            time.sleep(0.05)
    assert not (tmp_path / f"{file}.writer.lock").exists()
    assert len(read_cassette(tmp_path / file).interactions) == 1


def test_progress_is_shown_while_a_cell_records_and_gives_way_to_the_line(kernel: Kernel, file: str) -> None:
    ran = kernel.run(f"%%cassette record {file}\nawait asyncio.gather(audit('a', delay=1.3), audit('b'))")
    assert ran.lines[0] == ""
    assert "recorded 2 calls" in ran.lines[1]
    assert len(ran.lines) == 2
    shown = [content["data"]["text/plain"] for content in ran.of("display_data", "update_display_data")]
    assert re.fullmatch(rf"● recording · 2 calls · running: audit · 0 s · {re.escape(file)}", shown[0])
    assert any("· 1 s ·" in line for line in shown)
    assert len(shown) <= 2 + 5 * 1.3
    assert ran.messages[-2]["content"].get("data", {}).get("text/plain") == ran.lines[1]


def test_an_interrupt_between_the_line_forms_aborts_the_call(kernel: Kernel, file: str) -> None:
    assert kernel.run(f"%cassette record {file}").ok
    error, seconds, _ = interrupted(kernel, "print('ready', flush=True)\nawait audit('a', delay=20)")
    assert error.startswith(("CancelledError", "KeyboardInterrupt"))
    assert seconds < MOST_S
    assert "1 aborted" in kernel.run("%cassette stop").lines[-1]
    assert aborted(kernel, file) == [True]


def test_an_interrupt_of_a_block_in_a_cell_aborts_the_call(kernel: Kernel, file: str) -> None:
    body = f"async with cl.record({file!r}):\n    print('ready', flush=True)\n    await audit('a', delay=20)"
    error, seconds, _ = interrupted(kernel, body)
    assert error.startswith(("CancelledError", "KeyboardInterrupt"))
    assert seconds < MOST_S
    assert aborted(kernel, file) == [True]


LATE = """
async def late(prompt):
    await asyncio.sleep(0.6)
    return await audit(prompt)

def in_a_thread(prompt):
    time.sleep(0.6)
    return asyncio.run(audit(prompt))
"""


@pytest.mark.parametrize("started", ["cell", "same cell", "plain cell", "thread"])
def test_what_outlives_the_line_forms_of_a_replay_never_calls_live(kernel: Kernel, file: str, started: str) -> None:
    kernel.run(f"%%cassette record {file}\nawait audit('a')")
    begin, stop = f"%cassette replay {file}", "await audit('a')\n%cassette stop"
    start = {
        "plain cell": "loop = asyncio.get_event_loop(); late_task = loop.create_task(late('b'))",
        "thread": "late_task = asyncio.create_task(asyncio.to_thread(in_a_thread, 'b'))",
    }.get(started, "late_task = asyncio.create_task(late('b')); await asyncio.sleep(0)")
    kernel.run(f"{LATE}\ncalls.clear()")
    cells = [f"{begin}\n{start}", stop] if started == "same cell" else [begin, start, stop]
    assert all(kernel.run(cell).ok for cell in cells)
    ran = kernel.run("await late_task")
    assert ran.error.startswith("ClosedError"), ran
    assert "the cassette is closed, so the call 'audit' has no answer; it is not made live" in ran.traceback
    assert kernel.run("calls").result == "[]"
    assert kernel.run("await audit('now live')").result == "'audited now live'"


def test_what_outlives_the_line_forms_of_a_recording_calls_live_and_is_counted(kernel: Kernel, file: str) -> None:
    kernel.run(f"{LATE}\n%cassette record {file}")
    kernel.run("late_task = asyncio.create_task(late('b'))")
    assert kernel.run("%cassette stop\nawait audit('live as ever')").stderr == ""
    ran = kernel.run("await late_task")
    assert ran.result == "'audited b'"
    assert "is made live, and is missing in the file" in ran.stderr + kernel.strays.stderr
    assert "is incomplete: 1 call came after its end" in str(kernel.run("%cassette status").result)


def test_a_cell_that_closes_a_cassette_is_free_of_it(kernel: Kernel, file: str) -> None:
    kernel.run(f"held = cl.record({file!r}).open()\nawait audit('a')")
    kernel.run("late_task = asyncio.create_task(late('b'))")
    ran = kernel.run("await held.close()\nawait audit('live')")
    assert (ran.result, ran.stderr) == ("'audited live'", "")
    assert "is made live" in kernel.run("await late_task").stderr + kernel.strays.stderr


def test_cells_inside_cells_and_failing_cells_leave_no_trace(kernel: Kernel, file: str) -> None:
    kernel.run(f"%cassette record {file}")
    kernel.run("get_ipython().run_cell('1 / 0')")
    kernel.run("1 / 0")
    kernel.run("%cassette stop")
    where = "from cassette_lab.host.current import _bound; _bound.get()"
    assert kernel.run(where).result is None
    assert kernel.run(f"await asyncio.sleep(0); {where}").result is None


def test_the_lines_say_what_raised_and_what_only_stopped(kernel: Kernel, file: str) -> None:
    kernel.run(
        "from cassette_lab import SubagentRequest, SubagentResult\n"
        "@cl.subagent\nasync def cut(request: SubagentRequest) -> SubagentResult:\n"
        "    return SubagentResult(output=[], stop_reason=request.persona)"
    )
    body = (
        "asks = [SubagentRequest(prompt=[], label='cut', persona=why) for why in ('max-tokens', 'refusal', 'error', 'odd')]\n"
        "_ = await asyncio.gather(*map(cl.run_subagent, asks), audit('bad'), return_exceptions=True)"
    )
    (line,) = kernel.run(f"%%cassette record {file}\n{body}").lines
    stopped = "1 ended in error · 1 limit · 1 refused · 1 other"
    assert f"recorded 5 calls · 1 error raised · {stopped} · " in line
    (line,) = kernel.run(f"%%cassette replay {file}\n{body}").lines
    assert f"replayed 5 of 5 calls · 1 recorded error raised · {stopped} · " in line
    kernel.run(f"%cassette replay {file}\n{body}")
    assert f"5 of 5 calls · 1 recorded error raised · {stopped} · " in str(kernel.run("%cassette status").result)
    kernel.run("%cassette stop")


def test_an_agents_own_error_shows_its_own_lines(kernel: Kernel, file: str) -> None:
    trace = kernel.run(f"%%cassette record {file}\nawait audit('bad')").traceback
    assert "cassette_lab" not in trace
    assert "await audit('bad')" in trace
    assert 'raise ValueError("nope")' in trace
    replayed = kernel.run(f"%%cassette replay {file}\nawait audit('bad')").traceback
    assert "RecordedValueError: nope" in replayed
    assert "cassette_lab/" not in replayed
    shown = kernel.run(
        f"%%cassette replay {file}\nimport traceback\ntry: await audit('bad')\nexcept ValueError as e: err = e"
    ).ok
    assert shown
    assert kernel.run("repr(err), traceback.format_exception_only(err)").result == (
        "(\"RecordedValueError('nope')\", ['cassette_lab.RecordedValueError: nope\\n'])"
    )
