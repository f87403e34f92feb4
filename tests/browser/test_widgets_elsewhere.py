"""Views where there is no kernel, no trust or no network: untrusted notebooks, exported pages, Notebook 7."""

from __future__ import annotations

import copy
import importlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from nbformat.sign import NotebookNotary
from playwright.sync_api import Browser, FrameLocator, Page, Route

from tests.browser.conftest import RUN_ALL, TOKEN, Lab, Window
from tests.view_samples import ROOT

CELLS = (
    "import cassette_lab as cl\nfrom tests.view_samples import *\ncalls = rows_table('calls', every_outcome())",
    "cl.timeline(calls)",
    "cl.explore(rows_table('calls', [call(n, label, key=f'root/{label}') for n, label in enumerate(HOSTILE, 1)]))",
    "cl.side_by_side(calls, rows_table('calls', changed_run()))",
    "cl.topology(many_calls(20_000))",
)


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> nbformat.NotebookNode:
    """The notebook of these cells with its outputs, as it would be saved."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        folder = str(tmp_path_factory.mktemp("executed"))
        patch.setenv("IPYTHONDIR", folder)
        client = NotebookClient(
            notebook, timeout=120, kernel_name="python3", store_widget_state=False, resources={"metadata": {"path": folder}}
        )
        return client.execute()


def keep(page: Page, name: str) -> None:
    """A screenshot, where somebody wants to look."""
    if "SCREENSHOTS" in os.environ:
        page.screenshot(path=Path(os.environ["SCREENSHOTS"]) / f"{name}.png")


@contextmanager
def opened(browser: Browser, file: Path) -> Iterator[Page]:
    """An exported page, from its file, with every request refused."""
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    page = context.new_page()
    page.set_default_timeout(15_000)

    def refuse(route: Route) -> None:
        if route.request.url.startswith(("file:", "data:", "blob:", "about:")):
            route.continue_()
        else:
            route.abort()

    page.route("**/*", refuse)
    page.goto(file.as_uri(), wait_until="domcontentloaded")
    yield page
    assert page.evaluate("window.pwned") is None
    context.close()


def sanitised(page: str) -> str:
    """What a sanitiser as GitHub's leaves: plain markup, pictures, tables."""
    clean: Any = importlib.import_module("bleach").clean
    tags = {"div", "p", "b", "img", "details", "summary", "table", "caption", "thead", "tbody", "tr", "th", "td", "bdi", "a"}
    attributes = {"img": ["src", "alt", "width"], "a": ["href"]}
    plain = re.sub(r"<script>.*?</script>", "", page)
    return str(clean(plain, tags=tags, attributes=attributes, protocols={"data", "https"}, strip=True))


def frame(page: Page, number: int) -> FrameLocator:
    return page.frame_locator("iframe[data-cassette-live]").nth(number)


def is_drawn(picture: Any) -> bool:
    drawn: bool = picture.evaluate("image => image.complete && image.naturalWidth > 300 && image.clientWidth > 300")
    return drawn


def test_an_untrusted_notebook_shows_pictures_and_tables(window: Window, lab: Lab, executed: nbformat.NotebookNode) -> None:
    nbformat.write(executed, lab.root / "untrusted.ipynb")
    window.page.goto(f"{lab.address}/lab/tree/untrusted.ipynb?reset&token={TOKEN}")
    outputs = window.page.locator(".jp-OutputArea-output")
    outputs.nth(3).locator("img").wait_for()
    keep(window.page, "untrusted")
    for number in range(4):
        output = outputs.nth(number)
        assert is_drawn(output.locator("img"))
        assert output.locator("img").get_attribute("alt")
        assert output.locator("details summary").first.is_visible()
        assert output.locator("table").count()
        assert output.locator("iframe, script, style").count() == 0
    assert "addEventListener" not in outputs.first.inner_text()
    outputs.first.locator("summary").click()
    assert outputs.first.locator("tbody tr").nth(2).inner_text().split("\t")[0].endswith("check-api")
    assert "<img src=x" in (outputs.nth(1).locator("tbody").text_content() or "")
    assert window.page.evaluate("window.pwned") is None


def test_a_page_made_by_nbconvert_is_live_without_a_network(
    browser: Browser, tmp_path: Path, executed: nbformat.NotebookNode
) -> None:
    file = tmp_path / "page.html"
    file.write_text(HTMLExporter().from_notebook_node(executed)[0], encoding="utf-8")
    with opened(browser, file) as page:
        for number, view in enumerate(("timeline", "explorer", "diff", "topology")):
            page.locator("iframe[data-cassette-live]").nth(number).scroll_into_view_if_needed()
            root = frame(page, number).locator(".clab-view")
            root.wait_for()
            assert root.get_attribute("data-view") == view
            page.locator("[data-cassette-still]").nth(number).wait_for(state="hidden")
        page.locator("iframe[data-cassette-live]").first.scroll_into_view_if_needed()
        page.wait_for_timeout(300)
        keep(page, "nbconvert")
        first = frame(page, 0).locator("[role=treeitem]").first
        assert first.inner_text().startswith("audit, call, completed")
        assert page.get_by_text(" of 20,000 calls are here: ").is_visible()
        with page.expect_download() as download:
            frame(page, 0).get_by_role("button", name="CSV").click()
        assert download.value.path().read_text("utf-8").count("\n") >= 10


def test_a_frame_without_scripts_hides_nothing(browser: Browser, tmp_path: Path, executed: nbformat.NotebookNode) -> None:
    page_text = HTMLExporter().from_notebook_node(executed)[0]
    file = tmp_path / "page.html"
    file.write_text(page_text.replace('sandbox="allow-scripts allow-downloads"', 'sandbox=""'), encoding="utf-8")
    with opened(browser, file) as page:
        page.locator("iframe[data-cassette-live]").first.scroll_into_view_if_needed()
        page.wait_for_timeout(1_000)
        for number in range(4):
            assert page.locator("[data-cassette-still]").nth(number).is_visible()


def test_a_sanitised_export_keeps_pictures_and_tables(
    browser: Browser, tmp_path: Path, executed: nbformat.NotebookNode
) -> None:
    file = tmp_path / "page.html"
    notebook = copy.deepcopy(executed)
    for cell in notebook.cells:
        for output in cell.outputs:
            output.data["text/html"] = sanitised(output.data["text/html"])
    file.write_text(HTMLExporter().from_notebook_node(notebook)[0], encoding="utf-8")
    with opened(browser, file) as page:
        keep(page, "sanitised")
        outputs = page.locator(".jp-OutputArea-output")
        for number in range(4):
            assert is_drawn(outputs.nth(number).locator("img"))
            assert outputs.nth(number).locator("table").count()
        assert page.locator("iframe[data-cassette-live]").count() == 0


def test_notebook_7_shows_widgets(window: Window, lab: Lab) -> None:
    lab.write("seven.ipynb", [*CELLS[:1], "view = cl.timeline(calls)\nview", "print(view.selected['label'].to_pylist())"])
    window.page.goto(f"{lab.address}/notebooks/seven.ipynb?token={TOKEN}")
    window.page.wait_for_selector(".jp-Notebook .jp-CodeCell")
    window.page.evaluate(RUN_ALL)
    root = window.page.locator(".clab-view")
    root.wait_for()
    keep(window.page, "notebook-7")
    root.locator("[role=tree]").focus()
    for key in ("ArrowDown", "Space"):
        window.page.keyboard.press(key)
    window.page.wait_for_timeout(300)
    window.page.evaluate("window.jupyterapp.shell.currentWidget.content.activeCellIndex = 2")
    window.page.evaluate("window.jupyterapp.commands.execute('notebook:run-cell')")
    window.page.locator(".jp-OutputArea-output", has_text="['check-api']").wait_for()


def test_a_saved_widget_is_drawn_by_a_kernel_that_does_not_know_it(window: Window, lab: Lab, tmp_path: Path) -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in (CELLS[0], CELLS[4])])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.setenv("IPYTHONDIR", str(tmp_path))
        NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert "widgets" in notebook.metadata
    NotebookNotary(data_dir=str(lab.root.parent / "data")).sign(notebook)
    nbformat.write(notebook, lab.root / "saved.ipynb")
    window.page.goto(f"{lab.address}/lab/tree/saved.ipynb?reset&token={TOKEN}")
    root = window.page.locator(".clab-view")
    root.wait_for()
    keep(window.page, "saved-state")
    assert " of 20,000 calls are here: " in root.get_by_role("alert").inner_text()
    assert root.evaluate("root => root.parentElement.cassetteView.marks().length") > 5
