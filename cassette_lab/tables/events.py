"""The events of session logs as a table, built when it is asked for: the largest one, and most questions need none of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cassette_lab.errors import FormatError
from cassette_lab.jsonio import CanonicalError, JsonObject, as_integer, canonical
from cassette_lab.jsonio.text import arrow_text
from cassette_lab.session.chunks import ROW_OF_KIND, pack_row
from cassette_lab.session.members import known
from cassette_lab.session.model import ChunkRun, Event, Row, SessionLog
from cassette_lab.session.opening import each_log
from cassette_lab.tables.columns import array_of
from cassette_lab.tables.schemas import table_schema


def events(
    logs: Iterable[tuple[str, Path, str | None]], loaded: Mapping[str, int], *, expand: bool = False, bodies: bool = False
) -> pa.Table:
    """One row per stored row of these logs (each a ``source``, its file and which session of it), read again.

    A packed row of which only a part is inherited is two, so that members can be counted.

    ``loaded`` says how many sessions each source gave when it was loaded: one of a store that was refused then is left out.
    ``expand`` gives one row per event instead, ``bodies`` the data of each as canonical JSON. Raises ``FormatError`` for a
    log that can no longer be read.
    """
    schema = table_schema("events", bodies=bodies)
    batches: list[pa.RecordBatch] = []
    for source, path, session_id in logs:
        before, refused = len(batches), None
        for read in each_log(path, session_id):
            try:
                batches.append(_batch(source, read(), schema, expand=expand))
            except FormatError as error:
                refused = refused or error
        if refused is not None and len(batches) - before < loaded.get(source, 0):
            raise refused
    return pa.Table.from_batches(batches, schema).unify_dictionaries()


def _batch(source: str, log: SessionLog, schema: pa.Schema, *, expand: bool) -> pa.RecordBatch:
    bodies = "data" in schema.names
    columns: dict[str, list[Any]] = {name: [] for name in schema.names[2:]}
    for seq, kind, time, turn, step, members, data in _rows(log.rows, log.boundary, expand=expand):
        columns["seq"].append(seq)
        columns["type"].append(kind)
        columns["time"].append(known(time))
        columns["turn"].append(as_integer(turn))
        columns["step"].append(as_integer(step))
        columns["members"].append(members)
        columns["inherited"].append(seq < log.boundary)
        if bodies:
            columns["data"].append(_json(data() if callable(data) else data))
    count = len(columns["seq"])
    sources = pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([source], pa.string()))
    ids = pa.repeat(pa.scalar(arrow_text(log.header.id), pa.string()), count)
    arrays = [sources, ids, *(array_of(values, schema.field(name).type) for name, values in columns.items())]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _rows(rows: Iterable[Row], boundary: int, *, expand: bool) -> Iterator[tuple[Any, ...]]:
    """Seq, type, time, turn, step, members and data of each row (data of a packed one as a function that makes it)."""
    for row in rows:
        if isinstance(row, ChunkRun) and row.packed and not expand:
            inherited = boundary - row.seq0
            cut = 0 < inherited < row.members
            for run in (row.first_members(inherited), row.from_member(inherited)) if cut else (row,):
                yield run.seq0, ROW_OF_KIND[run.kind], run.time0, run.turn, run.step, run.members, partial(_packed_data, run)
            continue
        for event in (row,) if isinstance(row, Event) else row.events():
            data = event.data
            yield event.seq, event.type, event.time, data.get("turn"), data.get("step"), 1, data


def _packed_data(run: ChunkRun) -> JsonObject:
    data: JsonObject = pack_row(run)["data"]
    return data


def _json(data: JsonObject) -> str | None:
    """Canonical JSON; None where the data has none (a number that no double holds)."""
    try:
        return canonical(data).decode()
    except CanonicalError:
        return None
