"""Rows of horizontal bars on one axis: the shape that timelines, trees and outcome counts share.

A bar is made of segments; each has the look of an outcome category, a pale one is a call that was still starting. How
a call ended stands at the end of its bar, and in words beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from cassette_lab.views.layout import (
    BAR_HEIGHT,
    PLOT_WIDTH,
    ROW_STEP,
    Label,
    bar_columns,
    beside_labels,
    chart_of,
    finish,
    layered,
    note_marks,
    text_rows,
)
from cassette_lab.views.theme import CATEGORIES, INK, MUTED, PALE, PAPER, Category, pad

if TYPE_CHECKING:
    import altair as alt

END_MARKS: Final = {"cross": "M0.5,-1L2.5,1M0.5,1L2.5,-1", "cap": "M0,-1.7L0,1.7", "notch": "M0.2,-1.3L-1.3,0L0.2,1.3Z"}
"""How a bar ends that did not end well: paths around the end, in units of half the height of a mark."""
_TRIANGLE: Final = "M-1,-3L1,-3L0,-1.2Z"  # above the bar, pointing at the time
_BLOCKS: Final = "─▓"
"""Glyphs that fill a bar of characters as well."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of a bar, from ``start`` to ``end`` in the axis' base unit; ``about`` is shown when it is pointed at."""

    start: float
    end: float
    category: Category
    about: str
    pale: bool = False


@dataclass(frozen=True, slots=True)
class Bar:
    """A row: its label, the segments in order, the mark at the end, triangles (place, filled) above, and words beside.

    ``stops`` are further end marks, of segments that others follow; ``gaps`` are dotted lines from one to the next.
    """

    label: Label
    segments: tuple[Segment, ...] = ()
    note: str = ""
    text_note: str = ""
    ended: Category | None = None
    triangles: tuple[tuple[float, bool], ...] = ()
    stops: tuple[tuple[float, Category], ...] = ()
    gaps: tuple[tuple[float, float], ...] = ()

    @property
    def end(self) -> float:
        """Where the bar ends."""
        return self.segments[-1].end if self.segments else 0.0


def bars_chart(
    bars: Sequence[Bar],
    longest: float,
    per_unit: float,
    axis: alt.Axis,
    title: str,
    notes: Sequence[str],
    cuts: Sequence[tuple[float, str]] = (),
) -> alt.TopLevelMixin:
    """The picture: an axis from 0 to ``longest``, labelled in units of ``per_unit``.

    ``cuts`` are places where something was left out of the axis, and what; a dotted line through all rows marks each.
    """
    import altair as alt

    hair = longest / PLOT_WIDTH * 2  # a segment is at least two pixels wide
    pieces = [
        _piece(line, segment, hair, per_unit)
        for line, bar in enumerate(bars)
        for segment in bar.segments
        if segment.end > segment.start or len(bar.segments) == 1
    ]
    marks = [
        {**mark, "row": line, "start": mark["start"] / per_unit}
        for line, bar in enumerate(bars)
        for mark in _marks(bar, longest / PLOT_WIDTH)
    ]
    x = alt.X("start:Q", scale=alt.Scale(domain=[0, longest / per_unit], nice=False), axis=axis)
    y = alt.Y("row:O", axis=None, scale=alt.Scale(domain=list(range(len(bars)))))
    ink = {
        "fill": alt.Fill("fill:N", scale=None),
        "stroke": alt.Stroke("stroke:N", scale=None),
        "strokeWidth": alt.StrokeWidth("line:Q", scale=None),
    }
    layers = [
        *_cut_marks(cuts, per_unit, x, ROW_STEP * len(bars)),
        chart_of(pieces)
        .mark_bar(height=BAR_HEIGHT)
        .encode(
            x=x,
            x2="end:Q",
            y=y,
            opacity=alt.Opacity("opacity:Q", scale=None),
            description="about:N",
            tooltip=alt.Tooltip("about:N", title="call"),
            **ink,
        ),
    ]
    dots = [
        {"row": line, "start": first / per_unit, "end": last / per_unit}
        for line, bar in enumerate(bars)
        for first, last in bar.gaps
        if last - first > hair
    ]
    if dots:
        dotted = chart_of(dots).mark_rule(color=MUTED, strokeWidth=1.5, strokeDash=[1.5, 3])
        layers.append(dotted.encode(x=x, x2="end:Q", y=y))
    if marks:
        look = {"shape": alt.Shape("shape:N", scale=None), "size": alt.Size("size:Q", scale=None), **ink}
        layers.append(chart_of(marks).mark_point(opacity=1).encode(x=x, y=y, **look))
    for beyond, dx in ((False, 8), (True, 18)):
        texts = [
            {"row": line, "start": max(bar.end, hair if bar.segments else 0) / per_unit, "note": bar.note}
            for line, bar in enumerate(bars)
            if bar.note and (bar.ended is not None and bar.ended.end == "cross") == beyond
        ]
        if texts:
            layers.append(note_marks(texts, dx).encode(x=x, y=y, text="note:N"))
    return finish(beside_labels(layered(*layers), [bar.label for bar in bars]), title, notes)


def bars_text(bars: Sequence[Bar], longest: float, columns: int) -> list[str]:
    """The same with characters."""
    labels, notes = [bar.label for bar in bars], [bar.text_note or bar.note for bar in bars]
    width = bar_columns(labels, notes, columns)
    return text_rows(labels, [pad(_characters(bar, longest, width), width) for bar in bars], notes, columns)


def _piece(line: int, segment: Segment, hair: float, per_unit: float) -> dict[str, Any]:
    hollow = segment.category.fill == "hollow"
    colour = segment.category.colour
    end = segment.end if segment.pale else max(segment.end, segment.start + hair)
    return {
        "row": line,
        "start": segment.start / per_unit,
        "end": end / per_unit,
        "about": segment.about,
        "fill": "transparent" if hollow else colour,
        "stroke": colour if hollow else "transparent",
        "line": 1.5 if hollow else 0,
        "opacity": PALE if segment.pale else 1,
    }


def _marks(bar: Bar, pixel: float) -> list[dict[str, Any]]:
    marks: list[dict[str, Any]] = []
    notch = bar.ended is not None and bar.ended.end == "notch"
    too_short = notch and bar.end - bar.segments[-1].start < 14 * pixel  # a notch would leave nothing of it
    for at, ended in (*bar.stops, *([(bar.end, bar.ended)] if bar.ended is not None and not too_short else [])):
        if ended.end != "plain":
            notched = ended.end == "notch"
            ink = {"fill": PAPER, "stroke": "transparent"} if notched else {"fill": "transparent", "stroke": ended.colour}
            marks.append({"start": at, "shape": END_MARKS[ended.end], "size": 90, "line": 2.5, **ink})
    for at, filled in bar.triangles:
        marks.append({"start": at, "shape": _TRIANGLE, "size": 40, "line": 1, "fill": INK if filled else PAPER, "stroke": INK})
    return marks


def _cut_marks(cuts: Sequence[tuple[float, str]], per_unit: float, x: alt.X, height: int) -> list[Any]:
    """Dotted lines behind the bars, with words at their lower ends."""
    import altair as alt

    if not cuts:
        return []
    values = [{"start": at / per_unit, "left_out": text} for at, text in cuts]
    line = chart_of(values).mark_rule(color=MUTED, strokeWidth=1, strokeDash=[2, 4])
    words = chart_of(values).mark_text(align="center", baseline="top", dy=4, fontSize=11, color=MUTED)
    return [
        line.encode(x=x, y=alt.value(0), y2=alt.value(height)),
        words.encode(x=x, y=alt.value(height), text="left_out:N"),
    ]


def _characters(bar: Bar, longest: float, width: int) -> str:
    if not bar.segments:
        return ""
    mixed = len({segment.category.name for segment in bar.segments}) > 1
    cells = [" "] * width
    for segment in bar.segments:
        first = min(width - 1, int(segment.start / longest * width))
        last = min(width, max(first + (0 if segment.pale else 1), round(segment.end / longest * width)))
        cells[first:last] = _character(segment, mixed=mixed) * (last - first)
    line = "".join(cells).rstrip()
    plain = bar.ended is None or bar.ended.end == "plain"
    return line if plain or bar.ended is None else line[:-1] + bar.ended.glyph


def _character(segment: Segment, *, mixed: bool) -> str:
    if segment.pale:
        return "░"
    if mixed and segment.category is not CATEGORIES["completed"]:
        return segment.category.glyph
    if segment.category.glyph in _BLOCKS:
        return segment.category.glyph
    return {"hollow": "▢", "hatched": "▨"}.get(segment.category.fill, "█")
