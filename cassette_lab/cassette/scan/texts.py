"""Texts of a block as Arrow strings, without a Python object for each."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from cassette_lab.cassette.scan.blocks import Block, Mask, Positions


def strings(block: Block, start: Positions, stop: Positions, present: Mask | None = None) -> pa.Array:
    """The bytes from each start to its stop (in rising order, not overlapping), null where they are not ``present``."""
    # Values and the gaps between them take turns; keeping every other one copies just the values.
    offsets = np.empty(2 * len(start), np.int32)
    offsets[0::2] = start
    offsets[1::2] = stop
    turns = max(len(offsets) - 1, 0)
    both = pa.StringArray.from_buffers(turns, pa.py_buffer(offsets), pa.py_buffer(block.buffer))
    return both.take(pa.array(np.arange(0, turns, 2), mask=None if present is None else ~present))


def unescaped(texts: pa.Array) -> pa.Array:
    """Insides of JSON strings with their escapes undone (none of which are surrogates)."""
    data = texts.buffers()[2]
    if data is None or not (np.frombuffer(data, np.uint8) == ord("\\")).any():
        return texts
    escaped = pc.match_substring(texts, "\\")
    insides = texts.filter(escaped).to_pylist()
    plain = orjson.loads('["' + '","'.join(insides) + '"]')
    return pc.replace_with_mask(texts, escaped.fill_null(False), pa.array(plain, pa.string()))  # noqa: FBT003


def digest_texts(hexadecimal: npt.NDArray[np.bytes_]) -> pa.Array:
    """``sha256:`` and the 64 digits of each element."""
    texts = np.empty((len(hexadecimal), 71), np.uint8)
    texts[:, :7] = np.frombuffer(b"sha256:", np.uint8)
    texts[:, 7:] = hexadecimal.view(np.uint8).reshape(-1, 64)
    return equal_length(texts)


def equal_length(texts: npt.NDArray[np.uint8]) -> pa.Array:
    """Rows of a matrix of bytes as strings."""
    count, width = texts.shape
    offsets = np.arange(0, width * (count + 1), width, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(texts)))
