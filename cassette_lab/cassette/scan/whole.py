"""What the calls of one file owe each other, checked by the column: unique sequences, keys and occurrences, no gaps.

The rules are those of ``checks``, which says what is wrong where they do not hold; here it is only seen that they do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
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
    return _are_distinct(calls["call_key"]) and _occurrences_complete(calls)


def _occurrences_complete(calls: pa.Table) -> bool:
    occurrences = calls["occurrence"].to_numpy()
    # The usual file: no call was made twice.
    if (occurrences == 1).all() and _are_distinct(calls["request_fingerprint"]):
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


def _are_distinct(texts: pa.ChunkedArray) -> bool:
    """Whether no two texts of a column are equal."""
    # Texts with different digests differ; only where two digests are equal, the texts have to be looked at.
    digests = np.sort(np.concatenate([_digests(chunk) for chunk in texts.chunks]))
    return bool((digests[1:] != digests[:-1]).all()) or pc.count_distinct(texts).as_py() == len(texts)


def _digests(texts: pa.Array) -> npt.NDArray[np.uint64]:
    """A number for each text, of its length, its first 16 and its last 16 bytes."""
    offsets = np.frombuffer(texts.buffers()[1], np.int32, len(texts) + 1, 4 * texts.offset).astype(np.int64)
    data = np.frombuffer(texts.buffers()[2], np.uint8)[: offsets[-1]]
    data = np.concatenate([data, np.zeros(16, np.uint8)])
    words = np.ndarray((len(data) - 7,), np.uint64, data, 0, (1,))
    start, length = offsets[:-1], np.diff(offsets)
    digest = length.astype(np.uint64)
    for at in (0, 8):
        digest = (digest ^ (words[start + at] & _FIRST_BYTES[np.clip(length - at, 0, 8)])) * _FACTOR
    for at in (16, 8):
        tail = words[np.where(length >= 16, start + length - at, len(words) - 1)]
        digest = ((digest >> np.uint64(29)) ^ digest ^ tail) * _FACTOR
    return digest


_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_FIRST_BYTES = np.frombuffer(b"".join(b"\xff" * size + b"\0" * (8 - size) for size in range(9)), np.uint64)


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
