"""How numbers read to people, everywhere: durations and their differences, counts of things and tokens, many names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

UNKNOWN: Final = "\N{EN DASH}"
MINUS: Final = "\N{MINUS SIGN}"


def duration_text(duration_ms: float | None) -> str:
    """A duration for people: ``0.4 ms``, ``840 ms``, ``12.4 s``, ``3 min 05 s``, ``2 h 07 min``; unknown is a dash."""
    if duration_ms is None or math.isnan(duration_ms):
        return UNKNOWN
    if duration_ms < 0:
        return MINUS + duration_text(-duration_ms)
    if duration_ms < 0.05:
        return "0 ms" if duration_ms == 0 else "< 0.1 ms"
    if duration_ms < 9.95:
        return f"{duration_ms:.1f} ms"
    if duration_ms < 999.5:
        return f"{duration_ms:.0f} ms"
    seconds = duration_ms / 1000
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    if seconds < 3_599.5:
        return _two(seconds, 60, "min", 1, "s")
    if seconds < 86_370:
        return _two(seconds, 3_600, "h", 60, "min")
    if seconds < 1e12:
        return _two(seconds, 86_400, "d", 3_600, "h")
    return f"{seconds / 86_400:.1e} d"


def _two(seconds: float, large_seconds: int, large: str, small_seconds: int, small: str) -> str:
    whole, rest = divmod(round(seconds / small_seconds), large_seconds // small_seconds)
    return f"{whole:,} {large} {rest:02d} {small}"


def delta_text(delta_ms: float) -> str:
    """A difference of durations with its sign: ``+120 ms``, a true minus for less; below 0.05 ms it is ``±0 ms``."""
    if abs(delta_ms) < 0.05:
        return "±0 ms"
    return duration_text(delta_ms) if delta_ms < 0 else "+" + duration_text(delta_ms)


def plural(count: int, noun: str, many: str | None = None) -> str:
    """``1 call``, ``5,000 calls``."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def and_more(names: Sequence[str], total: int) -> str:
    """``a, b, c and 12 more``: the first names of so many."""
    return ", ".join(names) + (f" and {total - len(names):,} more" if total > len(names) else "")


def tokens_text(fresh: float | None, from_caches: float | None, to_caches: float | None, out: float | None) -> str:
    """``1,200 tokens in, 3,000 from caches, 400 out``; what is unknown is left out."""
    counts = {" tokens in": fresh, " from caches": from_caches, " to caches": to_caches, " out": out}
    return ", ".join(f"{count:,}{words}" for words, count in counts.items() if count is not None) or "tokens unknown"


def was(count: int) -> str:
    """The verb for so many: ``was`` or ``were``."""
    return "was" if count == 1 else "were"
