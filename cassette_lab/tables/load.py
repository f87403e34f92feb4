"""``load``: files, folders and patterns in, a ``Lab`` of verified tables out."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import get_args

import numpy as np
import pyarrow as pa

from cassette_lab.errors import CassetteLabError, ConfigError
from cassette_lab.jsonio.text import arrow_text, show
from cassette_lab.looking import size_of
from cassette_lab.session.opening import OnError
from cassette_lab.session.sharing import Task, cost_of, in_order, runs_of, working_folder
from cassette_lab.tables import flights
from cassette_lab.tables.finding import Found, PathLikes, find, name_from
from cassette_lab.tables.kinds import KINDS
from cassette_lab.tables.lab import Lab
from cassette_lab.tables.parts import Part, part_of, part_of_logs
from cassette_lab.tables.relations import with_children
from cassette_lab.tables.schemas import RELATIONS, TABLES, table_schema
from cassette_lab.tables.telling import InBytes, Progress, Telling
from cassette_lab.words import plural


def load(
    *paths: PathLikes,
    on_error: OnError = "raise",
    bodies: bool = False,
    workers: int = 1,
    progress: Progress | InBytes | bool | None = None,
) -> Lab:
    """Load artefacts into a lab of Arrow tables; everything is verified before it gets there.

    ``paths`` are files, folders (looked into to any depth for cassettes, ``*.cassette.jsonl`` and ``*.jsonl`` that begin
    with a cassette's header, for session logs, of which the highest generation counts, and for flight records,
    ``*.flight.json`` and the logs of recorders; not into hidden folders) and patterns (``runs/**/*.cassette.jsonl``), or
    lists of those; ``PATH#ID`` is one session of a store, or the one in a folder. Rows come in the order of the paths, a
    folder's by name; a file that is reached twice counts once, and so does a flight record that several files have.

    A file that cannot be verified to its end gives no rows. With ``on_error="raise"`` the first one raises
    ``FormatError``; with ``"collect"`` each is a row of ``lab.problems``, as a log in a folder always is whose header is not
    written yet. ``bodies`` adds what was said: to ``calls`` ``prompt``, ``output``, ``structured`` and ``error_message``, to
    the tables of sessions texts, arguments and results.
    ``workers=2`` shares large cassettes, and session logs that are large or many, with a second process; where that would
    not pay it does not, and the tables are the same.
    ``progress(done, total, source)`` is called after each file; without one a notebook shows a bar when it takes long, with
    ``progress=True`` a terminal does, too, and with ``False`` nothing.

    Raises ``ConfigError`` for an option that cannot be used.

    >>> lab = load("runs/")  # doctest: +SKIP
    """
    if on_error not in get_args(OnError):
        raise ConfigError(f"on_error must be {' or '.join(get_args(OnError))}, not {show(str(on_error))}")
    if workers < 1:
        raise ConfigError("workers must be 1, or 2 for a second process")
    found, root = find(paths)
    sources = [arrow_text(name_from(each.path, root)) for each in found]
    sizes = [0 if each.kind is None else size_of(each.path) for each in found]
    tables = _Tables(bodies=bodies)
    logs: list[tuple[str, Path, str | None]] = []
    with Telling(sizes, progress=progress) as telling:

        def seen(part: Part) -> None:
            for number in part.files:
                telling.after(number, sources[number])

        tasks = _tasks(found, sizes, bodies=bodies, collect=on_error == "collect", workers=workers)
        with closing(in_order(tasks, workers=workers, tell=telling.within, seen=seen)) as parts:
            for part in parts:
                if part.error is not None:
                    raise _with_way_out(part.error, len(found))
                tables.add(part)
                read = (each for each in part.files if each not in part.refused and found[each].kind is KINDS["session"])
                logs += [(sources[each], found[each].path.absolute(), found[each].session_id) for each in read]
    return Lab(root, tables.finish(sources), logs, bodies=bodies)


def _with_way_out(error: CassetteLabError, files: int) -> CassetteLabError:
    """The error with the option that lets the other files be loaded, where there are others."""
    if files > 1:
        others = plural(files - 1, "more file")
        error.message += f' (on_error="collect", in a shell --on-error collect, lists it as a problem and goes on to {others})'
    return error


def _tasks(found: Sequence[Found], sizes: Sequence[int], *, bodies: bool, collect: bool, workers: int) -> list[Task[Part]]:
    """Runs of files. Those of session logs only may be read in another process; a cassette is shared by its lines instead."""
    tasks = []
    folder = working_folder()
    costs = [cost_of(each.path, size) for each, size in zip(found, sizes, strict=True)]
    for shared, group in groupby(range(len(found)), lambda number: found[number].kind is KINDS["session"]):
        numbers = [*group]
        for start, end in runs_of([costs[number] for number in numbers]):
            files = [(number, found[number]) for number in numbers[start:end]]
            here = partial(part_of, files, bodies=bodies, collect=collect, workers=workers)
            cost = sum(costs[number] for number, _ in files)
            if shared:
                names = [(number, str(each.path), each.session_id, each.in_folder) for number, each in files]
                tasks.append(Task(cost, here, part_of_logs, (folder, names, bodies, collect)))
            else:
                tasks.append(Task(cost, here))
    return tasks


class _Tables:
    """The rows of all parts by table, and how many each file has."""

    def __init__(self, *, bodies: bool) -> None:
        self._bodies = bodies
        self._batches: dict[str, list[pa.RecordBatch]] = {name: [] for name in (*TABLES, RELATIONS)}
        self._rows: dict[str, list[tuple[int, int]]] = {name: [] for name in (*TABLES, RELATIONS)}

    def add(self, part: Part) -> None:
        for name, batches in part.batches.items():
            self._batches[name] += batches
            self._rows[name] += part.rows[name]

    def finish(self, sources: Sequence[str]) -> dict[str, pa.Table]:
        """The tables; ``sources`` names the files by their numbers."""
        tables = {name: self._table(name, sources) for name in TABLES}
        return {
            **tables,
            "tool_calls": with_children(tables, self._table(RELATIONS, sources)),
            "flights": flights.without_repeats(tables["flights"]),
        }

    def _table(self, name: str, sources: Sequence[str]) -> pa.Table:
        schema = table_schema(name, bodies=self._bodies)
        rows = pa.Table.from_batches(self._batches[name], pa.schema(list(schema)[1:]))
        names = [sources[number] for number, _ in self._rows[name]]
        numbers = {source: number for number, source in enumerate(dict.fromkeys(names))}
        by_file = np.array([numbers[each] for each in names], np.int32)
        by_row = np.repeat(by_file, np.array([count for _, count in self._rows[name]], np.int64))
        source = pa.DictionaryArray.from_arrays(pa.array(by_row, pa.int32()), pa.array(numbers, pa.string()))
        return pa.Table.from_arrays([source, *rows.columns], schema=schema)
