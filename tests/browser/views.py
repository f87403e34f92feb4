"""Pages with views in them: opened from a file, with every request refused, and watched for what a policy would forbid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Locator, Page

from tests.view_samples import page as page_of

SAID = "view => { const handle = cassetteLab.views.get(view); handle.update({onSelect: said => { window.said = said; }}); }"


@dataclass
class ViewPage:
    """A page with views, and everything that it complained of."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def root(self, number: int = 0) -> Locator:
        """The element of one view."""
        return self.page.locator(f"#view-{number} .clab-view")

    def tree(self, number: int = 0) -> Locator:
        """The scroller of its rows, which has the keyboard."""
        return self.root(number).locator("[role=tree]")

    def told(self, number: int = 0) -> list[str]:
        """What the accessible tree says of the rows in sight."""
        self.page.wait_for_timeout(120)
        return self.tree(number).locator("[role=treeitem]").all_inner_texts()

    def active(self, number: int = 0) -> str:
        """The row that the keyboard is on, as it is told."""
        self.page.wait_for_timeout(120)
        item = self.tree(number).get_attribute("aria-activedescendant")
        text: str = self.page.evaluate("id => document.getElementById(id).textContent", item)
        return text

    def marks(self, number: int = 0) -> list[dict[str, Any]]:
        """Where everything is drawn, on the view's canvases."""
        marks: list[dict[str, Any]] = self.page.evaluate("view => cassetteLab.views.get(view).marks()", f"view-{number}")
        return marks

    def watch(self, number: int = 0) -> None:
        """Keep what the view says of its selection."""
        self.page.evaluate(SAID, f"view-{number}")

    def said(self) -> dict[str, Any]:
        """The selection, as the view told it last."""
        said: dict[str, Any] = self.page.evaluate("window.said")
        return said

    def click_mark(self, mark: Mapping[str, Any], canvas: Locator, **options: Any) -> None:
        """Click the middle of a mark."""
        canvas.click(position={"x": mark["x"] + mark["width"] / 2, "y": mark["y"] + mark["height"] / 2}, **options)


def colour_at(canvas: Locator, x: float, y: float) -> str:
    """The colour that is drawn at a place."""
    colour: str = canvas.evaluate(
        """(canvas, [x, y]) => {
            const ratio = canvas.width / canvas.clientWidth;
            const [r, g, b] = canvas.getContext('2d').getImageData(x * ratio, y * ratio, 1, 1).data;
            return '#' + [r, g, b].map(part => part.toString(16).padStart(2, '0')).join('');
        }""",
        [x, y],
    )
    return colour


@contextmanager
def opened(
    browser: Browser, folder: Path, views: Sequence[Mapping[str, Any]], *, ground: str = "", dark: bool = False
) -> Iterator[ViewPage]:
    """The page of some views in a window of its own; at its end nothing may have been complained of or asked for."""
    file = folder / "views.html"
    file.write_text(page_of(views, ground=ground), encoding="utf-8")
    context = browser.new_context(viewport={"width": 1200, "height": 800}, color_scheme="dark" if dark else "light")
    page = context.new_page()
    shown = ViewPage(page)
    page.on("console", lambda message: shown.complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: shown.complaints.append(str(error)))
    page.on("request", lambda request: shown.requests.append(request.url))
    page.set_default_timeout(10_000)
    page.goto(file.as_uri())
    page.locator("[data-cassette-mounted=yes]").nth(len(views) - 1).wait_for(state="attached")
    page.wait_for_timeout(100)
    yield shown
    assert shown.complaints == []
    assert [url for url in shown.requests if not url.startswith(("blob:", file.as_uri()))] == []
    assert page.evaluate("window.pwned") is None
    context.close()
