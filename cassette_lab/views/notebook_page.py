"""A notebook as one HTML page that loads nothing: its views are alive, pictures are inside, and a policy holds it to that.

``nbconvert`` lays the page out. Its pages fetch scripts from elsewhere (math, widgets, diagrams); here these are left out:
formulas stand as they were written, widgets as the picture and table beside them.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cassette_lab.errors import FormatError
from cassette_lab.views.bodies_shown import asks_for_bodies, has_bodies

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag

_LAYOUT: Final = """{%- extends 'index.html.j2' -%}
{%- block html_head_js -%}{%- endblock -%}
{%- block jupyter_widgets -%}{%- endblock -%}
{%- block html_head_js_mathjax -%}{%- endblock -%}
{%- block html_head_js_mermaidjs -%}{%- endblock -%}"""
_NOT_FOR_PAGES: Final = ("application/vnd.jupyter.widget-view+json", "application/javascript", "text/vnd.mermaid")
"""Kinds of outputs that only a script from elsewhere could show, or that are for the notebook's own page."""

_LOADS: Final = {
    "script": "src", "link": "href", "iframe": "src", "frame": "src", "embed": "src", "object": "data", "source": "src",
    "video": "src", "audio": "src", "track": "src", "image": "href", "use": "href", "input": "src",
}  # fmt: skip
_INSIDE: Final = ("data:", "#", "blob:")
_NO_ALT: Final = "No description has been provided for this image"
"""What nbconvert writes where a picture has no words of its own."""
_HASH: Final = re.compile(r"sha256-[A-Za-z0-9+/]{43}=")


@dataclass(frozen=True)
class NotebookPage:
    """A notebook as HTML, and how many of the outputs in it were made with bodies."""

    html: str
    with_bodies: int


def notebook_page(path: Path) -> NotebookPage:
    """The page. Raises ``FormatError`` for a file that is no notebook."""
    from bs4 import BeautifulSoup
    from nbconvert.exporters import HTMLExporter

    notebook = _read(path)
    careful = asks_for_bodies(notebook)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    with_bodies = sum(has_bodies(output, careful=careful) for output in outputs)
    notebook.metadata.pop("widgets", None)
    for output in outputs:
        for kind in _NOT_FOR_PAGES:
            output.get("data", {}).pop(kind, None)
    exporter: Any = _untyped(HTMLExporter)(template_name="lab", raw_template=_LAYOUT, embed_images=True, log=_quiet())
    resources = {"metadata": {"name": path.stem, "path": str(path.parent)}}
    html, _ = exporter.from_notebook_node(notebook, resources=resources)
    page = BeautifulSoup(html, "html.parser")
    _settle(page)
    return NotebookPage(str(page), with_bodies)


def _read(path: Path) -> Any:
    import nbformat
    from nbformat.warnings import MissingIDFieldWarning

    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FormatError("this is not a notebook: its bytes are no UTF-8", path=str(path)) from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MissingIDFieldWarning)  # a page has no use for ids of cells
            notebook = _untyped(nbformat.reads)(text, as_version=4)
            nbformat.validate(notebook)
    except nbformat.ValidationError as error:
        raise FormatError(f"this is not a valid notebook: {error.message}"[:300], path=str(path)) from None
    except Exception:  # noqa: BLE001 - readers of old formats fail in ways of their own
        raise FormatError("this is not a notebook that can be read", path=str(path)) from None
    return notebook


def _quiet() -> logging.Logger:
    """What nbconvert would warn of (pictures without words) is seen to here."""
    logger = logging.getLogger("cassette_lab.notebook_page")
    logger.propagate = False
    logger.addHandler(logging.NullHandler())
    return logger


def _untyped(function: Any) -> Any:
    """A function of a library without types."""
    return function


def _settle(page: BeautifulSoup) -> None:
    """Take out what would load from elsewhere, and write down what may run."""
    for element in list(page.find_all(list(_LOADS))):
        place = element.get(_LOADS[element.name]) or element.get("xlink:href")
        if place is not None and not str(place).strip().lower().startswith(_INSIDE):
            element.decompose()
    for picture in list(page.find_all("img")):
        picture.attrs.pop("srcset", None)
        place = str(picture.get("src", ""))
        if not place.strip().lower().startswith(_INSIDE):
            _link_instead(page, picture, place)
    for element in list(page.find_all("meta", attrs={"http-equiv": True})):
        element.decompose()
    for element in list(page.find_all("base")):
        element.decompose()
    for script in list(page.find_all("script")):
        if script.find_parent(attrs={"data-mime-type": "text/html"}) is None:
            script.decompose()
    for frame in _live_frames(page):  # the page is a light one
        srcdoc = str(frame["srcdoc"]).replace('content="light dark"', 'content="light"', 1)
        frame["srcdoc"] = srcdoc.replace("<div data-cassette-view=", '<div data-cassette-theme="light" data-cassette-view=', 1)
    if page.head is not None:
        policy = page.new_tag("meta", attrs={"http-equiv": "Content-Security-Policy", "content": _policy(page)})
        page.head.insert(0, policy)


def _link_instead(page: BeautifulSoup, picture: Tag, place: str) -> None:
    """A picture that is elsewhere is named, and a person may follow the link."""
    alt = str(picture.get("alt") or "")
    words = "picture" if not alt or alt == _NO_ALT else alt
    if place.startswith(("http://", "https://")):
        link = page.new_tag("a", attrs={"href": place, "rel": "noreferrer"})
        link.string = words
        picture.replace_with(link)
    else:
        picture.replace_with(words)


def _policy(page: BeautifulSoup) -> str:
    """Scripts of outputs by their hashes, those of our views' frames among them, for a frame is held to this policy, too.

    Styles cannot be named so: cells and outputs of any library carry them in attributes.
    """
    scripts = " ".join(dict.fromkeys(f"'{each}'" for each in _hashes(page))) or "'none'"
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data: blob:; font-src data:; "
        "media-src data:; base-uri 'none'; form-action 'none'"
    )


def _hashes(page: BeautifulSoup) -> Iterator[str]:
    for script in page.find_all("script"):
        if str(script.get("type", "text/javascript")) in ("text/javascript", "module", "application/javascript"):
            yield f"sha256-{base64.b64encode(hashlib.sha256(script.get_text().encode()).digest()).decode()}"
    for frame in _live_frames(page):
        yield from _HASH.findall(str(frame["srcdoc"]).partition("<title>")[0])


def _live_frames(page: BeautifulSoup) -> Iterator[Tag]:
    """Frames of our views. They have no rights but to run their script and save files."""
    for frame in page.find_all("iframe", attrs={"data-cassette-live": True, "srcdoc": True}):
        if "allow-same-origin" not in str(frame.get("sandbox", "allow-same-origin")):
            yield frame
