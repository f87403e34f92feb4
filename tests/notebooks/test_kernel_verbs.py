"""The reading verbs, help, completion, errors, loading and unloading, in a real kernel."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.notebooks.conftest import AGENTS
from tests.notebooks.kernels import Kernel, kernel_in


@pytest.fixture(scope="module")
def runs(kernel: Kernel) -> Kernel:
    """The kernel, with two recordings in its folder and a broken one."""
    kernel.run("%%cassette record runs/one.jsonl\nawait asyncio.gather(audit('a'), audit('bad'), return_exceptions=True)")
    kernel.run("%%cassette record runs/two.jsonl\nawait audit('a')")
    whole = (kernel.folder / "runs/one.jsonl").read_text()
    (kernel.folder / "torn.jsonl").write_text(whole[:-20])
    (kernel.folder / "changed.jsonl").write_text(whole.replace("result-error", "start-error").replace("nope", "yes"))
    return kernel


def test_verify(runs: Kernel) -> None:
    ran = runs.run("facts = %cassette verify runs/one.jsonl\nfacts")
    assert ran.result is not None
    assert ran.result.startswith("✓ chain verified · 2 calls · 1 failed · longest ")
    assert "chain verified" in ran.of("execute_result")[0]["data"]["text/html"]
    assert runs.run("facts['interactions'], facts['failed'], facts['file']").result == "(2, 1, 'runs/one.jsonl')"


@pytest.mark.parametrize("verb", ["verify", "inspect", "diff runs/one.jsonl", "load", "replay"])
@pytest.mark.parametrize(
    ("file", "said"),
    [("changed.jsonl", "changed.jsonl, line "), ("torn.jsonl", "torn.jsonl, line 3"), ("gone.jsonl", "gone.jsonl: ")],
)
def test_a_broken_file_is_one_sentence(runs: Kernel, verb: str, file: str, said: str) -> None:
    ran = runs.run(f"%cassette {verb} {file}")
    assert ran.reply["ename"] in ("FormatError", "MissingFileError")
    assert said in ran.traceback
    assert len(ran.traceback.splitlines()) == 1


def test_inspect(runs: Kernel) -> None:
    ran = runs.run("%cassette inspect runs/one.jsonl --show-calls")
    assert ran.result is not None
    for words in ("provider          cassette, recorded from spawn", "✓ completed", "✕ result-error", "root/audit-"):
        assert words in ran.result
    html = ran.of("execute_result")[0]["data"]["text/html"]
    assert html.count("<tr>") == 9 + 1 + 2
    runs.run("seen = %cassette inspect runs/one.jsonl --show-calls")
    assert runs.run("[call['sequence'] for call in seen['calls']]").result == "[1, 2]"


def test_diff(runs: Kernel) -> None:
    assert (runs.run("%cassette diff runs/one.jsonl runs/one.jsonl").result or "").startswith("✓ equivalent")
    ran = runs.run("d = %cassette diff runs/one.jsonl runs/two.jsonl\nd")
    assert (ran.result or "").startswith("≠ different")
    assert "removed" in (ran.result or "")
    assert "<table" in ran.of("execute_result")[0]["data"]["text/html"]
    assert runs.run("d.equivalent, d.counts['removed']").result == "(False, 1)"


def test_load(runs: Kernel) -> None:
    ran = runs.run("lab = %cassette load runs/\nlab.calls.num_rows")
    assert ran.result == "3", ran.error
    ran = runs.run(
        "lab = %cassette load runs/ torn.jsonl --on-error collect --bodies\n"
        "lab.problems.num_rows, 'prompt' in str(lab.calls.schema)"
    )
    assert ran.result == "(1, True)", ran.error


def test_rescue(runs: Kernel) -> None:
    ran = runs.run("%cassette rescue torn.jsonl -o rescued.jsonl")
    assert "1 call kept" in str(ran.result)
    assert "line 3" in str(ran.result)
    assert runs.run("%cassette verify rescued.jsonl").ok
    assert "needs -o NEW" in runs.run("%cassette rescue torn.jsonl").traceback


@pytest.mark.parametrize(
    "body",
    [
        "await audit('other')",
        "await asyncio.gather(audit('a'), audit('other'))",
        "async with asyncio.timeout(5): await audit('other')",
    ],
)
def test_a_mismatch_shows_why_where_and_what_next(runs: Kernel, body: str) -> None:
    ran = runs.run(f"%%cassette replay runs/one.jsonl\n\n{body}")
    assert ran.reply["ename"] == "MismatchError"
    shown = ran.displays[-1]
    assert "why: nothing recorded for this request; a call with the same label was recorded" in shown["text/plain"]
    assert "next: " in shown["text/plain"]
    assert "≠" in shown["text/html"]
    head, *places = ran.traceback.splitlines()
    assert head == (
        "MismatchError: nothing recorded for this request; a call with the same label was recorded (in runs/one.jsonl)"
    )
    assert any(f"line 3: {body}" in place for place in places)
    assert len(places) <= 3
    assert len(ran.displays) == 2


def test_mismatches_in_a_task_group_are_explained_beside_its_traceback(runs: Kernel) -> None:
    ran = runs.run(
        "%%cassette replay runs/one.jsonl\nasync with asyncio.TaskGroup() as group:\n    group.create_task(audit('other'))"
    )
    assert ran.reply["ename"] == "ExceptionGroup"
    assert any("why: nothing recorded for this request" in data["text/plain"] for data in ran.displays)


def test_a_mismatch_that_is_caught_is_quiet(runs: Kernel) -> None:
    ran = runs.run(
        "%%cassette replay runs/two.jsonl\n"
        "try:\n    await audit('other')\nexcept cl.MismatchError as error:\n    print(error.code)\n"
        "await audit('a')"
    )
    assert ran.ok, ran.error
    assert ran.stdout == "CASSETTE_MISMATCH\n"
    assert len(ran.lines) == 1


def test_plain_python_contexts_show_their_errors_alike(runs: Kernel) -> None:
    ran = runs.run("async with cl.replay('runs/two.jsonl'):\n    await audit('other')")
    assert ran.reply["ename"] == "MismatchError"
    assert "line 2: await audit('other')" in ran.traceback
    assert "site-packages" not in ran.traceback


def test_mistakes_are_one_sentence(runs: Kernel) -> None:
    for line in (
        "%cassette",
        "%cassette recrd x",
        "%cassette diff a",
        "%%cassette replay runs/one.jsonl --speed 0\nawait audit('a')",
    ):
        ran = runs.run(line)
        assert not ran.ok
        assert len(ran.traceback.splitlines()) == 1, line
    ran = runs.run("%%cassette record p.jsonl --pattern (\nawait audit('a')")
    assert ran.reply["ename"] == "ConfigError"
    assert not (runs.folder / "p.jsonl").exists()
    assert "verify takes no body" in runs.run("%%cassette verify runs/one.jsonl\nx = 1").traceback


def test_help(runs: Kernel) -> None:
    text = runs.inspect("%cassette")
    for words in ("%cassette diff FILE FILE", "--write-mode create|truncate|append|once", "asyncio.gather"):
        assert words in text
    assert "--duplicates" in runs.run("%cassette replay --help").stdout


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("%%cassette rep", ["replay"]),
        ("%cassette verify runs/o", ["runs/one.jsonl"]),
        ("lab = %cassette load ru", ["runs/"]),
        ("%%cassette replay runs/one.jsonl --timing ", ["instant", "recorded"]),
        ("%%cassette record x --write-mode=tr", ["--write-mode=truncate"]),
        ("%%cassette record x --upstream s", ["spawn"]),
        ("%%casset", ["%%cassette"]),
    ],
)
def test_completion(runs: Kernel, code: str, words: list[str]) -> None:
    assert sorted(runs.complete(code)) == words


INSTALLED = "len(ip.input_transformers_cleanup), len(ip.ast_transformers), len(ip.Completer.custom_matchers)"


def test_unload_reload_and_an_ipython_that_is_too_old(tmp_path: Path) -> None:
    with kernel_in(tmp_path) as kernel:
        kernel.run(AGENTS)
        assert kernel.run("%unload_ext cassette_lab").ok
        kernel.run(f"ip = get_ipython(); count = {INSTALLED}")
        assert "not found" in kernel.run("%cassette status").error
        assert "not found" in kernel.run("%%cassette record a.jsonl\n1").error
        assert "replay" not in kernel.complete("%%cassette rep")
        for _ in range(2):
            assert kernel.run("%load_ext cassette_lab").ok
        assert kernel.run("%reload_ext cassette_lab").ok
        assert kernel.run("%%cassette record a.jsonl\nawait audit('a')").result == "'audited a'"
        assert kernel.run("%unload_ext cassette_lab").ok
        assert kernel.run(f"({INSTALLED}) == count").result == "True"
        ran = kernel.run("async with cl.replay('a.jsonl'):\n    await audit('other')")
        assert ran.traceback.count("\n") > 10
        kernel.run("import IPython; IPython.version_info = (7, 34, 0, ''); IPython.__version__ = '7.34.0'")
        ran = kernel.run("%load_ext cassette_lab")
        assert ran.stderr == "UsageError: cassette_lab needs IPython 8.24 or newer, this is 7.34.0; pip install -U ipython\n"


def test_importing_the_package_changes_nothing() -> None:
    code = (
        "import sys; hook = sys.displayhook; import cassette_lab; "
        "print(sorted({name.split('.')[0] for name in sys.modules} & {'IPython', 'pyarrow', 'numpy'}), sys.displayhook is hook)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[] True\n"
