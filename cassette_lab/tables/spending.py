"""Where the time of each session went: every instant counted once, so that the parts add up to the session's duration.

Things overlap: tools run side by side, a model streams while subagents work. Each instant goes to the first of ``PARTS``
that was going on then, so a row says what the session waited for, not what its calls come to when they are summed up.
A subagent in the background counts while its own turns last, for the call that started it is over at once.
Source: session logs, Calls, and where chunks and times live; Parents and children.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from cassette_lab.cassette.columns import column
from cassette_lab.session.kinds import DELEGATING
from cassette_lab.tables.sql import SqlResult

Session: TypeAlias = tuple[str, str]
"""``source`` and ``session_id``: together they name a session in a lab."""
_Span: TypeAlias = tuple[float, float]
_Spans: TypeAlias = dict[str, list[_Span]]

PARTS: Final = {
    "streaming_ms": "a model answered: from the first chunk on",
    "waiting_ms": "a model was asked, and no chunk had come yet (or none ever came)",
    "compacting_ms": "the conversation was summed up",
    "back_off_ms": "a failed request waited to be made again",
    "tools_ms": "a tool ran",
    "subagents_ms": "subagents worked, and nothing of the above went on",
    "other_ms": "a turn was open, and nothing of the above went on",
    "idle_ms": "no turn was open, and no subagent worked: it waited for a message",
}
"""What an instant can go to, the first one that fits."""

_COLUMNS: Final = [
    column("source", pa.string(), "file it comes from"),
    column("session_id", pa.string(), "id of the session"),
    column(
        "duration_ms", pa.float64(), "from the earliest to the latest own event: the sum of all parts; null without times", "ms"
    ),
    *(column(name, pa.float64(), doc, "ms") for name, doc in PARTS.items()),
]


def time_spent(tables: Mapping[str, pa.Table]) -> SqlResult:
    """A row for each session, in the order of ``sessions``. What no log has a time for counts as ``other`` or ``idle``."""
    names = ["source", "session_id", "started_at", "ended_at", "duration_ms"]
    sessions = _rows(tables["sessions"], names, inherited=None)
    spans: dict[Session, _Spans] = defaultdict(lambda: defaultdict(list))
    for session, part, span in (*_model_spans(tables), *_turn_spans(tables, sessions), *_compaction_spans(tables)):
        spans[session][part].append(span)
    for session, part, span in _tool_spans(tables, {key: each["turn"] for key, each in spans.items()}):
        spans[session][part].append(span)
    rows = [[row["source"], row["session_id"], row["duration_ms"], *_parts(row, spans[_key(row)])] for row in sessions]
    columns = [list(values) for values in zip(*rows, strict=True)] or [[] for _ in _COLUMNS]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, _COLUMNS, strict=True)]
    return SqlResult(pa.Table.from_arrays(arrays, schema=pa.schema(_COLUMNS)))


def _parts(row: Mapping[str, Any], spans: _Spans) -> list[float | None]:
    """How long each of ``PARTS`` went on, from the session's start to its end."""
    if row["duration_ms"] is None:
        return [None] * len(PARTS)
    start, end = row["started_at"], row["ended_at"]
    parts = [spans.get(name, []) for name in (*list(PARTS)[:-2], "turn")]
    flat = [(part, max(first, start), min(last, end)) for part, some in enumerate(parts) for first, last in some]
    flat = [each for each in flat if each[2] > each[1]]
    edges = np.unique(np.array([start, end, *(each[1] for each in flat), *(each[2] for each in flat)], np.float64))
    running = np.zeros((len(parts), len(edges)), np.int64)
    if flat:
        kinds, firsts, lasts = (np.array(values) for values in zip(*flat, strict=True))
        np.add.at(running, (kinds, np.searchsorted(edges, firsts)), 1)
        np.add.at(running, (kinds, np.searchsorted(edges, lasts)), -1)
    there = np.cumsum(running, axis=1)[:, :-1] > 0
    taken = np.where(there.any(axis=0), there.argmax(axis=0), len(parts))
    return [float(each) for each in np.bincount(taken, weights=np.diff(edges), minlength=len(PARTS))]


def _model_spans(tables: Mapping[str, pa.Table]) -> Iterator[tuple[Session, str, _Span]]:
    names = ["source", "session_id", "turn", "step", "started_at", "started_by", "first_chunk_ms", "duration_ms"]
    ended: dict[tuple[Any, ...], float] = {}
    for row in _rows(tables["model_calls"], names):
        if row["started_at"] is None:
            continue
        session, place = _key(row), (row["source"], row["session_id"], row["turn"], row["step"])
        start = row["started_at"]
        if row["started_by"] == _RETRIED and place in ended:
            yield session, "back_off_ms", (ended[place], start)
        if row["duration_ms"] is None:
            continue
        ended[place] = end = start + row["duration_ms"]
        first = end if row["first_chunk_ms"] is None else start + row["first_chunk_ms"]
        yield session, "waiting_ms", (start, first)
        yield session, "streaming_ms", (first, end)


def _turn_spans(tables: Mapping[str, pa.Table], sessions: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Session, str, _Span]]:
    """Own turns; one that is open lasts until the session's latest event."""
    ends = {_key(row): row["ended_at"] for row in sessions}
    for row in _rows(tables["turns"], ["source", "session_id", "started_at", "duration_ms", "end_kind"]):
        start, end = row["started_at"], ends[_key(row)]
        if start is None or end is None:
            continue
        if row["duration_ms"] is not None:
            yield _key(row), "turn", (start, start + row["duration_ms"])
        elif row["end_kind"] is None:
            yield _key(row), "turn", (start, end)


def _compaction_spans(tables: Mapping[str, pa.Table]) -> Iterator[tuple[Session, str, _Span]]:
    for row in _rows(tables["compactions"], ["source", "session_id", "started_at", "duration_ms"]):
        if row["started_at"] is not None and row["duration_ms"] is not None:
            yield _key(row), "compacting_ms", (row["started_at"], row["started_at"] + row["duration_ms"])


def _tool_spans(
    tables: Mapping[str, pa.Table], turns: Mapping[Session, Sequence[_Span]]
) -> Iterator[tuple[Session, str, _Span]]:
    names = ["source", "session_id", "parent_call_id", "name", "started_at", "duration_ms", "child_session_id", "child_source"]
    for row in _rows(tables["tool_calls"], names):
        session, child = _key(row), row["child_session_id"]
        part = "subagents_ms" if child is not None or row["name"] in DELEGATING else "tools_ms"
        if row["started_at"] is not None and row["duration_ms"] is not None and row["parent_call_id"] is None:
            yield session, part, (row["started_at"], row["started_at"] + row["duration_ms"])
        for span in () if child is None else turns.get((row["child_source"], child), ()):
            yield session, "subagents_ms", span


_RETRIED: Final = "llm/retry-started"


def _key(row: Mapping[str, Any]) -> Session:
    return row["source"], row["session_id"]


def _rows(table: pa.Table, names: list[str], *, inherited: bool | None = False) -> list[dict[str, Any]]:
    """Own rows, with times in epoch ms."""
    chosen = table.select(names) if inherited is None else table.filter(pa.compute.invert(table["inherited"])).select(names)
    for name in ("started_at", "ended_at"):
        if name in names:
            chosen = chosen.set_column(names.index(name), name, chosen[name].cast(pa.int64()))
    return [dict(row) for row in chosen.to_pylist()]
