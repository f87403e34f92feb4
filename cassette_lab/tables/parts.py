"""What a run of files gives to a lab: record batches by table, how many rows each file has in them, and what went wrong.

Parts are made in this process or in a second one, and put together in the order of the files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa

from cassette_lab.cassette.without_pandas import do_without_pandas
from cassette_lab.errors import CassetteLabError
from cassette_lab.session.reader import JUST_BEGUN
from cassette_lab.session.sharing import go_to
from cassette_lab.tables.finding import Found
from cassette_lab.tables.gathering import ENOUGH_ROWS, Columns, Gathering
from cassette_lab.tables.kinds import KINDS
from cassette_lab.tables.sessions import problem_row

Tell: TypeAlias = Callable[[int, int], object]
"""Called with the number of a file and how many of its bytes have been read."""

NamedLog: TypeAlias = tuple[int, str, str | None, bool]
"""A log for a second process: its number and path, which session of it, and whether it lies in a folder that was named."""

_SESSION: Final = KINDS["session"]


@dataclass(slots=True)
class Part:
    """``rows`` has for each table the numbers of files and how many rows each has, in the order of ``batches``.

    ``files`` are those that are done, ``refused`` the ones of them that gave a problem, ``error`` is what ended the run.
    """

    batches: dict[str, list[pa.RecordBatch]] = field(default_factory=dict)
    rows: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    files: list[int] = field(default_factory=list)
    refused: set[int] = field(default_factory=set)
    error: CassetteLabError | None = None


def part_of(found: Sequence[tuple[int, Found]], tell: Tell, *, bodies: bool, collect: bool, workers: int = 1) -> Part:
    """The rows of files, each with its number.

    With ``collect`` a file that cannot be accepted is a row of ``problems``, else it ends the part; a log in a folder that has
    just begun ends nothing.
    """
    maker = _Maker(bodies=bodies)
    for number, each in found:

        def told(done_bytes: int, _total: int = 0, number: int = number) -> None:
            tell(number, done_bytes)

        try:
            maker.add(number, _rows(each, bodies=bodies, collect=collect, workers=workers, progress=told))
        except CassetteLabError as error:
            if not (collect or (error.code == JUST_BEGUN and each.in_folder)):
                maker.part.error = error
                break
            maker.add(number, [("problems", problem_row(error))])
            maker.part.refused.add(number)
        maker.part.files.append(number)
    return maker.finish()


def part_of_logs(folder: str | None, logs: Sequence[NamedLog], bodies: bool, collect: bool, tell: Tell) -> Part:  # noqa: FBT001
    """The same in a second process, of session logs that are named from ``folder``."""
    do_without_pandas()
    go_to(folder)
    found = [
        (number, Found(Path(path), _SESSION, session_id=session_id, in_folder=in_folder))
        for number, path, session_id, in_folder in logs
    ]
    return part_of(found, tell, bodies=bodies, collect=collect)


def _rows(found: Found, **options: Any) -> list[tuple[str, pa.RecordBatch | Columns]]:
    """All rows of a file, or its error: never some of them."""
    if found.kind is None:
        assert found.problem is not None, "a path gives a file or a problem"  # noqa: S101
        raise found.problem
    if found.session_id is not None:
        options["session_id"] = found.session_id
    return list(found.kind.build(found.path, **options))


class _Maker:
    def __init__(self, *, bodies: bool) -> None:
        self.part = Part()
        self._gathering = Gathering(bodies=bodies)

    def add(self, number: int, rows: Iterable[tuple[str, pa.RecordBatch | Columns]]) -> None:
        for table, some in rows:
            if isinstance(some, pa.RecordBatch):
                self._flush()
                self._add(table, some)
                count = len(some)
            else:
                count = len(some[0])
                self._gathering.add(table, some)
            self.part.rows.setdefault(table, []).append((number, count))
        if self._gathering.rows >= ENOUGH_ROWS:
            self._flush()

    def finish(self) -> Part:
        self._flush()
        return self.part

    def _flush(self) -> None:
        for table, batch in self._gathering.flush():
            self._add(table, batch)

    def _add(self, table: str, batch: pa.RecordBatch) -> None:
        self.part.batches.setdefault(table, []).append(batch)
