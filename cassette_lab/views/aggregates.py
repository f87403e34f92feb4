"""All calls in few rows: how many ended how under each label, and how long they took together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cassette_lab.views.drawing import Cells
from cassette_lab.views.rows import call_columns
from cassette_lab.views.theme import CATEGORIES
from cassette_lab.words import duration_text, plural

if TYPE_CHECKING:
    import pyarrow as pa

ROWS: Final = 60
_HEADERS: Final = ("label", "outcome", "calls", "summed duration", "longest")


def label_outcomes(table: pa.Table, limit: int = ROWS) -> Cells:
    """A row for each label and outcome that occur together, most time first; after ``limit`` rows one that sums the rest."""
    import numpy as np

    columns = call_columns(table)
    categories = list(CATEGORIES)
    slots = columns.label * len(categories) + columns.category
    size = len(columns.labels) * len(categories)
    counts = np.bincount(slots, minlength=size)
    times = np.bincount(slots, weights=columns.duration_ms, minlength=size)
    longest = np.zeros(size)
    np.maximum.at(longest, slots, columns.duration_ms)
    there = sorted(np.flatnonzero(counts).tolist(), key=lambda slot: (-times[slot], slot))
    rows = [
        (
            columns.labels[slot // len(categories)],
            categories[slot % len(categories)],
            f"{counts[slot]:,}",
            duration_text(float(times[slot])),
            duration_text(float(longest[slot])),
        )
        for slot in there[:limit]
    ]
    if rest := there[limit:]:
        time, most = duration_text(float(times[rest].sum())), duration_text(float(longest[rest].max()))
        rows.append((plural(len(rest), "other row"), "", f"{int(counts[rest].sum()):,}", time, most))
    return Cells(_HEADERS, rows, frozenset(_HEADERS[2:]))
