"""How long models let one wait: the distribution of the time to the first chunk, a curve for each model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from cassette_lab.views.drawing import Cells, Drawing
from cassette_lab.views.layout import chart_of, empty, finish, layered
from cassette_lab.views.rows import Calls
from cassette_lab.views.statistics.figures import ecdf, quantiles
from cassette_lab.views.statistics.forest import Line, figure_columns, forest_text
from cassette_lab.views.statistics.measuring import column_for, floats, left_out, measured, rows_of
from cassette_lab.views.statistics.scales import Scale, time_scale
from cassette_lab.views.theme import INK, MUTED, PAPER, fit, text_width
from cassette_lab.words import UNKNOWN, duration_text, plural

if TYPE_CHECKING:
    import altair as alt

    from cassette_lab.views.statistics.figures import Floats

Requests: TypeAlias = Literal["model_calls", "flights"]
Grouping: TypeAlias = Literal["model", "provider", "file"]

SERIES: Final = 6
"""So many curves can be told apart."""

COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_DASHES: Final = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [10, 4], [4, 2, 1, 2])
_STEPS: Final = 200
_WIDTH: Final = 420
_HEIGHT: Final = 240
_NAME_COLUMNS: Final = 28
_SHARES: Final = (0.05, 0.25, 0.5, 0.75, 0.9, 0.95)
_HEADERS: Final = ("median", "p90", "n")
_BY: Final[Mapping[str, str]] = {"model": "model", "provider": "provider", "file": "source"}


def first_chunks(data: Calls, by: Grouping = "model", *, of: Requests | None = None) -> Drawing:
    """Which share of model calls had its first chunk after how long: an empirical distribution for each model.

    ``of`` is ``"model_calls"`` (of session logs) or ``"flights"`` (of a flight recorder); without it the first of these
    that has rows. ``by`` is ``"model"``, ``"provider"`` or ``"file"``; the six with the most calls are drawn, the quickest
    median first. Calls without a known first chunk (they failed before it, or nothing tells when they began) are left out
    and counted in a note; so the curves tell of calls that got an answer. ``inherited`` rows are left out.
    """
    rows = rows_of(data, ("model_calls", "flights"), of)
    column = column_for(rows, by, {"model_calls": _BY, "flights": _BY})
    found = measured(rows, floats(rows.table["first_chunk_ms"]), column, f"(no {by})")
    title = rows.title(f"Time to first chunk by {by}")
    drawn = min(len(found.names), SERIES)
    inside = found.groups < drawn
    values, groups = found.values[inside], found.groups[inside]
    scale = time_scale(values, "time to first chunk")
    at = quantiles(values, groups, drawn, _SHARES)
    order = sorted(range(drawn), key=lambda group: at[group][2])
    split = [values[groups == group] for group in order]
    lines = [
        _line(found.names[group], at[group], len(each), COLOURS[place])
        for place, (group, each) in enumerate(zip(order, split, strict=True))
    ]
    notes = ["curves: how many of the calls had their first chunk by then; dots: medians"] if lines else []
    notes += left_out(found.unknown, rows.noun, "without a known first chunk")
    if len(found.names) > drawn:
        notes.append(f"{plural(len(found.names) - drawn, by)} with {plural(int((~inside).sum()), rows.noun)} not drawn")
    nothing = f"No time to a first chunk is known: {plural(found.unknown, rows.noun)} without one."
    nothing = nothing if found.unknown else f"There are no {rows.noun}s to draw."
    cells = Cells(
        (by, "n", "p5", "p25", "median", "p75", "p90", "p95"),
        [
            (line.label, line.figures[-1], *(duration_text(float(value)) for value in at[group]))
            for group, line in zip(order, lines, strict=True)
        ],
        frozenset({"n", "p5", "p25", "median", "p75", "p90", "p95"}),
    )

    def build() -> alt.TopLevelMixin:
        return _chart(lines, split, scale, title, notes) if lines else empty(title, nothing)

    def draw_text(columns: int) -> list[str]:
        return forest_text(lines, _HEADERS, scale, columns) if lines else [nothing]

    return Drawing(title, tuple(notes), cells, build, draw_text)


def _line(name: str, at: Floats, number: int, colour: str) -> Line:
    p05, p25, p50, p75, p90, p95 = (float(value) for value in at)
    figures = (duration_text(p50), duration_text(p90) if number > 1 else UNKNOWN, f"{number:,}")
    about = f"{name} · median {figures[0]}, n {figures[2]}"
    return Line(name, figures, about, point=p50, inner=(p25, p75), outer=(p05, p95), colour=colour)


def _chart(lines: Sequence[Line], split: Sequence[Floats], scale: Scale, title: str, notes: Sequence[str]) -> alt.TopLevelMixin:
    import altair as alt

    x = scale.x()
    axis = alt.Axis(title="share of calls (%)", format=",~f", values=[0, 25, 50, 75, 100])
    y = alt.Y("y:Q", scale=alt.Scale(domain=[0, 100]), axis=axis)
    layers: list[Any] = [chart_of([{"y": 50}]).mark_rule(color=MUTED, strokeDash=[1.5, 3], aria=False).encode(y=y)]
    for place, (line, values) in enumerate(zip(lines, split, strict=True)):
        steps, shares = ecdf(values, _STEPS)
        points = [{"x": scale.at(float(steps[0])), "y": 0.0}]
        points += [
            {"x": scale.at(float(step)), "y": round(100 * float(share), 3)} for step, share in zip(steps, shares, strict=True)
        ]
        points.append({"x": scale.at(scale.high), "y": 100.0})
        mark = chart_of(points).mark_line(
            interpolate="step-after" if len(steps) < _STEPS else "linear",
            color=line.colour,
            strokeDash=_DASHES[place],
            strokeWidth=2,
            aria=False,
        )
        layers.append(mark.encode(x=x, y=y))
    medians = [{"x": scale.at(line.point or 0.0), "y": 50.0, "colour": line.colour} for line in lines]
    dots = chart_of(medians).mark_point(shape="circle", size=58, opacity=1, stroke=PAPER, strokeWidth=1.5, aria=False)
    layers.append(dots.encode(x=x, y=y, fill=alt.Fill("colour:N", scale=None)))
    plot = layered(*layers)
    return finish(_beside(plot, _key(lines)), title, notes)


def _beside(plot: alt.LayerChart, key: Sequence[Any]) -> alt.LayerChart:
    import altair as alt

    both = layered(plot, *key)
    scales = alt.Resolve(scale=alt.ScaleResolveMap(y="independent"))
    return both.properties(width=_WIDTH, height=_HEIGHT, resolve=scales)


def _key(lines: Sequence[Line]) -> list[Any]:
    """What each curve is, beside them: a piece of the curve, the name, the figures."""
    import altair as alt

    middle = [30.0 + 22 * place for place in range(len(lines))]
    names = [fit(line.label, _NAME_COLUMNS) for line in lines]
    layers: list[Any] = []
    for line, y, dash in zip(lines, middle, _DASHES, strict=False):
        piece = chart_of([{"about": line.about}]).mark_rule(color=line.colour, strokeDash=dash, strokeWidth=2, aria=False)
        layers.append(piece.encode(x=alt.value(_WIDTH + 22), x2=alt.value(_WIDTH + 46), y=alt.value(y)))
    texts = chart_of([{"y": y, "text": name} for y, name in zip(middle, names, strict=True)])
    marks = texts.mark_text(align="left", baseline="middle", fontSize=12, color=INK)
    layers.append(marks.encode(x=alt.value(_WIDTH + 54), y=alt.Y("y:Q", scale=None, axis=None), text="text:N"))
    begin = _WIDTH + 54 + 7.2 * max(text_width(name) for name in names)
    return [*layers, *figure_columns([line.figures for line in lines], _HEADERS, middle, begin, top=middle[0] - 8)]
