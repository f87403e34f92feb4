"""How long model requests took: a bar each, pale until the first chunk. Of flight records, so there is no text to show.

Drawn as it is, without the engine of the larger charts: an answer of ``%flight`` stands there at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import Final
from uuid import uuid4

from cassette_lab.flight.model import FlightRecord
from cassette_lab.jsonio.text import show
from cassette_lab.views.bars import END_MARKS, Bar, Segment, bars_text
from cassette_lab.views.layout import BAR_HEIGHT, Label
from cassette_lab.views.theme import CATEGORIES, PALE, PAPER, STYLE, Category, svg_defs
from cassette_lab.words import UNKNOWN, duration_text

SHORT_ID: Final = 8

_ROOM: Final = 8
"""Pixels beside a bar, for the mark at its end."""
_MARK_PIXELS: Final = 4.5
_TEXTS: Final = frozenset({"id", "place", "session", "model", "outcome"})


@dataclass(frozen=True, slots=True)
class TimesWords:
    """What stands in the picture and its table.

    ``place`` explains what stands before an id. ``headers`` are of the columns by name, ``outcomes`` the kinds of outcomes,
    and what tells more of them, by name.
    """

    legend: str
    place: str
    headers: dict[str, str]
    outcomes: dict[str, str]


@dataclass(frozen=True)
class RequestTimes:
    """First chunk and total of each of these requests, in their order; one that still runs has no bar."""

    records: Sequence[FlightRecord]
    words: TimesWords

    @cached_property
    def bars(self) -> list[Bar]:
        """A bar for each."""
        return [_bar(record, self.words) for record in self.records]

    @property
    def notes(self) -> list[str]:
        """What the numbers and the shades mean."""
        record = self.records[0]
        numbers = {"turn": record.turn, "step": record.step, "attempt": record.attempt}
        place = [] if record.extra.auxiliary else [self.words.place.format(place=_place(record), **numbers)]
        return [*place, *([self.words.legend] if any(len(bar.segments) > 1 for bar in self.bars) else [])]

    def text(self, columns: int) -> list[str]:
        """The bars made of characters, at most ``columns`` wide, and the notes."""
        return [*bars_text(self.bars, self._longest, columns), *self.notes]

    def html(self, *, sessions: bool = False) -> str:
        """A ``<figure>``: the bar of one, or a table with a bar in each row. ``sessions`` adds a column that names them."""
        if len(self.records) == 1:
            (bar,) = self.bars
            drawn = f"{_muted(bar.label.text)}{self._svg(bar, 320)}{_muted(bar.note)}"
            body = f'<div style="display:flex;align-items:center;gap:8px;margin:4px 0">{drawn}</div>'
        else:
            body = f'<div style="overflow-x:auto">{self._table(sessions=sessions)}</div>'
        return f'<figure class="clab"><style>{STYLE}</style>{body}{_muted(" · ".join(self.notes))}</figure>'

    @property
    def _longest(self) -> float:
        return max([0.001, *(bar.end for bar in self.bars)])

    def _table(self, *, sessions: bool) -> str:
        names = [name for name in self.words.headers if sessions or name != "session"]
        head = "".join(_cell("th", name, escape(self.words.headers[name])) for name in names)
        rows = []
        for record, bar in zip(self.records, self.bars, strict=True):
            texts = {name: f"<bdi>{escape(text)}</bdi>" for name, text in _cells(record, self.words).items()}
            texts["bar"] = self._svg(bar, 80)
            rows.append("<tr>" + "".join(_cell("td", name, texts[name]) for name in names) + "</tr>")
        return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"

    def _svg(self, bar: Bar, width: int) -> str:
        """One bar, ``width`` pixels for the longest of all; nothing for a request that still runs."""
        if not bar.segments:
            return ""
        pixels, height, unique = width / self._longest, BAR_HEIGHT + 4, uuid4().hex[:8]
        category = bar.segments[-1].category
        patterned = category.fill in ("hatched", "dotted")
        parts = [f"<title>{escape(bar.segments[-1].about)}</title>"]
        parts += [f"<defs>{svg_defs(unique)}</defs>"] if patterned else []
        fill = f"url(#{unique}{category.fill})" if patterned else category.colour
        for segment in bar.segments:
            start, end = segment.start * pixels, segment.end * pixels
            shown = max(end - start, 0 if segment.pale else 2)
            opacity = f' fill-opacity="{PALE}"' if segment.pale else ""
            parts.append(f'<rect x="{start:.1f}" y="2" width="{shown:.1f}" height="{BAR_HEIGHT}" fill="{fill}"{opacity}/>')
        parts += _end_mark(category, max(bar.end * pixels, 2), height / 2)
        size = f'width="{width + 2 * _ROOM}" height="{height}" viewBox="0 0 {width + 2 * _ROOM} {height}"'
        return f'<svg {size} role="img" aria-label="{escape(bar.note)}" style="flex:none;max-width:none">{"".join(parts)}</svg>'


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


def _end_mark(category: Category, at: float, middle: float) -> list[str]:
    """The sign of how it ended, at the end of its bar."""
    if category.end == "plain":
        return []
    ink = f'fill="{PAPER}"' if category.end == "notch" else f'fill="none" stroke="{category.colour}"'
    place = f"translate({at:.1f} {middle:.1f}) scale({_MARK_PIXELS})"
    return [f'<path d="{END_MARKS[category.end]}" transform="{place}" {ink} stroke-width="0.55"/>']


def _place(record: FlightRecord) -> str:
    """Turn, step and attempt."""
    return UNKNOWN if record.extra.auxiliary else f"{record.turn}.{record.step}.{record.attempt}"


def _times(record: FlightRecord) -> str:
    first, total = record.outcome.first_chunk_ms, record.outcome.total_ms
    return duration_text(total) if first is None else f"{duration_text(first)} / {duration_text(total)}"


def _ending(record: FlightRecord, words: TimesWords) -> str:
    """How it ended: with the status and the code of its failure, or else what the outcome itself tells."""
    kind, detail, extra = words.outcomes[record.outcome.kind], record.outcome.detail, record.extra
    if extra.http_status is not None:
        code = "" if extra.error_code is None else f" ({show(extra.error_code)})"
        return f"{kind}: HTTP {extra.http_status}{code}"
    told = extra.error_code or (None if detail == "error" else detail)
    return kind if told is None else f"{kind} ({show(words.outcomes.get(told, told))})"


def _cells(record: FlightRecord, words: TimesWords) -> dict[str, str]:
    request, outcome, usage = record.request, record.outcome, record.outcome.usage
    return {
        "id": show(record.id[:SHORT_ID]),
        "place": _place(record),
        "session": show(record.session_id),
        "model": f"{show(request.provider)} / {show(request.model)}",
        "messages": f"{request.messages.total:,}",
        "tools": f"{len(request.tools):,}",
        "outcome": _ending(record, words),
        "first": duration_text(outcome.first_chunk_ms),
        "total": duration_text(outcome.total_ms),
        "tokens_in": _count(None if usage is None else usage.input_tokens),
        "tokens_out": _count(None if usage is None else usage.output_tokens),
    }


def _count(count: float | None) -> str:
    return UNKNOWN if count is None else f"{count:,g}" if count != int(count) else f"{int(count):,}"


def _cell(tag: str, name: str, html: str) -> str:
    """Texts and bars at the left, numbers at the right, whatever the page does with tables."""
    side = "left" if name in _TEXTS or name == "bar" else "right"
    scope = ' scope="col"' if tag == "th" else ""
    return f'<{tag}{scope} style="text-align:{side};vertical-align:middle;padding-right:9px">{html}</{tag}>'


def _muted(text: str) -> str:
    return f'<div style="color:var(--clab-muted)">{escape(text)}</div>' if text else ""
