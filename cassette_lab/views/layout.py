"""What the charts share: the column of labels with its tree lines, time axes, fonts, and bars made of characters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from cassette_lab.views.theme import FONT, GRID, INK, MUTED, PAPER, fit, pad, text_width

if TYPE_CHECKING:
    import altair as alt

ROW_STEP: Final = 24
BAR_HEIGHT: Final = 12
PLOT_WIDTH: Final = 520
INDENT: Final = 16
DEEPEST: Final = 8
"""Levels of indentation; what lies deeper stands at this level."""

LABEL_COLUMNS: Final = 40
MAX_ROWS: Final = 60
TICKS: Final = 6


@dataclass(frozen=True, slots=True)
class Label:
    """A row's name in the left column, with its place in the tree. ``heading`` is the name of a file."""

    text: str
    depth: int = 0
    parent: int | None = None
    heading: bool = False


@dataclass(frozen=True, slots=True)
class TimeUnit:
    """The unit of an axis: its sign and its length in milliseconds."""

    sign: str
    ms: float


def time_unit(longest_ms: float) -> TimeUnit:
    """The unit that suits an axis up to ``longest_ms``."""
    for sign, ms, limit in (("ms", 1.0, 1_500), ("s", 1e3, 180e3), ("min", 60e3, 10_800e3), ("h", 3.6e6, 259.2e6)):
        if longest_ms < limit:
            return TimeUnit(sign, ms)
    return TimeUnit("d", 86.4e6)


def time_axis(title: str, unit: TimeUnit) -> alt.Axis:
    """An axis on top that names its unit."""
    import altair as alt

    return alt.Axis(title=f"{title} ({unit.sign})", orient="top", titleAnchor="start", tickCount=TICKS, format=",~f")


def chart_of(values: Iterable[dict[str, Any]]) -> alt.Chart:
    """A chart of these rows, given as a table: inlined rows would be copied at every step of building the chart."""
    import altair as alt
    import pyarrow as pa

    return alt.Chart(pa.Table.from_pylist(list(values)))


def layered(*charts: alt.Chart | alt.LayerChart) -> alt.LayerChart:
    """The charts on top of each other, the first at the bottom."""
    import altair as alt

    return cast("alt.LayerChart", alt.layer(*charts))


def beside_labels(plot: alt.LayerChart, labels: Sequence[Label], width: int = PLOT_WIDTH) -> alt.LayerChart:
    """``plot`` with the labels of its rows (encoded as ``row``) in a column left of it, tree lines before the nested."""
    import altair as alt

    scales = alt.Resolve(scale=alt.ScaleResolveMap(x="independent"))
    both = layered(_label_column(labels), plot)
    return both.properties(width=width, height=ROW_STEP * len(labels), resolve=scales)


def _label_column(labels: Sequence[Label]) -> alt.LayerChart:
    import altair as alt

    shown = [fit(label.text, LABEL_COLUMNS) for label in labels]
    widths = [_pixels(text, bold=label.heading) + _inset(label) for text, label in zip(shown, labels, strict=True)]
    width = round(max([40, *widths])) + 14
    texts = [
        {"row": row, "px": _inset(label) - width, "label": text, "heading": label.heading}
        for row, (text, label) in enumerate(zip(shown, labels, strict=True))
    ]
    lines = [
        {
            "row": row,
            "px": _inset(label) - INDENT + 4 - width,
            "px2": _inset(label) - 4 - width,
            "parent": label.parent,
        }
        for row, label in enumerate(labels)
        if label.parent is not None and 0 < label.depth <= DEEPEST
    ]
    y = alt.Y("row:O", axis=None)
    x = alt.X("px:Q", scale=None)
    across = chart_of(lines).mark_rule(color=GRID, strokeWidth=1)
    layers = [
        chart_of(each for each in texts if each["heading"] == heading)
        .mark_text(align="left", baseline="middle", color=INK, fontSize=12, fontWeight=600 if heading else 400)
        .encode(x=x, y=y, text="label:N")
        for heading in sorted({label.heading for label in labels})
    ]
    if lines:
        layers.insert(0, across.encode(x=x, x2="px2:Q", y=y))
        layers.insert(0, across.encode(x=x, y=y, y2=alt.Y2("parent:O", bandPosition=0.86)))
    return layered(*layers)


def note_marks(values: Sequence[dict[str, Any]], dx: float, align: Literal["left", "right"] = "left") -> alt.Chart:
    """Small texts beside bars, readable over grid lines."""
    text = chart_of(values).mark_text(
        align=align, baseline="middle", dx=dx, fontSize=11, color=MUTED, stroke=PAPER, strokeWidth=3
    )
    return cast("alt.Chart", text)


def empty(title: str, words: str = "This recording has no calls.") -> alt.TopLevelMixin:
    """The picture of no calls: words."""
    import altair as alt

    text = chart_of([{"text": words}])
    shown = text.mark_text(align="left", color=MUTED, fontSize=12).encode(x=alt.value(0), text="text:N")
    return finish(shown.properties(width=PLOT_WIDTH, height=30), title, [])


def finish(chart: alt.TopLevelMixin, title: str, notes: Sequence[str]) -> alt.TopLevelMixin:
    """The chart with its title, notes under it, and the fonts and colours of the house."""
    import altair as alt

    heading = alt.TitleParams(
        text=fit(title, 110),
        subtitle=[line for note in notes for line in wrap(note, 112)] or alt.Undefined,
        anchor="start",
        frame="bounds",
        fontSize=14,
        fontWeight=600,
        subtitleFontSize=12,
        subtitlePadding=5,
        offset=12,
        color=INK,
        subtitleColor=MUTED,
    )
    config = alt.Config(
        font=FONT,
        view=alt.ViewConfig(stroke=None),
        axis=alt.AxisConfig(
            labelColor=MUTED, titleColor=MUTED, titleFontWeight="normal", titleFontSize=12, labelFontSize=11, gridColor=GRID,
            domain=False, tickColor=GRID, titlePadding=6,
        ),
    )  # fmt: skip
    return chart.properties(title=heading, background=PAPER, padding=10, config=config)


def text_rows(labels: Sequence[Label], bars: Sequence[str], notes: Sequence[str], columns: int) -> list[str]:
    """Lines of label, bar and note; the bars must fit in ``bar_columns``."""
    label_columns = _label_columns(labels, columns)
    return [
        (
            pad("  " * min(label.depth, DEEPEST) + label.text, label_columns) + "  " + bar + "  " + fit(note, columns // 2)
        ).rstrip()
        for label, bar, note in zip(labels, bars, notes, strict=True)
    ]


def bar_columns(labels: Sequence[Label], notes: Sequence[str], columns: int) -> int:
    """How wide bars may be beside these labels and notes."""
    note_columns = max([0, *(text_width(note) for note in notes)])
    return max(10, columns - _label_columns(labels, columns) - min(note_columns, columns // 2) - 4)


def _label_columns(labels: Sequence[Label], columns: int) -> int:
    return min(2 * columns // 5, max([4, *(text_width(label.text) + 2 * min(label.depth, DEEPEST) for label in labels)]))


def _inset(label: Label) -> int:
    return INDENT * min(label.depth, DEEPEST)


def _pixels(text: str, *, bold: bool) -> float:
    """About how wide a text of 12 px is; rather too much than too little."""
    narrow, wide = sum(char in "iljtfrI.,:;|'!()[]/ -" for char in text), sum(char in "mwMW@%…" for char in text)
    upper = sum(char.isupper() for char in text)
    width = 6.9 * text_width(text) - 3.3 * narrow + 3.6 * wide + 1.6 * upper
    return width * (1.08 if bold else 1)
