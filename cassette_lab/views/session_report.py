"""What a report tells of session logs: which there are, what to know about them, where their time went."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from cassette_lab.views.drawing import Drawing
from cassette_lab.views.page import count_text, html_table, note
from cassette_lab.views.rows import shown, source_text
from cassette_lab.views.session_rows import chosen_root, names_in, session_name
from cassette_lab.views.spent import time_went
from cassette_lab.views.waterfalls import waterfall_drawing
from cassette_lab.words import UNKNOWN, duration_text, plural, was

if TYPE_CHECKING:
    import pyarrow as pa

    from cassette_lab.tables import Lab

SESSION_ROWS: Final = 200
NOTE_ROWS: Final = 200
WATERFALLS: Final = 3
_HEAD: Final = (
    "session", "started (UTC)", "duration", "in turns", "turns", "calls", "tools", "tokens in", "cached", "out", "end", "notes",
    "trust", "file",
)  # fmt: skip


def sections(lab: Lab) -> Iterator[tuple[str, str, str | list[Drawing]]]:
    """Id, heading and content (HTML, or drawings) of each section."""
    yield "sessions", "Sessions", "".join(_sessions(lab))
    if len(lab.notes):
        yield "notes", "What to know about the logs", "".join(_notes(lab.notes))
    yield "time-went", "Where the time went", [time_went(lab)]
    yield "waterfall", "What happened when", list(_waterfalls(lab))


def counts(lab: Lab) -> list[str]:
    """``5 sessions``, ``8 turns``, …: what the head of the page says."""
    sessions = lab.sessions
    errors = _sum(sessions, "tool_errors")
    tokens = [(_sum(sessions, name), words) for name, words in (("input_tokens", "tokens in"), ("output_tokens", "out"))]
    return [
        plural(len(sessions), "session"),
        plural(_sum(sessions, "turns"), "turn"),
        plural(_sum(sessions, "model_calls"), "model call"),
        plural(_sum(sessions, "tool_calls"), "tool call") + (f" ({plural(errors, 'error')})" if errors else ""),
        ", ".join(f"{number:,} {words}" for number, words in tokens if number),
    ]


def trust(lab: Lab) -> str:
    """What reading these logs proves, and what it does not."""
    sessions = lab.sessions.select(["torn_bytes", "open"]).to_pylist()
    torn, still_open = sum(bool(row["torn_bytes"]) for row in sessions), sum(bool(row["open"]) for row in sessions)
    words = [
        f"{plural(len(sessions), 'session log')} read: every row, and none is missing in between (a log has no hash chain)"
    ]
    if torn:
        words.append(f"the end of {torn:,} {was(torn)} torn and left out")
    if still_open:
        words.append(f"{still_open:,} ended within a turn, or {'is' if still_open == 1 else 'are'} still written")
    return "; ".join(words)


def _sessions(lab: Lab) -> Iterator[str]:
    facts = {(row["source"], row["session_id"]): row for row in lab.sessions.to_pylist()}
    told = lab.tree().to_pylist()
    called = names_in(lab)
    keys = [((row["source"], row["session_id"]), row["depth"]) for row in told[:SESSION_ROWS]]
    rows = [_row(facts[key], depth, called[key]) for key, depth in keys]
    yield note("calls: of models; tools: calls of tools, with ✕ those that failed; each session's own, without its subagents'")
    yield html_table(_HEAD, rows, numeric={2, 3, 4, 5, 6, 7, 8, 9, 11}, wrap={13}, csv="sessions")
    if len(told) > SESSION_ROWS:
        yield note(f"the first {SESSION_ROWS} of {plural(len(told), 'session')}")


def _row(row: dict[str, Any], depth: int, name: str) -> list[str]:
    return [
        "\N{EM SPACE}" * min(depth, 8) + session_name(name),
        UNKNOWN if row["started_at"] is None else f"{row['started_at']:%Y-%m-%d %H:%M}",
        duration_text(row["duration_ms"]),
        duration_text(row["active_ms"]),
        *(count_text(row[name]) for name in ("turns", "model_calls")),
        count_text(row["tool_calls"]) + (f" (✕ {row['tool_errors']:,})" if row["tool_errors"] else ""),
        *(count_text(row[name]) for name in ("input_tokens", "cache_read_tokens", "output_tokens")),
        _end(row),
        count_text(row["notes"]),
        _read(row),
        source_text(row["source"]),
    ]


def _end(row: dict[str, Any]) -> str:
    end = "open" if row["open"] else shown(row["end_kind"] or UNKNOWN)
    return f"{end} {shown(row['error_code'])}" if row["error_code"] else end


def _read(row: dict[str, Any]) -> str:
    """How far a log can be trusted: it has no hash chain, but every row of it was read, or it ends too early."""
    if row["torn_bytes"]:
        return f"read up to a torn tail of {row['torn_bytes']:,} bytes"
    return "read so far; still open" if row["open"] else "✓ read to its end"


def _notes(notes: pa.Table) -> Iterator[str]:
    rows = [
        [source_text(row["source"]), count_text(row["line"]), *(shown(row[name]) for name in ("session_id", "code", "message"))]
        for row in notes.slice(0, NOTE_ROWS).to_pylist()
    ]
    yield html_table(["file", "line", "session", "code", "what to know"], rows, numeric={1}, wrap={0, 4}, csv="notes")
    if len(notes) > NOTE_ROWS:
        yield note(f"the first {NOTE_ROWS} of {plural(len(notes), 'note')}")


def _waterfalls(lab: Lab) -> Iterator[Drawing]:
    """Those of the runs that were longest in turns."""
    roots = [row for row in lab.tree().to_pylist() if row["depth"] == 0]
    longest, others = chosen_root(lab, None)
    if longest is None:
        return
    active = {f"{row['source']}#{row['session_id']}": row["active_ms"] or 0.0 for row in lab.sessions.to_pylist()}
    names = [f"{row['source']}#{row['session_id']}" for row in roots]
    names.sort(key=lambda name: (name != longest, -active[name], name))
    for name in names[: min(WATERFALLS, others + 1)]:
        if active[name] or name == longest:
            yield waterfall_drawing(lab, name)


def _sum(sessions: pa.Table, name: str) -> int:
    return sum(value for value in sessions[name].to_pylist() if value is not None)
