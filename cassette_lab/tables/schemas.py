"""The tables of a lab: their columns, what each means (field metadata ``doc`` and ``unit``), and their version.

A table's metadata has its name (``cassette_lab.table``) and the version of its columns (``cassette_lab.schema``). The
version rises when a column changes its meaning, its type or its name; a new column does not raise it.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from cassette_lab.cassette.columns import BODIES, CALLS, TIME, column
from cassette_lab.tables import flight_columns, relations, session_columns

VERSION: Final = 1

RELATIONS: Final = "relations"
"""Rows that are used up while a lab is made."""

SOURCE: Final = column(
    "source",
    pa.dictionary(pa.int32(), pa.string()),
    "file the row comes from: its path from the lab's root, with slashes",
)
"""First column of every table."""

CASSETTES: Final = [
    column("cassette_id", pa.string(), "id the recorder gave the file"),
    column("created_at", TIME, "when the recording began; null where the file holds no date of the years 1 to 9999", "ms"),
    column("target", pa.string(), "version of the subagent interface the calls were made through"),
    column("provider", pa.string(), "name of the recording provider"),
    column("upstream", pa.string(), "name of the provider that was recorded"),
    column("supports_output_schema", pa.bool_(), "whether the upstream takes an output schema"),
    column("supports_depth_limit", pa.bool_(), "whether the upstream takes a delegation depth"),
    column("supports_tool_filter", pa.bool_(), "whether the upstream takes a tool filter"),
    column("supports_persona", pa.bool_(), "whether the upstream takes a persona"),
    column("inherits_parent_context", pa.bool_(), "whether a child sees its parent's history"),
    column("request_storage", pa.string(), "what is kept of requests: metadata or full"),
    column("redact_secrets", pa.bool_(), "whether secrets were replaced before writing"),
    column("redaction_patterns", pa.list_(pa.string()), "patterns of the user's own that were replaced, too"),
    column("interactions", pa.int64(), "recorded calls", "calls"),
    column("completed", pa.int64(), "calls that ended with the stop reason completed", "calls"),
    column("failed", pa.int64(), "calls that neither completed nor were aborted", "calls"),
    column("aborted", pa.int64(), "calls that ended with the stop reason aborted", "calls"),
    column("ambiguous_groups", pa.int64(), "groups of equal calls with more than one distinct outcome", "groups"),
    column("redacted_results", pa.int64(), "results in which something was replaced", "calls"),
    column("duration_ms", pa.float64(), "the longest call; null without calls", "ms"),
    column("bytes", pa.int64(), "size of the file", "bytes"),
    column("file_sha256", pa.string(), "digest of the file"),
]
"""One row per cassette."""

PROBLEMS: Final = [
    column("line", pa.int64(), "physical line of the problem, from 1; null where it is no single line"),
    column("code", pa.string(), "stable word for the kind of problem, as on the error"),
    column("message", pa.string(), "what is wrong and what to do, as one sentence"),
]
"""One row per file that was not loaded."""

_COLUMNS: Final = {
    "cassettes": CASSETTES,
    "calls": [*CALLS],
    "sessions": session_columns.SESSIONS,
    "turns": session_columns.TURNS,
    "steps": session_columns.STEPS,
    "model_calls": session_columns.MODEL_CALLS,
    "tool_calls": session_columns.TOOL_CALLS,
    "compactions": session_columns.COMPACTIONS,
    "notes": session_columns.NOTES,
    "flights": flight_columns.FLIGHTS,
    "flight_health": flight_columns.FLIGHT_HEALTH,
    "problems": PROBLEMS,
    "events": session_columns.EVENTS,
    RELATIONS: relations.COLUMNS,
}
_BODIES: Final = {"calls": [*BODIES], **session_columns.SESSION_BODIES}

TABLES: Final = tuple(name for name in _COLUMNS if name not in ("events", RELATIONS))
"""Names of the tables that a lab has from the start, in the order they are shown."""

SESSION_TABLES: Final = ("sessions", "turns", "steps", "model_calls", "tool_calls", "compactions", "notes")
"""Those that session logs give."""

FLIGHT_TABLES: Final = ("flights", "flight_health")
"""Those that flight records give."""


def body_columns(name: str) -> list[pa.Field]:
    """The columns of a table that are there with bodies only."""
    return _BODIES.get(name, [])


def table_schema(name: str, *, bodies: bool = False) -> pa.Schema:
    """Schema of a table. ``bodies`` adds what was said, where a table has that."""
    columns = [SOURCE, *_COLUMNS[name], *(body_columns(name) if bodies else ())]
    return pa.schema(columns, metadata={"cassette_lab.table": name, "cassette_lab.schema": str(VERSION)})
