"""A notebook as one HTML page that loads nothing: its views are alive, pictures are inside, and a policy holds it to that.

``nbconvert`` lays the page out. Its pages fetch scripts from elsewhere (math, widgets, diagrams); here these are left out:
formulas stand as they were written, widgets as the picture and table beside them.
"""

from __future__ import annotations

import base64
import logging
import mimetypes
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from cassette_lab.errors import FormatError
from cassette_lab.looking import is_file, read_regular, size_of
from cassette_lab.views.bodies_shown import asks_for_bodies, has_bodies, joined
from cassette_lab.views.embedding import frame_scripts, script_hash
from cassette_lab.views.notebook_bodies import WIDGET_VIEW
from cassette_lab.views.still import GIVE_WAY

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag

_LAYOUT: Final = """{%- extends 'index.html.j2' -%}
{%- block html_head_js -%}{%- endblock -%}
{%- block jupyter_widgets -%}{%- endblock -%}
{%- block html_head_js_mathjax -%}{%- endblock -%}
{%- block html_head_js_mermaidjs -%}{%- endblock -%}"""
_NOT_FOR_PAGES: Final = (WIDGET_VIEW, "application/javascript", "text/vnd.mermaid")
"""Kinds of outputs that only a script from elsewhere could show, or that are for the notebook's own page."""

_LOADS: Final = {
    "script": "src", "link": "href", "iframe": "src", "frame": "src", "embed": "src", "object": "data", "source": "src",
    "video": "src", "audio": "src", "track": "src", "image": "href", "use": "href", "input": "src",
}  # fmt: skip
_INSIDE: Final = ("data:", "#", "blob:")
_NO_ALT: Final = "No description has been provided for this image"
"""What nbconvert writes where a picture has no words of its own."""
_ATTACHMENT: Final = re.compile(r"\battachment:([^)\s\"'>]+)")
_MOST_TEXT: Final = 1_000_000
_MOST_PICTURE_BYTES: Final = 20 << 20
_HTTP_EQUIV: Final = re.compile("(http-)(e)(quiv)", re.IGNORECASE)


@dataclass(frozen=True)
class NotebookPage:
    """A notebook as HTML. ``has_run``: it has outputs, or no code; ``with_bodies`` of its outputs were made with bodies."""

    html: str
    has_run: bool
    with_bodies: int


def notebook_page(path: Path) -> NotebookPage:
    """The page. Raises ``FormatError`` for a file that is no notebook."""
    from bs4 import BeautifulSoup
    from nbconvert.exporters import HTMLExporter

    notebook = _read(path)
    careful = asks_for_bodies(notebook)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    with_bodies = sum(has_bodies(output, careful=careful) for output in outputs)
    has_run = bool(outputs) or all(cell.cell_type != "code" for cell in notebook.cells)
    notebook.metadata.pop("widgets", None)
    for output in outputs:
        for kind in _NOT_FOR_PAGES:
            output.get("data", {}).pop(kind, None)
        _clip(output)
    _name_missing_attachments(notebook)
    exporter: Any = _untyped(HTMLExporter)(template_name="lab", raw_template=_LAYOUT, log=_quiet())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # of languages and kinds of outputs that it does not know: they are shown as they are
            html, _ = exporter.from_notebook_node(notebook, resources={"metadata": {"name": path.stem}})
    except Exception as error:  # a notebook can be valid and odd in more ways than its readers foresee
        raise FormatError(f"this notebook cannot be laid out as a page ({type(error).__name__})", path=str(path)) from error
    page = BeautifulSoup(html, "html.parser")
    _settle(page, path.parent)
    return NotebookPage(_sealed(str(page)), has_run, with_bodies)


def _clip(output: Any) -> None:
    """A text of many megabytes is no reading matter, and would take minutes to lay out."""
    for holder, name in ((output, "text"), (output.get("data", {}), "text/plain")):
        text = joined(holder.get(name))
        if len(text) > _MOST_TEXT:
            holder[name] = f"{text[:_MOST_TEXT]}\n… {len(text) - _MOST_TEXT:,} more characters are in the notebook\n"


def _name_missing_attachments(notebook: Any) -> None:
    """A cell that shows an attachment which it does not have says so by its words."""
    for cell in notebook.cells:
        for name in set(_ATTACHMENT.findall(cell.source)) - set(cell.get("attachments") or ()):
            cell.source = cell.source.replace(f"attachment:{name}", "missing")


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


def _settle(page: BeautifulSoup, folder: Path) -> None:
    """Take out what would load from elsewhere, and every script that is not one of our views'."""
    for text in list(page.find_all(string=lambda each: isinstance(each, _unseen()))):
        text.extract()  # browsers and parsers do not agree where a comment ends
    for style in list(page.select("svg style, math style")):
        style.decompose()  # nor on what stands in these
    for element in list(page.find_all(list(_LOADS))):
        place = element.get(_LOADS[element.name]) or element.get("xlink:href")
        if place is not None and not str(place).strip().lower().startswith(_INSIDE):
            element.decompose()
    for picture in list(page.find_all("img")):
        picture.attrs.pop("srcset", None)
        place = str(picture.get("src", ""))
        if place.strip().lower().startswith(_INSIDE):
            continue
        inside = _picture_in(folder, place)
        if inside is None:
            _link_instead(page, picture, place)
        else:
            picture["src"] = inside
    for element in list(page.find_all(["base", "script"])):
        if element.name == "base" or element.get_text() != GIVE_WAY:
            element.decompose()
    for frame in page.find_all("iframe"):
        is_ours = frame.has_attr("data-cassette-live")
        frame["sandbox"] = "allow-scripts allow-downloads" if is_ours else ""
        srcdoc = str(frame.get("srcdoc", ""))
        if is_ours:  # the page is a light one
            srcdoc = srcdoc.replace('content="light dark"', 'content="light"', 1)
            srcdoc = srcdoc.replace("<div data-cassette-view=", '<div data-cassette-theme="light" data-cassette-view=', 1)
        frame["srcdoc"] = srcdoc


def _picture_in(folder: Path, place: str) -> str | None:
    """A picture beside the notebook as a data address; None for what is elsewhere, not there, large, or no picture."""
    kind, _ = mimetypes.guess_type(place)
    if kind is None or not kind.startswith("image/"):
        return None
    file = folder / unquote(place)
    if not is_file(file) or size_of(file) > _MOST_PICTURE_BYTES:
        return None
    try:
        return f"data:{kind};base64,{base64.b64encode(read_regular(file)).decode()}"
    except FormatError:
        return None


def _unseen() -> tuple[type, ...]:
    """Comments and the like: what stands in a page and is no part of it."""
    from bs4 import CData, Comment, Declaration, ProcessingInstruction

    return CData, Comment, Declaration, ProcessingInstruction


def _sealed(html: str) -> str:
    """The page with its policy, and with no other order to the browser, wherever that may hide.

    In a text the reference reads as the letter that it is; in the name of an attribute it is none.
    """
    named = _HTTP_EQUIV.sub(lambda found: f"{found[1]}&#{ord(found[2])};{found[3]}", html)
    head, start, rest = named.partition("<head>")
    return f'{head}{start}<meta http-equiv="Content-Security-Policy" content="{_policy()}"/>{rest}'


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


def _policy() -> str:
    """The scripts of our views' frames, for a frame is held to this policy, too, and what lets pictures give way to them.

    Styles cannot be named so: cells and outputs of any library carry them in attributes.
    """
    scripts = " ".join(f"'{each}'" for each in (*frame_scripts(), script_hash(GIVE_WAY)))
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data: blob:; font-src data:; "
        "media-src data:; base-uri 'none'; form-action 'none'"
    )
