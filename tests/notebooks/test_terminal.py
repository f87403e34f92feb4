"""The same in a real IPython terminal: pasted cells, no event loop between them."""

from __future__ import annotations

import time

import pytest

from cassette_lab.cassette.reader import read_cassette
from tests.notebooks.kernels import Terminal


def test_record_and_replay(terminal: Terminal, file: str) -> None:
    cell = "r = await asyncio.gather(audit('x'), audit('bad'), return_exceptions=True)\nr"
    out = terminal.run(f"%%cassette record {file}\n{cell}")
    assert "['audited x', ValueError('nope')]\n● recorded 2 calls · 1 error raised · " in out
    terminal.run("calls.clear()")
    out = terminal.run(f"%%cassette replay {file}\n{cell}")
    assert "▶ replayed 2 of 2 calls · 1 recorded error raised · " in out
    assert out.rstrip().endswith(file)
    assert "[]" in terminal.run("calls")


def test_a_body_without_await_may_run_a_loop_of_its_own(terminal: Terminal, file: str) -> None:
    assert "'audited alone'\n● recorded 1 call · " in terminal.run(f"%%cassette record {file}\nasyncio.run(audit('alone'))")
    out = terminal.run(f"%%cassette replay {file}\n%%time\nasyncio.run(audit('alone'));")
    assert "'audited alone'" not in out.split("CPU time")[1]
    assert "wall time" in out
    assert "▶ replayed 1 of 1 call" in out


def test_nothing_is_left_behind_and_errors_keep_their_lines(terminal: Terminal, file: str) -> None:
    out = terminal.run(f"%%cassette record {file}\nx = await audit('a')\n1/0")
    assert "ZeroDivisionError" in out
    assert "----> 3 1/0" in out
    assert "stopped by ZeroDivisionError" in out
    assert terminal.run("[n for n in dir() if 'cassette' in n]").rstrip().endswith(": []")


def test_a_mismatch(terminal: Terminal, file: str) -> None:
    terminal.run(f"%%cassette record {file}\nawait audit('a')")
    out = terminal.run(f"%%cassette replay {file}\n\nawait audit('other')")
    for words in (
        "MismatchError: ",
        "why: nothing recorded for this request",
        "near: #1",
        "next: ",
        "line 3: await audit('other')",
    ):
        assert words in out
    assert "site-packages" not in out


def test_line_forms(terminal: Terminal, file: str) -> None:
    assert "● recording until %cassette stop" in terminal.run(f"%cassette record {file}")
    terminal.run("await audit('one')")
    terminal.run("asyncio.run(audit('two'))")
    assert "● recording · 2 calls" in terminal.run("%cassette status")
    assert "%cassette stop ends it" in terminal.run(f"%%cassette replay {file}\nawait audit('one')")
    assert "● recorded 2 calls" in terminal.run("%cassette stop")
    out = terminal.run(f"%cassette replay {file}\nawait audit('two')\nawait audit('one')\n%cassette stop")
    assert "▶ replayed 2 of 2 calls" in out


def test_verbs_and_mistakes(terminal: Terminal, file: str) -> None:
    terminal.run(f"%%cassette record {file}\nawait audit('a')")
    assert "✓ chain verified · 1 call" in terminal.run(f"%cassette verify {file}")
    assert "equivalent" in terminal.run(f"%cassette diff {file} {file}")
    assert "did you mean record?" in terminal.run("%cassette recrd")
    assert "there is such a recording already" in terminal.run(f"%%cassette record {file}\nawait audit('a')")


def test_completion(terminal: Terminal, file: str) -> None:
    terminal.run(f"%%cassette record {file}\nawait audit('a')")
    for typed, said in (
        ("%cassette stat", "no cassette is active"),
        (f"%cassette verify {file[:-8]}", "chain verified"),
        (f"%cassette inspect {file} --show-c", "✓ completed"),
    ):
        terminal.child.send(typed)
        time.sleep(0.3)
        terminal.child.send("\t")
        time.sleep(1)
        terminal.child.send("\r")
        assert said in terminal.wait()


def test_a_typed_body_ends_with_empty_lines(terminal: Terminal, file: str) -> None:
    for line in (f"%%cassette record {file}", "a = await audit('typed')", "b = 2", "", ""):
        terminal.child.send(line)
        time.sleep(0.1)
        terminal.child.send("\r")
    assert "● recorded 1 call" in terminal.wait()


@pytest.mark.parametrize("body", ["await audit('a', delay=60)", "await busy(60)", "import time; time.sleep(60)"])
def test_an_interrupt_closes_the_file(terminal: Terminal, file: str, body: str) -> None:
    terminal.begin(f"%%cassette record {file}\nprint('rea' + 'dy')\n{body}")
    terminal.child.expect("ready")
    time.sleep(0.3)
    began = time.monotonic()
    terminal.child.sendintr()
    out = terminal.wait()
    assert time.monotonic() - began < 5
    assert "KeyboardInterrupt" in out
    assert "stopped by KeyboardInterrupt" in out
    calls = read_cassette(terminal.folder / file).interactions
    assert len(calls) == (0 if "time" in body else 1)
    assert not (terminal.folder / f"{file}.writer.lock").exists()
    assert "'audited b'" in terminal.run(f"%%cassette record {file} --write-mode append\nawait audit('b')")


def test_progress_gives_way_to_output(terminal: Terminal, file: str) -> None:
    terminal.begin(
        f"%%cassette record {file}\nt = asyncio.create_task(audit('a', delay=1.4))\nawait asyncio.sleep(0.9)\nprint('o' + 'ut')"
    )
    terminal.child.expect(r"● recording · 1 call · running: audit · 0 s")
    terminal.child.expect(r"\r\x1b\[Kout\r\n")
    terminal.child.expect(r"waiting for audit")
    assert "● recorded 1 call" in terminal.wait()


def test_a_task_that_outlives_the_line_forms_of_a_replay_never_calls_live(terminal: Terminal, file: str) -> None:
    terminal.run(f"%%cassette record {file}\nawait audit('a')")
    terminal.run(f"%cassette replay {file}")
    terminal.run(
        "async def late():\n    await asyncio.sleep(0.3)\n    return await audit('b')\n\ncalls.clear()\n"
        "task = asyncio.create_task(late()); await audit('a')"
    )
    terminal.run("%cassette stop")
    assert "ClosedError: " in terminal.run("await task")
    assert "[]" in terminal.run("calls")
    assert "'audited live'" in terminal.run("await audit('live')")
