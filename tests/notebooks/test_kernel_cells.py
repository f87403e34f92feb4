"""Cells under ``%%cassette`` in a real kernel: they run, show and fail as ordinary cells do."""

from __future__ import annotations

import re

import pytest

from cassette_lab.cassette.reader import read_cassette
from tests.notebooks.kernels import Kernel, Ran

LATE = """
async def late():
    await asyncio.sleep(0.1)
    return await audit('live')
task = asyncio.create_task(late())
await audit('a')
"""


def recorded(kernel: Kernel, file: str) -> list[str | None]:
    cassette = read_cassette(kernel.folder / file)
    return [None if call.request.metadata is None else call.request.metadata.label for call in cassette.interactions]


def made(kernel: Kernel, cell: str) -> list[str]:
    """The agent calls that a cell really made."""
    kernel.run("calls.clear()")
    ran = kernel.run(cell)
    assert ran.ok, ran.error
    return list(eval(kernel.run("calls").result or "[]"))  # noqa: S307 - a list of strings from our own kernel


def one_line(ran: Ran) -> str:
    (line,) = ran.lines
    assert "\n" not in line
    return line


def test_record_then_replay_in_another_order(kernel: Kernel, file: str) -> None:
    ran = kernel.run(
        f"%%cassette record {file}\n"
        "results = await asyncio.gather(audit('a'), audit('bad'), audit('b'), return_exceptions=True)\n"
        "results"
    )
    assert ran.ok, ran.error
    assert ran.result == "['audited a', ValueError('nope'), 'audited b']"
    assert re.fullmatch(rf"● recorded 3 calls · 1 error raised · .* of work in .* · {re.escape(file)}", one_line(ran))
    assert 'alt="3 calls over' in ran.displays[0]["text/html"]

    cell = (
        f"%%cassette replay {file}\nagain = await asyncio.gather(audit('b'), audit('a'), audit('bad'), return_exceptions=True)"
    )
    assert made(kernel, cell) == []
    assert (
        kernel.run("again[:2], isinstance(again[2], ValueError), str(again[2])").result
        == "(['audited b', 'audited a'], True, 'nope')"
    )
    ran = kernel.run(cell)
    assert re.fullmatch(
        rf"▶ replayed 3 of 3 calls · 1 recorded error raised · .* of work in .* · {re.escape(file)}", one_line(ran)
    )


def test_nothing_of_ours_is_left_in_the_namespace(kernel: Kernel, file: str) -> None:
    before = kernel.run("set(dir())")
    assert before.ok
    kernel.run("names = set(dir()) | {'names', 'x'}")
    kernel.run(f"%%cassette record {file}\nx = await audit('a')\nx")
    kernel.run(f"%%cassette replay {file}\nawait audit('other')")
    kernel.run(f"%%cassette replay {file}\n1/0")
    assert kernel.run("sorted(name for name in set(dir()) - names if not name.startswith('_'))").result == "[]"
    assert kernel.run("[name for name in dir() if 'cassette' in name]").result == "[]"


@pytest.mark.parametrize(
    ("body", "result"),
    [
        ("1 + 1", "2"),
        ("await audit('x')", "'audited x'"),
        ("await audit('x');", None),
        ("6 * 7;", None),
        ("x = await audit('x')", None),
        ("# only a remark", None),
        ("None", None),
        ("for i in range(2): i", None),
        ("'a'\n'b'", "'b'"),
    ],
)
def test_the_last_expression_is_displayed_as_usual(kernel: Kernel, file: str, body: str, result: str | None) -> None:
    ran = kernel.run(f"%%cassette record {file} --write-mode truncate\n{body}")
    assert ran.ok, ran.error
    assert ran.result == result


def test_the_result_stands_above_the_line(kernel: Kernel, file: str) -> None:
    ran = kernel.run(f"%%cassette record {file}\nprint('said')\n'value'")
    kinds = [message["msg_type"] for message in ran.messages]
    assert kinds.index("stream") < kinds.index("execute_result") < kinds.index("display_data")
    assert kernel.run("_").result == "'value'"


@pytest.mark.parametrize("body", ["x = 1\nraise KeyError('mine')", "await audit('a')\nraise KeyError('mine')"])
def test_an_exception_of_the_body_keeps_its_traceback_and_line(kernel: Kernel, file: str, body: str) -> None:
    ran = kernel.run(f"# above\n\n%%cassette record {file}\n{body}")
    assert ran.error == "KeyError: 'mine'"
    assert "line 5" in ran.traceback
    assert "----> 5 raise KeyError('mine')" in ran.traceback
    assert "cassette_lab/" not in ran.traceback
    assert "stopped by KeyError" in one_line(ran)
    read_cassette(kernel.folder / file)


def test_an_exception_of_the_agent_reaches_the_cell(kernel: Kernel, file: str) -> None:
    ran = kernel.run(f"%%cassette record {file}\nawait audit('bad')")
    assert ran.error == "ValueError: nope"
    assert "raise ValueError" in ran.traceback
    ran = kernel.run(f"%%cassette replay {file}\nawait audit('bad')")
    assert ran.error == "RecordedValueError: nope"
    assert "cassette_lab/" not in ran.traceback
    assert "await audit('bad')" in ran.traceback
    assert (
        kernel.run(f"%%cassette replay {file}\ntry:\n    await audit('bad')\nexcept ValueError as e:\n    print(e)").stdout
        == "nope\n"
    )


def test_the_language_of_ipython_works_inside(kernel: Kernel, file: str) -> None:
    ran = kernel.run(
        f"%%cassette record {file}\nout = !echo shell\nhere = %pwd\n!echo direct\nawait audit('a')\nlen?\n(out, len(here) > 0)"
    )
    assert ran.ok, ran.error
    assert ran.result == "(['shell'], True)"
    assert "direct" in ran.stdout
    assert recorded(kernel, file) == ["audit"]


def test_future_imports_docstrings_and_strings(kernel: Kernel, file: str) -> None:
    ran = kernel.run(
        f"%%cassette record {file}\n'''doc'''\nfrom __future__ import annotations\ntext = '''a\n%%cassette replay b\n'''\n"
        "def f(x: Unknown) -> Missing: ...\nawait audit('a')\nf.__annotations__, text"
    )
    assert ran.ok, ran.error
    assert ran.result == "({'x': 'Unknown', 'return': 'Missing'}, 'a\\n%%cassette replay b\\n')"
    assert recorded(kernel, file) == ["audit"]


@pytest.mark.parametrize("above", [True, False])
def test_time_above_or_below(kernel: Kernel, file: str, above: bool) -> None:
    magics = [f"%%cassette record {file}", "%%time"]
    ran = kernel.run("\n".join([*(reversed(magics) if above else magics), "await audit('a')"]))
    assert ran.ok, ran.error
    assert ran.result == "'audited a'"
    assert re.fullmatch(r"CPU time: .*, wall time: .*\n", ran.stdout)


def test_definitions_in_a_body_are_the_cells(kernel: Kernel, file: str) -> None:
    ran = kernel.run(
        f"%%cassette record {file}\ncount = 0\ndef up():\n    global count\n    count += 1\n    return later()\n"
        "def later(): return count\nclass Box:\n    size = count\nup(), Box.size, up.__module__\n"
    )
    assert ran.result == "(1, 0, '__main__')"
    assert kernel.run("up()").result == "2"


@pytest.mark.parametrize(
    ("body", "error", "line"),
    [
        ("x = 1\nreturn x", "SyntaxError: 'return' outside function", 3),
        ("x = 1\nyield x", "SyntaxError: 'yield' outside function", 3),
        ("x = 1\n\ny = (", "incomplete input", 4),
        ("for x in y", "expected ':'", 2),
        ("def f():\n    await audit('a')", "'await' outside async function", 3),
        ("x = 1\nbreak", "'break' outside loop", 3),
    ],
)
def test_syntax_errors_are_shown_as_usual_and_nothing_is_recorded(
    kernel: Kernel, file: str, body: str, error: str, line: int
) -> None:
    ran = kernel.run(f"%%cassette record {file}\n{body}")
    assert error in ran.error
    assert f"line {line}" in ran.traceback
    assert not (kernel.folder / file).exists()


def test_an_empty_body_is_refused(kernel: Kernel, file: str) -> None:
    ran = kernel.run(f"%%cassette record {file}\n")
    assert "the cell body is empty" in ran.error
    assert "%cassette" in ran.error
    assert not (kernel.folder / file).exists()


def test_a_body_without_await_is_recorded_too(kernel: Kernel, file: str) -> None:
    ran = kernel.run(
        f"%%cassette record {file}\nimport time\ntime.sleep(0.01)\ntask = asyncio.ensure_future(audit('soon'))\nlen('abc')"
    )
    assert ran.result == "3"
    assert "recorded 1 call" in one_line(ran)
    assert kernel.run("await task").result == "'audited soon'"


def test_calls_that_are_out_are_waited_for(kernel: Kernel, file: str) -> None:
    ran = kernel.run(
        f"%%cassette record {file}\n"
        "task = asyncio.create_task(audit('slow', delay=0.4))\n"
        "await asyncio.sleep(0.01)\n"
        "'body done'"
    )
    assert ran.result == "'body done'"
    assert "recorded 1 call" in one_line(ran)
    assert kernel.run("task.result()").result == "'audited slow'"


def test_calls_that_do_not_end_are_stopped_and_named(kernel: Kernel, file: str) -> None:
    ran = kernel.run(
        f"%%cassette record {file} --max-wait 0.2\n"
        "task = asyncio.create_task(audit('slow', delay=60))\n"
        "await asyncio.sleep(0.01)",
        timeout=15,
    )
    assert "1 call still ran at the end" in ran.error
    assert "audit" in ran.error
    assert "1 aborted" in ran.lines[0]
    (call,) = read_cassette(kernel.folder / file).interactions
    assert call.outcome.result is not None
    assert call.outcome.result["stopReason"] == "aborted"


def test_nested_calls_are_covered_by_the_call_above_them(kernel: Kernel, file: str) -> None:
    kernel.run(
        "@cl.subagent('lead')\nasync def lead(topic):\n    return await asyncio.gather(audit(topic + '1'), audit(topic + '2'))"
    )
    assert kernel.run(f"%%cassette record {file}\nawait lead('x')").result == "['audited x1', 'audited x2']"
    ran = kernel.run(f"%%cassette replay {file}\nawait lead('x')")
    assert ran.result == "['audited x1', 'audited x2']"
    assert "replayed 1 of 3 calls · 2 covered by their parents · " in one_line(ran)
    ran = kernel.run(f"%%cassette replay {file} --nested strict\nawait lead('x')")
    assert "2 of 3 recorded calls were never asked for" in ran.error


def test_the_line_forms_inside_a_cell(kernel: Kernel, file: str) -> None:
    ran = kernel.run(f"%%cassette record {file}\nawait audit('a')\n%cassette status")
    assert re.fullmatch(rf"● recording · 1 call · 0 s · {re.escape(file)}", str(ran.result))
    ran = kernel.run(f"%%cassette replay {file}\nawait audit('a')\n%cassette stop")
    assert "was not begun by a line: it ends with its block" in ran.error


def test_threads_and_executors_take_part(kernel: Kernel, file: str) -> None:
    body = (
        "def work(name): return asyncio.run(audit(name))\n"
        "loop = asyncio.get_running_loop()\n"
        "await asyncio.gather(asyncio.to_thread(work, 't1'), loop.run_in_executor(None, work, 't2'), audit('here'))"
    )
    ran = kernel.run(f"%%cassette record {file}\n{body}")
    assert ran.result == "['audited t1', 'audited t2', 'audited here']", ran.error
    assert recorded(kernel, file) == ["audit"] * 3
    assert made(kernel, f"%%cassette replay {file}\n{body}") == []


def test_a_task_that_outlives_a_replay_never_calls_live(kernel: Kernel, file: str) -> None:
    kernel.run(f"%%cassette record {file}\nawait audit('a')")
    kernel.run("calls.clear()")
    assert kernel.run(f"%%cassette replay {file}\n{LATE}").ok
    ran = kernel.run("await task")
    assert ran.error.startswith("ClosedError")
    assert kernel.run("calls").result == "[]"


def test_a_task_that_outlives_a_recording_calls_live_with_a_warning(kernel: Kernel, file: str) -> None:
    assert kernel.run(f"%%cassette record {file}\n{LATE}").ok
    ran = kernel.run("await task")
    assert ran.result == "'audited live'"
    assert "the call 'audit' is made live, and is missing in the file" in kernel.strays.stderr
    assert recorded(kernel, file) == ["audit"]
    assert f"{file} is incomplete: 1 call came after its end" in str(kernel.run("%cassette status").result)


def test_run_cell_magic_runs_a_plain_body_and_refuses_one_that_awaits(kernel: Kernel, file: str) -> None:
    ran = kernel.run(f"get_ipython().run_cell_magic('cassette', 'record {file}', 'made = 5\\nmade + 1')")
    assert ran.ok, ran.error
    assert "recorded 0 calls" in ran.lines[-1]
    assert kernel.run("made").result == "5"
    ran = kernel.run(f"get_ipython().run_cell_magic('cassette', 'record b{file}', 'await audit(1)')")
    assert ran.error.startswith("UsageError: a body that awaits cannot be run through run_cell_magic")
    assert not (kernel.folder / f"b{file}").exists()
    ran = kernel.run(f"get_ipython().run_cell_magic('cassette', 'record c{file}', '1/0')")
    assert ran.error.startswith("UsageError: the cell under")
    assert "ZeroDivisionError" in ran.traceback


def test_other_cell_magics_below_and_above(kernel: Kernel, file: str) -> None:
    ran = kernel.run(f"%%cassette record {file}\n%%capture out\nprint('hidden')")
    assert ran.ok, ran.error
    assert ran.stdout == ""
    assert kernel.run("out.stdout").result == "'hidden\\n'"
    ran = kernel.run(f"%%capture out\n%%cassette record b{file}\nprint('hidden')")
    assert ran.ok, ran.error
    assert kernel.run("out.stdout").result == "'hidden\\n'"
    read_cassette(kernel.folder / f"b{file}")


def test_names_with_blanks_and_variables(kernel: Kernel, file: str) -> None:
    kernel.run(f"where = 'sub folder'; name = '{file}'")
    assert kernel.run("%%cassette record '{where}/$name'\nawait audit('a')").ok
    assert recorded(kernel, f"sub folder/{file}") == ["audit"]
    ran = kernel.run(
        "def check(place):\n    return get_ipython().run_line_magic('cassette', 'verify \"{place}\"')\n"
        "check(where + '/' + name)"
    )
    assert ran.ok, ran.error
    assert "chain verified" in str(ran.result)


def test_what_the_shell_shows_of_a_cell_is_a_setting(kernel: Kernel, file: str) -> None:
    kernel.run("%config InteractiveShell.ast_node_interactivity = 'all'")
    try:
        ran = kernel.run(f"%%cassette record {file}\n'one'\nx = 2\n'three'")
    finally:
        kernel.run("%config InteractiveShell.ast_node_interactivity = 'last_expr'")
    assert [content["data"]["text/plain"] for content in ran.of("execute_result")] == ["'one'", "'three'"]


def test_without_autoawait_plain_bodies_still_work(kernel: Kernel, file: str) -> None:
    kernel.run("%autoawait False")
    try:
        ran = kernel.run(f"%%cassette record {file}\n1 + 1")
    finally:
        kernel.run("%autoawait True")
    assert ran.result == "2"
    assert "recorded 0 calls" in one_line(ran)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("record {file} --help", "--write-mode"),
        ("record -h", "--write-mode"),
        ("replay --help {file}", "--duplicates"),
        ("--help", "%cassette diff FILE FILE"),
        ("record {file} --pattern 'a b' --help", "--write-mode"),
    ],
)
@pytest.mark.parametrize("body", ["print('run')", "await audit('a')\nprint('run')", "%%time\nprint('run')"])
def test_help_above_a_cell_is_shown_and_nothing_is_run(kernel: Kernel, file: str, line: str, shown: str, body: str) -> None:
    ran = kernel.run(f"%%cassette {line.format(file=file)}\n{body}")
    assert ran.error == ""
    assert shown in ran.stdout
    assert "\nrun" not in ran.stdout
    assert not (kernel.folder / file).exists()
    assert "no cassette is active" in str(kernel.run("%cassette status").result)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "recrod {file}",
        "record {file} --nope",
        "record {file} --write-mode",
        "record {file} --write-mode never",
        "record {file} 'open",
        "record {file} other",
        "record {file} --timing recorded",
        "record missing-dir\0/{file}",
        "record {file} --upstream nobody",
        "record {file} --pattern '('",
        "replay {file}",
        "replay {file} --speed 0",
        "replay {file} --append",
        "verify {file}",
        "stop",
    ],
)
@pytest.mark.parametrize("body", ["print('run')", "await audit('a')\nprint('run')"])
def test_a_mistake_above_a_cell_is_one_sentence_and_nothing_is_run(kernel: Kernel, file: str, line: str, body: str) -> None:
    ran = kernel.run(f"%%cassette {line.format(file=file)}\n{body}")
    assert not ran.ok
    assert ran.reply["ename"] in ("UsageError", "ConfigError", "FormatError", "MissingFileError", "NoUpstreamError")
    assert len(ran.traceback.strip().splitlines()) <= 1
    assert "run\n" not in ran.stdout
    assert "no cassette is active" in str(kernel.run("%cassette status").result)


def test_a_swallowed_refusal_is_seen_in_the_line_and_in_the_status(kernel: Kernel, file: str) -> None:
    assert kernel.run(f"%%cassette record {file}\nawait audit('a')").ok
    swallowing = "try:\n    await audit('b')\nexcept Exception:\n    print('fallback')\nawait audit('a')"
    ran = kernel.run(f"%%cassette replay {file}\n{swallowing}")
    assert ran.ok
    assert "· 1 call refused: not in the recording ·" in ran.lines[-1]
    assert f"the replay of {file} refused 1 call" in str(kernel.run("%cassette status").result)
    assert kernel.run(f"%cassette replay {file}").ok
    kernel.run(swallowing)
    assert "· 1 call refused ·" in str(kernel.run("%cassette status").result)
    assert "1 call refused" in kernel.run("%cassette stop").lines[-1]


def test_redacted_results_are_told_when_they_are_recorded(kernel: Kernel, file: str) -> None:
    ran = kernel.run(f"%%cassette record {file}\nawait audit('token=abcdefgh12345678')")
    assert "1 result redacted: replay needs --allow-redacted" in ran.lines[-1]
    refused = kernel.run(f"%%cassette replay {file}\nawait audit('token=abcdefgh12345678')")
    assert refused.reply["ename"] == "MismatchError"
    assert "--no-redact" in refused.error
    assert kernel.run(f"%%cassette replay {file} --allow-redacted\nawait audit('token=abcdefgh12345678')").ok


def test_a_recording_of_nothing_says_so(kernel: Kernel, file: str) -> None:
    ran = kernel.run(f"%%cassette record {file}\n1 + 1")
    assert ran.lines[-1].startswith("● recorded 0 calls · no @subagent call was awaited ·")


def test_a_time_limit_holds_in_replay(kernel: Kernel, file: str) -> None:
    body = "try:\n    print(await asyncio.wait_for(audit('a', delay=20), 0.1))\nexcept TimeoutError:\n    print('too slow')"
    for verb in ("record", "replay"):
        ran = kernel.run(f"%%cassette {verb} {file}\n{body}")
        assert ran.stdout == "too slow\n"
        assert "1 aborted" in ran.lines[-1]
