"""The README's pictures, taken of the real thing: ``python3 dev.py pictures [FOLDER]``.

An agent is recorded twice, the recordings are opened in a real JupyterLab, in a notebook and as a report, and Chromium takes
the pictures (into ``docs/pictures`` unless told otherwise).
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, Page, sync_playwright

import cassette_lab as cl
from tests.browser.conftest import CHROMIUM, FLAGS, RUN_ALL, TOKEN, Lab, jupyterlab

ROOT: Final = Path(__file__).resolve().parents[2]
WIDTH: Final = 1280
FIRST, SECOND = "runs/monday.cassette.jsonl", "runs/tuesday.cassette.jsonl"
SHOWN = ".clab-view [role=treeitem]"
"""Rows of a view are on the page."""


def main(arguments: list[str]) -> int:
    """Take all pictures; returns the exit code."""
    target = Path(arguments[0] if arguments else ROOT / "docs" / "pictures").absolute()
    target.mkdir(parents=True, exist_ok=True)
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUM)), None)
    if path is None:
        print("no Chromium found; install one, or name it in the variable CHROMIUM", file=sys.stderr)
        return 1
    with (
        tempfile.TemporaryDirectory(prefix="cassette-lab-pictures-") as folder,
        jupyterlab(Path(folder), "--CassetteLab.allow_bodies=False") as lab,
    ):
        asyncio.run(record_both(lab.root))
        photograph(lab, path, target)
    return 0


def photograph(lab: Lab, chromium: str, target: Path) -> None:
    """All pictures, each into its file."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        for name, take in PICTURES.items():
            take(browser, lab, target / f"{name}.png")
            print(f"{name}.png: {(target / f'{name}.png').stat().st_size / 1000:.0f} KB")
        browser.close()


async def record_both(root: Path) -> None:
    """Two days of a release check; on the second the tests' runner works, the docs fit and reading is quicker."""
    for name, day in ((FIRST, Day(seed=7)), (SECOND, Day(seed=8, repaired=True, pace=0.75))):
        async with cl.record(root / name):
            await asyncio.gather(day.audit("api", 5), day.audit("docs", 3), day.audit("tests", 4), return_exceptions=True)
            await day.write()


class Day:
    """The agent of one day: audits that hand their parts to readers, then release notes."""

    def __init__(self, *, seed: int, repaired: bool = False, pace: float = 1.0) -> None:
        self._chance = random.Random(seed)  # noqa: S311 - it makes pauses
        self._repaired = repaired
        self._pace = pace

    async def audit(self, area: str, parts: int) -> str:
        """One area, its parts two at a time."""

        @cl.subagent(f"audit-{area}")
        async def run(parts: int) -> str:
            await self._think(0.2)
            for first in range(0, parts, 2):
                both = (self._read(area, part) for part in range(first, min(first + 2, parts)))
                await asyncio.gather(*both, return_exceptions=True)
            return f"{area} is read"

        return await run(parts)

    async def write(self) -> None:
        """At the end."""

        @cl.subagent("write-notes")
        async def run() -> str:
            await self._think(0.5)
            return "Notes."

        await run()

    async def _read(self, area: str, part: int) -> cl.SubagentResult:
        @cl.subagent(f"read-{area}")
        async def run(part: int) -> cl.SubagentResult:
            await self._think(self._chance.uniform(0.25, 0.9))
            if area == "tests" and part == 1 and not self._repaired:
                raise TimeoutError("the runner gave no answer")
            is_cut = area == "docs" and part == 2 and not self._repaired
            found = [{"type": "text", "text": f"{area} {part}"}]
            return cl.SubagentResult(output=found, stop_reason="max-tokens" if is_cut else "completed")

        return await run(part)

    async def _think(self, seconds: float) -> None:
        await asyncio.sleep(seconds * self._pace)


@contextmanager
def opened(browser: Browser, address: str, height: int, *, dark: bool = False) -> Iterator[Page]:
    """A page in a window of its own."""
    context = browser.new_context(
        viewport={"width": WIDTH, "height": height}, device_scale_factor=1.5, color_scheme="dark" if dark else "light"
    )
    page = context.new_page()
    page.set_default_timeout(30_000)
    page.goto(address)
    yield page
    context.close()


def viewer(browser: Browser, lab: Lab, target: Path) -> None:
    """A recording after a double-click in JupyterLab."""
    with opened(browser, f"{lab.address}/lab/tree/runs?reset&token={TOKEN}", 900) as page:
        page.wait_for_selector("#jupyterlab-splash", state="detached")
        page.locator(".jp-DirListing-item", has_text="monday").dblclick()
        page.locator(SHOWN).nth(3).wait_for()
        page.get_by_text("chain verified").wait_for()
        page.wait_for_timeout(500)
        page.screenshot(path=target)


def comparison(browser: Browser, lab: Lab, target: Path) -> None:
    """Two recordings side by side under a cell, without the file browser beside the notebook."""
    lab.write("compare.ipynb", ["import cassette_lab as cl", f"cl.side_by_side({FIRST!r}, {SECOND!r})"])
    with opened(browser, f"{lab.address}/lab/tree/compare.ipynb?reset&token={TOKEN}", 800) as page:
        page.wait_for_selector(".jp-Notebook .jp-CodeCell")
        page.evaluate(RUN_ALL)
        page.locator(SHOWN).nth(3).wait_for()
        page.keyboard.press("Control+b")
        page.wait_for_timeout(800)
        page.screenshot(path=target)


def report(browser: Browser, lab: Lab, target: Path) -> None:
    """A report of both days, as a colleague opens it, on a dark screen."""
    made = cl.report(lab.root / SECOND, lab.root / "report.html", title="Release check, two days", compare=lab.root / FIRST)
    with opened(browser, made.as_uri(), 900, dark=True) as page:
        page.locator(SHOWN).nth(3).wait_for()
        page.wait_for_timeout(300)
        page.screenshot(path=target)


PICTURES: Final = {"viewer": viewer, "side-by-side": comparison, "report": report}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
