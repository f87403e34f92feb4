from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cassette_lab.cli import main
from tests.unit.replay_samples import call, log
from tests.unit.server_client import LIMIT_S, Client


def sessions(folder: Path) -> list[str]:
    """A session that makes two model calls, and a subagent that makes one."""
    primary = log(folder / "main.jsonl", *call("one", 1), *call("two", 2), id="main")
    child = log(folder / "child.jsonl", *call("inner"), id="child")
    return [str(primary), str(child)]


@contextmanager
def served(*words: str) -> Iterator[tuple[subprocess.Popen[str], Client, str]]:
    command = [sys.executable, "-c", "import sys; from cassette_lab.cli import main; sys.exit(main())", "serve-replay", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            match = re.fullmatch(r"(.*) at http://127\.0\.0\.1:(\d+)/v1\n", line)
            assert match is not None, line
            assert process.stdout.readline() == "Ctrl-C stops\n"
            yield process, Client(int(match[2])), match[1]
        finally:
            process.kill()


def stopped(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=LIMIT_S)
    return process.returncode, out, errors


def test_an_agent_in_another_process_is_answered_until_ctrl_c(tmp_path: Path) -> None:
    with served(*sessions(tmp_path)) as (process, client, what):
        assert what == "2 recorded sessions with 3 calls"
        assert client.chat(session="x", stream=True).said == "one"
        assert client.chat(session="y").json["choices"][0]["message"]["content"] == "inner"
        assert client.chat(session="x", stream=True).said == "two"
        told = "session x: call 1 of 2 of main\nsession y: call 1 of 1 of child\nsession x: call 2 of 2 of main\n"
        assert stopped(process) == (0, f"{told}stopped\n", "")


def test_calls_without_an_end_are_served_as_one_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(log(tmp_path / "s" / "session.jsonl", *call("cut", finished=False)).parent)
    assert main(["serve-replay", path]) == 1
    assert "ended without a finish chunk" in capsys.readouterr().err
    with served("--unfinished", "throw", path) as (process, client, what):
        assert what == "1 recorded session with 1 call"
        reply = client.chat(session="x")
        assert (reply.status, reply.json["error"]["code"]) == (502, "STREAM_CLOSED")
        assert client.chat(session="\x1b[31m" + "y" * 500).status == 409
        code, out, errors = stopped(process)
    first, second, last = out.splitlines()
    assert (code, first, last, errors) == (0, "session x: call 1 of 1 of sample, which fails: STREAM_CLOSED", "stopped", "")
    assert second.startswith(r"refused: session \u{001b}[31myyy")


def test_a_folder_is_served_with_the_subagents_of_its_session(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for day in ("monday", "tuesday"):
        log(tmp_path / day / "r" / "session.jsonl", *call(f"root of {day}"), id="root")
        log(tmp_path / day / "c" / "session.jsonl", *call(f"child of {day}"), id="child", parentSession="root")
        log(tmp_path / day / "g" / "session.jsonl", *call(f"grandchild of {day}"), id="grandchild", parentSession="child")
    assert main(["serve-replay", str(tmp_path)]) == 1
    assert "2 sessions begin in this folder: root, root; name one of them (PATH#ID)" in capsys.readouterr().err
    log(tmp_path / "tuesday" / "o" / "session.jsonl", *call("other"), id="other")
    for name in (str(tmp_path / "monday"), f"{tmp_path / 'tuesday'}#root"):
        with served(name) as (process, client, what):
            assert what == "3 recorded sessions with 3 calls"
            day = "monday" if "monday" in name else "tuesday"
            assert client.chat(session="x").json["choices"][0]["message"]["content"] == f"root of {day}"
            stopped(process)
    assert main(["serve-replay", f"{tmp_path / 'tuesday'}#none"]) == 1
    assert "is of the session none" in capsys.readouterr().err


def test_at_the_end_it_says_what_was_not_asked_for(tmp_path: Path) -> None:
    override = tmp_path / "override.json"
    override.write_text(
        json.dumps({"patches": [{"at": 0, "entry": {"kind": "throw", "chunks": [], "message": "m", "code": "SERVER"}}]})
    )
    with served(*sessions(tmp_path), "--override", str(override), "--pace-ms", "1") as (process, client, _):
        assert client.chat("secret-of-mine", session="x").error == (500, "SERVER", "m")
        code, out, errors = stopped(process)
    assert (code, out) == (0, "session x: call 1 of 2 of main, which fails: SERVER\nstopped\n")
    assert errors.startswith(
        "cassette-lab: the recording was not used up: 1 of 2 recorded sessions made no call; session x made 1 of 2"
    )
    assert "secret-of-mine" not in errors


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--host", "0.0.0.0"], "recordings are served on this machine only"),  # noqa: S104 - it is refused
        (["--port", "65536"], "--port takes a whole number from 0 to 65535, not '65536'"),
        (["--port", "-1"], "--port takes a whole number from 0 to 65535, not '-1'"),
        (["--pace-ms", "1.5"], "--pace-ms takes a whole number from 0 to 86400000, not '1.5'"),
        (["--binding", "luck"], "--binding takes one of first-call, content, not 'luck'"),
        (["--override", "missing.json"], "missing.json: there is no such override file"),
        (["missing.jsonl"], "missing.jsonl: there is no such child log"),
    ],
)
def test_a_mistake_is_one_sentence(
    words: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["serve-replay", *sessions(tmp_path), *words]) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith(f"cassette-lab: {sentence}")
    assert (captured.out, captured.err.count("\n")) == ("", 1)


@pytest.mark.parametrize("missing", ["uvicorn", "starlette"])
def test_without_its_packages_it_says_how_to_get_them(
    missing: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name == "cassette_lab.server.app" or name.partition(".")[0] == missing]:
        monkeypatch.delitem(sys.modules, name)
    modules: dict[str, Any] = sys.modules
    monkeypatch.setitem(modules, missing, None)
    assert main(["serve-replay", *sessions(tmp_path)]) == 1
    assert capsys.readouterr().err == (
        "cassette-lab: serving needs Starlette and uvicorn: install cassette-lab with its extra `serve`, "
        "or run `pip install starlette uvicorn`\n"
    )
