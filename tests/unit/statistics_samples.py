"""Rows of a lab's tables made from columns, for the tests of the charts of statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa

import cassette_lab as cl
from cassette_lab.tables.schemas import TABLES, table_schema
from tests.unit.views_samples import call, table

HOSTILE = "<img src=x onerror=alert(1)> & \u202e\u0007\uffff"


def rows(name: str, /, **columns: Sequence[Any] | np.ndarray[Any, Any] | pa.Array) -> pa.Table:
    """The table ``name``, null in every column that is not given; no row is inherited unless ``inherited`` says so."""
    count = len(next(iter(columns.values())))
    given = {"source": ["run/session.jsonl"] * count, "inherited": [False] * count, **columns}
    arrays = []
    for field in (fields := table_schema(name)):
        if field.name not in given:
            arrays.append(pa.nulls(count, field.type))
            continue
        if isinstance(given[field.name], pa.Array):
            arrays.append(given[field.name])
            continue
        dictionary = pa.types.is_dictionary(field.type)
        plain = field.type.value_type if dictionary else field.type
        arrays.append(pa.array(given[field.name], plain).cast(field.type) if dictionary else pa.array(given[field.name], plain))
    return pa.Table.from_arrays(arrays, schema=fields)


def lab(root: Any, **tables: pa.Table) -> cl.Lab:
    """A lab of these tables; the others are empty."""
    return cl.Lab(root, {name: tables.get(name, table_schema(name).empty_table()) for name in TABLES})


def run(durations: Mapping[str, Sequence[float | None]], source: str) -> pa.Table:
    """A cassette: for each label its calls with these durations; the same label and place is the same call everywhere."""
    made = [
        call(1000 * crc32(label.encode()) + place, label, 0, -1.0 if duration is None else duration)
        for label, each in durations.items()
        for place, duration in enumerate(each, start=1)
    ]
    return table(*made, source=source)


def runs(*each: Mapping[str, Sequence[float | None]], name: str) -> pa.Table:
    """Several cassettes of one agent."""
    return pa.concat_tables([run(durations, f"{name}-{number}.cassette.jsonl") for number, durations in enumerate(each)])
