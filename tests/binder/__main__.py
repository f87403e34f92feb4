"""What Binder would build, built here: ``python -m tests.binder [--pip] [--python PATH]``.

A fresh environment gets what ``binder/`` says, ready-made packages only, on a PATH that has neither Node nor a compiler. Then
every notebook runs there, JupyterLab opens a recording in Chromium, and ``repo2docker --no-build`` reads the folder. It
stops at the first thing that fails. Packages are installed by uv, where this environment has it, and with ``--pip`` as
Binder does it, which takes a minute more.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from playwright.sync_api import sync_playwright

from tests.browser.conftest import CHROMIUM, FLAGS, TOKEN, jupyterlab

ROOT: Final = Path(__file__).resolve().parents[2]
SHELL: Final = ("bash", "sh", "env", "uname", "dirname", "rm", "cp", "mkdir", "ls", "cat", "git")
"""Programs that Binder's image has and that a start of Jupyter or a script may call."""

BUILDERS: Final = ("node", "npm", "npx", "yarn", "gcc", "g++", "cc", "c++", "clang", "make", "cmake", "cargo", "rustc")
EXTENSION: Final = "cassette-lab"
SERVER_HALF: Final = "cassette_lab.server.jupyter"


def main(arguments: list[str]) -> int:
    """Build and check; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.binder", description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="the interpreter; Binder's is in binder/runtime.txt")
    parser.add_argument("--pip", action="store_true", help="install with pip, as Binder does")
    options = parser.parse_args(arguments)
    uv = None if options.pip else shutil.which("uv", path=str(Path(sys.executable).parent))
    with tempfile.TemporaryDirectory(prefix="cassette-lab-binder-") as name:
        folder = Path(name)
        clone = _clone(folder / "repository")
        with _told("repo2docker reads binder/"):
            _repo2docker(_environment(folder / "repo2docker", sys.executable), clone, uv)
        python = _environment(folder / "environment", options.python)
        variables = _variables(folder, python.parent)
        with _told("the requirements, no compiler at hand"):
            command = [*_install(python, uv), "--only-binary", ":all:", "-r", "binder/requirements.txt"]
            _run(*command, folder=clone, variables=variables)
        with _told("postBuild"):
            _run("bash", "binder/postBuild", folder=clone, variables=variables)
        with _told("JupyterLab has the extension and its server half"):
            _enabled(clone, variables)
        for notebook in sorted((clone / "notebooks").glob("*.ipynb")):
            with _told(notebook.name):
                execute = ("jupyter", "nbconvert", "--log-level=ERROR", "--to", "notebook", "--execute", "--inplace")
                _run(*execute, f"notebooks/{notebook.name}", folder=clone, variables=variables)
        with _told("JupyterLab opens what a notebook recorded"):
            _look(folder / "look", python, clone / "notebooks" / "runs" / "first.cassette.jsonl")
    return 0


def _clone(target: Path) -> Path:
    """What is committed, as Binder gets it."""
    subprocess.run(["git", "clone", "--quiet", "--no-local", str(ROOT), str(target)], check=True)
    return target


def _environment(folder: Path, python: str) -> Path:
    """A new virtual environment; returns its interpreter."""
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    return folder / "bin" / "python"


def _install(python: Path, uv: str | None) -> list[str]:
    """The command that installs packages into an environment."""
    if uv is None:
        return [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    return [uv, "pip", "install", "--quiet", "--no-config", "--python", str(python)]


def _variables(folder: Path, programs: Path) -> Mapping[str, str]:
    """A home of its own, and a PATH with nothing that builds."""
    tools = folder / "tools"
    tools.mkdir()
    for name in SHELL:
        found = shutil.which(name)
        if found is not None:
            (tools / name).symlink_to(found)
    path = os.pathsep.join([str(programs), str(tools)])
    builders = [name for name in BUILDERS if shutil.which(name, path=path)]
    if builders:
        raise SystemExit(f"the environment is not bare: {', '.join(builders)}")
    kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "UV_CACHE", "SSL_", "LANG", "LC_"))}
    proxies = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
    return {**kept, **proxies, "PATH": path, "HOME": str(folder / "home"), "TMPDIR": tempfile.gettempdir()}


def _enabled(clone: Path, variables: Mapping[str, str]) -> None:
    front = _run("jupyter", "labextension", "list", folder=clone, variables=variables)
    here = [line for line in front.splitlines() if line.strip().startswith(f"{EXTENSION} v")]
    if not here or not all("enabled" in line and "OK" in line for line in here):
        raise SystemExit(f"JupyterLab does not have the extension:\n{front}")
    back = _run("jupyter", "server", "extension", "list", folder=clone, variables=variables)
    if not any(SERVER_HALF in line and "enabled" in line for line in back.splitlines()):
        raise SystemExit(f"the server half is not enabled:\n{back}")


def _look(folder: Path, python: Path, recording: Path) -> None:
    """A double-click in Chromium, in the JupyterLab of the new environment."""
    chromium = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUM)), None)
    if chromium is None:
        raise SystemExit("no Chromium found; install one, or name it in the variable CHROMIUM")
    folder.mkdir()
    with jupyterlab(folder, python=str(python)) as lab, sync_playwright() as playwright:
        shutil.copy(recording, lab.root)
        page = playwright.chromium.launch(executable_path=chromium, args=FLAGS).new_page()
        page.goto(f"{lab.address}/lab?reset&token={TOKEN}")
        page.locator(".jp-DirListing-item", has_text=recording.name).dblclick()
        page.get_by_text("chain verified").wait_for()
        page.locator(".clab-view [role=treeitem]").nth(4).wait_for()


def _repo2docker(python: Path, clone: Path, uv: str | None) -> None:
    """The recipe that Binder makes of the folder has our requirements and our script in it."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("UV_") or name == "UV_CACHE_DIR"}
    subprocess.run([*_install(python, uv), "jupyter-repo2docker"], env=variables, check=True)
    command = [str(python), "-m", "repo2docker", "--no-build", "--debug", str(clone)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"repo2docker: exit {done.returncode}\n{done.stdout[-2000:]}")
    for step in ("binder/requirements.txt", "RUN ./binder/postBuild"):
        if step not in done.stdout:
            raise SystemExit(f"repo2docker does not see {step}:\n{done.stdout[-2000:]}")


def _run(*command: str, folder: Path, variables: Mapping[str, str]) -> str:
    """Run a command of the new environment; what it printed is shown where it fails."""
    program = shutil.which(command[0], path=variables["PATH"])
    if program is None:
        raise SystemExit(f"there is no {command[0]} in the environment")
    done = subprocess.run(
        [program, *command[1:]],
        cwd=folder,
        env=dict(variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=900,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout[-3000:]}")
    return done.stdout


@contextmanager
def _told(what: str) -> Iterator[None]:
    started = time.monotonic()
    yield
    print(f"{what}: fine, {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
