"""A cassette file as verified columns, quickly: no object is built for what can be proven of the bytes.

Three tiers, of which each accepts only what the next one would, with the same rows:

1. the block tier (``blocks``, ``cursor``, ``grammar``, ``open_values``, ``numbers``, ``proof``, ``rows``) proves that
   the lines of a block are canonical, valid and hashed right, all lines at once;
2. the reader's quick line tier, for lines that are canonical but out of the ordinary (``part``);
3. the reader's exact line tier, for any other spelling; it alone may reject, and words the error.

What one line owes another (the chain in ``part``, the numbers in ``whole``) is checked by the column. Where anything
does not fit, the exact reader reads the whole file again and says what is wrong; so it always says the same.
"""

from __future__ import annotations

import io
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from cassette_lab.cassette.columns import Projection, calls_schema, interactions_batch
from cassette_lab.cassette.reader import CassetteReader
from cassette_lab.cassette.scan.blocks import DoubtError
from cassette_lab.cassette.scan.digest import digesting
from cassette_lab.cassette.scan.ranges import cuts, numbered, unchanged
from cassette_lab.cassette.scan.sharing import scan_alone, scan_shared
from cassette_lab.cassette.scan.whole import is_complete

__all__ = ["project"]

_EXACT_ROWS: Final = 1_000


def project(path: str | Path, *, workers: int = 1, bodies: bool = False, digest: bool = False) -> Projection:
    """The verified projection of a cassette file.

    ``workers=2`` shares a file of more than a few blocks with a second process, which stays for the next one.
    ``bodies`` adds the columns of ``columns.BODIES``. With ``digest`` the file's is worked out meanwhile, without it when
    it is asked for. Raises ``FormatError`` as ``read_cassette`` does.
    """
    try:
        return _quick(path, workers=workers, bodies=bodies, digest=digest)
    except (DoubtError, OSError):
        return _exact(path, bodies=bodies)


def _quick(path: str | Path, *, workers: int, bodies: bool, digest: bool) -> Projection:
    with CassetteReader(path) as reader:
        header, start, first_line = reader.header, reader.record_end, reader.lines + 1
    with io.FileIO(path) as file, unchanged(file, path) as size, digesting(path, size, wanted=digest) as sha256:
        ends = cuts(file, start, size) if workers > 1 else [start, size]
        scan = scan_shared if len(ends) > 2 else scan_alone
        parts = scan(file, list(pairwise(ends)), header.request_storage, bodies=bodies)
    tables = []
    last_hash = header.hash
    raw_texts: dict[str, dict[int, Any]] = {}
    rows = 0
    for part in parts:
        if part.row_count:
            if part.previous_hash != last_hash:
                raise DoubtError
            last_hash = part.last_hash
            tables.append(numbered(part, first_line))
            for name, values in part.raw_texts.items():
                raw_texts.setdefault(name, {}).update((rows + row, value) for row, value in values.items())
            rows += part.row_count
        first_line += part.line_count
    calls = pa.concat_tables(tables) if tables else calls_schema(bodies=bodies).empty_table()
    if not is_complete(calls, raw_texts):
        raise DoubtError
    return Projection(header, calls, last_hash, str(path), size, raw_texts, sha256.value)


def _exact(path: str | Path, *, bodies: bool) -> Projection:
    """The same by the exact reader, which raises what is wrong with the file; it seldom comes to its end."""
    batches = []
    raw_texts: dict[str, dict[int, Any]] = {}
    rows = 0
    with CassetteReader(path) as reader:
        interactions = iter(reader)
        while some := list(islice(interactions, _EXACT_ROWS)):
            batch, escaped = interactions_batch(some, bodies=bodies)
            batches.append(batch)
            for name, values in escaped.items():
                raw_texts.setdefault(name, {}).update((rows + row, value) for row, value in values.items())
            rows += len(some)
        calls = pa.Table.from_batches(batches, calls_schema(bodies=bodies))
        return Projection(
            reader.header, calls, reader.previous_hash, reader.path, reader.size_bytes, raw_texts, reader.file_sha256
        )
