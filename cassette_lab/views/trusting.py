"""How far what is shown can be trusted, in the words that stand above a view: from the problems and notes of a lab."""

from __future__ import annotations

from typing import Any, Final

from cassette_lab.views.rows import shown, source_text
from cassette_lab.words import plural

_TOLD: Final = 3


def trust_of(lab: Any) -> dict[str, Any]:
    """``trust`` (state and words) and ``problem`` (what could not be loaded) of a lab; nothing where nobody knows.

    A cassette that was loaded is verified as a whole. A session log has no chain: it was read to its end, or up to where
    it is torn.
    """
    if hasattr(lab, "expected") and hasattr(lab, "actual"):
        known = hasattr(lab.expected, "header") and hasattr(lab.actual, "header")
        return {"trust": {"state": "verified", "words": "both chains verified"}} if known else {}
    problems = getattr(lab, "problems", None)
    if problems is None:
        return {}
    words, is_partial = _of_what_is_there(lab)
    if not len(problems):
        return {"trust": {"state": "partial" if is_partial else "verified", "words": words}} if words else {}
    rows = problems.slice(0, _TOLD).to_pylist()
    first = "not verified" + (f": line {rows[0]['line']:,}" if rows[0]["line"] is not None else "")
    more = plural(len(problems), "problem")
    told = first if len(problems) == 1 and not words else f"{words}, {more}" if words else more
    return {
        "trust": {"state": "partial" if words else "broken", "words": told},
        "problem": _told(rows, len(problems)),
    }


def _of_what_is_there(lab: Any) -> tuple[str, bool]:
    """What was loaded, in words, and whether some of it is not whole."""
    cassettes, sessions, health = (getattr(lab, name, ()) for name in ("cassettes", "sessions", "flight_health"))
    words = []
    if len(cassettes):
        words.append("chain verified" if len(cassettes) == 1 else f"{len(cassettes):,} chains verified")
    torn = _torn(sessions) + _torn(health)
    if len(sessions) or len(health):
        words.append("read to its end" if len(sessions) + len(health) == 1 else "logs read to their ends")
    if torn:
        words[-1] = f"read up to a torn tail of {torn:,} bytes"
    return ", ".join(words), bool(torn)


def _torn(table: Any) -> int:
    return sum(number or 0 for number in table["torn_bytes"].to_pylist()) if len(table) else 0


def _told(rows: list[dict[str, Any]], count: int) -> str:
    told = [f"{_place(row)}: {shown(row['message'])}" for row in rows]
    return f"not loaded: {'; '.join(told)}" + (f" … and {count - _TOLD:,} more" if count > _TOLD else "")


def _place(row: dict[str, Any]) -> str:
    return source_text(row["source"]) + ("" if row["line"] is None else f", line {row['line']:,}")
