"""Exact values of a projection's rows, in any order, a slice at a time.

What a report prints comes from here: texts with their lone surrogates, numbers as JSON counts them. Never more than
one slice of rows is held as Python objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from cassette_lab.jsonio import MAX_SAFE_INTEGER
from cassette_lab.jsonio.surrogates import join_pairs

if TYPE_CHECKING:
    from cassette_lab.cassette.columns import Projection

Rows: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
"""Row numbers of a projection's table, or other whole numbers by row."""

SLICE_ROWS: Final = 8192


def exact_rows(projection: Projection, names: Sequence[str], rows: Rows) -> Iterator[tuple[Any, ...]]:
    """The values of the columns ``names`` for each of ``rows``, in that order."""
    table = projection.calls.select(list(names)).combine_chunks()
    for start in range(0, len(rows), SLICE_ROWS):
        part = rows[start : start + SLICE_ROWS]
        taken = table.take(pa.array(part))
        columns = []
        for name in names:
            values = taken[name].to_pylist()
            if raw := projection.raw_texts.get(name):
                values = [raw.get(row, value) for row, value in zip(part.tolist(), values, strict=True)]
            columns.append(values)
        yield from zip(*columns, strict=True)


def exact_texts(projection: Projection, name: str) -> pa.Array:
    """A text column whose values are equal exactly where the texts in the file are; spelt otherwise only if it must be.

    A column with lone surrogates comes as UTF-16 code units in hexadecimal digits: an escape in the table could also be
    what somebody wrote.
    """
    if not projection.raw_texts.get(name):
        return projection.calls[name].combine_chunks()
    return pa.array([join_pairs(text).encode("utf-16-be", "surrogatepass").hex() for text in projection.raw(name)], pa.string())


def json_number(value: float) -> float:
    """``value`` as an integer where it is a whole number that JSON keeps exactly, so that ``1.0`` is printed as ``1``."""
    return int(value) if value.is_integer() and abs(value) <= MAX_SAFE_INTEGER else value
