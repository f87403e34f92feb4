"""Which rows to keep where not all can go: those that tell something, with everything above them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    Numbers = np.ndarray[Any, np.dtype[np.int64]]

ROW: Final = "row"
"""Column that says which row of the whole table each was, from 0."""

_ABOVE: Final = ("sessions", "turns", "calls", "flights", "model_calls", "tool_calls", "compactions", "steps")
"""Tables in the order in which they get room: what others stand under first."""

_FEWEST: Final = 8
_IDENTITY: Final = ("parent_key", "parent_context_fingerprint", "request_fingerprint", "occurrence")


def bounded(tables: Mapping[str, pa.Table], max_rows: int) -> dict[str, pa.Table]:
    """At most ``max_rows`` rows in all (a few more, where tables are small), each with its number in a column ``row``."""
    if "expected" in tables and "actual" in tables:
        kept = _of_both(tables["expected"], tables["actual"], max(max_rows // 2, _FEWEST))
        return {name: _taken(tables[name], rows) for name, rows in zip(("expected", "actual"), kept, strict=True)}
    left = max_rows
    taken: dict[str, pa.Table] = {}
    waiting = [name for name in (*_ABOVE, *tables) if name in tables]
    for name in dict.fromkeys(waiting):
        # Half of what is left, so that what comes later is seen, too; the last table gets all of it.
        share = left if len(taken) == len(tables) - 1 else max(left // 2, min(left, _FEWEST))
        table = tables[name]
        rows = _of_calls(table, share) if name == "calls" else _most_telling(table, share)
        taken[name] = _taken(table, rows)
        left = max(left - len(rows), 0)
    return {name: taken[name] for name in tables}


def parents(table: pa.Table) -> Numbers:
    """The row of every call's parent; -1 where it is not in the table."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    keys, above = table["call_key"], table["parent_key"]
    if "source" in table.column_names:
        source = table["source"].cast(pa.string())
        keys, above = (pc.binary_join_element_wise(source, column, "\n") for column in (keys, above))
    places = pc.fill_null(pc.index_in(above, value_set=keys.combine_chunks()), -1)
    return np.asarray(places.to_numpy(), dtype=np.int64)


def _of_calls(table: pa.Table, limit: int) -> Numbers:
    return _with_those_above(_ranked(table), parents(table), limit)


def _of_both(expected: pa.Table, actual: pa.Table, limit: int) -> tuple[Numbers, Numbers]:
    """Of two recordings the calls that differ, then those whose time does; both sides of each, where there are two."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    sides = [table.select([*_IDENTITY, "duration_ms", "outcome_fingerprint"]) for table in (expected, actual)]
    sides = [side.append_column(ROW, pa.array(range(len(side)))) for side in sides]
    both = sides[0].join(sides[1], list(_IDENTITY), join_type="full outer", right_suffix="_actual")
    differs = pc.fill_null(pc.not_equal(both["outcome_fingerprint"], both["outcome_fingerprint_actual"]), True)  # noqa: FBT003
    delta = pc.fill_null(pc.abs(pc.subtract(both["duration_ms_actual"], both["duration_ms"])), 0.0)
    facts = pa.table({"differs": differs.cast(pa.int8()), "delta": delta, "row": both[ROW], "other": both[f"{ROW}_actual"]})
    keys = [("differs", "descending"), ("delta", "descending"), ("row", "ascending"), ("other", "ascending")]
    facts = facts.sort_by(keys).slice(0, limit)
    kept = []
    for table, column in ((expected, "row"), (actual, "other")):
        seeds = np.asarray(facts[column].drop_null().to_numpy(), dtype=np.int64)
        kept.append(_with_those_above(seeds, parents(table), limit))
    return kept[0], kept[1]


def _with_those_above(seeds: Numbers, parent: Numbers, limit: int) -> Numbers:
    """As many of the seeds, in their order, as have room together with all calls above them; sorted."""
    import numpy as np

    count = min(len(seeds), limit)
    while True:
        rows = np.unique(seeds[:count])
        level = rows
        while len(level):
            level = np.setdiff1d(parent[level], rows)
            level = level[level >= 0]
            rows = np.union1d(rows, level)
        if len(rows) <= limit or count <= 1:
            return rows
        count = max(1, min(count - 1, count * limit // len(rows)))


def _most_telling(table: pa.Table, limit: int) -> Numbers:
    import numpy as np

    return np.sort(_ranked(table)[: max(limit, 0)])


def _ranked(table: pa.Table) -> Numbers:
    """All rows, the most telling first: what did not end well takes turns with what took longest."""
    import numpy as np
    import pyarrow as pa

    count = len(table)
    long = np.nan_to_num(np.asarray(table["duration_ms"].cast(pa.float64()).to_numpy(), dtype=np.float64), nan=-1.0)
    by_length = np.argsort(-long, kind="stable")
    failed = _failed(table)[by_length]
    place = np.empty(count, dtype=np.float64)
    place[by_length] = np.arange(count)
    # The first failure stands beside the longest row, the second beside the second longest, and so on.
    place[by_length[failed]] = np.minimum(place[by_length[failed]], np.arange(int(failed.sum())) + 0.5)
    return np.asarray(np.argsort(place, kind="stable"), dtype=np.int64)


def _failed(table: pa.Table) -> Any:
    """Which rows did not end well, by whatever column says so."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    failed = np.zeros(len(table), dtype=bool)
    for name, well in (("stop_reason", "completed"), ("end_kind", "completed"), ("outcome_kind", "result")):
        if name in table.column_names:
            words = table[name].cast(pa.string())
            failed |= np.asarray(pc.fill_null(pc.not_equal(words, well), name == "stop_reason").to_numpy(), dtype=bool)
            break
    for name in ("is_error", "failed", "interrupted"):
        if name in table.column_names:
            failed |= np.asarray(pc.fill_null(table[name].cast(pa.bool_()), False).to_numpy(), dtype=bool)  # noqa: FBT003
    if "error_code" in table.column_names:
        failed |= np.asarray(pc.is_valid(table["error_code"]).to_numpy(), dtype=bool)
    return failed


def _taken(table: pa.Table, rows: Numbers) -> pa.Table:
    import pyarrow as pa

    about = pa.field(ROW, pa.int32(), metadata={"doc": "row of the whole table, from 0"})
    if ROW in table.column_names:  # it is already a part of another table
        return table.take(pa.array(rows))
    return table.take(pa.array(rows)).append_column(about, pa.array(rows, pa.int32()))
