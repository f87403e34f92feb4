"""Session logs as rows: one of ``sessions``, and its turns, steps, model calls and tool calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa

from cassette_lab.errors import CassetteLabError
from cassette_lab.jsonio.text import show
from cassette_lab.session.finding import is_log, is_store
from cassette_lab.session.opening import each_facts, file_facts
from cassette_lab.session.pausing import collector_paused
from cassette_lab.tables.gathering import ENOUGH_ROWS, Columns, Gathering
from cassette_lab.tables.session_rows import rows_of


def found_in_folder(path: Path) -> bool:
    """A file that holds a session log, or a store of several."""
    return is_log(path) or is_store(path)


def build(
    path: Path,
    *,
    session_id: str | None = None,
    bodies: bool = False,
    workers: int = 1,
    collect: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> Iterator[tuple[str, pa.RecordBatch | Columns]]:
    """The rows of a log, or of every log of a store, or only of ``session_id``. Raises ``FormatError``.

    With ``collect`` a log that cannot be read hides no other one of its store: it is a row of ``problems``.
    """
    del workers  # a log is read in one go
    if is_store(path):
        yield from _store(path, session_id, bodies=bodies, collect=collect, progress=progress)
        return
    facts = file_facts(path, session_id, bodies=bodies, progress=progress)
    with collector_paused():
        rows = list(rows_of(facts, bodies=bodies))
    yield from rows


def _store(
    path: Path, session_id: str | None, *, bodies: bool, collect: bool, progress: Callable[[int, int], object] | None
) -> Iterator[tuple[str, pa.RecordBatch]]:
    gathering = Gathering(bodies=bodies)
    for read in each_facts(path, session_id, bodies=bodies, progress=progress):
        try:
            facts = read()
        except CassetteLabError as error:
            if not collect:
                raise
            gathering.add("problems", problem_row(error))
            continue
        for table, columns in rows_of(facts, bodies=bodies):
            gathering.add(table, columns)
        if gathering.rows >= ENOUGH_ROWS:
            yield from gathering.flush()
    yield from gathering.flush()


def problem_row(error: CassetteLabError) -> Columns:
    """A row of ``problems``."""
    return [[error.line], [error.code], [show(error.message)]]
