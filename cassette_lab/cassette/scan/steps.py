"""A cassette's calls range by range, for whoever wants to see the first ones before the last one is verified.

What is handed out is what ``project`` would give, in its order; only what no range can know alone (that no number is
missing, that nothing appears twice, that the file stayed the same) is known at the end.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from cassette_lab.cassette.columns import Projection, RawTexts, calls_schema, interactions_batch
from cassette_lab.cassette.model import Interaction
from cassette_lab.cassette.reader import CassetteReader
from cassette_lab.cassette.scan.blocks import DoubtError
from cassette_lab.cassette.scan.digest import digesting
from cassette_lab.cassette.scan.part import scan_part
from cassette_lab.cassette.scan.ranges import cuts, numbered, unchanged
from cassette_lab.cassette.scan.whole import is_complete
from cassette_lab.cassette.source import CHANGED_WHILE_READ
from cassette_lab.errors import FormatError

FIRST_BYTES: Final = 1 << 18
"""The first range is so short: some hundred calls, in a few milliseconds."""
_EXACT_ROWS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Step:
    """The next rows (perhaps none), and how many bytes of the file are behind them."""

    calls: pa.Table
    done_bytes: int


class Steps:
    """Iterate once, to the end: then ``projection`` is the verified cassette.

    ``header`` is there at once. ``rows`` and ``line`` say how far the file is verified, also where ``FormatError`` ended it.
    """

    def __init__(self, path: str | Path, *, bodies: bool = False) -> None:
        """Raises ``FormatError`` for a file without a valid header."""
        self.path = path
        self.projection: Projection | None = None
        self.rows = 0
        self._schema = calls_schema(bodies=bodies)
        self._bodies = bodies
        with CassetteReader(path) as reader:
            self.header = reader.header
            self._start, self.line = reader.record_end, reader.lines
        self._last_hash = self.header.hash
        self._tables: list[pa.Table] = []
        self._raw_texts: dict[str, dict[int, Any]] = {}

    def __iter__(self) -> Iterator[Step]:
        try:
            yield from self._quick()
        except (DoubtError, OSError):
            yield from self._exact()

    def _quick(self) -> Iterator[Step]:
        first_line, storage = self.line + 1, self.header.request_storage
        with (
            io.FileIO(self.path) as file,
            unchanged(file, self.path) as size,
            digesting(self.path, size, wanted=True) as sha256,
        ):
            for start, stop in pairwise(cuts(file, self._start, size, first_bytes=FIRST_BYTES)):
                part = scan_part(file, start, stop, storage, bodies=self._bodies)
                if part.row_count:
                    if part.previous_hash != self._last_hash:
                        raise DoubtError
                    self._add(numbered(part, first_line), part.raw_texts, part.last_hash)
                    yield Step(self._tables[-1], stop)
                first_line += part.line_count
        calls = self._calls()
        if not is_complete(calls, self._raw_texts):
            raise DoubtError
        self.projection = Projection(
            self.header, calls, self._last_hash, str(self.path), size, self._raw_texts, sha256.value
        )  # fmt: skip

    def _exact(self) -> Iterator[Step]:
        """The rest by the exact reader, which begins anew: it passes what was handed out once more, and may refuse it."""
        known, known_hash, self.rows = self.rows, self._last_hash, 0
        with CassetteReader(self.path) as reader:
            if reader.header.hash != self.header.hash:
                raise FormatError(CHANGED_WHILE_READ, path=self.path)
            self.line = reader.lines
            interactions = iter(reader)
            refusal = None
            while refusal is None:
                some, refusal = _next_few(
                    interactions, _EXACT_ROWS if self.rows >= known else min(_EXACT_ROWS, known - self.rows)
                )
                if not some:
                    break
                is_new = self.rows >= known
                self.line = some[-1].line or self.line
                if is_new:
                    batch, raw_texts = interactions_batch(some, bodies=self._bodies)
                    self._add(pa.Table.from_batches([batch]), raw_texts, some[-1].hash)
                else:
                    self.rows += len(some)
                    if self.rows == known and some[-1].hash != known_hash:
                        raise FormatError(CHANGED_WHILE_READ, path=self.path)
                yield Step(self._tables[-1] if is_new else self._schema.empty_table(), reader.size_bytes)
            if refusal is not None:
                raise refusal
            self.projection = Projection(
                reader.header, self._calls(), reader.previous_hash, reader.path, reader.size_bytes, self._raw_texts,
                reader.file_sha256,
            )  # fmt: skip

    def _add(self, calls: pa.Table, raw_texts: RawTexts, last_hash: str) -> None:
        self._tables.append(calls)
        for name, values in raw_texts.items():
            self._raw_texts.setdefault(name, {}).update((self.rows + row, value) for row, value in values.items())
        self.rows += len(calls)
        self.line = calls["line"][-1].as_py()
        self._last_hash = last_hash

    def _calls(self) -> pa.Table:
        return pa.concat_tables(self._tables) if self._tables else self._schema.empty_table()


def _next_few(interactions: Iterator[Interaction], count: int) -> tuple[list[Interaction], FormatError | None]:
    """The next interactions, and what is wrong with the one behind them."""
    some: list[Interaction] = []
    try:
        some.extend(islice(interactions, count))
    except FormatError as error:
        return some, error
    return some, None
