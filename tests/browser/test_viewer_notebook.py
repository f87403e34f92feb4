"""The viewer in Notebook 7: a double-click opens a page of its own; folders and comparisons are tabs beside the files."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Lab, Window
from tests.browser.viewer import RUNS, Viewer, fill

FOLDER = f"notebook-{RUNS}"


@pytest.fixture
def files(browser: Browser, lab: Lab) -> Iterator[Viewer]:
    """Notebook 7's file page."""
    if not (lab.root / FOLDER).exists():
        fill(lab.root / FOLDER)
    context = browser.new_context(viewport={"width": 1300, "height": 1000})
    window = Window(context.new_page(), lab)
    viewer = Viewer(window, f"tree/{FOLDER}?")
    viewer.page.locator(".jp-DirListing-item").first.wait_for()
    yield viewer
    context.close()
    assert window.left_the_machine == []
    assert viewer.errors == []


def test_a_double_click_opens_the_viewer(files: Viewer) -> None:
    files.keep("notebook-files")
    for name, words in (("a.cassette.jsonl", "✓ chain verified"), ("session.jsonl", "✓ read to its end")):
        with files.page.context.expect_page() as opened:
            files.item(name).dblclick()
        page: Page = opened.value
        viewer = Viewer(files.window, None, page)
        tab = viewer.tab()
        assert viewer.trust(tab) == words
        viewer.keep(f"notebook-{name}")
        if name == "session.jsonl":  # a page of one document has room under it
            viewer.run("cassette-lab:open-folder", path=f"{FOLDER}/pair")
            expect(page.locator(".clab-title", has_text="pair")).to_be_visible()
            viewer.keep("notebook-under")
        page.close()


def test_folders_and_comparisons_are_commands(files: Viewer) -> None:
    files.item("a.cassette.jsonl").click()
    files.item("b.cassette.jsonl").click(modifiers=["Control"])
    files.item("b.cassette.jsonl").click(button="right")
    files.keep("notebook-menu")
    files.page.locator(".lm-Menu-item", has_text="Compare Agent Runs").click()
    expect(files.tab().locator(".clab-title")).to_have_text("b.cassette.jsonl → a.cassette.jsonl")
    files.keep("notebook-compare")
    files.run("cassette-lab:open-folder", path=f"{FOLDER}/pair")
    tab = files.tab()
    assert files.trust(tab) == "✓ 2 files read"
    files.keep("notebook-folder")
