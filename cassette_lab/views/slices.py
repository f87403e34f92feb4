"""The timeline of too many calls for a bar each: how many ran at once, and a strip per label, in time slices."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, cast

from cassette_lab.views.drawing import Cells, Drawing
from cassette_lab.views.layout import (
    PLOT_WIDTH,
    ROW_STEP,
    TICKS,
    Label,
    bar_columns,
    beside_labels,
    chart_of,
    finish,
    layered,
    note_marks,
    text_rows,
    time_axis,
    time_unit,
)
from cassette_lab.views.rows import Columns, call_columns
from cassette_lab.views.theme import CATEGORIES, INK, MUTED, pad
from cassette_lab.words import duration_text, plural

if TYPE_CHECKING:
    import altair as alt
    import numpy as np
    import pyarrow as pa

SLICES: Final = 100
LABEL_ROWS: Final = 14
REST: Final = "all other labels"
AXIS: Final = "time since the first call was admitted"

_SHADES: Final = "·░▒▓█"
_LEVELS: Final = 4
_FAILED: Final = [category.failed for category in CATEGORIES.values()]


def sliced_timeline(table: pa.Table, title: str) -> Drawing:
    """Concurrency over time, and for each of the most called labels how busy it was in every slice and where it failed."""
    return _Slices(call_columns(table), title).drawing()


class _Slices:
    """Counts per label and slice. ``running[label, slice]`` calls were on their way at some time of the slice."""

    def __init__(self, columns: Columns, title: str) -> None:
        import numpy as np

        self.title = title
        known = ~np.isnan(columns.start_ms)
        self.unknown = int((~known).sum())
        label = np.minimum(columns.label, LABEL_ROWS)
        named = columns.labels[:LABEL_ROWS]
        if len(columns.labels) == LABEL_ROWS + 1:
            named = columns.labels
        self.names = [*named, REST] if len(columns.labels) > len(named) else named
        self.merged = len(columns.labels) - len(named)
        failed = np.asarray(_FAILED)[columns.category]
        rows = range(len(self.names))
        self.calls = [int((label == row).sum()) for row in rows]
        self.failed = [int(failed[label == row].sum()) for row in rows]
        self.median_ms = [float(np.median(columns.duration_ms[label == row])) for row in rows]
        self.total_ms = [float(columns.duration_ms[label == row].sum()) for row in rows]
        start, end = columns.start_ms[known], columns.start_ms[known] + columns.duration_ms[known]
        self.longest_ms = max(1.0, float(end.max(initial=0.0)))
        self.slice_ms = self.longest_ms / SLICES
        first = np.clip(start / self.slice_ms, 0, SLICES - 1).astype(np.int64)
        last = np.clip(np.ceil(end / self.slice_ms) - 1, first, SLICES - 1).astype(np.int64)
        self.running = self._overlaps(label[known], first, last)
        self.failures = self._counts(label[known][failed[known]], last[failed[known]], SLICES)

    def _overlaps(self, label: Any, first: Any, last: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
        import numpy as np

        change = self._counts(label, first, SLICES + 1) - self._counts(label, last + 1, SLICES + 1)
        overlaps: np.ndarray[Any, np.dtype[np.int64]] = np.cumsum(change, axis=1)[:, :SLICES]
        return overlaps

    def _counts(self, label: Any, slot: Any, slots: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        import numpy as np

        counts = np.bincount(label * slots + slot, minlength=len(self.names) * slots)
        return counts.reshape(len(self.names), slots).astype(np.int64)

    def drawing(self) -> Drawing:
        slices = f"in slices of {duration_text(self.slice_ms)}: the stronger the colour, the more calls of that label at once"
        notes = [f"{slices} · cross: calls that did not complete"]
        if self.merged:
            notes.append(f"the least called {plural(self.merged, 'label')} share the last row")
        if self.unknown:
            notes.append(f"{plural(self.unknown, 'call')} without a readable start time left out")
        table = zip(self.names, self.calls, self.failed, self.median_ms, self.total_ms, strict=True)
        cells = Cells(
            headers=("label", "calls", "not completed", "median duration", "summed duration"),
            rows=[
                (name, f"{calls:,}", f"{failed:,}", duration_text(median), duration_text(total))
                for name, calls, failed, median, total in table
            ],
            numeric=frozenset({"calls", "not completed", "median duration", "summed duration"}),
        )
        return Drawing(self.title, tuple(notes), cells, build=lambda: self._chart(notes), draw_text=self._text)

    def _beside(self, row: int) -> str:
        failed = f" · {self.failed[row]:,} failed" if self.failed[row] else ""
        return f"{plural(self.calls[row], 'call')}{failed} · median {duration_text(self.median_ms[row])}"

    def _chart(self, notes: list[str]) -> alt.TopLevelMixin:
        import altair as alt

        unit = time_unit(self.longest_ms)
        width = self.slice_ms / unit.ms
        scale = alt.Scale(domain=[0, self.longest_ms / unit.ms], nice=False)
        cells = [cell for row in range(len(self.names)) for cell in self._strip(row, unit.ms)]
        crosses = [
            {"row": row, "start": (slot + 0.5) * width}
            for row in range(len(self.names))
            for slot in range(SLICES)
            if self.failures[row, slot]
        ]
        beside = [{"row": row, "start": self.longest_ms / unit.ms, "note": self._beside(row)} for row in range(len(self.names))]
        y = alt.Y("row:O", axis=None, scale=alt.Scale(domain=list(range(len(self.names)))))
        strips = (
            chart_of(cells)
            .mark_bar(height=14, color=CATEGORIES["completed"].colour)
            .encode(
                x=alt.X("start:Q", scale=scale, axis=alt.Axis(labels=False, ticks=False, title=None, tickCount=TICKS)),
                x2="end:Q",
                y=y,
                opacity=alt.Opacity("opacity:Q", scale=None),
                description="about:N",
            )
        )
        marks = chart_of(crosses).mark_point(shape="M-1,-1L1,1M-1,1L1,-1", size=26, strokeWidth=1.6, color=INK, opacity=1)
        plot = layered(
            strips,
            *([marks.encode(x=alt.X("start:Q", scale=scale), y=y)] if crosses else []),
            note_marks(beside, 8).encode(x=alt.X("start:Q", scale=scale), y=y, text="note:N"),
        )
        lower = beside_labels(plot, [Label(name) for name in self.names])
        upper = self._concurrency(scale, time_axis(AXIS, unit), width)
        return finish(alt.vconcat(upper, lower, spacing=6), self.title, notes)

    def _concurrency(self, scale: alt.Scale, axis: alt.Axis, width: float) -> alt.Chart:
        import altair as alt

        at_once = [int(count) for count in self.running.sum(axis=0)]
        steps = [{"start": slot * width, "calls": count} for slot, count in enumerate([*at_once, at_once[-1]])]
        y_axis = alt.Axis(title=["calls", "at once"], tickCount=3, format=",d", titleAngle=0, titleAlign="right", titleY=24)
        area = chart_of(steps).mark_area(
            interpolate="step-after", color=MUTED, opacity=0.5, description="calls on their way at once, over time"
        )
        encoded = area.encode(x=alt.X("start:Q", scale=scale, axis=axis), y=alt.Y("calls:Q", axis=y_axis))
        return cast("alt.Chart", encoded.properties(width=PLOT_WIDTH, height=3 * ROW_STEP))

    def _strip(self, row: int, unit_ms: float) -> Iterator[dict[str, Any]]:
        """A label's slices, neighbours of one shade joined."""
        counts = [int(count) for count in self.running[row]]
        busiest = max(1, *counts)
        first = 0
        for level, run in groupby(counts, key=lambda count: -(-count * _LEVELS // busiest)):
            part = list(run)
            start, end = first * self.slice_ms, (first + len(part)) * self.slice_ms
            first += len(part)
            if level:
                about = f"{self.names[row]} · {duration_text(start)} to {duration_text(end)} · up to {max(part):,} at once"
                shade = round(0.12 + 0.88 * level / _LEVELS, 3)
                yield {"row": row, "start": start / unit_ms, "end": end / unit_ms, "opacity": shade, "about": about}

    def _text(self, columns: int) -> list[str]:
        labels = [Label(name) for name in self.names]
        notes = [self._beside(row) for row in range(len(self.names))]
        width = bar_columns(labels, notes, columns)
        bars = []
        for row in range(len(self.names)):
            busiest = max(1, int(self.running[row].max(initial=0)))
            bar = ""
            for column in range(width):
                first = column * SLICES // width
                part = slice(first, max(first + 1, (column + 1) * SLICES // width))
                bar += _SHADES[-(-int(self.running[row, part].max()) * (len(_SHADES) - 1) // busiest)]
            bars.append(pad(bar, width))
        return text_rows(labels, bars, notes, columns)
