"""Pieces of the HTML page that a report is: tables, facts, notes, and its style sheet."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final, Literal, TypeAlias

from cassette_lab.views.rows import shown
from cassette_lab.views.theme import CATEGORIES, Category
from cassette_lab.words import UNKNOWN

Shows: TypeAlias = Literal["always", "live", "still"]
"""``live``: only where the script runs; ``still``: only where it does not, and on paper."""


@dataclass(frozen=True)
class Section:
    """A part of the page."""

    name: str
    heading: str
    content: str
    shows: Shows = "always"

    def html(self) -> str:
        """The whole section."""
        kind = "" if self.shows == "always" else f' class="{self.shows}"'
        title = f'<h2 id="{self.name}-title">{escape(self.heading)}</h2>'
        return f'<section id="{self.name}"{kind} aria-labelledby="{self.name}-title">{title}{self.content}</section>'


def contents(sections: Sequence[Section]) -> str:
    """Links to the sections."""
    kinds = ["" if each.shows == "always" else f' class="{each.shows}"' for each in sections]
    items = "".join(
        f'<li{kind}><a href="#{each.name}">{escape(each.heading)}</a></li>' for kind, each in zip(kinds, sections, strict=True)
    )
    return f'<nav aria-label="contents"><ul>{items}</ul></nav>'


def html_table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    numeric: Collection[int] = (),
    wrap: Collection[int] = (),
    code: Collection[int] = (),
    marks: dict[int, list[str]] | None = None,
    csv: str = "",
) -> str:
    """A table of texts. ``numeric`` columns align right, ``wrap`` ones may break, ``marks`` are HTML in front of cells.

    With ``csv`` the page's script adds a button that saves the table under this name.
    """
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
    saved = f' data-cassette-csv="{csv}"' if csv else ""
    return f'<div class="clab table" tabindex="0"{saved}>{content}</div>'


def facts_list(facts: Sequence[tuple[str, str]]) -> str:
    """Names over values, side by side."""
    return (
        f"<dl class=facts>{''.join(f'<div><dt>{escape(name)}</dt><dd>{escape(text)}</dd></div>' for name, text in facts)}</dl>"
    )


def mark(category: Category) -> str:
    """The sign of an outcome in its colour."""
    return f'<span class="mark of-{category.name}" aria-hidden="true">{category.glyph}</span>'


def badge(text: str, kind: str) -> str:
    """A sentence with a coloured edge: ``verified``, ``partial``, ``broken`` or ``plain``."""
    return f'<li class="trust {kind}">{escape(text)}</li>'


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
  --clab-page-paper: #fff; --page-band: #f5f7f9; --page-link: #0969da; --verified: #00875f; --partial: #9a6700;
  --broken: #b34700 }
@media (prefers-color-scheme: dark) {
  :root { --clab-page-ink: #e6edf3; --clab-page-muted: #9da7b1; --clab-page-grid: #343b43; --clab-page-paper: #15191e;
    --page-band: #1c2229; --page-link: #58a6ff; --verified: #3fc795; --partial: #e3b341; --broken: #ff9d5c }
}
html { background: var(--clab-page-paper); color: var(--clab-page-ink); font-variant-numeric: tabular-nums;
  font: 15px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  -webkit-text-size-adjust: 100% }
body { max-width: 1240px; margin: 0 auto; padding: 40px 28px 64px }
h1 { font-size: 28px; line-height: 1.2; letter-spacing: -0.01em; margin: 0 0 6px; overflow-wrap: anywhere }
h2 { font-size: 18px; margin: 36px 0 14px; padding-top: 12px; border-top: 1px solid var(--clab-page-grid);
  scroll-margin-top: 8px; overflow-wrap: anywhere }
h3 { font-size: 15px }
.lead { margin: 0; color: var(--clab-page-muted); font-size: 16px }
.badges { list-style: none; display: flex; flex-wrap: wrap; gap: 8px; padding: 0; margin: 14px 0 0; font-size: 13px }
.trust { padding: 3px 12px; border-radius: 4px; background: var(--page-band); border-inline-start: 3px solid var(--edge);
  --edge: var(--clab-page-grid) }
.trust.verified { --edge: var(--verified) }
.trust.partial { --edge: var(--partial) }
.trust.broken { --edge: var(--broken); color: var(--broken); font-weight: 600 }
.note, footer { color: var(--clab-page-muted); font-size: 13px }
a { color: var(--page-link) }
nav ul { list-style: none; display: flex; flex-wrap: wrap; gap: 4px 20px; padding: 0; margin: 20px 0 0; font-size: 14px }
nav a { text-decoration: none }
nav a:hover { text-decoration: underline }
:focus-visible { outline: 2px solid var(--page-link); outline-offset: 2px }
figure.clab { margin: 0 0 24px; min-width: 0 }
#statistics { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(540px, 100%), 1fr)); gap: 0 32px }
#statistics h2 { grid-column: 1 / -1 }
.clab.table, figure.clab details { overflow-x: auto }
.clab.table { position: relative; max-height: 640px; overflow-y: auto; margin: 8px 0 }
.clab.table table { font-size: 13px; margin: 0; min-width: 100% }
.clab.table th { font-weight: 600; position: sticky; top: 0; background: var(--clab-page-paper);
  color: var(--clab-page-muted); padding-bottom: 5px; box-shadow: inset 0 -1px var(--clab-page-grid) }
.clab.table td { padding-block: 4px }
.clab.table tbody tr:hover td { background: var(--page-band) }
.clab td.wrap { white-space: normal; overflow-wrap: anywhere; min-width: 10em }
.clab td.code { white-space: normal; overflow-wrap: anywhere; min-width: 18em }
.clab td.code bdi { font: 12px ui-monospace, Menlo, Consolas, monospace; color: var(--clab-page-muted) }
.mark { display: inline-block; width: 1.5em; color: var(--of); font-weight: 700 }
rect[class^="of-"] { fill: var(--of) }
.facts { display: flex; flex-wrap: wrap; gap: 12px 44px; margin: 0 0 18px }
.facts > div { display: flex; flex-direction: column-reverse }
.facts dt { color: var(--clab-page-muted); font-size: 13px }
.facts dd { margin: 0; font-size: 26px; line-height: 1.25; font-weight: 600; letter-spacing: -0.01em }
.outcomes svg { display: block; width: 100%; height: 10px; border-radius: 5px; background: var(--page-band) }
.outcomes ul { list-style: none; display: flex; flex-wrap: wrap; gap: 2px 22px; padding: 0; margin: 8px 0 18px; font-size: 13px;
  color: var(--clab-page-muted) }
.outcomes b { color: var(--clab-page-ink); font-weight: 600 }
.save { font: inherit; font-size: 12px; color: var(--clab-page-muted); background: none; cursor: pointer; padding: 1px 9px;
  border: 1px solid var(--clab-page-grid); border-radius: 4px; margin: 2px 0 6px }
.save:hover { color: var(--clab-page-ink); border-color: var(--page-link) }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: 12px; margin: 4px 0; padding: 8px 10px;
  background: var(--page-band); border-radius: 4px }
summary { cursor: pointer }
footer { margin-top: 56px; border-top: 1px solid var(--clab-page-grid); padding-top: 4px }
html:not([data-cassette-live]) .live { display: none }
@media screen { html[data-cassette-live="yes"] .still { display: none } }
@media (max-width: 600px) {
  body { padding: 24px 16px 48px }
  h1 { font-size: 23px }
  .facts { gap: 12px 28px }
  .facts dd { font-size: 21px }
  figure.clab { overflow-x: auto }
  .clab svg { max-width: none }
}
@media print {
  :root { color-scheme: light; --clab-page-ink: #1b1f24; --clab-page-muted: #59636e; --clab-page-grid: #d8dee4;
    --clab-page-paper: #fff; --page-band: #f5f7f9; --page-link: #1b1f24; --verified: #00875f; --partial: #9a6700;
    --broken: #b34700 }
  html { font-size: 12px }
  body { max-width: none; padding: 0 }
  nav, .live, .save { display: none !important }
  #statistics { display: block }
  .clab.table { max-height: none; overflow: visible }
  .clab.table table { font-size: 10px }
  .clab.table th { position: static }
  .clab.table th, .clab.table td { white-space: normal; overflow-wrap: anywhere; padding-inline-end: 8px }
  .clab td.wrap, .clab td.code { min-width: 0 }
  h2, figure.clab svg, tr { break-inside: avoid }
  h2 { break-after: avoid; margin-top: 28px }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact }
}
""" + "".join(f".of-{category.name} {{ --of: {category.colour} }}\n" for category in CATEGORIES.values())
"""Style sheet of the page, beside that of the figures."""
