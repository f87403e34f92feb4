"""A chart that draws itself anywhere without a network: as HTML that follows the page's theme, SVG, PNG, or text.

JupyterLab bundles no engine for the grammar this chart is written in and the usual renderers fetch one, so the picture
is drawn here, in the kernel (``vl-convert``), and travels as it is. In a trusted notebook the SVG inside ``text/html``
takes its colours from the theme. Where a sanitiser drops style and SVG (an untrusted notebook), the PNG beside it
shows instead: it is hidden by the style, and what remains of the SVG is hidden by its attribute.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final

from cassette_lab.errors import ConfigError
from cassette_lab.looking import write_whole
from cassette_lab.views.theme import PAPER, PATTERNS, STYLE, fit, svg_defs

if TYPE_CHECKING:
    import altair as alt

TEXT_COLUMNS: Final = 88


@dataclass(frozen=True)
class Cells:
    """A table of texts: what a chart shows, in words. ``numeric`` names the headers whose cells align right."""

    headers: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    numeric: frozenset[str] = frozenset()

    def html(self, caption: str = "") -> str:
        """The table as HTML, every text escaped."""

        def cell(tag: str, header: str, text: str) -> str:
            kind = ' class="n"' if header in self.numeric else ""
            scope = ' scope="col"' if tag == "th" else ""
            return f"<{tag}{kind}{scope}><bdi>{escape(text)}</bdi></{tag}>"

        head = "".join(cell("th", header, header) for header in self.headers)
        body = "".join(
            "<tr>" + "".join(cell("td", header, text) for header, text in zip(self.headers, row, strict=True)) + "</tr>"
            for row in self.rows
        )
        title = f"<caption>{escape(caption)}</caption>" if caption else ""
        return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


@dataclass(frozen=True, eq=False, repr=False)
class Drawing:
    """A chart of calls. Shows itself in a notebook; ``save`` writes it to a file; ``str`` is its text form.

    ``chart`` is the Altair chart, to go on from. ``cells`` says in words what is drawn, ``notes`` what was left out.
    """

    title: str
    notes: tuple[str, ...]
    cells: Cells
    build: Callable[[], alt.TopLevelMixin] = field(repr=False)
    draw_text: Callable[[int], list[str]] = field(repr=False)

    @cached_property
    def chart(self) -> alt.TopLevelMixin:
        """The Altair chart itself."""
        return self.build()

    @cached_property
    def svg(self) -> str:
        """The picture as SVG: light colours, no script, nothing loaded; pointing at a bar shows its full text."""
        import altair as alt
        import vl_convert

        version = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
        return _finished(vl_convert.vegalite_to_svg(self.grammar(), vl_version=version), self.description)

    def grammar(self) -> dict[str, Any]:
        """The chart as Vega-Lite with its data inside, whatever theme or data transformer is enabled for other charts."""
        import altair as alt

        with alt.data_transformers.enable("default", max_rows=None), alt.theme.enable("default"):
            return dict(self.chart.to_dict())

    def png(self, scale: float = 2.0) -> bytes:
        """The picture as PNG on a light ground, ``scale`` pixels per unit."""
        import vl_convert

        return _repacked(vl_convert.svg_to_png(self.svg, scale=scale))

    @property
    def description(self) -> str:
        """One sentence for those who cannot see the picture."""
        return ". ".join([self.title, *self.notes]) + "."

    def html(self, *, still: bool = True, style: bool = True, opened: bool = False) -> str:
        """A ``<figure>`` with the picture and its table. ``still`` adds the PNG for places that drop SVG."""
        parts = [f"<style>{STYLE}.clab-live[hidden]{{display:block}}</style>"] if style else []
        parts.append(f'<div class="clab-live" hidden="hidden">{self.svg}</div>' if still else self.svg)
        if still:
            picture = base64.b64encode(self.png(1.5)).decode()
            parts.append(f'<img class="clab-still" alt="{escape(self.description)}" src="data:image/png;base64,{picture}">')
        parts.append(f"<details{' open' if opened else ''}><summary>as a table</summary>{self.cells.html()}</details>")
        return f'<figure class="clab">{"".join(parts)}</figure>'

    def text(self, columns: int = TEXT_COLUMNS) -> str:
        """The chart drawn with characters, at most ``columns`` wide."""
        notes = [line for note in self.notes for line in wrap(note, columns)]
        return "\n".join([fit(self.title, columns), *self.draw_text(columns), *notes])

    def save(self, path: str | Path) -> Path:
        """Write the picture; the suffix says how: ``.svg .png .html .txt``, or ``.json`` for the chart's grammar."""
        path = Path(path)
        match path.suffix.lower():
            case ".svg":
                content = self.svg.encode()
            case ".png":
                content = self.png()
            case ".html":
                page = f"<!doctype html><meta charset=utf-8><title>{escape(self.title)}</title>{self.html(still=False)}"
                content = page.encode()
            case ".txt":
                content = f"{self.text()}\n".encode()
            case ".json":
                content = json.dumps(self.grammar(), indent=1).encode()
            case other:
                raise ConfigError(f"a chart is saved as .svg, .png, .html, .txt or .json, not as {other or path.name}")
        write_whole(path, content)
        return path

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.title}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        del include, exclude
        return {
            "text/plain": self.text(),
            "text/html": self.html(),
            "image/png": base64.b64encode(self.png(1.5)).decode(),
        }


_BAR = re.compile(r'<path ([^>]*aria-roledescription="bar"[^>]*)/>')
_FILL = re.compile(r' fill="(#[0-9a-f]{6})"')
_LABEL = re.compile(r'aria-label="([^"]*)"')
_HALO = re.compile(rf'(<text [^>]*stroke="{PAPER}")')
_ID = re.compile(r'(\bid="|url\(#|xlink:href="#)')
_TEXT_MARK = re.compile(r' aria-label="[^"]*" role="graphics-symbol" aria-roledescription="(?:text mark|rule mark|point)"')


def _finished(svg: str, description: str) -> str:
    """What the drawing engine lacks: hatching, full texts on pointing, ids that do not clash, a name for the picture."""
    prefix = f"clab-{hashlib.sha256(svg.encode()).hexdigest()[:8]}-"
    svg = _ID.sub(rf"\g<1>{prefix}", svg)
    svg = _TEXT_MARK.sub(' aria-hidden="true"', svg)
    svg = _HALO.sub(r'\1 paint-order="stroke" stroke-linejoin="round"', svg)
    svg = _BAR.sub(lambda bar: _finished_bar(bar[1], prefix), svg)
    tag_end = svg.index(">") + 1
    root = svg[: tag_end - 1].replace(' class="marks"', "")
    name = f"<title>{escape(description)}</title>"
    body = svg[tag_end:].replace('fill="white"', f'fill="{PAPER}"', 1)
    return f'{root} role="img" aria-label="{escape(description)}">{name}<defs>{svg_defs(prefix)}</defs>{body}'


def _finished_bar(attributes: str, prefix: str) -> str:
    if fill := _FILL.search(attributes):
        pattern = PATTERNS.get(fill[1])
        if pattern is not None:
            attributes = attributes.replace(fill[0], f' fill="url(#{prefix}{pattern})"')
    label = _LABEL.search(attributes)
    if label is None:
        return f"<path {attributes}/>"
    return f"<path {attributes.replace(label[0], '')}><title>{label[1]}</title></path>"


def _repacked(png: bytes) -> bytes:
    """The same PNG, packed well: notebooks keep it, and the drawing engine packs for speed (three times the size)."""
    head, packed, tail, at = png[:8], b"", b"", 8
    while at < len(png):
        (length,) = struct.unpack_from(">I", png, at)
        chunk = png[at : at + length + 12]
        if chunk[4:8] == b"IDAT":
            packed += chunk[8:-4]
        elif packed:
            tail += chunk
        else:
            head += chunk
        at += len(chunk)
    body = b"IDAT" + zlib.compress(zlib.decompress(packed), 9)
    return head + struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body)) + tail
