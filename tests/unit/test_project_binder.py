"""What Binder installs is what the lock says, and nothing in it has to be built."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[2]
BINDER = ROOT / "binder"


def pins() -> list[Requirement]:
    lines = (BINDER / "requirements.txt").read_text().splitlines()
    return [Requirement(line) for line in lines if not line.startswith("#")]


def test_every_requirement_is_pinned() -> None:
    assert len(pins()) > 80
    assert [pin for pin in pins() if [each.operator for each in pin.specifier] != ["=="]] == []


def test_everything_the_project_needs_is_there() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    versions = {pin.name: next(iter(pin.specifier)).version for pin in pins()}
    for need in map(Requirement, project["dependencies"]):
        assert need.specifier.contains(versions[need.name], prereleases=True), need


@pytest.mark.skipif(shutil.which("uv", path=str(Path(sys.executable).parent)) is None, reason="uv is not in this environment")
def test_the_file_is_what_the_lock_gives() -> None:
    uv = shutil.which("uv", path=str(Path(sys.executable).parent))
    assert uv is not None
    options = ("--frozen", "--no-hashes", "--no-emit-project", "--no-dev", "--no-config", "--no-annotate", "--no-header")
    variables = {name: value for name, value in os.environ.items() if not name.startswith("UV_")}
    exported = subprocess.run(
        [uv, "export", *options, "--quiet", "--project", str(ROOT)], env=variables, capture_output=True, text=True, check=True
    )
    _, _, written = (BINDER / "requirements.txt").read_text().partition("\n")
    assert written == exported.stdout, "write it anew: python3 dev.py lock"


def test_its_python_is_one_that_the_project_runs_on() -> None:
    version = (BINDER / "runtime.txt").read_text().strip().removeprefix("python-")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert SpecifierSet(project["requires-python"]).contains(version)


def test_the_script_runs_and_builds_nothing() -> None:
    script = BINDER / "postBuild"
    assert os.access(script, os.X_OK)
    assert script.read_text().startswith("#!/bin/bash\n")
    for builder in ("npm", "node", "gcc", "conda", "apt"):
        assert builder not in script.read_text().split()
    subprocess.run(["bash", "-n", str(script)], check=True)
