"""How long model requests took: a bar each, pale until the first chunk. Of flight records, so there is no text to show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cassette_lab.flight.model import FlightRecord
from cassette_lab.jsonio.text import show
from cassette_lab.views.bars import Bar, Segment, bars_chart, bars_text
from cassette_lab.views.drawing import Cells, Drawing
from cassette_lab.views.layout import Label, empty, time_axis, time_unit
from cassette_lab.views.theme import CATEGORIES, Category
from cassette_lab.words import UNKNOWN, duration_text

if TYPE_CHECKING:
    import altair as alt

SHORT_ID: Final = 8


@dataclass(frozen=True, slots=True)
class TimesWords:
    """What stands in the picture and its table. ``outcomes`` has the kinds of outcomes by name."""

    title: str
    legend: str
    axis: str
    headers: tuple[str, ...]
    outcomes: dict[str, str]


def request_times(records: Sequence[FlightRecord], words: TimesWords) -> Drawing:
    """First chunk and total of each of these requests, in their order; one that still runs has no bar."""
    bars = [_bar(record, words) for record in records]
    longest = max([1.0, *(bar.end for bar in bars)])
    notes = [words.legend] if any(len(bar.segments) > 1 for bar in bars) else []

    def build() -> alt.TopLevelMixin:
        unit = time_unit(longest)
        return (
            bars_chart(bars, longest, unit.ms, time_axis(words.axis, unit), words.title, notes) if bars else empty(words.title)
        )

    rows = [_cells(record, words) for record in records]
    cells = Cells(words.headers, rows, frozenset(words.headers[3:5]) | frozenset(words.headers[6:]))
    return Drawing(words.title, tuple(notes), cells, build, lambda columns: bars_text(bars, longest, columns))


def request_category(record: FlightRecord) -> Category | None:
    """The look of an outcome; None while there is none."""
    outcome = record.outcome
    if outcome.kind == "running":
        return None
    if record.extra.aborted is not None or outcome.error == "abort-error":
        return CATEGORIES["aborted"]
    if outcome.kind == "threw":
        return CATEGORIES["error"]
    if outcome.kind == "incomplete":
        return CATEGORIES["other"]
    return CATEGORIES.get(outcome.finish or "", CATEGORIES["completed"])


def _bar(record: FlightRecord, words: TimesWords) -> Bar:
    outcome, category = record.outcome, request_category(record)
    label = Label(f"{_place(record)} · {show(record.id[:SHORT_ID])}")
    if category is None or outcome.total_ms is None:
        return Bar(label, note=words.outcomes[outcome.kind])
    first = min(outcome.first_chunk_ms or 0.0, outcome.total_ms)
    about = " · ".join((label.text, show(record.request.model), _times(record), _ending(record, words)))
    pale = (Segment(0.0, first, category, about, pale=True),) if first else ()
    told = [_times(record), *([] if category.name == "completed" else [_ending(record, words)])]
    return Bar(label, (*pale, Segment(first, outcome.total_ms, category, about)), " · ".join(told), ended=category)


def _place(record: FlightRecord) -> str:
    """Turn, step and attempt."""
    return UNKNOWN if record.extra.auxiliary else f"{record.turn}.{record.step}.{record.attempt}"


def _times(record: FlightRecord) -> str:
    first, total = record.outcome.first_chunk_ms, record.outcome.total_ms
    return duration_text(total) if first is None else f"{duration_text(first)} / {duration_text(total)}"


def _ending(record: FlightRecord, words: TimesWords) -> str:
    """How it ended, with the code of its failure, or else what the outcome itself tells."""
    detail = record.extra.error_code or record.outcome.detail
    kind = words.outcomes[record.outcome.kind]
    return kind if detail is None else f"{kind} ({show(detail)})"


def _cells(record: FlightRecord, words: TimesWords) -> tuple[str, ...]:
    request, outcome, usage = record.request, record.outcome, record.outcome.usage
    counts = (None, None) if usage is None else (usage.input_tokens, usage.output_tokens)
    return (
        show(record.id[:SHORT_ID]),
        _place(record),
        f"{show(request.provider)} / {show(request.model)}",
        f"{request.messages.total:,}",
        f"{len(request.tools):,}",
        _ending(record, words),
        duration_text(outcome.first_chunk_ms),
        duration_text(outcome.total_ms),
        *(UNKNOWN if count is None else f"{count:,g}" if count != int(count) else f"{int(count):,}" for count in counts),
    )
