"""Recordings opened in JupyterLab: by a double-click, side by side, as a folder; with and without the server half."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.browser.conftest import TOKEN, Lab, Window
from tests.unit.test_scan import sample, save

RUNS = "viewer"


@pytest.fixture(scope="module")
def runs(lab: Lab) -> Path:
    folder = lab.root / RUNS
    folder.mkdir()
    save(folder / "a.cassette.jsonl", sample(40, "plain"))
    return folder


def keep(window: Window, name: str) -> None:
    if "SCREENSHOTS" in os.environ:
        window.page.screenshot(path=Path(os.environ["SCREENSHOTS"]) / f"viewer-{name}.png")


@pytest.mark.usefixtures("runs")
def test_double_click(window: Window, lab: Lab) -> None:
    window.page.goto(f"{lab.address}/lab/tree/{RUNS}?reset&token={TOKEN}")
    window.page.wait_for_selector("#jupyterlab-splash", state="detached")
    window.page.locator(".jp-DirListing-item", has_text="a.cassette.jsonl").dblclick()
    window.page.wait_for_selector(".clab-tab[data-done=true]")
    keep(window, "explorer")
