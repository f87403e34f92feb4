"""Rows of figures as statistics papers draw them: a name, a mark with its interval on a common axis, the numbers beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from cassette_lab.views.layout import LABEL_COLUMNS, Label, bar_columns, chart_of, finish, layered, text_rows
from cassette_lab.views.theme import GRID, INK, MUTED, PAPER, QUICKER, fit, pad, text_width

if TYPE_CHECKING:
    import altair as alt

    from cassette_lab.views.statistics.scales import Scale

WIDTH: Final = 400
STEP: Final = 26
_PIXELS: Final = 6.6
"""About how wide a character of the figures is."""

_WIDE: Final = 7.2
"""The same of a name, in a wide font."""


@dataclass(frozen=True, slots=True)
class Line:
    """One row. ``figures`` stand in the columns right of the plot; ``about`` is shown when the row is pointed at.

    ``outer`` and ``inner`` are ranges drawn thin and thick, ``point`` a dot, ``tick`` a small mark. ``shape`` is an outline
    over the row (a distribution, from 0 to 1 high), ``values`` are single values, where they are few.
    """

    label: str
    figures: tuple[str, ...]
    about: str
    point: float | None = None
    inner: tuple[float, float] | None = None
    outer: tuple[float, float] | None = None
    tick: float | None = None
    shape: Sequence[tuple[float, float]] = ()
    values: Sequence[float] = field(default=())
    heading: bool = False
    colour: str = QUICKER


def forest(
    lines: Sequence[Line], headers: Sequence[str], scale: Scale, title: str, notes: Sequence[str], *, step: int = STEP
) -> alt.TopLevelMixin:
    """The picture of these rows."""
    import altair as alt

    x, y = scale.x(), alt.Y("y:Q", scale=None, axis=None)
    middle = [row * step + step * (0.78 if line.shape or line.values else 0.5) for row, line in enumerate(lines)]
    layers: list[Any] = []

    def add(rows: list[dict[str, Any]], layer: Any) -> None:
        if rows:
            layers.append(layer(chart_of(rows)))

    fill, stroke = alt.Fill("colour:N", scale=None), alt.Stroke("colour:N", scale=None)
    # The axis is that of the first layer, which is there whatever the rows hold.
    layers.append(chart_of([{"x": scale.at(scale.low)}]).mark_rule(opacity=0, aria=False).encode(x=x))
    if scale.low < 0 < scale.high:
        layers.append(chart_of([{"x": 0.0}]).mark_rule(color=MUTED, strokeWidth=1, aria=False).encode(x=x))
    heading = [{"y": (row + 1) * step} for row, line in enumerate(lines) if line.heading and len(lines) > 1]
    add(heading, lambda chart: chart.mark_rule(color=GRID, aria=False).encode(x=alt.value(0), x2=alt.value(WIDTH), y=y))
    area = [
        {"x": scale.at(at), "y": middle[row], "y2": middle[row] - height * step * 0.7, "row": row, "colour": line.colour}
        for row, line in enumerate(lines)
        for at, height in line.shape
    ]
    add(
        area,
        lambda chart: chart.mark_area(interpolate="step-after", opacity=0.28, aria=False).encode(
            x=x, y=y, y2="y2:Q", detail="row:N", fill=fill
        ),
    )
    singles = [
        {"x": scale.at(at), "y": middle[row] - step * 0.42, "y2": middle[row] - step * 0.14, "colour": line.colour}
        for row, line in enumerate(lines)
        for at in line.values
    ]
    add(singles, lambda chart: chart.mark_rule(opacity=0.55, aria=False).encode(x=x, y=y, y2="y2:Q", stroke=stroke))
    for name, width in (("outer", 1.5), ("inner", 5.0)):
        ranges = [
            {"x": scale.at(there[0]), "x2": scale.at(there[1]), "y": middle[row], "colour": line.colour}
            for row, line in enumerate(lines)
            if (there := line.outer if name == "outer" else line.inner) is not None
        ]
        add(
            ranges,
            lambda chart, width=width: chart.mark_rule(strokeWidth=width, aria=False).encode(
                x=x, x2="x2:Q", y=y, stroke=stroke
            ),
        )
    ticks = [
        {"x": scale.at(line.tick), "y": middle[row] - 5, "y2": middle[row] + 5, "colour": line.colour}
        for row, line in enumerate(lines)
        if line.tick is not None
    ]
    add(ticks, lambda chart: chart.mark_rule(strokeWidth=1.5, aria=False).encode(x=x, y=y, y2="y2:Q", stroke=stroke))
    points = [
        {"x": scale.at(line.point), "y": middle[row], "colour": line.colour}
        for row, line in enumerate(lines)
        if line.point is not None
    ]
    add(
        points,
        lambda chart: chart.mark_point(shape="circle", size=58, opacity=1, stroke=PAPER, strokeWidth=1.5, aria=False).encode(
            x=x, y=y, fill=fill
        ),
    )
    layers += [
        *_names(lines, middle),
        *figure_columns([line.figures for line in lines], headers, middle, WIDTH + 20),
        _pointed_at(lines, step),
    ]
    plot = layered(*layers).properties(width=WIDTH, height=step * len(lines))
    return finish(plot, title, notes)


def forest_text(lines: Sequence[Line], headers: Sequence[str], scale: Scale, columns: int) -> list[str]:
    """The same with characters, under a line of headers."""
    widths = [
        max(text_width(each) for each in column) for column in zip(headers, *(line.figures for line in lines), strict=True)
    ]
    figures = [
        "  ".join(pad(each, width, right=True) for each, width in zip(row, widths, strict=True))
        for row in (headers, *(line.figures for line in lines))
    ]
    labels = [Label(""), *(Label(line.label) for line in lines)]
    if sum(widths) + 2 * len(widths) > columns // 2:  # the last columns do not fit beside a bar: they are in the table
        return forest_text([_shorter(line) for line in lines], headers[:-1], scale, columns)
    width = bar_columns(labels, figures, columns)
    bars = [pad("", width), *(_characters(line, scale, width) for line in lines)]
    return text_rows(labels, bars, figures, columns)


def _shorter(line: Line) -> Line:
    from dataclasses import replace

    return replace(line, figures=line.figures[:-1])


def _characters(line: Line, scale: Scale, width: int) -> str:
    cells = [" "] * width

    def place(value: float) -> int:
        return min(width - 1, int(scale.share(value) * width))

    if scale.low < 0 < scale.high:
        cells[place(0.0)] = "│"
    for there, mark in ((line.outer, "─"), (line.inner, "━")):
        if there is not None:
            first, last = place(there[0]), place(there[1])
            cells[first : last + 1] = mark * (last + 1 - first)
    for value in line.values:
        cells[place(value)] = "╵"
    for at, mark in ((line.tick, "╵"), (line.point, "●")):
        if at is not None:
            cells[place(at)] = mark
    return "".join(cells)


def _names(lines: Sequence[Line], middle: Sequence[float]) -> list[Any]:
    import altair as alt

    layers = []
    for heading in (False, True):
        rows = [
            {"y": middle[row], "text": fit(line.label, LABEL_COLUMNS)}
            for row, line in enumerate(lines)
            if line.heading == heading
        ]
        if rows:
            text = chart_of(rows).mark_text(
                align="right", baseline="middle", color=INK, fontSize=12, fontWeight=600 if heading else 400
            )
            layers.append(text.encode(x=alt.value(-12), y=alt.Y("y:Q", scale=None, axis=None), text="text:N"))
    return layers


def figure_columns(
    rows: Sequence[Sequence[str]], headers: Sequence[str], middle: Sequence[float], begin: float, top: float = 0
) -> list[Any]:
    """Layers of a table beside a plot: from ``begin`` pixels on, its headers above ``top``, each row at its ``middle``."""
    import altair as alt

    layers: list[Any] = []
    right = begin
    for number, header in enumerate(headers):
        texts = [row[number] for row in rows]
        right += _PIXELS * max(text_width(text) for text in (header, *texts)) + 12
        look: dict[str, Any] = {"align": "right", "fontSize": 11}
        head = chart_of([{"text": header}]).mark_text(baseline="bottom", color=MUTED, **look)
        layers.append(head.encode(x=alt.value(right), y=alt.value(top - 6), text="text:N"))
        figures = chart_of([{"y": y, "text": text} for y, text in zip(middle, texts, strict=True)])
        marks = figures.mark_text(baseline="middle", color=INK if number == 0 else MUTED, **look)
        layers.append(marks.encode(x=alt.value(right), y=alt.Y("y:Q", scale=None, axis=None), text="text:N"))
    return layers


def _pointed_at(lines: Sequence[Line], step: int) -> Any:
    """Rows that nobody sees, and that say the whole label when they are pointed at.

    They reach over the names, with room to spare: where a page lacks the font that names were measured with, they are wider.
    """
    import altair as alt

    rows = [{"y": row * step, "y2": (row + 1) * step, "about": line.about} for row, line in enumerate(lines)]
    bars = chart_of(rows).mark_bar(opacity=0, fill=PAPER)
    names = 12 + _WIDE * max(text_width(fit(line.label, LABEL_COLUMNS)) for line in lines)
    y = alt.Y("y:Q", scale=None, axis=None)
    return bars.encode(x=alt.value(-names), x2=alt.value(WIDTH), y=y, y2="y2:Q", description="about:N")
