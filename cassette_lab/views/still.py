"""A view as HTML that works wherever a notebook goes: first a picture and a table, then the live view in a frame.

Sanitisers (an untrusted notebook, GitHub) drop frames, scripts and style; the picture and the table are what they leave. Where
the live view runs, it tells the page so, and only then the still part gives way: nothing is hidden on a guess.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from cassette_lab.views.drawing import Cells
from cassette_lab.views.embedding import DRAWN, frame
from cassette_lab.views.palette import width_of, with_palette
from cassette_lab.words import plural

if TYPE_CHECKING:
    from cassette_lab.views.drawing import Drawing

TABLE_ROWS: Final = 100
_SCALES: Final = (1.5, 1.0)
_PICTURE_BYTES: Final = 40_000
GIVE_WAY: Final = (
    "addEventListener('message',function(e){if(e.data!=='%s')return;"
    "document.querySelectorAll('iframe[data-cassette-live]').forEach(function(f){"
    "if(f.contentWindow===e.source)f.parentNode.querySelector('[data-cassette-still]').hidden=true})})"
).replace("%s", DRAWN)
"""The script beside a frame: when the frame says that its view is there, the still part gives way."""


def view_html(
    drawing: Drawing,
    kind: str,
    tables: Mapping[str, bytes],
    options: Mapping[str, Any],
    *,
    note: str = "",
    more: Cells | None = None,
    file: str | None = None,
) -> str:
    """The whole: picture, table (and ``more`` of it), what was left out (``note``) with a link to the ``file``, live view."""
    trust = (options.get("trust") or {}).get("words", "")
    about = escape(" · ".join(part for part in (trust, "with bodies" if options.get("bodies") else "") if part))
    marked = ' data-cassette-bodies="yes"' if options.get("bodies") else ""
    still = [_picture(drawing), f"<p>{about}</p>" if about else "", _table("as a table", drawing.cells)]
    if more is not None:
        still.append(_table("all of them, by label and outcome", more))
    live = f"{_left_out(note, file)}<script>{GIVE_WAY}</script>{frame(kind, tables, options, drawing.title)}"
    return f'<div{marked}><div data-cassette-still="yes">{"".join(still)}</div>{live}</div>'


def _picture(drawing: Drawing) -> str:
    """Sharp where that is small, else a pixel for each unit."""
    import vl_convert

    for scale in _SCALES:
        picture = with_palette(vl_convert.svg_to_png(drawing.svg, scale=scale))
        if len(picture) <= _PICTURE_BYTES:
            break
    width, data = round(width_of(picture) / scale), base64.b64encode(picture).decode()
    return f'<img alt="{escape(drawing.description)}" width="{width}" src="data:image/png;base64,{data}">'


def _table(summary: str, cells: Cells) -> str:
    shown = Cells(cells.headers, cells.rows[:TABLE_ROWS], cells.numeric)
    rest = len(cells.rows) - TABLE_ROWS
    more = f"<p>and {plural(rest, 'more row')}</p>" if rest > 0 else ""
    return f"<details><summary>{escape(summary)}</summary>{shown.html()}{more}</details>"


def _left_out(note: str, file: str | None) -> str:
    if not note:
        return ""
    link = "" if file is None else f', or open <a href="{escape(quote(file))}">{escape(file)}</a>'
    return f"<p>{escape(note)}. To see all of them run this cell{link}.</p>"
