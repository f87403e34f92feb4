"""JupyterLab as somebody uses it who looks at recordings, and files of every kind to look at."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import Error, Locator, Page

from cassette_lab.flight.model import FlightRecord, Outcome, Snapshot
from cassette_lab.flight.reader import save_snapshot
from tests.browser.conftest import TOKEN, Window
from tests.unit.flight_samples import record
from tests.unit.session_samples import frames, turn
from tests.unit.session_samples import header as session_header
from tests.unit.test_scan import changed, sample, save
from tests.view_samples import HOSTILE, ROOT

RUNS = "runs"
SESSION = ROOT / "notebooks" / "samples" / "sessions" / "--srv-orders--" / "release-check" / "session.jsonl"
HOSTILE_NAME = '<img src=x onerror="window.pwned=1">\u202e.cassette.jsonl'


def fill(folder: Path) -> None:
    """One file of each kind, some of them damaged, and a subfolder with two that go together."""
    folder.mkdir()
    save(folder / "a.cassette.jsonl", sample(40, "plain"))
    other = changed(sample(40, "plain"), {7: lambda call: call["timing"].update(durationMs=99_000.0)})
    save(folder / "b.cassette.jsonl", other[:-1])
    os.utime(folder / "b.cassette.jsonl", (1_700_000_000, 1_700_000_000))
    broken = sample(40, "plain")
    broken[30] = broken[30].replace(b'"local":', b'"lokal":')
    save(folder / "broken.cassette.jsonl", broken)
    save(folder / HOSTILE_NAME, hostile())
    (folder / "session.jsonl").write_bytes(SESSION.read_bytes())
    (folder / "session.v4.jsonl.zstd").write_bytes(b"".join(frames([[session_header()], turn()])))
    ended = Outcome("finished", finish="stop", total_ms=900.0, first_chunk_ms=120.0)
    records: tuple[FlightRecord, ...] = (record("r2", step=2, outcome=ended), record("r1", outcome=ended))
    save_snapshot(Snapshot(records=records), folder / "requests.flight.json")
    pair = folder / "pair"
    pair.mkdir()
    shutil.copy(folder / "a.cassette.jsonl", pair)
    shutil.copy(folder / "session.jsonl", pair)


def hostile() -> list[bytes]:
    def label(number: int) -> Callable[[dict[str, Any]], object]:
        return lambda call: call["request"]["metadata"].update(label=HOSTILE[number])

    return changed(sample(len(HOSTILE), "plain"), {number + 1: label(number) for number in range(len(HOSTILE))})


class Viewer:
    """JupyterLab with the file browser on our folder."""

    def __init__(self, window: Window, path: str | None = f"lab/tree/{RUNS}?reset&", page: Page | None = None) -> None:
        """In the window's page, or another one of its browser."""
        self.page = page or window.page
        self.window = window
        self.errors: list[str] = []
        self.page.on("pageerror", self._failed)
        if path is not None:
            self.goto(path)

    def _failed(self, error: Error) -> None:
        """Ours only: JupyterLab and Notebook have some of their own."""
        if "labextensions/cassette-lab" in (error.stack or ""):
            self.errors.append(error.stack or "")

    def goto(self, path: str) -> None:
        self.page.goto(f"{self.window.lab.address}/{path}token={TOKEN}")
        self.page.wait_for_function("window.jupyterapp !== undefined")
        self.page.evaluate("jupyterapp.restored")

    def item(self, name: str) -> Locator:
        return self.page.locator(".jp-DirListing-item").filter(has=self.page.get_by_text(name, exact=True))

    def open(self, name: str) -> Locator:
        """Double-click a file, and wait until it is read."""
        self.item(name).dblclick()
        return self.tab()

    def tab(self) -> Locator:
        """The view in sight, read to its end."""
        tab = self.page.locator(".lm-Widget:not(.lm-mod-hidden) > .clab-tab[data-done=true]:visible")
        tab.wait_for()
        return tab

    def run(self, command: str, **arguments: Any) -> Any:
        return self.page.evaluate(
            "([id, args]) => { void window.jupyterapp.commands.execute(id, args); }", [command, arguments]
        )

    def button(self, name: str) -> Locator:
        return self.page.locator(".jp-Toolbar:visible").get_by_role("button", name=name, exact=True)

    def rows(self, tab: Locator) -> list[str]:
        """What the accessible tree says."""
        self.page.wait_for_timeout(150)
        return tab.locator("[role=tree]").first.locator("[role=treeitem]").all_inner_texts()

    def trust(self, tab: Locator) -> str:
        return tab.locator(".clab-trust").inner_text()

    def keep(self, name: str) -> None:
        if "SCREENSHOTS" in os.environ:
            self.page.screenshot(path=Path(os.environ["SCREENSHOTS"]) / f"viewer-{name}.png")
