"""Who called whom: the tree of calls with a bar each, or, of too many, the tree of labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from cassette_lab.views.bars import Bar, Segment, bars_chart, bars_text
from cassette_lab.views.drawing import Cells, Drawing
from cassette_lab.views.heads import heads
from cassette_lab.views.layout import DEEPEST, MAX_ROWS, Label, empty, time_axis, time_unit
from cassette_lab.views.outcomes import outcome_words
from cassette_lab.views.rows import Calls, Row, call_columns, title_of, tree_rows
from cassette_lab.views.theme import CATEGORIES, pad
from cassette_lab.views.timelines import call_bars, call_segments
from cassette_lab.words import duration_text, plural

if TYPE_CHECKING:
    import altair as alt
    import pyarrow as pa

JOINED_ROWS: Final = 40
_CATEGORIES: Final = list(CATEGORIES.values())


def topology_drawing(data: Calls, *, max_rows: int = MAX_ROWS) -> Drawing:
    """Who called whom, and how long each took: a row per call, the calls of its agent under it.

    More than ``max_rows`` calls are joined where they have the same label in the same place of the tree: such a row
    has the summed duration, divided by outcome. Session logs have a row for each session.
    """
    table = heads(data)
    title = title_of("Topology", table)
    if len(table) > max_rows:
        bars, cells, notes = _joined(table, max_rows)
        what = "summed duration"
    else:
        rows = tree_rows(table)
        below = _below(rows)
        counts = iter(below)
        bars, cells = call_bars(rows, lambda row, label: _bar(row, label, next(counts))), _cells(rows, below)
        notes, what = [] if rows else ["no calls"], "duration"
    longest = max([1.0, *(bar.end for bar in bars)])

    def build() -> alt.TopLevelMixin:
        unit = time_unit(longest)
        return bars_chart(bars, longest, unit.ms, time_axis(what, unit), title, notes) if bars else empty(title)

    return Drawing(title, tuple(notes), cells, build, lambda columns: bars_text(bars, longest, columns))


def _below(rows: Sequence[Row]) -> list[list[int]]:
    """For each row, how many calls lie below it, by category."""
    below = [[0] * len(_CATEGORIES) for _ in rows]
    for place in range(len(rows) - 1, -1, -1):
        parent = rows[place].parent
        if parent is not None:
            for number, count in enumerate(below[place]):
                below[parent][number] += count
            below[parent][_CATEGORIES.index(rows[place].category)] += 1
    return below


def _bar(row: Row, label: Label, below: Sequence[int]) -> Bar:
    under = f"{sum(below):,} below" if any(below) else ""
    if failed := sum(below) - below[0]:
        under += f", {failed:,} not completed"
    time = duration_text(row.duration_ms)
    return Bar(
        label=label,
        segments=call_segments(row, 0),
        note=" · ".join(part for part in (time, row.word, under) if part),
        text_note="  ".join(part for part in (pad(time, 9, right=True), row.outcome, under) if part),
        ended=row.category,
    )


def _cells(rows: Sequence[Row], below: Sequence[Sequence[int]]) -> Cells:
    return Cells(
        ("call", "depth", "duration", "outcome", "calls below", "call key"),
        [
            (
                "· " * row.depth + row.label,
                f"{row.depth + 1}",
                duration_text(row.duration_ms),
                row.outcome,
                f"{sum(count):,}",
                row.key,
            )
            for row, count in zip(rows, below, strict=True)
        ],
        frozenset({"depth", "duration", "calls below"}),
    )


@dataclass(eq=False)
class _Place:
    """Calls of one label in one place of the tree."""

    label: str
    depth: int
    parent: int | None
    counts: list[int]
    durations_ms: list[float]
    children: list[int] = field(default_factory=list)

    @property
    def calls(self) -> int:
        return sum(self.counts)


def _joined(table: pa.Table, max_rows: int) -> tuple[list[Bar], Cells, list[str]]:
    places, deeper = _places(table)
    kept = _largest(places, min(max_rows, JOINED_ROWS))
    bars: list[Bar] = []
    line_of: dict[int, int] = {}
    rows = []
    for number in _depth_first(places, kept):
        place = places[number]
        line_of[number] = len(bars)
        time = duration_text(sum(place.durations_ms))
        words = outcome_words(place.counts)
        bars.append(
            Bar(
                label=Label(place.label, place.depth, None if place.parent is None else line_of[place.parent]),
                segments=_stacked(place),
                note=" · ".join(part for part in (plural(place.calls, "call"), time, words) if part),
            )
        )
        rows.append(("· " * place.depth + place.label, f"{place.depth + 1}", f"{place.calls:,}", time, words))
    cells = Cells(
        ("label", "depth", "calls", "summed duration", "not completed"), rows, frozenset({"depth", "calls", "summed duration"})
    )
    notes = ["calls of one label in one place of the tree are joined in one row"]
    if len(kept) < len(places):
        left = sum(place.calls for number, place in enumerate(places) if number not in kept)
        notes.append(f"the places with the most calls are drawn, not the other {len(places) - len(kept):,} with {left:,} calls")
    if deeper:
        notes.append(f"{plural(deeper, 'call')} deeper than {DEEPEST} levels not drawn")
    return bars, cells, notes


def _stacked(place: _Place) -> tuple[Segment, ...]:
    segments, at = [], 0.0
    for category, count, duration_ms in zip(_CATEGORIES, place.counts, place.durations_ms, strict=True):
        if count:
            about = f"{place.label} · {plural(count, 'call')} {category.name}, {duration_text(duration_ms)}"
            segments.append(Segment(at, at + duration_ms, category, about))
            at += duration_ms
    return tuple(segments)


def _places(table: pa.Table) -> tuple[list[_Place], int]:
    """The calls joined by label and place, level by level; and how many lie deeper than is drawn."""
    import numpy as np

    columns = call_columns(table)
    parent = _parents(table)
    place_of = np.full(len(table), -1, dtype=np.int64)
    level = np.flatnonzero(parent < 0)
    places: list[_Place] = []
    for depth in range(DEEPEST):
        above = np.where(parent[level] < 0, -1, place_of[parent[level]])
        paths, joined = np.unique(np.stack([above, columns.label[level]]), axis=1, return_inverse=True)
        joined = joined.reshape(-1)
        first = len(places)
        size = paths.shape[1] * len(_CATEGORIES)
        slots = joined * len(_CATEGORIES) + columns.category[level]
        counts = np.bincount(slots, minlength=size).reshape(-1, len(_CATEGORIES))
        times = np.bincount(slots, weights=columns.duration_ms[level], minlength=size).reshape(-1, len(_CATEGORIES))
        for number in range(paths.shape[1]):
            over = int(paths[0, number])
            if over >= 0:
                places[over].children.append(first + number)
            label = columns.labels[int(paths[1, number])]
            places.append(_Place(label, depth, over if over >= 0 else None, counts[number].tolist(), times[number].tolist()))
        place_of[level] = first + joined
        waiting = place_of < 0
        level = np.flatnonzero(waiting & (parent >= 0) & (place_of[parent] >= 0))
        if not len(level):
            break
    return places, int((place_of < 0).sum())


def _parents(table: pa.Table) -> Any:
    """The row of every call's parent; -1 where it is not in the table."""
    import pyarrow as pa
    import pyarrow.compute as pc

    keys, parents = table["call_key"], table["parent_key"]
    if "source" in table.column_names:
        source = table["source"].cast(pa.string())
        keys, parents = (pc.binary_join_element_wise(source, column, "\n") for column in (keys, parents))
    return pc.fill_null(pc.index_in(parents, value_set=keys.combine_chunks()), -1).to_numpy().astype("int64")


def _largest(places: Sequence[_Place], limit: int) -> set[int]:
    """The places with the most calls, together with those above them, at most ``limit``."""
    kept: set[int] = set()
    for number in sorted(range(len(places)), key=lambda each: -places[each].calls):
        path: list[int] = []
        step: int | None = number
        while step is not None and step not in kept:
            path.append(step)
            step = places[step].parent
        if len(kept) + len(path) <= limit:
            kept.update(path)
    return kept


def _depth_first(places: Sequence[_Place], kept: set[int]) -> Iterator[int]:
    waiting = [number for number in range(len(places) - 1, -1, -1) if number in kept and places[number].parent is None]
    while waiting:
        number = waiting.pop()
        yield number
        waiting += [child for child in reversed(places[number].children) if child in kept]
