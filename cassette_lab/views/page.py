"""Pieces of the HTML page that a report is: tables, facts, notes, and its style sheet."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from html import escape
from typing import Any, Final

from cassette_lab.views.rows import shown
from cassette_lab.words import UNKNOWN


def html_table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    numeric: Collection[int] = (),
    wrap: Collection[int] = (),
    code: Collection[int] = (),
    marks: dict[int, list[str]] | None = None,
) -> str:
    """A table of texts. ``numeric`` columns align right, ``wrap`` ones may break, ``marks`` are HTML in front of cells."""
    looks = (("n", numeric), ("wrap", wrap), ("code", code))
    kinds = [" ".join(name for name, places in looks if place in places) for place in range(len(head))]
    classes = [f' class="{kind}"' if kind else "" for kind in kinds]
    headers = "".join(f'<th scope="col"{kind}>{escape(text)}</th>' for text, kind in zip(head, classes, strict=True))
    body = []
    for number, row in enumerate(rows):
        cells = [
            f"<td{kind}>{marks[place][number] if marks and place in marks else ''}<bdi>{escape(text)}</bdi></td>"
            for place, (text, kind) in enumerate(zip(row, classes, strict=True))
        ]
        body.append(f"<tr>{''.join(cells)}</tr>")
    content = f"<table><thead><tr>{headers}</tr></thead><tbody>{''.join(body)}</tbody></table>"
    return f'<div class="clab table" tabindex="0">{content}</div>'


def facts_list(facts: Sequence[tuple[str, str]]) -> str:
    """Names over values, side by side."""
    return (
        f"<dl class=facts>{''.join(f'<div><dt>{escape(name)}</dt><dd>{escape(text)}</dd></div>' for name, text in facts)}</dl>"
    )


def note(text: str) -> str:
    """A sentence in small print."""
    return f'<p class="note">{escape(text)}</p>'


def count_text(value: Any) -> str:
    """A number with thousands separators; unknown is a dash."""
    return UNKNOWN if value is None else f"{value:,}" if isinstance(value, (int, float)) else shown(value)


def date_text(value: Any) -> str:
    """A date and time in UTC; unknown is a dash."""
    return UNKNOWN if value is None else f"{value:%Y-%m-%d %H:%M} UTC"


PAGE_STYLE: Final = """
:root { color-scheme: light dark; --clab-page-ink: #1b1f24; --clab-page-muted: #59636e; --clab-page-grid: #d8dee4;
  --clab-page-paper: #fff; --broken: #b34700 }
@media (prefers-color-scheme: dark) {
  :root { --clab-page-ink: #e6edf3; --clab-page-muted: #9da7b1; --clab-page-grid: #343b43; --clab-page-paper: #15191e;
    --broken: #ff9d5c }
}
html { background: var(--clab-page-paper); color: var(--clab-page-ink); font-variant-numeric: tabular-nums;
  font: 15px/1.55 system-ui, -apple-system, "Segoe UI", sans-serif }
body { max-width: 1040px; margin: 0 auto; padding: 32px 24px 64px }
h1 { font-size: 26px; line-height: 1.25; margin: 0 0 4px; overflow-wrap: anywhere }
h2 { font-size: 18px; margin: 44px 0 12px; padding-top: 10px; border-top: 1px solid var(--clab-page-grid) }
h3 { font-size: 15px }
.lead { margin: 0; color: var(--clab-page-muted) }
.trust { margin: 2px 0 0 }
.broken { color: var(--broken) }
.note, footer { color: var(--clab-page-muted); font-size: 13px }
nav ul { list-style: none; display: flex; flex-wrap: wrap; gap: 4px 18px; padding: 0; margin: 14px 0 0 }
nav a { color: inherit }
figure.clab { margin: 0 0 20px }
.clab.table, figure.clab details { overflow-x: auto }
.clab table { font-size: 13px }
.clab th { font-weight: 600 }
.clab td.wrap { white-space: normal; overflow-wrap: anywhere; min-width: 14em }
.clab td.code { white-space: normal; overflow-wrap: anywhere; min-width: 18em }
.clab td.code bdi { font: 12px ui-monospace, Menlo, Consolas, monospace; color: var(--clab-page-muted) }
.mark { display: inline-block; width: 1.5em; color: var(--mark); font-weight: 700 }
.facts { display: flex; gap: 28px; margin: 0 }
.facts dt { color: var(--clab-page-muted); font-size: 13px }
.facts dd { margin: 0; font-size: 20px }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: 12px; margin: 4px 0 }
summary { cursor: pointer }
footer { margin-top: 48px; border-top: 1px solid var(--clab-page-grid) }
@media print { body { max-width: none; padding: 0 } nav { display: none } }
"""
"""Style sheet of the page, beside that of the figures."""
