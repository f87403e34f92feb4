"""A real JupyterLab and a real Chromium. Run in a pytest process of its own: Playwright keeps an event loop running."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest
from playwright.sync_api import Browser, Page, Request, expect, sync_playwright

expect.set_options(timeout=15_000)  # other tests may have the machine's other core, and this one, too
TOKEN = "a-token-for-tests"  # noqa: S105 - of a server that lives for one test run
FLAGS = [
    "--no-sandbox",  # the tests may run as root, in a container
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--no-first-run",
    "--disable-domain-reliability",
    "--disable-client-side-phishing-detection",
    "--disable-features=OptimizationHints,MediaRouter,Translate,AutofillServerCommunication",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
]
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
RUN_ALL = """async () => {
    const app = window.jupyterapp;
    await app.restored;
    const notebook = app.shell.currentWidget;
    await notebook.context.ready;
    await notebook.sessionContext.ready;
    await notebook.sessionContext.session.kernel.info;
    await app.commands.execute('notebook:run-all-cells');
}"""


@dataclass
class Lab:
    """A running JupyterLab and its folder."""

    address: str
    root: Path
    server: subprocess.Popen[bytes]

    def write(self, name: str, cells: list[str]) -> None:
        """Put a notebook into the folder."""
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(notebook, self.root / name)


class Window:
    """A browser page with JupyterLab in it, and what it asked the network for."""

    def __init__(self, page: Page, lab: Lab) -> None:
        self.page = page
        self.lab = lab
        self.left_the_machine: list[str] = []
        page.set_default_timeout(30_000)
        page.on("request", self._requested)

    def run_all(self, notebook: str) -> None:
        """Open a notebook and run all of its cells."""
        self.page.goto(f"{self.lab.address}/lab/tree/{notebook}?reset&token={TOKEN}")
        self.page.wait_for_selector(".jp-Notebook .jp-CodeCell")
        self.page.evaluate(RUN_ALL)

    def output(self, cell: int) -> str:
        """The text under a cell, counted from 0."""
        return self.page.locator(".jp-CodeCell").nth(cell).locator(".jp-OutputArea").inner_text()

    def _requested(self, request: Request) -> None:
        if not request.url.startswith((self.lab.address, self.lab.address.replace("http", "ws"), "data:", "blob:")):
            self.left_the_machine.append(request.url)


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """JupyterLab in folders of its own; the pages of Notebook 7 are there, too."""
    folder = tmp_path_factory.mktemp("jupyterlab")
    with jupyterlab(folder, "--CassetteLab.spare_seconds=0", "--CassetteLab.allow_bodies=True") as running:
        yield running


@contextmanager
def jupyterlab(folder: Path, *options: str, python: str = sys.executable) -> Iterator[Lab]:
    """A JupyterLab of its own, of this environment or that of another ``python``; ended at the end."""
    root = folder / "root"
    root.mkdir()
    _write_settings(folder / "settings")
    port = _free_port()
    address = f"http://127.0.0.1:{port}"
    command = [
        python, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}",
        "--ServerApp.port_retries=0", f"--ServerApp.root_dir={root}", f"--IdentityProvider.token={TOKEN}",
        "--LabApp.news_url=None", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate", "--expose-app-in-browser",
        "--JupyterNotebookApp.expose_app_in_browser=True", *options,
    ]  # fmt: skip
    log = folder / "server.log"
    with log.open("wb") as output:
        server = subprocess.Popen(command, env=_environment(folder, python), stdout=output, stderr=subprocess.STDOUT)
        try:
            _wait_for(address, server, log)
            yield Lab(address, root, server)
        finally:
            server.terminate()
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUM)), None)
    assert path is not None, "no Chromium found; install chromium, or name one in the variable CHROMIUM"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def window(browser: Browser, lab: Lab) -> Iterator[Window]:
    context = browser.new_context(viewport={"width": 1300, "height": 1000})
    window = Window(context.new_page(), lab)
    yield window
    context.close()
    assert window.left_the_machine == []


def _write_settings(folder: Path) -> None:
    """No news, no update checks; cells out of sight stay in the document; a changed file is noticed soon."""
    for plugin, settings in (
        ("@jupyterlab/apputils-extension/notification", '{"fetchNews": "false", "checkForUpdates": false}'),
        ("@jupyterlab/notebook-extension/tracker", '{"windowingMode": "none"}'),
        ("cassette-lab/plugin", '{"checkSeconds": 0.3}'),
    ):
        path = folder / f"{plugin}.jupyterlab-settings"
        path.parent.mkdir(parents=True)
        path.write_text(settings)


def _environment(folder: Path, python: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "JPY_", "PYTEST"))}
    places: dict[str, Any] = {
        "HOME": folder,
        "IPYTHONDIR": folder / "ipython",
        "JUPYTER_CONFIG_DIR": folder / "config",
        "JUPYTER_DATA_DIR": folder / "data",
        "JUPYTER_RUNTIME_DIR": folder / "runtime",
        "JUPYTERLAB_SETTINGS_DIR": folder / "settings",
        "JUPYTERLAB_WORKSPACES_DIR": folder / "workspaces",
        "PATH": f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}",
    }
    if python == sys.executable:  # what kernels import is what is tested; another environment has its own
        places["PYTHONPATH"] = Path(__file__).parents[2]
    return kept | {name: str(place) for name, place in places.items()}


def _wait_for(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(f"{address}/api/status?token={TOKEN}", timeout=2).close()  # noqa: S310 - our own server
        except (urllib.error.URLError, OSError):
            assert server.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() < end, log.read_text()[-3000:]
            time.sleep(0.1)
        else:
            return


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
