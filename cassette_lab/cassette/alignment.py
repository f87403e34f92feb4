"""Which calls of two cassettes are the same call: by parent, parent context, request and occurrence, nothing else.

Works on whole columns: the identities of both sides become ranks, one sort brings equal ones side by side.
Source: cassette format, Diff.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cassette_lab.cassette.columns import Projection
from cassette_lab.cassette.exact import Rows
from cassette_lab.jsonio import utf16_key


@dataclass(frozen=True)
class Alignment:
    """Row numbers, each in the order of the identities (UTF-16 code units, then the number of the occurrence).

    ``expected[i]`` and ``actual[i]`` are one call; ``removed`` are rows of the expected cassette that have no partner,
    ``added`` those of the actual one.
    """

    expected: Rows
    actual: Rows
    removed: Rows
    added: Rows


def align(expected: Projection, actual: Projection) -> Alignment:
    """Pair the calls of two cassettes. Within one cassette no two calls have the same identity."""
    sides = (expected, actual)
    keys = [
        np.concatenate([side.calls["occurrence"].to_numpy() for side in sides]),
        _ranks(*(side.calls["request_fingerprint"] for side in sides)),
        _ranks(*(side.calls["parent_context_fingerprint"] for side in sides)),
        _parent_ranks(*sides),
    ]
    first = expected.calls.num_rows
    rows = np.arange(first + actual.calls.num_rows)
    order = np.lexsort([rows >= first, *keys])
    same = np.ones(max(len(order) - 1, 0), bool)
    for key in keys:
        ordered = key[order]
        same &= ordered[1:] == ordered[:-1]
    left = np.concatenate([same, [False]])[: len(order)]  # has its partner behind it
    right = np.concatenate([[False], same])[: len(order)]  # has its partner before it
    alone = order[~left & ~right]
    return Alignment(order[left], order[right] - first, alone[alone < first], alone[alone >= first] - first)


def _ranks(expected: pa.ChunkedArray, actual: pa.ChunkedArray) -> Rows:
    """Ranks of both columns' texts in one order; digests are ASCII, so that bytes order as code units do."""
    both = pa.chunked_array([*expected.chunks, *actual.chunks], pa.string())
    ranks: Rows = pc.rank(both, tiebreaker="dense").to_numpy().astype(np.int64)
    return ranks


def _parent_ranks(expected: Projection, actual: Projection) -> Rows:
    """Ranks of both sides' parent keys by UTF-16 code units."""
    codes = [_parent_codes(side) for side in (expected, actual)]
    names = sorted({name for _, side in codes for name in side}, key=utf16_key)
    rank = {name: place for place, name in enumerate(names)}
    return np.concatenate([np.array([rank[name] for name in side], np.int64)[indices] for indices, side in codes])


def _parent_codes(side: Projection) -> tuple[Any, list[str]]:
    """A side's parent keys as indices into its distinct ones."""
    if side.raw_texts.get("parent_key"):
        keys = side.raw("parent_key")
        places = {name: place for place, name in enumerate(dict.fromkeys(keys))}
        return np.array([places[name] for name in keys], np.int64), list(places)
    encoded = side.calls["parent_key"].combine_chunks().dictionary_encode()
    return encoded.indices.to_numpy(), encoded.dictionary.to_pylist()
