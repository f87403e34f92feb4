"""What the calls of one file owe each other, checked by the column: unique sequences, keys and occurrences, no gaps.

The rules are those of ``checks``, which says what is wrong where they do not hold; here it is only seen that they do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cassette_lab.cassette.checks import FileChecks
from cassette_lab.cassette.columns import RawTexts
from cassette_lab.cassette.schema import RecordError

GROUP = ("parent_key", "parent_context_fingerprint", "request_fingerprint")
"""Columns of the identity within which occurrences count."""


def is_complete(calls: pa.Table, raw_texts: RawTexts) -> bool:
    """Whether the calls of a whole file may stand together."""
    count = len(calls)
    if not count:
        return True
    if "call_key" in raw_texts or "parent_key" in raw_texts:
        return _one_by_one(calls, raw_texts)
    sequences = np.sort(calls["sequence"].to_numpy())
    if sequences[0] != 1 or sequences[-1] != count or not (np.diff(sequences) == 1).all():
        return False
    if pc.count_distinct(calls["call_key"]).as_py() != count:
        return False
    return _occurrences_complete(calls)


def _occurrences_complete(calls: pa.Table) -> bool:
    occurrences = calls["occurrence"].to_numpy()
    # The usual file: no call was made twice.
    if (occurrences == 1).all() and pc.count_distinct(calls["request_fingerprint"]).as_py() == len(calls):
        return True
    groups = np.zeros(len(calls), np.int64)
    for name in GROUP:
        encoded = calls[name].combine_chunks().dictionary_encode()
        groups = groups * len(encoded.dictionary) + encoded.indices.to_numpy()
        groups = np.unique(groups, return_inverse=True)[1]
    order = np.lexsort((occurrences, groups))
    number = np.arange(len(calls))
    begins = np.empty(len(calls), np.bool_)
    begins[0] = True
    np.not_equal(groups[order][1:], groups[order][:-1], out=begins[1:])
    first = np.maximum.accumulate(np.where(begins, number, 0))
    return bool((occurrences[order] == number - first + 1).all())


def _one_by_one(calls: pa.Table, raw_texts: RawTexts) -> bool:
    """The same for keys with lone surrogates, which the columns do not hold as they are."""
    columns: list[list[Any]] = []
    for name in ("sequence", "call_key", *GROUP, "occurrence"):
        values = calls[name].to_pylist()
        for row, text in raw_texts.get(name, {}).items():
            values[row] = text
        columns.append(values)
    checks = FileChecks()
    try:
        for sequence, call_key, parent_key, context, request, occurrence in zip(*columns, strict=True):
            checks.add(sequence, call_key, (parent_key, context, request), occurrence)
        checks.finish()
    except RecordError:
        return False
    return True
