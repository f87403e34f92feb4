"""How the sessions of a lab show themselves: when, how many tokens, what to know, and the first of them one by one."""

from __future__ import annotations

import datetime as dt
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from cassette_lab.jsonio.text import clip
from cassette_lab.session.spans import known_sum
from cassette_lab.tables.session_names import session_names
from cassette_lab.tables.tree import in_tree_order
from cassette_lab.words import UNKNOWN, plural, tokens_text

SHOWN_SESSIONS: Final = 10
HEAD: Final = (
    "session",
    "parent",
    "started (UTC)",
    "turns",
    "model calls",
    "tokens in",
    "from caches",
    "out",
    "end",
    "notes",
)

_SHOWN_CHARACTERS: Final = 48
_COUNTS: Final = ("turns", "model_calls", "input_tokens", "cache_read_tokens", "output_tokens")
_TOKENS: Final = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens")


def sessions_line(sessions: pa.Table) -> str:
    """``2026-11-30 17:03 to 17:16 UTC · 1,200 tokens in, 400 out · 1 log with notes: lab.notes``: of all of them."""
    first, last = (getattr(pc, end)(sessions[name]).as_py() for end, name in (("min", "started_at"), ("max", "ended_at")))
    words = [] if first is None or last is None else [f"{_span(first, last)} UTC"]
    words.append(tokens_text(*(known_sum(sessions[name].to_pylist()) for name in _TOKENS)))
    noted = sum(count > 0 for count in sessions["notes"].to_pylist())
    if noted:
        words.append(f"{plural(noted, 'log')} with notes: lab.notes")
    return " · ".join(words)


def session_rows(sessions: pa.Table) -> list[list[str]]:
    """The first sessions, parents before their children, a cell for each of ``HEAD``."""
    chosen = in_tree_order(sessions)[:SHOWN_SESSIONS]
    called = session_names(sessions["source"].to_pylist(), sessions["session_id"].to_pylist())
    return [_row(row, called[number]) for number in chosen for row in sessions.slice(number, 1).to_pylist()]


def session_lines(sessions: pa.Table) -> list[str]:
    """The same as lines: what is unknown is left out."""
    lines = []
    for session_id, parent, started, turns, calls, *_, end, notes in session_rows(sessions):
        words = [
            session_id,
            *([] if parent == UNKNOWN else [f"of {parent}"]),
            started,
            _count(turns, "turn"),
            _count(calls, "model call"),
        ]
        words += [end, *([] if notes == "0" else [_count(notes, "note")])]
        lines.append(" · ".join(word for word in words if word != UNKNOWN))
    return lines


def _row(row: dict[str, Any], name: str) -> list[str]:
    end = "open" if row["open"] else row["end_kind"]
    return [
        _text(name),
        _text(row["parent_session"]),
        UNKNOWN if row["started_at"] is None else f"{row['started_at']:%Y-%m-%d %H:%M}",
        *(UNKNOWN if row[name] is None else f"{row[name]:,}" for name in _COUNTS),
        _text(end),
        f"{row['notes']:,}",
    ]


def _count(number: str, noun: str) -> str:
    return number if number == UNKNOWN else f"{number} {noun}{'' if number == '1' else 's'}"


def _span(first: dt.datetime, last: dt.datetime) -> str:
    same_day = first.date() == last.date()
    return f"{first:%Y-%m-%d %H:%M} to {last:{'%H:%M' if same_day else '%Y-%m-%d %H:%M'}}"


def _text(text: str | None) -> str:
    return UNKNOWN if text is None else clip(text, _SHOWN_CHARACTERS)
