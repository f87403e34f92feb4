"""The live views of a report: their script, their data, and the policy that lets this page run that script and nothing else."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, Final

from cassette_lab.views.embedding import script_hash
from cassette_lab.views.sending import Sent, sent

WHOLE_BYTES: Final = 1_600_000
"""Up to so many packed bytes go in as they are; more get shorter keys and rounder times."""

MOST_ROWS: Final = 200_000
"""Most rows of a live view in a report; of more the telling ones are taken."""

_SCRIPT: Final = Path(__file__).parent / "static" / "report.js"


@dataclass(frozen=True)
class Live:
    """A live view: where it is mounted (``element``), and its data (``blocks``)."""

    element: str
    blocks: str


def live(name: str, kind: str, data: Any, options: Mapping[str, Any], *, bodies: bool) -> Live:
    """The view ``kind`` of ``data``, as ``sent`` takes it. ``name`` is unique on the page."""
    given = _sent(data, bodies=bodies)
    told = {**given.options, **options, "downloads": True, "bodies": bodies}
    if given.note:
        parts = (told.get("problem"), f"{given.note}.")
        told |= {"partial": True, "problem": " ".join(part for part in parts if part)}
    tables = " ".join(f"{table}={name}-{table}" for table in given.tables)
    element = (
        f'<div id="{name}-view" data-cassette-view="{kind}" data-cassette-tables="{tables}" '
        f'data-cassette-options="{name}-options"></div>'
    )
    return Live(element, "".join(_blocks(name, given, told)))


def script() -> str:
    """The element with the views' script."""
    return f"<script>{_source()}</script>"


def policy(style: str) -> str:
    """What the page may do: run the views' script, use this style sheet, show pictures that are inside it, save files."""
    rules = (
        "default-src 'none'",
        f"script-src '{script_hash(_source())}'",
        f"style-src '{script_hash(style)}'",
        "img-src data: blob:",
        "base-uri 'none'",
        "form-action 'none'",
    )
    return "; ".join(rules)


def _sent(data: Any, *, bodies: bool) -> Sent:
    given = sent(data, bodies=bodies, short_keys=False, max_rows=MOST_ROWS)
    return given if given.nbytes <= WHOLE_BYTES else sent(data, bodies=bodies, round_times=True, max_rows=MOST_ROWS)


def _blocks(name: str, given: Sent, options: Mapping[str, Any]) -> Iterator[str]:
    for table, packed in given.tables.items():
        text = base64.b64encode(packed).decode()
        yield f'<script type="application/vnd.apache.arrow.stream;base64" id="{escape(f"{name}-{table}")}">{text}</script>'
    told = json.dumps(dict(options), sort_keys=True, separators=(",", ":")).replace("<", "\\u003c")
    yield f'<script type="application/json" id="{name}-options">{told}</script>'


@cache
def _source() -> str:
    return _SCRIPT.read_text(encoding="utf-8")
