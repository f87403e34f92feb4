"""Values that come from logs as Arrow arrays: what a column cannot hold is escaped (texts) or unknown (times, counts)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from cassette_lab.cassette.columns import TIME
from cassette_lab.jsonio.dates import LAST_MS
from cassette_lab.jsonio.text import arrow_text

_MOST_INTEGER: Final = 2**63 - 1


def array_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """An array of this type; None stays null. Times are in epoch ms, and null where they are no date up to the year 9999."""
    if kind == TIME:
        return pa.array([int(value) if value is not None and 0 < value <= LAST_MS else None for value in values], kind)
    if pa.types.is_dictionary(kind):
        return _texts(values, pa.string()).dictionary_encode()
    if pa.types.is_string(kind):
        return _texts(values, kind)
    try:
        return pa.array(values, kind)
    except OverflowError:  # sums of counts may grow beyond what a column holds
        return pa.array([value if value is None or value <= _MOST_INTEGER else None for value in values], kind)


def _texts(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:  # lone surrogates
        return pa.array([None if value is None else arrow_text(value) for value in values], kind)
