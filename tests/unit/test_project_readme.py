"""The README tells the truth: its examples run, its commands parse, its options exist with the defaults it gives."""

from __future__ import annotations

import ast
import asyncio
import re
import shlex
from codeop import CommandCompiler
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import cassette_lab
from cassette_lab.cassette.config import CassetteConfig
from cassette_lab.cli.commands import COMMANDS
from cassette_lab.contracts import LlmAdapter
from cassette_lab.host.flights import FLIGHTS
from cassette_lab.notebook.flight_options import parse
from cassette_lab.notebook.options import VERBS
from cassette_lab.server.mock_model import Answer, MockModel
from cassette_lab.tables import load
from tests.benchmarks.generate import cassette_file
from tests.unit.harness_runs import need_runtime

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_the_first_example_records_and_replays_and_the_next_tests_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    program = compile(blocks("python")[0], "README.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    asyncio.run(eval(program, names))  # noqa: S307 - our own README
    assert capsys.readouterr().out == "src is fine\nsrc is fine\n"
    assert (tmp_path / "audit.cassette.jsonl").is_file()
    exec(blocks("python")[1], names)  # noqa: S102 - our own README
    asyncio.run(names["test_agent"]())  # which asserts


def test_the_tables_and_charts_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    cassette_file(tmp_path / "runs", 5, "mixed")
    cassette_file(tmp_path, 5, "mixed").rename("first.cassette.jsonl")
    cassette_file(tmp_path, 5, "plain").rename("second.cassette.jsonl")
    names: dict[str, Any] = {}
    exec(f"import cassette_lab as cl\n{blocks('python')[2]}", names)  # noqa: S102 - our own README
    assert names["lab"].calls.num_rows == 5
    assert names["lab"].calls.schema.field("duration_ms").metadata[b"unit"] == b"ms"
    assert "<html" in (tmp_path / "report.html").read_text("utf-8")
    (block,) = [block for block in blocks("python") if "compare=" in block]
    exec(block, names)  # noqa: S102 - our own README
    assert "Compared with another run" in (tmp_path / "report.html").read_text("utf-8")


def test_the_sample_sessions_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    names: dict[str, Any] = {}
    (block,) = [block for block in blocks("python") if "cl.open_session(" in block]
    exec(f"import cassette_lab as cl\n{block}", names)  # noqa: S102 - our own README
    assert names["lab"].sessions.num_rows == names["lab"].tree().num_rows > 1
    assert names["log"].header.id == "release-check"


def test_a_session_is_written_and_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ran("cl.StoredSession.create", tmp_path, monkeypatch)
    assert [(len(update.rows), update.event_count) for update in names["seen"]] == [(2, 2), (1, 3)]
    assert load(tmp_path / "runs").turns.num_rows == 1


def test_a_recorded_model_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ran("cl.ReplayModel.from_folder", ROOT, monkeypatch)
    assert names["chunks"][-1]["type"] == "finish"
    assert "4 recorded sessions" in repr(names["model"])


def test_the_agent_uses_its_tool_and_logs_its_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ran("cl.ScriptedModel(cl.Call", tmp_path, monkeypatch)
    assert (names["answer"].text, names["answer"].stop_reason) == ("There are two.", "completed")
    assert len(names["agent"].parts.tools.definitions) == 2
    lab = load(tmp_path / "runs" / "agents")
    assert lab.tool_calls.column("name").to_pylist() == ["routes"]


def test_the_models_of_the_table_can_be_made() -> None:
    rows = re.findall(r"^\| `(cl\.\w+\(.*?\))` \|", README, re.MULTILINE)
    assert len(rows) >= 3
    for row in rows:
        assert isinstance(eval(row, {"cl": cassette_lab}), LlmAdapter)  # noqa: S307 - our own README


def test_the_harness_is_recorded_and_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_runtime()
    with MockModel([Answer("A folder.")]) as model:
        names = ran("cl.record_harness", tmp_path, monkeypatch, **{"http://127.0.0.1:8000/v1": model.base_url})
    assert names["run"].text == "A folder."
    assert names["again"].departures == []


def ran(part: str, folder: Path, monkeypatch: pytest.MonkeyPatch, **replaced: str) -> dict[str, Any]:
    """What the example that has ``part`` in it leaves, run in ``folder`` with some words replaced."""
    monkeypatch.chdir(folder)
    (block,) = (block for block in blocks("python") if part in block)
    for word, other in replaced.items():
        block = block.replace(word, other)
    names: dict[str, Any] = {"cl": cassette_lab}
    awaited = eval(compile(block, "README.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)  # noqa: S307 - our own README
    if awaited is not None:
        asyncio.run(awaited)
    return names


def test_the_flight_recorder_sees_the_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = (block for block in blocks("python") if "flight_recorder" in block)
    names: dict[str, Any] = {}
    program = compile(f"import cassette_lab as cl\n{block}", "README.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    try:
        asyncio.run(eval(program, names))  # noqa: S307 - our own README
    finally:
        FLIGHTS.off()
    asked = re.search(r'lab\.sql\("""(.*?)"""\)', block, re.DOTALL)
    assert asked is not None
    assert [(row["turn"], row["step"]) for row in names["lab"].sql(asked[1])] == [(1, 1), (2, 1)]


def test_every_flight_line_is_a_command() -> None:
    lines = re.findall(r"`%flight ?([^`…]*)`", README)
    assert len(lines) >= 5
    for line in lines:
        parse(line)


def test_every_command_line_parses() -> None:
    lines = [line.partition("#")[0].strip() for block in blocks("sh") for line in block.splitlines()]
    lines += re.findall(r"`(cassette-lab [^`…]+)`", README)
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("cassette-lab ")]
    assert len(commands) >= 6
    for name, *words in commands:
        COMMANDS[name].parse(words)


def test_every_option_exists_with_the_default_that_is_given() -> None:
    defaults = {field.name: field.default for field in fields(CassetteConfig)}
    flags = {option.flag: option.name for verb in VERBS.values() for option in verb.options}
    shown = {"True": "on", "False": "off", "()": "none", "1": "1"}
    rows = re.findall(r"^\| (`\w+`, .*?) \| (.*?) \|", README, re.MULTILINE)
    assert len(rows) >= 12
    told = set()
    for names, default in rows:
        given = re.findall(r"`([^`]+)`", names)
        options = [name for name in given if not name.startswith("-")]
        assert [flags[name] for name in given if name.startswith("-")] == options
        expected = [shown.get(repr(defaults[name]), f"`{defaults[name]}`") for name in options]
        assert default.split(", magics")[0] == ", ".join(expected)
        told.update(options)
    assert defaults.keys() - told == {"mode", "file", "provider"}


def test_the_map_of_the_house_names_every_room() -> None:
    house = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    for entry in (ROOT / "cassette_lab").iterdir():
        if entry.is_dir() and (entry / "__init__.py").is_file():
            assert f"`{entry.name}/`" in house
        elif entry.suffix == ".py" and entry.stem != "__init__":
            assert f"`{entry.name}`" in house
    for name in re.findall(r"`((?:tests|notebooks|cassette_lab)/[\w./]+)`", house):
        assert (ROOT / name).exists(), name


def test_the_first_example_can_be_pasted_into_a_prompt_that_awaits() -> None:
    compiler = CommandCompiler()
    compiler.compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    waiting: list[str] = []
    for line in [*blocks("python")[0].splitlines(), ""]:
        waiting.append(line)
        if compiler("\n".join(waiting)) is not None:  # raises SyntaxError for what such a prompt does not take
            waiting = []
    assert not "".join(waiting)
