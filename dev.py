#!/usr/bin/env python3
"""Everything a developer does here, with nothing installed but Python 3.11 or newer.

    python3 dev.py demo [FOLDER]   record, replay, compare and chart a small agent (into demo-output)
    python3 dev.py test [ARGS]     check, then every test, the views' own where there is Node; with ARGS: `pytest ARGS`
    python3 dev.py check           ruff, mypy --strict, the floors between rooms
    python3 dev.py matrix          the viewer's tests on the oldest JupyterLab and Notebook 7, with the project as a wheel
    python3 dev.py lab             JupyterLab on notebooks/
    python3 dev.py bench [ARGS]    the benchmarks, each figure beside its floor
    python3 dev.py pictures        the README's pictures, taken anew of the real thing
    python3 dev.py run CMD ...     a command inside the environment
    python3 dev.py lock            write uv.lock anew from pyproject.toml, and Binder's requirements from it

`--python PATH`, before or after the command's name, picks another interpreter; it gets a folder of its own (.venv-3.13).
The first run makes the environment from uv.lock; later ones find it ready and start at once.
"""

# Old Pythons must be able to read this file, so that they can be told what is missing.
from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent
WINDOWS = os.name == "nt"
OLDEST = (3, 11)
OLDEST_NODE = 20
OLDEST_JUPYTER = ("jupyterlab==4.4.*", "notebook==7.4.*")
MATRIX_TESTS = ("pytest", "playwright", "nbformat", "hypothesis")
UV = "uv>=0.9,<1"
PIP_OPTIONS = ("--quiet", "--disable-pip-version-check", "--retries", "2")
ROOM_NEEDED_BYTES = 2 * 1024**3
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

# uv reads the lock file, and nothing about package indexes that a person or machine has set up for other projects.
# What it needs to reach the network at all (certificates, proxies) has names of its own; of UV_* only these stay.
UV_KEPT = frozenset(
    {"UV_CACHE_DIR", "UV_CONCURRENT_DOWNLOADS", "UV_HTTP_TIMEOUT", "UV_LINK_MODE", "UV_NATIVE_TLS", "UV_SYSTEM_CERTS"}
)


class Stop(Exception):  # noqa: N818 - it ends the script with one sentence; not a fault of it
    """What hinders this script, in one sentence."""


def main(arguments: list[str]) -> int:
    """Carry out one command; returns the exit code."""
    arguments, python = take_python(arguments)
    command, rest = (arguments[0], arguments[1:]) if arguments else ("help", [])
    if command in {"help", "--help", "-h"}:
        print((__doc__ or "").strip())
        return 0 if arguments else 1
    all_commands = (demo, test, check, matrix, lab, bench, pictures, run, lock)
    commands = {each.__name__: each for each in all_commands}
    if command not in commands:
        raise Stop(f"there is no command {command!r}; there is: {', '.join(commands)}")
    return commands[command](Environment(python), rest)


def take_python(arguments: list[str]) -> tuple[list[str], str | None]:
    """Take `--python PATH` out; what follows `run CMD` belongs to that command."""
    kept: list[str] = []
    python = None
    at = 0
    while at < len(arguments):
        word = arguments[at]
        if word == "--python":
            if at + 1 == len(arguments):
                raise Stop("--python needs the path of an interpreter")
            python = arguments[at + 1]
            at += 2
            continue
        if word.startswith("--python="):
            python = word[len("--python=") :]
            at += 1
            continue
        kept.append(word)
        at += 1
        if len(kept) > 1 and kept[0] == "run":
            break
    return kept + arguments[at:], python


# Commands


def demo(environment: Environment, rest: list[str]) -> int:
    """The main job, from a shell."""
    environment.prepare(tests=False)
    return environment.become("cassette-lab", "demo", *(rest or [str(ROOT / "demo-output")]))


def lab(environment: Environment, rest: list[str]) -> int:
    """JupyterLab, with the real harness for the notebooks that run it; it refuses to run for root unless told to."""
    environment.prepare(tests=False, harness=True)
    root = ["--allow-root"] if is_root() else []
    return environment.become("python", "-m", "jupyterlab", f"--ServerApp.root_dir={ROOT / 'notebooks'}", *root, *rest)


def check(environment: Environment, rest: list[str]) -> int:
    """Everything that is known without running a test; all of it runs, also after a failure."""
    environment.prepare()
    no_more(rest)
    steps = [
        ("style", ["ruff", "check", "--quiet"]),
        ("layout", ["ruff", "format", "--check", "--quiet"]),
        ("types", ["mypy", "--strict", "--no-error-summary"]),
        ("floors", ["lint-imports", "--no-logo"]),
    ]
    return finish([(name, environment.call(name, *command)) for name, command in steps])


def test(environment: Environment, rest: list[str]) -> int:
    """All tests, or what pytest's own arguments pick."""
    environment.prepare()
    if rest:
        return environment.become("python", "-m", "pytest", *rest, cwd=ROOT)
    results = [("check", check(environment, []))]
    results.append(("front end", front_end(environment)))
    unit = ["python", "-m", "pytest", "-q"]
    browser, missing = find_browser(environment)
    if browser is None:
        results.append(("tests", environment.call("tests", *unit)))
        is_needed = bool(os.environ.get("CI"))
        say(f"browser: {missing}; on CI that is a failure" if is_needed else f"browser: skipped, {missing}")
        return finish([*results, ("browser", int(is_needed))])
    environment.variables["CHROMIUM"] = browser
    # A process of its own: Playwright keeps an event loop running, which in-process tests that await cannot share. It waits
    # much of its time, so the others run beside it.
    browsing = [*unit, "-o", "cache_dir=.pytest_cache/browser", "tests/browser"]
    with tempfile.TemporaryFile() as output, environment.beside(output, *browsing) as process:
        started = time.monotonic()
        results.append(("tests", environment.call("tests", *unit)))
        code = process.wait()
        output.seek(0)
        sys.stdout.write(output.read().decode(errors="replace"))
        say(f"browser: {'failed' if code else 'passed'} in {time.monotonic() - started:.0f} s, beside the tests")
    if code == 1:  # a page that shares two cores with all other tests may be too slow for a test that waits for it
        code = environment.call("browser, what failed once more and alone", *browsing, "--last-failed")
    return finish([*results, ("browser", code)])


def matrix(environment: Environment, rest: list[str]) -> int:
    """The viewer where it must run, too: an environment of its own, the project as people install it, no Node."""
    environment.prepare()
    browser, missing = find_browser(environment)
    if browser is None:
        raise Stop(missing)
    environment.variables["CHROMIUM"] = browser
    folder = ROOT / ".venv-jupyterlab-{}".format(OLDEST_JUPYTER[0].rpartition("==")[2].removesuffix(".*"))
    python = folder / environment.python.relative_to(environment.folder)
    wheels = folder / "wheels"
    uv = [str(environment.python), "-m", "uv"]
    for step in (
        [*uv, "venv", "--quiet", "--allow-existing", "--python", str(environment.python), str(folder)],
        [*uv, "build", "--quiet", "--wheel", "--clear", "--out-dir", str(wheels), str(ROOT)],
    ):
        if not environment.quietly(*step):
            raise Stop("the environment for the matrix could not be made (uv's words are above)")
    wheel = str(next(wheels.glob("*.whl")))
    install = [*uv, "pip", "install", "--quiet", "--python", str(python), "--reinstall-package", "cassette-lab"]
    if not environment.quietly(*install, *OLDEST_JUPYTER, *MATRIX_TESTS, wheel):
        raise Stop("its packages could not be installed (uv's words are above)")
    tests = sorted(str(path) for path in (ROOT / "tests" / "browser").glob("test_viewer*.py"))
    return environment.call("matrix", str(python), "-m", "pytest", "-q", *(rest or tests))


def front_end(environment: Environment) -> int:
    """Types, lint and unit tests of the views, where there is Node; the bundles themselves are compared by a test."""
    npm, node = shutil.which("npm"), shutil.which("node")
    version = subprocess.run([node, "--version"], stdout=subprocess.PIPE, text=True, check=False).stdout if npm and node else ""
    if npm is None or int(version.removeprefix("v").split(".")[0] or 0) < OLDEST_NODE:
        say(f"front end: skipped, there is no Node {OLDEST_NODE} or newer with npm here")
        return 0
    folder = ROOT / "extension"
    stamp = folder / "node_modules" / ".cassette-lab-stamp"
    wanted = hashlib.sha256((folder / "package-lock.json").read_bytes()).hexdigest()
    if read(stamp) != wanted:
        if not environment.quietly(npm, "--prefix", str(folder), "ci", "--no-progress", "--loglevel=error"):
            say("front end: skipped, its packages could not be installed (npm's words are above)")
            return 0
        stamp.write_text(wanted, encoding="utf-8")
    return environment.call("front end", npm, "--prefix", str(folder), "--silent", "run", "verify")


def bench(environment: Environment, rest: list[str]) -> int:
    """The benchmarks; no part of the tests."""
    environment.prepare()
    return environment.become("python", "-m", "tests.benchmarks", *rest, cwd=ROOT)


def pictures(environment: Environment, rest: list[str]) -> int:
    """The README's pictures; whoever changes a view looks at them, and commits them."""
    environment.prepare()
    browser, missing = find_browser(environment)
    if browser is None:
        raise Stop(f"pictures need a browser: {missing}")
    environment.variables["CHROMIUM"] = browser
    return environment.become("python", "-m", "tests.pictures", *rest, cwd=ROOT)


def run(environment: Environment, rest: list[str]) -> int:
    """Any command, in the folder it was called from."""
    if not rest:
        raise Stop("run needs a command, for example: python3 dev.py run cassette-lab --help")
    environment.prepare(tests=needs_all(rest))
    return environment.become(*rest)


def needs_all(command: list[str]) -> bool:
    """Whether a command may need more than the demo does: everything but our own, and that where it serves."""
    return command[0] != "cassette-lab" or "serve-replay" in command


def lock(environment: Environment, rest: list[str]) -> int:
    """The lock, resolved against PyPI alone, whatever this machine has set up; and what of it Binder installs."""
    environment.prepare()
    no_more(rest)
    if code := environment.call("lock", "uv", "lock", "--no-config", "--project", str(ROOT)):
        return code
    export = ["export", "--frozen", "--quiet", "--no-config", "--no-hashes", "--no-emit-project", "--no-dev"]
    command = [environment.find("uv"), *export, "--no-annotate", "--no-header", "--project", str(ROOT)]
    done = subprocess.run(command, env=environment.variables, stdout=subprocess.PIPE, text=True, check=True)
    title = "# What Binder installs: uv.lock without the extras, written by `python3 dev.py lock`.\n"
    (ROOT / "binder" / "requirements.txt").write_text(title + done.stdout, encoding="utf-8")
    return 0


def no_more(rest: list[str]) -> None:
    """Refuse arguments where none are known."""
    if rest:
        raise Stop(f"this command takes no {rest[0]!r}")


def finish(results: list[tuple[str, int]]) -> int:
    """Name what failed, if anything did."""
    failed = [name for name, code in results if code]
    if failed:
        say(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


# The environment


class Environment:
    """A virtual environment of one interpreter, made from uv.lock and kept up to date with it."""

    def __init__(self, python: str | None) -> None:
        self.base, self.version = find_python(python)
        self.folder = ROOT / (".venv" if python is None else ".venv-{}.{}".format(*self.version))
        self.programs = self.folder / ("Scripts" if WINDOWS else "bin")
        self.python = self.programs / ("python.exe" if WINDOWS else "python")
        self.variables = {name: value for name, value in os.environ.items() if not name.startswith("UV_") or name in UV_KEPT}
        self.variables.update(
            VIRTUAL_ENV=str(self.folder),
            UV_PROJECT_ENVIRONMENT=str(self.folder),
            UV_PYTHON_DOWNLOADS="never",
            PATH=str(self.programs) + os.pathsep + os.environ.get("PATH", ""),
        )
        self.variables.pop("PYTHONHOME", None)

    def call(self, name: str, program: str, *arguments: str) -> int:
        """Run one step in the project's folder and say how it went; returns its exit code."""
        started = time.monotonic()
        code = subprocess.call([self.find(program), *arguments], cwd=ROOT, env=self.variables)
        say(f"{name}: {'failed' if code else 'passed'} in {time.monotonic() - started:.0f} s")
        return code

    @contextmanager
    def beside(self, output: IO[bytes], program: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run one step in the project's folder while another goes on; it ends with the block."""
        command = [self.find(program), *arguments]
        process = subprocess.Popen(command, cwd=ROOT, env=self.variables, stdout=output, stderr=subprocess.STDOUT)
        try:
            yield process
        finally:
            process.terminate()
            process.wait()

    def become(self, program: str, *arguments: str, cwd: Path | None = None) -> int:
        """Go on as another program, which then gets the signals, too; where that is not possible, run it."""
        command = [self.find(program), *arguments]
        sys.stdout.flush()
        try:
            if WINDOWS:
                return subprocess.call(command, cwd=cwd, env=self.variables)
            if cwd is not None:
                os.chdir(cwd)
            os.execve(command[0], command, self.variables)
        except OSError as error:
            raise Stop(f"{program} does not start: {error.strerror or error}") from None

    def find(self, program: str) -> str:
        """The path of a program of the environment, or of PATH."""
        found = shutil.which(program, path=self.variables["PATH"])
        if found is None:
            raise Stop(f"there is no program {program!r} in the environment or on PATH")
        return found

    def prepare(self, *, tests: bool = True, harness: bool = False) -> None:
        """Make the environment, or bring it up to date; does nothing when it is. What tests need includes the harness."""
        stamp = self.folder / ".cassette-lab-stamp"
        facts = [ROOT.as_posix(), ".".join(map(str, self.version)), UV]
        files = [(ROOT / name).read_bytes() for name in ("pyproject.toml", "uv.lock")]
        wanted = hashlib.sha256("\n".join(facts).encode() + b"".join(files)).hexdigest()
        state = read(stamp).split()
        extras = {"test"} if tests else {"harness"} if harness and has_harness() else set()
        if state[:1] == [wanted] and ("test" in state or extras <= set(state)) and self.python.exists():
            self.place_labextension()
            return
        is_ready = state[:1] == [wanted] and self.python.exists()
        what = "adding what this command needs to" if is_ready else "setting up"
        say(f"{what} {self.folder.name} (Python {'.'.join(map(str, self.version))}); this happens once")
        if shutil.disk_usage(ROOT).free < ROOM_NEEDED_BYTES:
            raise Stop(
                f"the disk of {ROOT} has less than {ROOM_NEEDED_BYTES // 1024**3} GB left, the environment needs that much"
            )
        started = time.monotonic()
        self.make()
        extras |= {"test", "harness"} & set(state)
        if not self.sync_with_uv(sorted(extras)):
            self.install_with_pip(sorted(extras))
        self.quietly(str(self.python), "-m", "compileall", "-qq", str(ROOT / "cassette_lab"))
        self.place_labextension()
        stamp.write_text(" ".join([wanted, *sorted(extras)]), encoding="utf-8")
        say(f"ready in {time.monotonic() - started:.0f} s")

    def place_labextension(self) -> None:
        """JupyterLab takes the extension from a folder of the environment, where an install only once puts a copy."""
        built, placed = ROOT / "cassette_lab" / "labextension", self.folder / "share/jupyter/labextensions/cassette-lab"
        if not built.is_dir() or contents(placed, but="install.json") == contents(built):
            return
        shutil.rmtree(placed, ignore_errors=True)
        shutil.copytree(built, placed)
        shutil.copy(ROOT / "jupyter-config" / "install.json", placed)

    def make(self) -> None:
        """Make the folder with an interpreter and pip; one of another version, or moved here from elsewhere, is replaced."""
        if (
            self.python.exists()
            and version_of(str(self.python)) == self.version
            and f"{self.folder}" in read(self.programs / "activate")
        ):
            return
        done = subprocess.run(
            [self.base, "-m", "venv", "--clear", str(self.folder)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            reason = (done.stdout + done.stderr).strip().splitlines() or ["no reason given"]
            raise Stop(
                f"{self.base} cannot make a virtual environment ({reason[0]}); on Debian or Ubuntu "
                "`apt install python3-venv` helps, or name another interpreter with --python"
            )

    def sync_with_uv(self, extras: list[str]) -> bool:
        """Install exactly what uv.lock says. False where uv cannot be had or cannot reach the packages."""
        if not self.quietly(str(self.python), "-m", "pip", "install", *PIP_OPTIONS, UV):
            return False
        # Compiled here and now: where Python may not write bytecode later, every start would take seconds.
        sync = ["sync", "--frozen", "--inexact", "--compile-bytecode", "--quiet", "--project", str(ROOT)]
        chosen = [word for extra in extras for word in ("--extra", extra)]
        return self.quietly(str(self.python), "-m", "uv", *sync, "--python", str(self.python), *chosen)

    def install_with_pip(self, extras: list[str]) -> None:
        """Second choice, for machines whose packages come from where only pip knows."""
        say("uv did not work here; installing with pip")
        project = f"{ROOT}[{','.join(extras)}]" if extras else str(ROOT)
        if not self.quietly(str(self.python), "-m", "pip", "install", *PIP_OPTIONS, "--editable", project):
            raise Stop(
                "the packages could not be installed (pip's words are above); is there a network, and does pip reach PyPI?"
            )

    def quietly(self, *command: str) -> bool:
        """Run; the end of what it printed is shown only if it fails."""
        done = subprocess.run(
            command, env=self.variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        if done.returncode:
            print("\n".join(done.stdout.strip().splitlines()[-3:])[-1000:], file=sys.stderr, flush=True)
        return done.returncode == 0


def has_harness() -> bool:
    """Whether the real harness has a build for this machine; the extra `test` in pyproject.toml says the same."""
    machines = {"linux": {"x86_64", "aarch64"}, "win32": {"AMD64"}}
    return sys.platform == "darwin" or platform.machine() in machines.get(sys.platform, set())


def find_python(named: str | None) -> tuple[str, tuple[int, int, int]]:
    """The interpreter to build on: the named one, or this one, or the newest on PATH that is new enough."""
    if named is not None:
        found = shutil.which(named)
        version = version_of(found) if found else None
        if found is None or version is None:
            raise Stop(f"{named} is no Python interpreter that runs")
        if version[:2] < OLDEST:
            raise Stop(f"{named} is Python {version[0]}.{version[1]}; cassette_lab needs 3.11 or newer")
        return os.path.abspath(found), version  # noqa: PTH100 - resolving a link would leave its virtual environment
    if sys.version_info[:2] >= OLDEST:
        return sys.executable, sys.version_info[:3]
    for minor in (13, 12, 11):
        found = shutil.which(f"python3.{minor}")
        version = version_of(found) if found else None
        if found is not None and version is not None:
            return found, version
    raise Stop(
        f"this is Python {sys.version_info[0]}.{sys.version_info[1]} and cassette_lab needs 3.11 or newer; "
        "name one with --python PATH"
    )


def version_of(python: str) -> tuple[int, int, int] | None:
    """The version of an interpreter, or None if it does not run."""
    try:
        text = subprocess.run(
            [python, "-c", "import sys; print(*sys.version_info[:3])"], capture_output=True, text=True, check=True, timeout=60
        ).stdout
        major, minor, micro = map(int, text.split())
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return major, minor, micro


def find_browser(environment: Environment) -> tuple[str | None, str]:
    """The path of a Chromium for the browser tests, or None and why there is none."""
    named = os.environ.get("CHROMIUM")
    for name in (named, *BROWSERS):
        found = shutil.which(name) if name else None
        if found:
            return found, ""
    if is_root() and shutil.which("apt-get"):
        say("installing chromium for the browser tests")
        variables = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for step in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", "chromium", "fonts-dejavu-core"]):
            subprocess.call(["apt-get", *step], env=variables, stdout=subprocess.DEVNULL)
        found = shutil.which("chromium")
        if found:
            return found, ""
    if environment.quietly(str(environment.python), "-m", "playwright", "install", "chromium"):
        ask = "from playwright.sync_api import sync_playwright as start\nwith start() as it: print(it.chromium.executable_path)"
        done = subprocess.run([str(environment.python), "-c", ask], stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode == 0:
            return done.stdout.strip(), ""
    return None, "no Chromium was found, and none could be installed"


def is_root() -> bool:
    """Whether this user may install system packages."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


def contents(folder: Path, but: str = "") -> dict[str, bytes]:
    """What is in the files of a folder, by their paths in it."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != but)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def read(path: Path) -> str:
    """The text of a file, empty where there is none."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def say(sentence: str) -> None:
    """Tell the person at the terminal; standard output is for what a command prints."""
    print(f"· {sentence}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Stop as stop:
        sys.exit(f"dev.py: {stop}")
    except KeyboardInterrupt:
        sys.exit(130)
