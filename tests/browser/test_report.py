"""A report, and the page of a notebook, in Chromium: opened from disk with every request refused, alive, and harmless."""

from __future__ import annotations

import base64
import csv
import hashlib
import html
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
import pyarrow as pa
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from playwright.sync_api import Browser, Page

import cassette_lab as cl
from cassette_lab.views.notebook_page import notebook_page
from tests.view_samples import HOSTILE, call, changed_run, every_outcome, rows_table

_WATCH = """document.addEventListener('securitypolicyviolation', event => {
    (window.violations ??= []).push(`${event.violatedDirective} ${event.blockedURI}`);
});"""


@dataclass
class Opened:
    """A page from disk, and everything that it complained of or asked for."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def saved(self, button: str) -> tuple[str, bytes]:
        """Name and content of what a button saves."""
        with self.page.expect_download() as download:
            self.page.locator(button).click()
        path = download.value.path()
        return download.value.suggested_filename, path.read_bytes()

    def marks(self, view: str) -> list[dict[str, Any]]:
        """Where everything is drawn."""
        marks: list[dict[str, Any]] = self.page.evaluate("view => cassetteLab.views.get(view).marks()", view)
        return marks

    def screenshot(self, name: str) -> None:
        """Keep a picture of the whole page where ``SCREENSHOTS`` says."""
        if "SCREENSHOTS" in os.environ:
            self.page.screenshot(path=Path(os.environ["SCREENSHOTS"]) / f"{name}.png", full_page=True)


@contextmanager
def opened(browser: Browser, file: Path, **options: Any) -> Iterator[Opened]:
    """The page in a window of its own; at its end nothing may have been complained of, asked for or run."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
    context.add_init_script(_WATCH)
    page = context.new_page()
    shown = Opened(page)
    page.on("console", lambda message: shown.complaints.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: shown.complaints.append(str(error)))
    page.on("request", lambda request: shown.requests.append(request.url))
    page.on("dialog", lambda dialog: shown.complaints.append(dialog.message))
    page.set_default_timeout(10_000)
    page.goto(file.as_uri())
    if options.get("java_script_enabled", True):
        page.wait_for_timeout(100)
    yield shown
    if options.get("java_script_enabled", True):
        assert page.evaluate("window.violations ?? []") == []
        assert page.evaluate("window.pwned") is None
    assert shown.complaints == []
    assert [url for url in shown.requests if not url.startswith(("blob:", "data:", "about:", file.as_uri()))] == []
    context.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of ten calls beside another run of them."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    runs = [rows_table("calls", rows) for rows in (every_outcome(), changed_run())]
    return cl.report(runs[1], path, title="Second run", compare=runs[0])


def _live(shown: Opened, count: int) -> None:
    shown.page.locator("[data-cassette-mounted=yes]").nth(count - 1).wait_for(state="attached")
    shown.page.wait_for_timeout(150)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_views_are_alive_in_both_schemes(browser: Browser, report: Path, scheme: Any) -> None:
    with opened(browser, report, color_scheme=scheme) as shown:
        _live(shown, 2)
        calls = [mark for mark in shown.marks("clab-explorer-view") if mark.get("table") == "calls" or "row" in mark]
        assert len(calls) >= 10
        assert shown.page.locator("#clab-explorer-view .clab-view").get_attribute("data-tone") == scheme
        dark = shown.page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(21, 25, 30)"
        assert dark is (scheme == "dark")
        assert shown.page.locator(".still:visible").count() == 0
        assert "1 added" in shown.page.locator("#clab-diff-view .clab-verdict").inner_text()
        shown.page.locator("#clab-diff-view").get_by_role("button", name="next", exact=True).click()
        shown.page.locator("#clab-explorer-view [role=tree]").focus()
        shown.page.keyboard.press("Enter")
        assert shown.page.locator("#clab-explorer-view [role=treeitem]").count() >= 7
        shown.screenshot(f"report-{scheme}")


def test_tables_and_pictures_are_saved_without_a_network(browser: Browser, report: Path) -> None:
    with opened(browser, report) as shown:
        _live(shown, 2)
        name, data = shown.saved("#clab-explorer-view button:text-is('CSV')")
        assert name.endswith(".csv")
        head, *rows = csv.reader(io.StringIO(data.decode()))
        expected = changed_run()
        for column in ("call_key", "label", "stop_reason"):
            place = head.index(column)
            assert {row[place] for row in rows} == {str(row[column] or "") for row in expected}
        assert len(rows) == len(expected)
        name, data = shown.saved("#clab-explorer-view button:text-is('PNG')")
        assert name.endswith(".png")
        assert data.startswith(b"\x89PNG\r\n")
        box = shown.page.locator("#clab-explorer-view .clab-view").bounding_box()
        assert box is not None
        assert int.from_bytes(data[16:20]) == int(box["width"])
        name, data = shown.saved("#calls .save")
        assert name == "calls.csv"
        head, *rows = csv.reader(io.StringIO(data.decode()))
        assert head == ["call", "outcome", "start latency", "duration", "model", "call key"]
        assert {row[-1] for row in rows} == {row["call_key"] for row in expected}
        assert {row[1] for row in rows} >= {"completed", "429", "limit", "refused"}


def test_hostile_texts_are_only_texts(browser: Browser, tmp_path: Path) -> None:
    rows = [call(number, label, at=100 * number, error_name=label) for number, label in enumerate(HOSTILE, 1)]
    rows += [call(9, '=HYPERLINK("http://x.invalid")', at=900, child_model="'\"><img src=x onerror=alert(1)>")]
    for row in rows:
        row["source"] = HOSTILE[0]
    table = rows_table("calls", rows)
    problems = pa.table(
        {"source": [HOSTILE[3]], "line": pa.array([3], pa.int64()), "code": ["CASSETTE_FORMAT"], "message": [HOSTILE[0]]}
    )
    lab = _Lab(table, problems)
    with opened(browser, cl.report(lab, tmp_path / "r.html", title=HOSTILE[3], compare=table)) as shown:
        _live(shown, 2)
        assert shown.page.title() == HOSTILE[3]
        assert shown.page.locator("h1").inner_text() == HOSTILE[3]
        assert "admin\\u{202e}gnp.exe" in shown.page.locator("#calls").inner_text()
        assert shown.page.locator("img").count() == 0
        _, data = shown.saved("#calls .save")
        assert "'=HYPERLINK" in data.decode()


class _Lab:
    """What a report reads of a lab whose files had problems."""

    def __init__(self, calls: pa.Table, problems: pa.Table) -> None:
        self.calls, self.problems = calls, problems


def test_without_scripts_pictures_and_tables_stand_there(browser: Browser, report: Path) -> None:
    with opened(browser, report, java_script_enabled=False) as shown:
        page = shown.page
        assert page.locator("section.live").is_hidden()
        for name in ("timeline", "stop-reasons", "topology", "comparison", "statistics"):
            assert page.locator(f"#{name} svg[role=img]").first.is_visible(), name
        assert page.locator("#calls tbody tr").count() == len(changed_run())
        assert page.locator("nav a:visible").count() == 8
        assert page.locator(".save").count() == 0
        shown.screenshot("report-no-script")


def test_on_paper_pictures_stand_for_the_views(browser: Browser, report: Path) -> None:
    with opened(browser, report, color_scheme="dark") as shown:
        _live(shown, 2)
        shown.page.emulate_media(media="print", color_scheme="dark")
        assert shown.page.locator("#timeline svg[role=img]").is_visible()
        assert shown.page.locator("#comparison svg[role=img]").is_visible()
        assert shown.page.locator("#clab-explorer-view").is_hidden()
        assert shown.page.locator("nav").is_hidden()
        assert shown.page.locator(".save:visible").count() == 0
        assert shown.page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
        shown.screenshot("report-paper")


def test_on_a_telephone_nothing_is_wider_than_the_screen(browser: Browser, report: Path) -> None:
    with opened(browser, report, viewport={"width": 400, "height": 800}) as shown:
        _live(shown, 2)
        assert shown.page.evaluate("document.documentElement.scrollWidth") <= 400
        shown.screenshot("report-narrow")


def test_a_view_that_cannot_be_shown_leaves_the_pictures(browser: Browser, report: Path, tmp_path: Path) -> None:
    text = report.read_text(encoding="utf-8")
    broken = tmp_path / "broken.html"
    broken.write_text(text.replace('id="clab-explorer-calls">', 'id="clab-explorer-calls">AAAA'), encoding="utf-8")
    with opened(browser, broken) as shown:
        shown.page.locator("#clab-explorer-view [role=alert], #clab-explorer-view[role=alert]").first.wait_for()
        assert "cannot be shown" in shown.page.locator("#clab-explorer-view").inner_text()
        assert shown.page.locator("#timeline svg[role=img]").is_visible()


def test_a_notebooks_page_has_its_views_alive_from_disk(browser: Browser, tmp_path: Path) -> None:
    views = [cl.explore(rows_table("calls", every_outcome())), cl.stop_reasons(rows_table("calls", changed_run()))]
    bundles = [view._repr_mimebundle_()[0] for view in views]
    hostile = f"<p>{HOSTILE[0]}</p><script src='https://cdn.invalid/x.js'></script>"
    cells = [
        new_markdown_cell(f"# A notebook\n\n$x^2$ ![far](https://cdn.invalid/a.png) {HOSTILE[3]}"),
        *(new_code_cell("view", outputs=[new_output("display_data", bundle)]) for bundle in bundles),
        new_code_cell("other", outputs=[new_output("display_data", {"text/html": hostile, "text/plain": HOSTILE[3]})]),
    ]
    file = tmp_path / "a.ipynb"
    file.write_text(nbformat.writes(new_notebook(cells=cells)), encoding="utf-8")
    target = tmp_path / "a.html"
    target.write_text(notebook_page(file).html, encoding="utf-8")
    with opened(browser, target) as shown:
        frames = shown.page.locator("iframe")
        assert frames.count() == 2
        for number, name in enumerate(("explorer", "stop_reasons")):
            frames.nth(number).scroll_into_view_if_needed()
            inside = frames.nth(number).content_frame
            inside.locator(f"[data-cassette-mounted=yes] .clab-view[data-view={name}]").wait_for()
            assert inside.locator(".clab-view").get_attribute("data-tone") == "light"
        shown.page.wait_for_timeout(200)
        assert shown.page.locator("[data-cassette-still]:visible").count() == 0
        shown.screenshot("notebook-page")
        shown.complaints[:] = [text for text in shown.complaints if "inline event handler" not in text]
        shown.page.evaluate("window.violations = (window.violations ?? []).filter(each => each !== 'script-src-attr inline')")
    with opened(browser, target, java_script_enabled=False) as shown:
        assert shown.page.locator("[data-cassette-still] img:visible").count() == 2


def test_a_notebooks_page_runs_nothing_and_goes_nowhere(browser: Browser, tmp_path: Path) -> None:
    payload = "document.title = 'pwned'"
    digest = base64.b64encode(hashlib.sha256(payload.encode()).digest()).decode()
    refresh = '<meta http-equiv="refresh" content="0;url=http://127.0.0.1:9/gone">'
    contents = [
        f"<!--><script>{payload}</script>{refresh}-->",
        f"<!-- x --!><script>{payload}</script>{refresh}-->",
        f"<svg><style>{refresh}<script>{payload}</script></style></svg>",
        f'<div data-mime-type="text/html"><script>{payload}</script></div>',
        f'<iframe data-cassette-live="yes" srcdoc="sha256-{digest}"></iframe><script>{payload}</script>',
        f'<iframe srcdoc="{html.escape(refresh)}&lt;script&gt;{payload}&lt;/script&gt;"></iframe>',
    ]
    outputs = [new_output("display_data", {"text/html": content}) for content in contents]
    cells = [*(new_markdown_cell(content) for content in contents), new_code_cell("1", outputs=outputs)]
    file, target = tmp_path / "a.ipynb", tmp_path / "a.html"
    file.write_text(nbformat.writes(new_notebook(cells=cells)), encoding="utf-8")
    target.write_text(notebook_page(file).html, encoding="utf-8")
    page = browser.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(target.as_uri())
    page.wait_for_timeout(700)
    assert page.url == target.as_uri()
    assert page.title() == "a"
    assert [url for url in asked if url.startswith("http")] == []
    page.close()
