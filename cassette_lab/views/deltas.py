"""What got slower and what quicker between two recordings of the same calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, cast

from cassette_lab.errors import ConfigError
from cassette_lab.views.drawing import Cells, Drawing
from cassette_lab.views.layout import (
    BAR_HEIGHT,
    PLOT_WIDTH,
    TICKS,
    Label,
    bar_columns,
    beside_labels,
    chart_of,
    empty,
    finish,
    layered,
    note_marks,
    text_rows,
    time_unit,
)
from cassette_lab.views.rows import LONGEST_MS, NO_LABEL, Calls, HasCalls, calls_of, shown, sources_of
from cassette_lab.views.theme import MUTED, QUICKER, SLOWER, TIMES, pad
from cassette_lab.words import MINUS, UNKNOWN, delta_text, duration_text, plural

if TYPE_CHECKING:
    import altair as alt
    import pyarrow as pa

DELTA_ROWS: Final = 40
IDENTITY: Final = ("parent_key", "parent_context_fingerprint", "request_fingerprint", "occurrence")
"""Columns that say which call of one recording is which of another."""


class HasSides(Protocol):
    """A cassette diff: two recordings, each with a ``calls`` table."""

    @property
    def expected(self) -> HasCalls:
        """The recording that is compared with."""
        ...

    @property
    def actual(self) -> HasCalls:
        """The recording that is judged."""
        ...


@dataclass(frozen=True, slots=True)
class Delta:
    """One aligned call: how long it took in the expected and in the actual recording, in milliseconds."""

    label: str
    key: str
    expected_ms: float
    actual_ms: float

    @property
    def ms(self) -> float:
        """Positive when the actual call took longer."""
        return self.actual_ms - self.expected_ms

    @property
    def percent(self) -> str:
        """The difference in percent of the expected duration, from ten times on as a factor; a dash where that is 0."""
        if self.expected_ms <= 0:
            return UNKNOWN
        share = 100 * self.ms / self.expected_ms
        if share > 999:
            return f"{TIMES}{self.actual_ms / self.expected_ms:,.0f}" if share < 1e8 else "more"
        return "±0 %" if abs(share) < 0.5 else f"{share:+,.0f} %".replace("-", MINUS)


def timing_deltas_drawing(expected: Calls | HasSides, actual: Calls | None = None, *, max_rows: int = DELTA_ROWS) -> Drawing:
    """For every call that both recordings have: how much longer (bar to the right) or shorter (left) it took.

    Either a cassette diff, or two recordings (a lab, a ``calls`` table or a path each, of one file). Calls are aligned
    as the diff does: by parent, parent context, request and occurrence. Of more than ``max_rows`` the largest
    differences are drawn.
    """
    if actual is not None:
        before, after = cast("Calls", expected), actual
    elif hasattr(expected, "expected") and hasattr(expected, "actual"):
        before, after = expected.expected, expected.actual
    else:
        raise ConfigError("timing deltas need two recordings, or one cassette diff")
    old, new = _one_file(before), _one_file(after)
    both = _aligned(old, new)
    return _drawing(both, (len(old) - len(both), len(new) - len(both)), max_rows)


def _aligned(expected: pa.Table, actual: pa.Table) -> pa.Table:
    """The calls that both have, as they were admitted, with ``ms``: how much longer the actual one took."""
    import pyarrow.compute as pc

    old = expected.select([*IDENTITY, "label", "call_key", "sequence", "duration_ms"])
    new = actual.select([*IDENTITY, "duration_ms"])
    both = old.join(new, list(IDENTITY), join_type="inner", right_suffix="_actual").sort_by("sequence")
    both = both.filter(pc.and_(pc.is_finite(both["duration_ms"]), pc.is_finite(both["duration_ms_actual"])))
    bounded = [pc.min_element_wise(both[name], LONGEST_MS) for name in ("duration_ms_actual", "duration_ms")]
    return both.append_column("ms", pc.subtract(*bounded))


def _one_file(data: Calls) -> pa.Table:
    table = calls_of(data)
    if not len(table) and len(getattr(data, "sessions", ())):
        raise ConfigError("session logs cannot be compared call by call; only cassettes have the calls for it")
    files = sources_of(table)
    if len(files) > 1:
        several = f"here are {len(files)}; name one of them, or compare all with cl.paired_deltas(before, after)"
        raise ConfigError(f"runs are compared one with one, and {several}")
    missing = [name for name in IDENTITY if name not in table.column_names]
    if missing:
        raise ConfigError(f"calls cannot be told apart without the column {missing[0]}; give whole tables of calls, or paths")
    return table


def _drawing(both: pa.Table, extra: tuple[int, int], max_rows: int) -> Drawing:
    import pyarrow.compute as pc

    title = f"Timing · {plural(len(both), 'call')} in both recordings"
    notes = [_balance(both["ms"])] if len(both) else ["no call is in both recordings"]
    if len(both) > max_rows:
        largest = pc.sort_indices(both.append_column("size", pc.abs(both["ms"])), sort_keys=[("size", "descending")])
        both = both.take(largest[:max_rows])
        rest = duration_text(abs(both["ms"][-1].as_py()))
        notes.append(f"drawn: the {max_rows} largest differences; the others are at most {rest} apart")
    drawn = _deltas(both)
    removed, added = extra
    if removed or added:
        notes.append(f"{plural(removed, 'call')} only in the expected recording, {added:,} only in the actual one")
    numeric = ("expected", "actual", "difference", "percent")
    cells = Cells(
        ("call", *numeric, "call key"),
        [
            (
                each.label,
                duration_text(each.expected_ms),
                duration_text(each.actual_ms),
                delta_text(each.ms),
                each.percent,
                each.key,
            )
            for each in drawn
        ],
        frozenset(numeric),
    )
    return Drawing(
        title,
        tuple(notes),
        cells,
        build=lambda: _chart(drawn, title, notes) if drawn else empty(title),
        draw_text=lambda columns: _text(drawn, columns),
    )


def _deltas(both: pa.Table) -> list[Delta]:
    names = ("label", "call_key", "occurrence", "duration_ms", "duration_ms_actual")
    return [
        Delta(shown(label or NO_LABEL) + (f" ~{occurrence}" if occurrence > 1 else ""), shown(key), _ms(old), _ms(new))
        for label, key, occurrence, old, new in zip(*(both[name].to_pylist() for name in names), strict=True)
    ]


def _balance(differences_ms: pa.ChunkedArray) -> str:
    """How many calls got slower and quicker (by 0.05 ms at least), and what that makes together."""
    import pyarrow.compute as pc

    slower, quicker = (
        int(pc.sum(test(differences_ms, limit)).as_py()) for test, limit in ((pc.greater, 0.05), (pc.less, -0.05))
    )
    return f"{slower:,} slower, {quicker:,} quicker, together {delta_text(pc.sum(differences_ms).as_py())}"


def _chart(deltas: Sequence[Delta], title: str, notes: Sequence[str]) -> alt.TopLevelMixin:
    import altair as alt

    unit = time_unit(max(abs(each.ms) for each in deltas))
    low, high = min(0.0, *(each.ms for each in deltas)), max(0.0, *(each.ms for each in deltas))
    margin = max(high - low, 1.0) * 0.4  # room for the words beside the bars
    low, high = low - (margin if low < 0 else 0), high + margin
    hair = (high - low) / PLOT_WIDTH
    rows = [
        {
            "row": row,
            "start": min(each.ms, 0.0) / unit.ms,
            "end": max(each.ms, 0.0, hair) / unit.ms if each.ms >= 0 else 0.0,
            "colour": SLOWER if each.ms > 0 else QUICKER if each.ms < 0 else MUTED,
            "about": f"{each.label} · {duration_text(each.expected_ms)} → {duration_text(each.actual_ms)} · {each.key}",
            "note": f"{delta_text(each.ms)} ({each.percent})",
            "slower": each.ms >= 0,
            "both": f"{duration_text(each.expected_ms)} → {duration_text(each.actual_ms)}",
        }
        for row, each in enumerate(deltas)
    ]
    axis = alt.Axis(
        title=f"← quicker · change of duration ({unit.sign}) · slower →",
        orient="top",
        titleAnchor="start",
        tickCount=TICKS,
        labelExpr="datum.value ? format(datum.value, '+,~f') : '0'",
    )
    x = alt.X("start:Q", scale=alt.Scale(domain=[low / unit.ms, high / unit.ms], nice=False), axis=axis)
    y = alt.Y("row:O", axis=None, scale=alt.Scale(domain=list(range(len(rows)))))
    bars = chart_of(rows).mark_bar(height=BAR_HEIGHT)
    zero = chart_of([{"start": 0}]).mark_rule(color=MUTED, strokeWidth=1)
    right = [{**row, "start": row["end"]} for row in rows if row["slower"]]
    left = [row for row in rows if not row["slower"]]
    plot = layered(
        bars.encode(
            x=x,
            x2="end:Q",
            y=y,
            fill=alt.Fill("colour:N", scale=None),
            description="about:N",
            tooltip=alt.Tooltip("about:N", title="call"),
        ),
        zero.encode(x=x),
        note_marks(right, 6).encode(x=x, y=y, text="note:N"),
        note_marks(left, -6, "right").encode(x=x, y=y, text="note:N"),
        note_marks([{**row, "start": high / unit.ms} for row in rows], 8).encode(x=x, y=y, text="both:N"),
    )
    return finish(beside_labels(plot, [Label(each.label) for each in deltas]), title, notes)


def _text(deltas: Sequence[Delta], columns: int) -> list[str]:
    labels = [Label(each.label) for each in deltas]
    notes = [
        f"{pad(delta_text(each.ms), 9, right=True)} {pad(f'({each.percent})', 9)} "
        f"{duration_text(each.expected_ms)} → {duration_text(each.actual_ms)}"
        for each in deltas
    ]
    half = (bar_columns(labels, notes, columns) - 1) // 2
    largest = max([0.05, *(abs(each.ms) for each in deltas)])
    bars = []
    for each in deltas:
        length = round(abs(each.ms) / largest * half)
        left = pad("█" * length if each.ms < 0 else "", half, right=True)
        bars.append(f"{left}│{pad('█' * length if each.ms > 0 else '', half)}")
    return text_rows(labels, bars, notes, columns)


def _ms(value: float) -> float:
    return min(max(float(value), 0.0), LONGEST_MS)
