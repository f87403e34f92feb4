"""How long things take: the distribution of durations, a row for each label, model or file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from cassette_lab.views.drawing import Cells, Drawing
from cassette_lab.views.layout import empty
from cassette_lab.views.rows import NO_LABEL, Calls
from cassette_lab.views.statistics.figures import quantiles
from cassette_lab.views.statistics.forest import STEP, Line, forest, forest_text
from cassette_lab.views.statistics.measuring import Measured, Rows, column_for, floats, left_out, measured, rows_of
from cassette_lab.views.statistics.scales import Scale, time_scale
from cassette_lab.words import UNKNOWN, duration_text, plural

if TYPE_CHECKING:
    import altair as alt

    from cassette_lab.views.statistics.figures import Floats, Whole

Measurable: TypeAlias = Literal["calls", "model_calls", "tool_calls", "turns"]
Grouping: TypeAlias = Literal["label", "model", "file"]

GROUP_ROWS: Final = 20
_BINS: Final = 60
_FEW: Final = 20
"""Up to so many durations of a group are drawn one by one."""

_TABLES: Final = ("calls", "model_calls", "tool_calls", "turns")
_COLUMNS: Final[Mapping[str, Mapping[str, str]]] = {
    "calls": {"label": "label", "model": "child_model", "file": "source"},
    "model_calls": {"label": "model", "model": "model", "file": "source"},
    "tool_calls": {"label": "name", "file": "source"},
    "turns": {"label": "session_id", "file": "source"},
}
_NAMED: Final = {
    "label": "label",
    "child_model": "model",
    "model": "model",
    "name": "tool",
    "session_id": "session",
    "source": "file",
}
_SHARES: Final = (0.05, 0.25, 0.5, 0.75, 0.9, 0.95)
_HEADERS: Final = ("median", "p90", "n")


def durations(data: Calls, by: Grouping = "label", *, of: Measurable | None = None) -> Drawing:
    """How long calls take, a row for each label: distribution, median, 90th percentile, and of how many.

    ``of`` is ``"calls"`` (of cassettes), ``"model_calls"``, ``"tool_calls"`` or ``"turns"`` (of session logs); without it the
    first of these that has rows. ``by="label"`` is what such rows are named by: the label of a call, the model of a model
    call, the name of a tool, the session of a turn; ``"model"`` and ``"file"`` group by these. The 20 groups with the most
    rows are drawn, the slowest median first, on an axis that is logarithmic where the durations spread over sizes. Rows
    that a fork took over (``inherited``) are left out; so are unknown durations, which are counted in a note.
    """
    rows = rows_of(data, _TABLES, of)
    column = column_for(rows, by, _COLUMNS)
    named = _NAMED[column]
    of_label = NO_LABEL if column == "label" else f"(no {named})"
    found = measured(rows, floats(rows.table["duration_ms"]), column, of_label)
    title = rows.title(f"Durations by {named}")
    notes = left_out(found.unknown, rows.noun, "without a known duration")
    drawn = min(len(found.names), GROUP_ROWS)
    inside = found.groups < drawn
    values, groups = found.values[inside], found.groups[inside]
    scale = time_scale(values, "duration")
    at = quantiles(values, groups, drawn, _SHARES)
    lines = _lines(found, values, groups, at, scale)
    if lines:
        notes.insert(0, _legend(lines))
    if len(found.names) > drawn:
        notes.append(f"{plural(len(found.names) - drawn, named)} with {plural(int((~inside).sum()), rows.noun)} not drawn")
    if scale.log and (below := int((values < scale.low).sum())):
        notes.append(f"{plural(below, rows.noun)} of less than {duration_text(scale.low)} at the left edge")
    step = STEP + 8

    def build() -> alt.TopLevelMixin:
        return forest(lines, _HEADERS, scale, title, notes, step=step) if lines else empty(title, _nothing(rows, found))

    def draw_text(columns: int) -> list[str]:
        return forest_text(lines, _HEADERS, scale, columns) if lines else [_nothing(rows, found)]

    return Drawing(title, tuple(notes), _cells(named, lines, at, found), build, draw_text)


def _lines(found: Measured, values: Floats, groups: Whole, at: Floats, scale: Scale) -> list[Line]:
    """A line for each group that is drawn, the largest median first."""
    import numpy as np

    drawn = len(at)
    edges = scale.edges(_BINS)
    bins = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, _BINS - 1)
    counts = np.bincount(groups * _BINS + bins, minlength=drawn * _BINS).reshape(drawn, _BINS)
    lines = []
    for group in sorted(range(drawn), key=lambda group: -at[group][2]):
        n = int(counts[group].sum())
        p05, p25, p50, p75, p90, p95 = (float(value) for value in at[group])
        few = n <= _FEW
        middle, high = duration_text(p50), duration_text(p90) if n > 1 else UNKNOWN
        tall = counts[group] / counts[group].max()
        lines.append(
            Line(
                label=found.names[group],
                figures=(middle, high, f"{n:,}"),
                about=f"{found.names[group]} · median {middle}, p90 {high}, n {n:,}",
                point=p50,
                inner=None if few else (p25, p75),
                outer=None if few else (p05, p95),
                tick=None if few else p90,
                shape=() if few else _outline(edges, tall),
                values=tuple(values[groups == group].tolist()) if few else (),
            )
        )
    return lines


def _outline(edges: Floats, tall: Floats) -> list[tuple[float, float]]:
    """Steps from the first to the last part that holds anything, closed at 0."""
    held = [part for part, height in enumerate(tall) if height]
    first, last = held[0], held[-1]
    return [
        *((float(edges[part]), float(tall[part])) for part in range(first, last + 1)),
        (float(edges[last + 1]), 0.0),
    ]


def _legend(lines: list[Line]) -> str:
    parts = ["dot: median"]
    if any(line.outer is not None for line in lines):
        parts.append(
            "thick line: middle half, thin line: 5 % to 95 %, small mark: 90 %; shape: histogram, each to its own height"
        )
    if any(line.values for line in lines):
        parts.append(f"strokes: single durations, where there are {_FEW} or fewer")
    return "; ".join(parts)


def _cells(named: str, lines: list[Line], at: Floats, found: Measured) -> Cells:
    order = sorted(range(len(at)), key=lambda group: -at[group][2])
    numeric = ("n", "p5", "p25", "median", "p75", "p90", "p95")
    return Cells(
        (named, *numeric),
        [
            (found.names[group], line.figures[-1], *(duration_text(float(value)) for value in at[group]))
            for group, line in zip(order, lines, strict=True)
        ],
        frozenset(numeric),
    )


def _nothing(rows: Rows, found: Measured) -> str:
    if found.unknown:
        return f"No duration is known: {plural(found.unknown, rows.noun)} without one."
    return f"There are no {rows.noun}s to draw."
