"""The small picture under a cell: the calls it made as bars on one time line, in the colours of their outcomes.

An SVG inside an ``<img>``: nothing in it can run or load anything, a sanitiser keeps it, and its ``alt`` says in words
what it shows.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from cassette_lab.cassette.model import Interaction, stop_reason_category
from cassette_lab.jsonio.dates import date_parse_ms
from cassette_lab.views.theme import CATEGORIES, PALE, Category, category_of, svg_defs
from cassette_lab.words import duration_text, plural

WIDTH: Final = 420
STEPS: Final = ((8, 9), (16, 5), (24, 3))
"""Up to so many calls at a time stand above each other, so many pixels each."""

MOST_BARS: Final = 300
"""With more calls than this, or more at a time than ``STEPS`` has room for, one bar shows their shares instead."""

_LINE: Final = "#8c959f"  # seen on light and on dark grounds
_THIN: Final = 1.5


@dataclass(frozen=True, slots=True)
class Bar:
    """One call: when it was admitted (milliseconds from any origin), its latency and duration, its outcome."""

    at_ms: float
    latency_ms: float
    duration_ms: float
    category: Category


def bars_of(calls: Iterable[Interaction]) -> list[Bar]:
    """The bars of recorded calls. A start that is no date counts as simultaneous with the first one."""
    starts = [(date_parse_ms(call.timing.started_at), call) for call in calls]
    first = min((at for at, _ in starts if at is not None), default=0)
    return [
        Bar(
            (first if at is None else at) - first,
            call.timing.start_latency_ms,
            call.timing.duration_ms,
            category_of(call.outcome.kind, _stop_reason(call)),
        )
        for at, call in starts
    ]


def picture(bars: Sequence[Bar]) -> str:
    """The strip as an ``<img>``; empty for no calls."""
    if not bars:
        return ""
    drawn = (_timeline(bars) if len(bars) <= MOST_BARS else None) or _shares(bars)
    source = base64.b64encode(drawn.encode()).decode()
    alt = escape(in_words(bars))
    style = "display:block;max-width:100%;margin:2px 0 0"
    return f'<img alt="{alt}" title="{alt}" style="{style}" src="data:image/svg+xml;base64,{source}">'


def in_words(bars: Sequence[Bar]) -> str:
    """What the strip shows: how many calls with which outcome, over which time."""
    counted = Counter(bar.category.name for bar in bars)
    outcomes = ", ".join(f"{counted[name]:,} {name}" for name in CATEGORIES if counted[name])
    longest = max(bar.at_ms + bar.duration_ms for bar in bars)
    return f"{plural(len(bars), 'call')} over {duration_text(longest)}: {outcomes}"


def _stop_reason(call: Interaction) -> str | None:
    return None if call.outcome.result is None else stop_reason_category(call.outcome.result["stopReason"])


def _timeline(bars: Sequence[Bar]) -> str | None:
    """Bars on lanes; None where more of them run at a time than there are lanes."""
    end = max(bar.at_ms + bar.duration_ms for bar in bars) or 1.0
    scale = (WIDTH - 8) / end
    ordered = sorted(bars, key=lambda bar: (bar.at_ms, -bar.duration_ms))
    spans = [(bar.at_ms * scale, max(_THIN, bar.duration_ms * scale)) for bar in ordered]
    lanes = _lanes(spans)
    step = next((step for most, step in STEPS if max(lanes) < most), None)
    if step is None:
        return None
    shapes = [
        _shape(x, lane * step + 1, width, min(width, bar.latency_ms * scale), bar.category, step)
        for bar, (x, width), lane in zip(ordered, spans, lanes, strict=True)
    ]
    return _svg((max(lanes) + 1) * step + 1, shapes)


def _lanes(spans: Iterable[tuple[float, float]]) -> list[int]:
    """The first lane that is free for each span, in order of their beginnings."""
    until: list[float] = []
    lanes = []
    for x, width in spans:
        lane = next((lane for lane, end in enumerate(until) if end <= x), len(until))
        until[lane : lane + 1] = [x + width + 1]
        lanes.append(lane)
    return lanes


def _shares(bars: Sequence[Bar]) -> str:
    counted = Counter(bar.category.name for bar in bars)
    shapes, x = [], 0.0
    for name, category in CATEGORIES.items():
        width = counted[name] / len(bars) * (WIDTH - 8)
        if width:
            gap = 1 if category.end == "plain" else 9
            shapes.append(_shape(x, 1, max(_THIN, width - gap), 0, category, STEPS[0][1]))
        x += width
    return _svg(STEPS[0][1] + 1, shapes)


def _shape(x: float, y: float, width: float, latency: float, category: Category, step: int) -> str:
    """A bar with its fill and the mark at its end; the time before the run had started is paler."""
    colour, right = category.colour, x + width
    height = step - 2 if step > 4 else step - 1
    if category.fill == "hollow":
        inner = f'width="{max(1, width - 1):.1f}" height="{height - 1}"'
        body = f'<rect x="{x + 0.5:.1f}" y="{y + 0.5}" {inner} fill="none" stroke="{colour}"/>'
    else:
        fill = {"hatched": "url(#hatched)", "dotted": "url(#dotted)"}.get(category.fill, colour)
        body = f'<rect x="{x + latency:.1f}" y="{y}" width="{max(1, width - latency):.1f}" height="{height}" fill="{fill}"/>'
        if latency >= 1:
            body += f'<rect x="{x:.1f}" y="{y}" width="{latency:.1f}" height="{height}" fill="{colour}" fill-opacity="{PALE}"/>'
    if category.end == "cross":
        size = min(5, height)
        left, top = right + 1, y + (height - size) / 2
        body += f'<path d="M{left:.1f} {top}l{size} {size}m0-{size}l-{size} {size}" stroke="{colour}" stroke-width="1.4"/>'
    elif category.end == "cap":
        body += f'<rect x="{right:.1f}" y="{y - 1}" width="2" height="{height + 2}" fill="{colour}"/>'
    elif category.end == "notch":
        body += f'<path d="M{right:.1f} {y}v{height}l-4-{height / 2}z" fill="#ffffff" fill-opacity="0.85"/>'
    return body


def _svg(height: int, shapes: Iterable[str]) -> str:
    line = f'<path d="M0 {height + 0.5}h{WIDTH - 8}" stroke="{_LINE}" stroke-opacity="0.5"/>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height + 1}" viewBox="0 0 {WIDTH} {height + 1}">'
        f"<defs>{svg_defs('')}</defs>{line}{''.join(shapes)}</svg>"
    )
