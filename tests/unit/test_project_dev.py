"""dev.py: its words, and the sentences it ends with. What it installs is tried by CI, which starts with it."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

import dev

SCRIPT = Path(dev.__file__)


@pytest.mark.parametrize(
    ("arguments", "kept", "python"),
    [
        (["test"], ["test"], None),
        (["test", "--python", "/p", "-k", "x"], ["test", "-k", "x"], "/p"),
        (["--python=/p", "run", "python", "-V"], ["run", "python", "-V"], "/p"),
        (["run", "--python", "/p", "tool", "--python", "/q"], ["run", "tool", "--python", "/q"], "/p"),
        (["run", "tool", "--python=/q"], ["run", "tool", "--python=/q"], None),
        ([], [], None),
    ],
)
def test_python_is_taken_out_unless_it_belongs_to_the_command_that_is_run(
    arguments: list[str], kept: list[str], python: str | None
) -> None:
    assert dev.take_python(arguments) == (kept, python)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["frob"], "there is no command 'frob'; there is: demo, test, check, matrix, lab, bench, pictures, run, lock"),
        (["test", "--python"], "--python needs the path of an interpreter"),
        (["test", "--python", "/nowhere/python"], "/nowhere/python is no Python interpreter that runs"),
        (["run"], "run needs a command"),
        (["run", "no-such-program"], "there is no program 'no-such-program'"),
        (["check", "everything"], "this command takes no 'everything'"),
    ],
)
def test_a_mistake_is_one_sentence(arguments: list[str], sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dev.Environment, "prepare", lambda _self, **_options: None)
    with pytest.raises(dev.Stop) as stop:
        dev.main(arguments)
    assert sentence in str(stop.value)
    assert "\n" not in str(stop.value)


def test_a_mistake_ends_the_script_without_a_traceback() -> None:
    done = subprocess.run([sys.executable, SCRIPT, "frob"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("dev.py: there is no command 'frob'")
    assert done.stderr.count("\n") == 1


def test_help_names_every_command() -> None:
    done = subprocess.run([sys.executable, SCRIPT, "--help"], capture_output=True, text=True, check=True)
    for command in ("demo", "test", "check", "lab", "bench", "run", "lock"):
        assert f"dev.py {command}" in done.stdout


def old_interpreter(folder: Path, version: str) -> Path:
    program = folder / "python-old"
    program.write_text(f"#!/bin/sh\necho {version}\n")
    program.chmod(0o755)
    return program


def test_an_interpreter_that_is_too_old_is_named(tmp_path: Path) -> None:
    program = old_interpreter(tmp_path, "3 10 2")
    with pytest.raises(dev.Stop, match=r"is Python 3\.10; cassette_lab needs 3\.11 or newer"):
        dev.find_python(str(program))


def test_another_interpreter_gets_a_folder_of_its_own(tmp_path: Path) -> None:
    program = old_interpreter(tmp_path, "3 14 1")
    assert dev.Environment(str(program)).folder == dev.ROOT / ".venv-3.14"
    assert dev.Environment(None).folder == dev.ROOT / ".venv"


def test_settings_of_other_projects_do_not_reach_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1/simple")
    monkeypatch.setenv("UV_FIND_LINKS", "/somewhere")
    monkeypatch.setenv("UV_CACHE_DIR", "/a/cache")
    monkeypatch.setenv("SSL_CERT_FILE", "/a/certificate")
    variables = dev.Environment(None).variables
    assert "UV_DEFAULT_INDEX" not in variables
    assert "UV_FIND_LINKS" not in variables
    assert variables["UV_CACHE_DIR"] == "/a/cache"
    assert variables["SSL_CERT_FILE"] == "/a/certificate"


def test_a_full_disk_is_said_before_anything_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = dev.Environment(None)
    environment.folder = tmp_path / "venv"
    monkeypatch.setattr(dev, "ROOM_NEEDED_BYTES", 1 << 62)
    with pytest.raises(dev.Stop, match="GB left"):
        environment.prepare()
    assert not environment.folder.exists()


def test_a_prepared_environment_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = dev.Environment(None)
    environment.folder = tmp_path
    environment.python = Path(sys.executable)
    made: list[list[str]] = []

    def sync(extra: list[str]) -> bool:
        made.append(extra)
        return True

    monkeypatch.setattr(environment, "make", lambda: None)
    monkeypatch.setattr(environment, "sync_with_uv", sync)
    environment.prepare(tests=False)
    environment.prepare(tests=False)
    environment.prepare()
    environment.prepare()
    environment.prepare(tests=False)
    environment.prepare(tests=False, harness=True)
    assert made == [[], ["test"]], "what tests need has the harness, too"


def test_notebooks_get_the_harness_where_it_has_a_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = dev.Environment(None)
    environment.folder = tmp_path
    environment.python = Path(sys.executable)
    made: list[list[str]] = []

    def sync(extras: list[str]) -> bool:
        made.append(extras)
        return True

    monkeypatch.setattr(environment, "make", lambda: None)
    monkeypatch.setattr(environment, "sync_with_uv", sync)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    environment.prepare(tests=False, harness=True)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    for _ in range(2):
        environment.prepare(tests=False, harness=True)
    environment.prepare(tests=False)
    environment.prepare()
    assert made == [[], ["harness"], ["harness", "test"]]


@pytest.mark.parametrize(
    ("command", "tests"),
    [
        (["cassette-lab", "sessions", "x"], False),
        (["cassette-lab", "serve-replay", "x"], True),
        (["pytest"], True),
    ],
)
def test_our_own_command_needs_no_more_than_the_demo(command: list[str], tests: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(dev.Environment, "prepare", lambda _self, *, tests=True: asked.append(tests))
    monkeypatch.setattr(dev.Environment, "become", lambda _self, *_words: 0)
    assert dev.main(["run", *command]) == 0
    assert asked == [tests]


def test_what_is_added_to_a_ready_environment_is_not_called_a_second_setting_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    environment = dev.Environment(None)
    environment.folder = tmp_path
    environment.python = Path(sys.executable)
    for name in ("make", "quietly", "sync_with_uv"):
        monkeypatch.setattr(environment, name, lambda *_words: True)
    told = []
    for tests in (False, False, True, True):
        environment.prepare(tests=tests)
        told.append(capsys.readouterr().err.partition("(")[0])
    assert told == [f"· setting up {tmp_path.name} ", "", f"· adding what this command needs to {tmp_path.name} ", ""]


def test_the_environment_has_the_labextension_that_is_built(tmp_path: Path) -> None:
    environment = dev.Environment(None)
    environment.folder = tmp_path
    placed = tmp_path / "share/jupyter/labextensions/cassette-lab"
    environment.place_labextension()
    built = dev.contents(dev.ROOT / "cassette_lab" / "labextension")
    assert dev.contents(placed, but="install.json") == built
    assert (placed / "install.json").is_file()
    (placed / "static" / "of-an-older-build.js").write_text("old")
    environment.place_labextension()
    assert dev.contents(placed, but="install.json") == built
