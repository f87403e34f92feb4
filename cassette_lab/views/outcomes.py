"""How calls ended: counts by outcome category, for all calls or by label, model or file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from cassette_lab.errors import ConfigError
from cassette_lab.views.bars import Bar, Segment, bars_chart, bars_text
from cassette_lab.views.drawing import Cells, Drawing
from cassette_lab.views.heads import heads
from cassette_lab.views.layout import TICKS, Label, empty
from cassette_lab.views.rows import Calls, category_numbers, counted, ranked, shown, source_text, title_of
from cassette_lab.views.theme import CATEGORIES, TIMES, Category, percent_text
from cassette_lab.words import plural

if TYPE_CHECKING:
    import altair as alt
    import pyarrow as pa

Grouping: TypeAlias = Literal["label", "model", "file"]

GROUP_ROWS: Final = 20
CODES: Final = 3
WORDS: Final = 2
_CATEGORIES: Final = list(CATEGORIES.values())
GROUPS: Final = {"label": "label", "model": "child_model", "file": "source"}
"""What outcomes can be counted by, and the column of each."""


def stop_reasons_drawing(data: Calls, *, by: Grouping | None = None) -> Drawing:
    """How many calls ended how; and how the last turns of sessions did.

    Alone: a bar for each outcome category that occurs, errors with their codes. ``by="label"``, ``"model"`` or
    ``"file"``: a bar for each of the 20 with the most calls, made of its outcomes.
    """
    table = heads(data, nested=False)
    if by is not None and by not in GROUPS:
        raise ConfigError(f"stop reasons are counted by label, model or file, not by {by!r}")
    numbers = category_numbers(table)
    if by is None:
        return _drawing(title_of("Stop reasons", table), [], _by_category(table, numbers), _category_cells(table, numbers))
    names, group = ranked(table, GROUPS[by], f"(no {by})")
    if by == "file":
        names = [source_text(name) for name in names]
    counts = _counts(group, numbers, len(names))
    merged = len(names) - GROUP_ROWS
    notes = []
    if merged > 1:
        counts = [*counts[:GROUP_ROWS], [sum(column) for column in zip(*counts[GROUP_ROWS:], strict=True)]]
        names = [*names[:GROUP_ROWS], f"all other {by}s"]
        notes.append(f"the last row is {plural(merged, by)} with the fewest calls")
    return _drawing(
        title_of(f"Stop reasons by {by}", table), notes, _grouped(table, names, counts), _group_cells(by, names, counts)
    )


def outcome_segments(counts: Sequence[float], about: str, text: str = "{:,.0f} {}") -> tuple[Segment, ...]:
    """A bar of one segment per category that occurs; ``text`` says amount and category when it is pointed at."""
    segments, at = [], 0.0
    for category, count in zip(_CATEGORIES, counts, strict=True):
        if count > 0:
            segments.append(Segment(at, at + count, category, f"{about} · {text.format(count, category.name)}"))
            at += count
    return tuple(segments)


def outcome_words(counts: Sequence[int]) -> str:
    """What did not complete, in words, most frequent first: ``3 limit · 1 result-error``; nothing when all did."""
    pairs = [(count, category) for category, count in zip(_CATEGORIES, counts, strict=True) if count and category.failed]
    pairs.sort(key=lambda pair: -pair[0])
    left = sum(count for count, _ in pairs[WORDS:])
    words = [f"{count:,} {category.word or category.name}" for count, category in pairs[:WORDS]]
    return " · ".join([*words, *([f"{left:,} otherwise"] if left else [])])


def _drawing(title: str, notes: Sequence[str], bars: list[Bar], cells: Cells) -> Drawing:
    longest = max([1.0, *(bar.end for bar in bars)])

    def build() -> alt.TopLevelMixin:
        import altair as alt

        ticks = min(TICKS, int(longest))
        axis = alt.Axis(title="calls", orient="top", titleAnchor="start", tickCount=ticks, format=",d", tickMinStep=1)
        return bars_chart(bars, longest, 1, axis, title, notes) if bars else empty(title)

    return Drawing(title, tuple(notes), cells, build, lambda columns: bars_text(bars, longest, columns))


def _by_category(table: pa.Table, numbers: Any) -> list[Bar]:
    counts = _counts(0, numbers, 1)[0]
    bars = []
    for number, (category, count) in enumerate(zip(_CATEGORIES, counts, strict=True)):
        if count:
            share = percent_text(count, len(table))
            note = " · ".join(part for part in (f"{count:,} ({share})", _codes(table, numbers, number, category)) if part)
            segment = Segment(0, count, category, f"{category.name} · {counted(table, count)}, {share}")
            bars.append(
                Bar(Label(category.name), (segment,), note, f"{count:>5,}  {share:>6}  {note.partition(' · ')[2]}", category)
            )
    return bars


def _codes(table: pa.Table, numbers: Any, number: int, category: Category) -> str:
    """The most frequent codes (or names) of a category of errors."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if category.word is not None:
        return ""
    codes = pc.coalesce(table["error_code"], table["error_name"]).filter(pa.array(numbers == number)).drop_null()
    found = sorted(codes.value_counts().to_pylist(), key=lambda each: (-each["counts"], each["values"]))
    texts = [shown(each["values"]) + (f" {TIMES}{each['counts']:,}" if each["counts"] > 1 else "") for each in found[:CODES]]
    return ", ".join([*texts, *(["…"] if len(found) > CODES else [])])


def _category_cells(table: pa.Table, numbers: Any) -> Cells:
    counts = _counts(0, numbers, 1)[0]
    return Cells(
        ("outcome", "calls", "share", "codes"),
        [
            (category.name, f"{count:,}", percent_text(count, len(table)), _codes(table, numbers, number, category))
            for number, (category, count) in enumerate(zip(_CATEGORIES, counts, strict=True))
            if count
        ],
        frozenset({"calls", "share"}),
    )


def _grouped(table: pa.Table, names: Sequence[str], counts: Sequence[Sequence[int]]) -> list[Bar]:
    bars = []
    for name, row in zip(names, counts, strict=True):
        note = " · ".join(part for part in (counted(table, sum(row)), outcome_words(row)) if part)
        bars.append(Bar(Label(name), outcome_segments(row, name), note))
    return bars


def _group_cells(by: str, names: Sequence[str], counts: Sequence[Sequence[int]]) -> Cells:
    there = [number for number in range(len(_CATEGORIES)) if any(row[number] for row in counts)]
    headers = ("calls", *(_CATEGORIES[number].name for number in there))
    rows = [(name, f"{sum(row):,}", *(f"{row[number]:,}" for number in there)) for name, row in zip(names, counts, strict=True)]
    return Cells((by, *headers), rows, frozenset(headers))


def _counts(group: Any, numbers: Any, groups: int) -> list[list[int]]:
    import numpy as np

    counts = np.bincount(group * len(_CATEGORIES) + numbers, minlength=groups * len(_CATEGORIES))
    return [[int(count) for count in row] for row in counts.reshape(groups, len(_CATEGORIES))]
