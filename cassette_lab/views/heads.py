"""Calls, sessions and requests as rows of one kind, so that one picture can show who started whom, whatever was recorded."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from cassette_lab.views.rows import NOUN, Calls, calls_of, loaded
from cassette_lab.views.session_rows import names_in

if TYPE_CHECKING:
    import pyarrow as pa

_LOGS: Final = "session logs"
_FINISHED: Final = {"stop": "completed", "tool-calls": "completed"}
_TIMES: Final = ("started_at", "start_latency_ms", "duration_ms")
_REQUEST_CATEGORIES: Final = {"threw": "error", "incomplete": "other"}


def heads(data: Calls, *, nested: bool = True) -> pa.Table:
    """The calls of ``data``, then its sessions; where it has neither, its flight records. Columns are those of ``calls``.

    A session stands for a call: its id is the key, the session that started it the parent, the end of its last turn the
    stop reason. ``nested`` puts all sessions in one place, so that a subagent stands below its parent wherever its log
    lies; else each has its file. What a title counts stands in the metadata of the table.
    """
    import pyarrow as pa

    lab = loaded(data)
    calls = calls_of(lab)
    sessions, flights = getattr(lab, "sessions", ()), getattr(lab, "flights", ())
    if not len(sessions) and (len(calls) or not len(flights)):
        return calls
    rows = _session_rows(lab, nested=nested) if len(sessions) else _request_rows(flights)
    columns = [field for field in calls.schema if field.name in (*rows[0], "source", "error_code", *_TIMES)]
    made = pa.table({field.name: pa.array([row.get(field.name) for row in rows], field.type) for field in columns})
    noun = "session" if len(sessions) else "request"
    if not len(calls):
        return _padded(made, calls.schema).replace_schema_metadata({NOUN: noun})
    both = pa.concat_tables([calls.unify_dictionaries(), _padded(made, calls.schema)], promote_options="default")
    return both.replace_schema_metadata({NOUN: "call or session:calls and sessions"})


def _session_rows(lab: Any, *, nested: bool) -> list[dict[str, Any]]:
    names = names_in(lab)
    wanted = ["source", "session_id", "parent_session", "started_at", "duration_ms", "end_kind"]
    sessions = lab.sessions.select(wanted).to_pylist()
    keys = _keys(sessions)
    anywhere = {row["session_id"]: key for row, key in reversed(list(zip(sessions, keys.values(), strict=True)))}
    elsewhere = _LOGS if len(lab.calls) else ""
    return [
        {
            "source": elsewhere if nested else row["source"],
            "sequence": number,
            "call_key": key,
            "parent_key": keys.get((row["source"], row["parent_session"])) or anywhere.get(row["parent_session"], ""),
            "label": names[row["source"], row["session_id"]],
            "occurrence": 1,
            "started_at": row["started_at"],
            "duration_ms": row["duration_ms"],
            "outcome_kind": "result",
            "stop_reason": row["end_kind"],
        }
        for number, (row, key) in enumerate(zip(sessions, keys.values(), strict=True), 1)
    ]


def _keys(sessions: list[dict[str, Any]]) -> dict[tuple[str, str], str]:
    """Ids of sessions by file and id; with the file where several have one."""
    count = Counter(row["session_id"] for row in sessions)
    return {
        (row["source"], row["session_id"]): row["session_id"] if count[row["session_id"]] == 1 else _path(row)
        for row in sessions
    }


def _path(row: dict[str, Any]) -> str:
    """``FILE#ID``, as ``cl.waterfall`` takes it."""
    return f"{row['source']}#{row['session_id']}"


def _request_rows(flights: pa.Table) -> list[dict[str, Any]]:
    wanted = ["source", "record_id", "model", "started_at", "first_chunk_ms", "duration_ms", "outcome_kind", "finish_kind"]
    return [
        {
            "source": row["source"],
            "sequence": number,
            "call_key": row["record_id"],
            "parent_key": "",
            "label": row["model"],
            "occurrence": 1,
            "started_at": row["started_at"],
            "start_latency_ms": row["first_chunk_ms"],
            "duration_ms": row["duration_ms"],
            "outcome_kind": "result",
            "stop_reason": "aborted" if row["aborted_by"] else _ended(row["outcome_kind"], row["finish_kind"]),
            "error_code": row["error_code"],
            "child_model": row["model"],
        }
        for number, row in enumerate(flights.select([*wanted, "error_code", "aborted_by"]).to_pylist(), 1)
    ]


def _ended(outcome_kind: str | None, finish_kind: str | None) -> str | None:
    return _REQUEST_CATEGORIES.get(outcome_kind or "") or _FINISHED.get(finish_kind or "", finish_kind)


def _padded(made: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with all columns of a schema; those that it does not have are unknown."""
    import pyarrow as pa

    return pa.table(
        {
            field.name: made[field.name].cast(field.type)
            if field.name in made.column_names
            else pa.nulls(len(made), field.type)
            for field in schema
        },
        schema=pa.schema(list(schema)),
    )
