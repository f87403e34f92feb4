"""How quickly models write, and when: output tokens per second over time, a panel for each model."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from cassette_lab.views.drawing import Cells, Drawing
from cassette_lab.views.layout import Label, bar_columns, chart_of, empty, finish, layered, text_rows
from cassette_lab.views.rows import Calls
from cassette_lab.views.statistics.figures import quantiles
from cassette_lab.views.statistics.measuring import floats, measured, rows_of
from cassette_lab.views.theme import INK, MUTED, QUICKER, fit, pad
from cassette_lab.words import plural

if TYPE_CHECKING:
    import altair as alt

    from cassette_lab.views.statistics.figures import Floats, Whole
    from cassette_lab.views.statistics.measuring import Measured, Rows

Requests: TypeAlias = Literal["model_calls", "flights"]

PANELS: Final = 6
_BINS: Final = 60
_WIDTH: Final = 520
_HEIGHT: Final = 84
_BAND_FROM: Final = 4
"""From so many calls on a slice of time has a band: quartiles of fewer are hardly more than the calls themselves."""

_WIDTHS_S: Final[tuple[int, ...]] = (
    *(1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400, 604_800, 2_592_000, 31_536_000),
    *(10**power for power in range(9, 13)),
)
_BLOCKS: Final = "▁▂▃▄▅▆▇█"
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True)
class _Slice:
    """The calls of one model that began in one slice of time, in tokens per second."""

    model: int
    start_ms: int
    low: float
    median: float
    high: float
    calls: int


def token_rates(data: Calls, *, of: Requests | None = None) -> Drawing:
    """Output tokens per second of model calls over time: for each model, median and middle half in slices of time.

    A call's rate is its output tokens by its whole duration, the wait for the first chunk included: what one gets. (Of
    ``model_calls`` the column ``tokens_per_second`` is the rate between the first and the last delta.) ``of`` is
    ``"model_calls"`` or ``"flights"``; without it the first of these that has rows. The six models with the most calls have a
    panel each, all on the same axes. A slice without calls is empty, not 0. Calls that do not tell tokens, a duration or
    a start are left out and counted; ``inherited`` ones are left out.
    """
    rows = rows_of(data, ("model_calls", "flights"), of)
    found, starts, unplaced = _rates(rows)
    drawn = min(len(found.names), PANELS)
    inside = found.groups < drawn
    values, groups, starts = found.values[inside], found.groups[inside], starts[inside]
    width_ms = _slice_ms(starts)
    slices = _slices(values, groups, starts, width_ms)
    title = rows.title("Output tokens per second")
    notes = []
    if slices:
        band = f"; band: middle half, from {_BAND_FROM} calls on" if any(each.calls >= _BAND_FROM for each in slices) else ""
        notes.append(f"line: median of the calls that began within {_length(width_ms)}{band}")
        notes.append("a call's rate counts its whole duration, the wait for the first chunk included")
    unknown = found.unknown - unplaced
    for count, what in ((unknown, "tokens or duration are"), (unplaced, "start is")):
        if count:
            notes.append(f"{plural(count, rows.noun)} left out whose {what} unknown")
    if len(found.names) > drawn:
        notes.append(f"{plural(len(found.names) - drawn, 'model')} with {plural(int((~inside).sum()), rows.noun)} not drawn")
    nothing = "No rate is known." if found.unknown else f"There are no {rows.noun}s to draw."
    medians = quantiles(values, groups, drawn, (0.5,))[:, 0]
    sizes = [int((groups == model).sum()) for model in range(drawn)]
    about = [f"median {_rate(float(median))} · n {size:,}" for median, size in zip(medians, sizes, strict=True)]
    cells = Cells(
        ("model", "from (UTC)", "calls", "median", "25 %", "75 %"),
        [
            (found.names[each.model], _clock(each.start_ms), f"{each.calls:,}", *map(_rate, (each.median, each.low, each.high)))
            for each in slices
        ],
        frozenset({"calls", "median", "25 %", "75 %"}),
    )

    def build() -> alt.TopLevelMixin:
        return _chart(found.names[:drawn], about, slices, width_ms, title, notes) if slices else empty(title, nothing)

    def draw_text(columns: int) -> list[str]:
        return _text(found.names[:drawn], about, slices, width_ms, columns) if slices else [nothing]

    return Drawing(title, tuple(notes), cells, build, draw_text)


def _rates(rows: Rows) -> tuple[Measured, Whole, int]:
    """Known rates in groups, the start of each (ms since 1970), and how many have a rate and no start."""
    import numpy as np
    import pyarrow as pa

    table = rows.table
    tokens, durations_ms = floats(table["output_tokens"]), floats(table["duration_ms"])
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        rates = np.where((durations_ms > 0) & (tokens >= 0), tokens / durations_ms * 1000, np.nan)
    placed = np.asarray(table["started_at"].is_valid().to_numpy(), dtype=bool)
    unplaced = int((np.isfinite(rates) & ~placed).sum())
    found = measured(rows, np.where(placed, rates, np.nan), "model", "(no model)")
    starts = table["started_at"].filter(found.known).cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_numpy()
    return found, np.asarray(starts, dtype=np.int64), unplaced


def _slice_ms(starts: Whole) -> int:
    """The shortest round length of which at most 60 slices cover all starts."""
    span = int(starts.max() - starts.min()) if len(starts) else 0
    seconds: int = next((width for width in _WIDTHS_S if span <= (_BINS - 1) * width * 1000), _WIDTHS_S[-1])
    return seconds * 1000


def _slices(values: Floats, groups: Whole, starts: Whole, width_ms: int) -> list[_Slice]:
    """Model by model, in the order of time."""
    import numpy as np

    if not len(values):
        return []
    bins = starts // width_ms
    first, count = int(bins.min()), int(bins.max() - bins.min()) + 1
    cells, numbers, sizes = np.unique(groups * count + (bins - first), return_inverse=True, return_counts=True)
    quartiles = quantiles(values, numbers, len(cells), (0.25, 0.5, 0.75)).tolist()
    return [
        _Slice(int(cell) // count, (int(cell) % count + first) * width_ms, low, median, high, int(size))
        for cell, (low, median, high), size in zip(cells, quartiles, sizes, strict=True)
    ]


def _chart(
    names: Sequence[str], about: Sequence[str], slices: Sequence[_Slice], width_ms: int, title: str, notes: Sequence[str]
) -> alt.TopLevelMixin:
    import altair as alt

    begin, end = min(each.start_ms for each in slices), max(each.start_ms for each in slices) + width_ms
    if end - begin < 3 * width_ms:
        begin, end = begin - width_ms, end + width_ms
    top = max(each.high if each.calls >= _BAND_FROM else each.median for each in slices) * 1.06 or 1.0
    panels: list[Any] = []
    for model, name in enumerate(names):
        last = model == len(names) - 1
        axis = alt.Axis(
            title=f"start of the call (UTC, {_day(begin, end)})" if last else None,
            titleAnchor="start",
            labels=last,
            ticks=last,
            tickCount=6,
            grid=False,
            labelOverlap="greedy",
            labelExpr=f"utcFormat(datum.value, '{_tick_format(end - begin)}')",
        )
        x = alt.X("x:T", scale=alt.Scale(type="utc", domain=[begin, end], nice=False), axis=axis)
        rate = alt.Axis(title="tokens/s", tickCount=3, format="~s" if top >= 1e5 else ",~f", minExtent=44)
        y = alt.Y("y:Q", scale=alt.Scale(domain=[0, top], nice=False), axis=rate)
        mine = [each for each in slices if each.model == model]
        layers: list[Any] = []
        bands = [
            {"x": each.start_ms, "x2": each.start_ms + width_ms, "y": each.low, "y2": each.high}
            for each in mine
            if each.calls >= _BAND_FROM
        ]
        if bands:
            band = chart_of(bands).mark_rect(color=QUICKER, opacity=0.28, aria=False)
            layers.append(band.encode(x=x, x2="x2:T", y=y, y2="y2:Q"))
        medians = [{"x": each.start_ms, "x2": each.start_ms + width_ms, "y": each.median} for each in mine]
        line = chart_of(medians).mark_rule(color=QUICKER, strokeWidth=2.5, aria=False)
        layers.append(line.encode(x=x, x2="x2:T", y=y))
        words = chart_of([{"name": fit(name, 60), "about": about[model]}])
        for field, place in (("name", 0), ("about", _WIDTH)):
            text = words.mark_text(
                align="right" if place else "left", baseline="bottom", fontSize=12, color=MUTED if place else INK
            )
            layers.append(text.encode(x=alt.value(place), y=alt.value(-4), text=f"{field}:N"))
        panels.append(layered(*layers).properties(width=_WIDTH, height=_HEIGHT))
    return finish(alt.vconcat(*panels, spacing=26), title, notes)


def _text(names: Sequence[str], about: Sequence[str], slices: Sequence[_Slice], width_ms: int, columns: int) -> list[str]:
    """A line of blocks for each model, blank where no call began."""
    labels, first = [Label(name) for name in names], min(each.start_ms for each in slices)
    parts = (max(each.start_ms for each in slices) - first) // width_ms + 1
    width, top = bar_columns(labels, about, columns), max(each.median for each in slices) or 1.0
    lines = []
    for model in range(len(names)):
        cells = [-1.0] * width
        for each in slices:
            if each.model == model:
                place = min(width - 1, (each.start_ms - first) // width_ms * min(width, parts) // parts)
                cells[place] = max(cells[place], each.median)
        lines.append("".join(" " if rate < 0 else _BLOCKS[min(7, int(8 * rate / top))] for rate in cells))
    return text_rows(labels, [pad(line, width) for line in lines], about, columns)


def _tick_format(span_ms: int) -> str:
    """How an axis of so much time writes its ticks."""
    limits = ((120_000, "%H:%M:%S"), (172_800_000, "%H:%M"), (1_209_600_000, "%m-%d %H:%M"), (63_072_000_000, "%Y-%m-%d"))
    return next((text for limit, text in limits if span_ms <= limit), "%Y")


def _rate(rate: float) -> str:
    return f"{rate:,.1f} tokens/s" if rate < 99.95 else f"{rate:,.0f} tokens/s" if rate < 1e9 else f"{rate:.1e} tokens/s"


def _clock(time_ms: int) -> str:
    """A time of UTC; days before the year 1 and after 9999 as a number of seconds since 1970."""
    try:
        return f"{_EPOCH + dt.timedelta(milliseconds=time_ms):%Y-%m-%d %H:%M:%S}"
    except OverflowError:
        return f"{time_ms / 1000:.0f} s"


def _length(width_ms: int) -> str:
    """The length of a slice: ``30 s``, ``5 min``, ``3 h``, ``7 d``."""
    seconds = width_ms // 1000
    sign, unit = next((sign, unit) for sign, unit in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)) if not seconds % unit)
    return f"{seconds // unit:,} {sign}"


def _day(begin_ms: int, end_ms: int) -> str:
    """The day of an axis, or from which to which it goes."""
    first, last = _clock(begin_ms)[:10], _clock(end_ms)[:10]
    return first if first == last else f"{first} to {last}"
