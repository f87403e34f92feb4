"""How long things lasted by the times of a log: what is not known stays unknown. Times are in epoch ms, durations in ms."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TypeAlias

Time: TypeAlias = int | float
"""Epoch ms."""


def span_ms(start: Time | None, end: Time | None) -> float | None:
    """From ``start`` to ``end``; None where one is unknown or the clock stepped back between them."""
    return float(end - start) if start is not None and end is not None and end >= start else None


def known_sum(values: Iterable[float | None]) -> float | None:
    """The sum of what is known; None where nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def covered_ms(spans: Iterable[tuple[Time, Time]]) -> float:
    """How long at least one of these spans lasts."""
    covered, until = 0.0, -math.inf
    for start, end in sorted(spans):
        covered += max(0.0, end - max(start, until))
        until = max(until, end)
    return covered
