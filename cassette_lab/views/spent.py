"""Where the time of sessions went, as a picture: a bar each, of what it waited for; without the waits between turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from cassette_lab.views.bars import Bar, Segment, bars_chart, bars_text
from cassette_lab.views.drawing import Cells, Drawing
from cassette_lab.views.layout import Label, empty, time_axis, time_unit
from cassette_lab.views.rows import shown
from cassette_lab.views.session_rows import names_in, session_name
from cassette_lab.views.theme import CATEGORIES, QUICKER, Category
from cassette_lab.words import UNKNOWN, duration_text, plural

if TYPE_CHECKING:
    import altair as alt

    from cassette_lab.tables import Lab

SHOWN_SESSIONS: Final = 20
IDLE: Final = "idle_ms"
_TOLD_IDLE_MS: Final = 100

_LOOKS: Final = {
    "waiting_ms": (Category("waiting for the first chunk", QUICKER, "░", ""), True),
    "streaming_ms": (Category("streaming", QUICKER, "█", ""), False),
    "compacting_ms": (Category("compacting", "#cc79a7", "◆", ""), False),
    "back_off_ms": (Category("back-off", "#e69f00", "·", ""), False),
    "tools_ms": (Category("tools", CATEGORIES["completed"].colour, "▓", ""), False),
    "subagents_ms": (Category("subagents", CATEGORIES["completed"].colour, "▢", "", fill="hollow"), False),
    "other_ms": (Category("other", "#9aa4ae", "─", ""), False),
}
_WORDS: Final = {
    "waiting_ms": "pale blue: waiting for the first chunk",
    "streaming_ms": "blue: streaming",
    "compacting_ms": "pink: summing up",
    "back_off_ms": "orange: waiting to try again",
    "tools_ms": "green: tools",
    "subagents_ms": "outline: subagents",
    "other_ms": "grey: other time in turns",
}


def time_went(lab: Lab) -> Drawing:
    """``lab.time_spent()`` as a picture, the sessions that were longest at work first."""
    rows = [row for row in lab.time_spent().to_pylist() if row["duration_ms"] is not None]
    rows.sort(key=lambda row: (-_active(row), row["source"], row["session_id"]))
    left, rows = rows[SHOWN_SESSIONS:], rows[:SHOWN_SESSIONS]
    title = "Where the time went"
    called = names_in(lab)
    bars = [_bar(row, called[row["source"], row["session_id"]]) for row in rows]
    longest = max([1.0, *(bar.end for bar in bars)])
    notes = [" · ".join(words for name, words in _WORDS.items() if any(row[name] for row in rows))]
    notes.append("every instant counts once; time between turns is beside the bar")
    if left:
        notes.append(f"{plural(len(left), 'session')} with less time left out")

    def build() -> alt.TopLevelMixin:
        unit = time_unit(longest)
        axis = time_axis("time that was not idle", unit)
        return bars_chart(bars, longest, unit.ms, axis, title, notes) if bars else empty(title, "There are no times.")

    headers = ("session", *(look.name for look, _ in _LOOKS.values()), "idle", "duration")
    cells = [
        (
            session_name(called[row["source"], row["session_id"]]),
            *(duration_text(row[name]) if row[name] else UNKNOWN for name in (*_LOOKS, IDLE)),
            duration_text(row["duration_ms"]),
        )
        for row in rows
    ]
    table = Cells(headers, cells, frozenset(headers[1:]))
    return Drawing(title, tuple(filter(None, notes)), table, build, lambda columns: bars_text(bars, longest, columns))


def _active(row: dict[str, Any]) -> float:
    return float(sum(row[name] for name in _LOOKS))


def _bar(row: dict[str, Any], called: str) -> Bar:
    at = 0.0
    segments = []
    for name, (look, pale) in _LOOKS.items():
        if row[name]:
            about = f"{shown(row['session_id'])} · {look.name} · {duration_text(row[name])}"
            segments.append(Segment(at, at + row[name], look, about, pale=pale))
            at += row[name]
    idle = f" · {duration_text(row[IDLE])} idle" if row[IDLE] >= _TOLD_IDLE_MS else ""
    return Bar(Label(session_name(called)), tuple(segments), note=f"{duration_text(at)}{idle}")
