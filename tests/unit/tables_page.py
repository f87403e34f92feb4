"""The page ``docs/tables.md``, made from the schemas. ``python -m tests.unit.tables_page`` writes it anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from cassette_lab.tables.schemas import TABLES, VERSION, body_columns, table_schema

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tables.md"

_ROWS = {
    "cassettes": "One row per cassette.",
    "calls": "One row per recorded call. The last four columns are there with `load(..., bodies=True)` only.",
    "sessions": "One row per session log; everything is its own, without what a fork took over from its parent.",
    "turns": "One row per turn of a session.",
    "steps": "One row per step of a turn.",
    "model_calls": "One row per model call or attempt.",
    "tool_calls": "One row per tool call, and per call made by code that a tool ran.",
    "compactions": (
        "One row per compaction: a model call of its own, which is none of `model_calls`. A session's cost is the sum of both."
    ),
    "notes": "One row per thing about a session log that a reader should know, and that did not stop the reading.",
    "events": "One row per stored row of the session logs, built when asked for; `lab.build_events(expand=True)`: per event.",
    "flights": (
        "One row per model request that a flight recorder saw, from `*.flight.json` and from the logs of recorders; "
        "the oldest first. A record that several files have is one row: the first that tells how it ended, else the first. "
        "`session_id`, `turn`, `step` and `attempt` are those of `model_calls`."
    ),
    "flight_health": "One row per snapshot or log of a flight recorder. Every snapshot counts from its recorder's beginning.",
    "problems": 'One row per file that was not loaded: `load(..., on_error="collect")`.',
}


def page() -> str:
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield "# Tables"
    yield ""
    yield f"What `cassette_lab.load` gives, version {VERSION} of the schemas. The same words stand in the schemas themselves"
    yield '(`lab.calls.schema.field("depth").metadata`). Unknown is null, never 0. Times are UTC.'
    yield ""
    yield "A session is named by `source` and `session_id` together: two runs of one scenario, or a folder and its backup, may"
    yield "have equal ids, and a SQLite store is one source with many sessions. Join and group by both:"
    yield "`select … from turns join sessions using (source, session_id)`."
    for name in (*TABLES, "events"):
        yield from ("", f"## {name}", "", _ROWS[name], "", "| column | type | unit | meaning |", "| --- | --- | --- | --- |")
        for field in table_schema(name, bodies=True):
            unit = field.metadata.get(b"unit", b"").decode()
            body = " (a body)" if field in body_columns(name) else ""
            yield f"| {field.name} | {_type(field.type)} | {unit} | {field.metadata[b'doc'].decode()}{body} |"
    yield ""


def _type(kind: pa.DataType) -> str:
    if pa.types.is_dictionary(kind):
        return f"{kind.value_type}, dictionary-encoded"
    if pa.types.is_map(kind):
        return f"map of {kind.item_type} by {kind.key_type}"
    return f"list of {kind.value_type}" if pa.types.is_list(kind) else str(kind)


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
