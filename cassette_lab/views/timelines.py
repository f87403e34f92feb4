"""When the calls of a recording ran: a bar each, or, of too many, where the time went by label."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, cast

from cassette_lab.views.bars import Bar, Segment, bars_chart, bars_text
from cassette_lab.views.drawing import Cells, Drawing
from cassette_lab.views.heads import heads
from cassette_lab.views.layout import MAX_ROWS, Label, empty, time_axis, time_unit
from cassette_lab.views.rows import Calls, Row, calls_of, loaded, title_of, tree_rows
from cassette_lab.views.slices import AXIS, sliced_timeline
from cassette_lab.views.theme import pad
from cassette_lab.views.waterfalls import waterfall_drawing
from cassette_lab.words import duration_text, plural

if TYPE_CHECKING:
    import altair as alt

    from cassette_lab.tables import Lab

_NUMERIC: Final = frozenset({"admitted at", "start latency", "duration"})


def timeline_drawing(data: Calls, *, max_rows: int = MAX_ROWS) -> Drawing:
    """When each call ran and how it ended, nested calls under the call that made them.

    ``data``: a lab, its ``calls`` table, or paths. Each file has its own zero: the moment its first call was admitted.
    The pale part of a bar is the start latency. More than ``max_rows`` calls are drawn in time slices, a row per label.
    Of a lab that has session logs and no recorded calls it is the ``waterfall``; beside calls a
    session is a bar of its own.
    """
    lab = loaded(data)
    table = calls_of(lab)
    sessions = getattr(lab, "sessions", None)
    if not len(table) and sessions is not None and len(sessions):
        return waterfall_drawing(cast("Lab", lab))
    table = heads(lab)
    title = title_of("Timeline", table)
    if len(table) > max_rows:
        return sliced_timeline(table, title)
    rows = tree_rows(table)
    bars = call_bars(rows, _bar)
    longest = max([1.0, *(bar.end for bar in bars)])
    notes = _legend(rows, longest)

    def build() -> alt.TopLevelMixin:
        unit = time_unit(longest)
        return bars_chart(bars, longest, unit.ms, time_axis(AXIS, unit), title, notes) if bars else empty(title)

    return Drawing(title, tuple(notes), _cells(rows), build, lambda columns: bars_text(bars, longest, columns))


def call_segments(row: Row, start: float) -> tuple[Segment, ...]:
    """The bar of one call from ``start``: pale while it started, then the rest. One that never started is an outline."""
    times = f"{duration_text(row.duration_ms)}, start latency {duration_text(row.latency_ms)}"
    about = " · ".join(word for word in (row.label, row.outcome, times, row.model, row.key) if word)
    end = start + row.duration_ms
    ready = start if row.category.fill == "hollow" else min(start + row.latency_ms, end)
    pale = (Segment(start, ready, row.category, about, pale=True),) if ready > start else ()
    return (*pale, Segment(ready, end, row.category, about))


def call_bars(rows: Sequence[Row], draw: Callable[[Row, Label], Bar]) -> list[Bar]:
    """A bar for every call, and before the calls of each file its name, where there are several files."""
    several = len({row.source for row in rows}) > 1
    bars: list[Bar] = []
    line_of: list[int] = []
    source = None
    for row in rows:
        if several and row.source != source:
            source = row.source
            bars.append(Bar(Label(source, heading=True)))
        line_of.append(len(bars))
        bars.append(draw(row, Label(row.label, row.depth, None if row.parent is None else line_of[row.parent])))
    return bars


def _bar(row: Row, label: Label) -> Bar:
    start = row.start_ms or 0.0
    stops = ((row.aborted_at_ms, True), (row.disposed_at_ms, False))
    return Bar(
        label=label,
        segments=call_segments(row, start),
        note=" · ".join(part for part in (duration_text(row.duration_ms), row.word) if part),
        text_note=f"{pad(duration_text(row.duration_ms), 9, right=True)}  {row.outcome}",
        ended=row.category,
        triangles=tuple((start + at, filled) for at, filled in stops if at is not None),
    )


def _legend(rows: Sequence[Row], longest: float) -> list[str]:
    """What the marks in the picture mean, as far as they occur, and what could not be placed."""
    if not rows:
        return ["no calls"]
    names = {row.category.name for row in rows}
    meanings = (
        (any(row.latency_ms > longest / 400 for row in rows), "pale: until the run had started"),
        (bool(names & {"error", "result-error", "start-error"}), "cross: failed"),
        ("start-error" in names, "outline: never started"),
        ("aborted" in names, "hatched: aborted"),
        (any(row.aborted_at_ms is not None for row in rows), "black triangle: abort asked for"),
        (any(row.disposed_at_ms is not None for row in rows), "white triangle: disposed early"),
    )
    legend = " · ".join(text for there, text in meanings if there)
    unknown = sum(row.start_ms is None for row in rows)
    unplaced = f"{plural(unknown, 'call')} without a readable start time, drawn from 0" if unknown else ""
    return [note for note in (legend, unplaced) if note]


def _cells(rows: Sequence[Row]) -> Cells:
    several = len({row.source for row in rows}) > 1
    headers = ("call", "admitted at", "start latency", "duration", "outcome", "call key")
    return Cells(
        (*(("file",) if several else ()), *headers),
        [
            (
                *((row.source,) if several else ()),
                "· " * row.depth + row.label,
                duration_text(row.start_ms),
                duration_text(row.latency_ms),
                duration_text(row.duration_ms),
                row.outcome,
                row.key,
            )
            for row in rows
        ],
        _NUMERIC,
    )
