"""The one visual language: what an outcome looks like, which colours follow the page.

Colours are those of Okabe and Ito, told apart by colour-blind people too; a mark, a hatching or a word always says the
same as the colour. ``INK``, ``MUTED``, ``GRID`` and ``PAPER`` are written into pictures as they stand (a picture alone is
a light one); ``STYLE`` lets a page replace them by its own, so that a chart in a dark notebook is a dark chart.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Final, Literal

from cassette_lab.words import UNKNOWN

INK: Final = "#1b1f24"
MUTED: Final = "#59636e"
GRID: Final = "#d8dee4"
PAPER: Final = "#fefefe"
SLOWER: Final = "#d55e00"
QUICKER: Final = "#0072b2"

TIMES: Final = "\N{MULTIPLICATION SIGN}"

FONT: Final = "Helvetica, Arial, 'Liberation Sans', sans-serif"
"""Fonts of equal widths and tabular figures: a label measured with one fits in another."""

PALE: Final = 0.38
"""Opacity of the first part of a bar: from admission until the run had started."""


@dataclass(frozen=True, slots=True)
class Category:
    """How an outcome is shown. ``word`` stands beside its bar (None: the error's own code or name does)."""

    name: str
    colour: str
    glyph: str
    word: str | None
    fill: Literal["solid", "hatched", "dotted", "hollow"] = "solid"
    end: Literal["plain", "cap", "notch", "cross"] = "plain"

    @property
    def failed(self) -> bool:
        """Whether a person would look at it: anything but completed."""
        return self.name != "completed"


CATEGORIES: Final = {
    category.name: category
    for category in (
        Category("completed", "#009e73", "✓", ""),
        Category("max-tokens", "#e69f00", "◼", "limit", end="cap"),
        Category("refusal", "#cc79a7", "◁", "refused", end="notch"),
        Category("aborted", "#7f7f7f", "▨", "aborted", fill="hatched"),
        Category("error", "#d55e00", "✕", "error", end="cross"),
        Category("result-error", "#d55e00", "✕", None, end="cross"),
        Category("start-error", "#d55e00", "▢", None, fill="hollow", end="cross"),
        Category("other", "#56b4e9", "●", "other", fill="dotted"),
    )
}
"""Outcome categories by name, best first. ``error`` is a result that stopped so; the ``-error`` kinds were raised."""


def category_of(outcome_kind: str | None, stop_reason: str | None) -> Category:
    """The category of a row of ``calls``; an unknown word is ``other``."""
    name = stop_reason if outcome_kind == "result" else outcome_kind
    return CATEGORIES.get(name or "other", CATEGORIES["other"])


def percent_text(part: float, whole: float) -> str:
    """A share: ``38 %``, ``< 1 %``, ``> 99 %``, ``0 %``; of nothing it is a dash."""
    if whole <= 0:
        return UNKNOWN
    percent = 100 * part / whole
    if 0 < percent < 1:
        return "< 1 %"
    if 99 < percent < 100:
        return "> 99 %"
    return f"{percent:.0f} %"


def text_width(text: str) -> int:
    """Columns that ``text`` takes in a terminal: wide characters count two, combining ones none."""
    return sum(0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def fit(text: str, columns: int) -> str:
    """``text``, cut with ``…`` where it is wider than ``columns``."""
    if text_width(text) <= columns:
        return text
    kept, width = "", 0
    for char in text:
        width += text_width(char)
        if width > columns - 1:
            break
        kept += char
    return kept + "…"


def pad(text: str, columns: int, *, right: bool = False) -> str:
    """``text`` fitted and filled up to exactly ``columns``; ``right`` puts the blanks in front."""
    text = fit(text, columns)
    blanks = " " * (columns - text_width(text))
    return blanks + text if right else text + blanks


def svg_defs(prefix: str) -> str:
    """SVG patterns of the hatched and dotted fills; their ids begin with ``prefix``."""
    hatched, dotted = CATEGORIES["aborted"].colour, CATEGORIES["other"].colour
    return (
        f'<pattern id="{prefix}hatched" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        f'<rect width="6" height="6" fill="{hatched}" fill-opacity="0.25"/><rect width="2.5" height="6" fill="{hatched}"/>'
        "</pattern>"
        f'<pattern id="{prefix}dotted" width="5" height="5" patternUnits="userSpaceOnUse">'
        f'<rect width="5" height="5" fill="{dotted}" fill-opacity="0.3"/><circle cx="2.5" cy="2.5" r="1.5" fill="{dotted}"/>'
        "</pattern>"
    )


PATTERNS: Final = {category.colour: category.fill for category in CATEGORIES.values() if category.fill in ("hatched", "dotted")}
"""Bars of these colours are filled with these patterns once the picture is drawn (the chart grammar has none)."""

_SWAPS: Final = (
    ("ink", INK, "--jp-content-font-color1", "--vscode-editor-foreground"),
    ("muted", MUTED, "--jp-content-font-color2", "--vscode-descriptionForeground"),
    ("grid", GRID, "--jp-border-color2", "--vscode-editorWidget-border"),
    ("paper", PAPER, "--jp-layout-color0", "--vscode-editor-background"),
)

STYLE: Final = (
    ".clab{"
    + "".join(f"--clab-{name}:var(--clab-page-{name},var({lab},var({code},{colour})));" for name, colour, lab, code in _SWAPS)
    + "color:var(--clab-ink);font-family:var(--jp-ui-font-family,system-ui,sans-serif);font-size:13px;line-height:1.5;"
    "font-variant-numeric:tabular-nums;margin:0}"
    ".clab svg{max-width:100%;height:auto;display:block;overflow:visible}.clab-still{display:none}"
    + "".join(
        f'.clab svg [fill="{colour}"]{{fill:var(--clab-{name})}}.clab svg [stroke="{colour}"]{{stroke:var(--clab-{name})}}'
        for name, colour, _, _ in _SWAPS
    )
    + ".clab details{margin-top:4px}.clab summary{color:var(--clab-muted);cursor:pointer}"
    ".clab table{border-collapse:collapse;margin:6px 0;font-size:12px;color:var(--clab-ink)}"
    ".clab th,.clab td{padding:2px 12px 2px 0;text-align:left;vertical-align:top;white-space:nowrap;"
    "border-bottom:1px solid var(--clab-grid);background:transparent}"
    ".clab td.n,.clab th.n{text-align:right}"
)
"""Style sheet of a figure. A page may set ``--clab-page-ink``, ``-muted``, ``-grid`` and ``-paper``."""
