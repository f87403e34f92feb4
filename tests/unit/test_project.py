"""What holds for the project as a whole: its lock, its public names, what an import costs, what CI runs."""

from __future__ import annotations

import importlib
import pkgutil
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import cassette_lab

ROOT = Path(__file__).resolve().parents[2]


def toml(name: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / name).read_text("utf-8"))


def test_the_lock_comes_from_one_public_index_and_from_no_place_of_one_machine() -> None:
    lock = toml("uv.lock")
    sources = [package["source"] for package in lock["package"]]
    registries = {source["registry"] for source in sources if "registry" in source}
    assert len(registries) == 1
    assert [source for source in sources if "registry" not in source] == [{"editable": "."}]
    text = (ROOT / "uv.lock").read_text("utf-8")
    assert not re.search(r"file:|localhost|127\.0\.0\.1|http://|\"/|/opt/|/root/|find-links", text)


def test_the_lock_is_the_one_of_this_pyproject() -> None:
    project = toml("pyproject.toml")["project"]
    lock = toml("uv.lock")
    (own,) = (package for package in lock["package"] if package["name"] == project["name"])
    wanted = {requirement_name(text) for text in project["dependencies"]}
    assert {entry["name"] for entry in own["dependencies"]} == wanted
    extras = project["optional-dependencies"]
    assert own["optional-dependencies"].keys() == extras.keys()
    for extra, texts in extras.items():
        assert {entry["name"] for entry in own["optional-dependencies"][extra]} == set(map(requirement_name, texts))
    assert set(extras["serve"]) < set(extras["test"])  # what is optional is tested
    assert own["version"] == project["version"] == cassette_lab.__version__
    assert lock["requires-python"] == project["requires-python"]
    specifiers = {entry["name"]: entry.get("specifier", "") for entry in own["metadata"]["requires-dist"]}
    for text in (*project["dependencies"], *extras["test"]):
        name = requirement_name(text)
        wanted_versions = text[len(name) :].partition(";")[0]  # what follows says for which Python
        assert set(wanted_versions.split(",")) == set(specifiers[name].split(","))


def requirement_name(text: str) -> str:
    match = re.match(r"[a-z0-9-]+", text)
    assert match is not None
    return match[0]


def test_public_names_are_sorted_and_there() -> None:
    assert cassette_lab.__all__ == sorted(set(cassette_lab.__all__))
    for module in packages():
        for name in getattr(module, "__all__", ()):
            assert hasattr(module, name), f"{module.__name__}.{name}"


def packages() -> list[Any]:
    names = [entry.name for entry in pkgutil.walk_packages(cassette_lab.__path__, "cassette_lab.") if entry.ispkg]
    assert "cassette_lab.cassette" in names
    return [cassette_lab, *map(importlib.import_module, names)]


@pytest.mark.parametrize(
    ("program", "heavy"),
    [
        ("import cassette_lab", "pyarrow pandas polars duckdb altair numpy IPython regress orjson asyncio"),
        (
            "from cassette_lab import record, replay, subagent, run_subagent",
            "pyarrow pandas polars duckdb altair numpy IPython",
        ),
        (
            "from cassette_lab import Agent, ScriptedModel; Agent(ScriptedModel('hi'))",
            "pyarrow pandas polars duckdb altair numpy IPython pydantic jsonschema httpx2",
        ),
        ("from cassette_lab.cli import main; main(['--help'])", "pyarrow pandas polars duckdb altair numpy IPython"),
        ("from cassette_lab import load", "pandas polars duckdb altair IPython"),
    ],
)
def test_an_import_brings_only_what_it_needs(program: str, heavy: str) -> None:
    code = f"{program}\nimport sys\nsys.exit(' '.join(sorted(set({heavy.split()!r}) & set(sys.modules))))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""


def test_ci_runs_the_command_of_the_readme() -> None:
    command = "python3 dev.py test"
    assert command in (ROOT / "README.md").read_text("utf-8")
    assert command in (ROOT / ".ci" / "run").read_text("utf-8")
