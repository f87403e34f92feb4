"""The calls of a report one by one: the telling ones in a table, and what they said where that was asked for."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, Final

from cassette_lab.views.page import html_table, mark, note
from cassette_lab.views.rows import category_numbers, shown, sources_of, tree_rows
from cassette_lab.views.sending import BODIES
from cassette_lab.words import UNKNOWN, duration_text

if TYPE_CHECKING:
    import pyarrow as pa

BODY_CHARACTERS: Final = 20_000
SAID: Final = BODIES["calls"]


def calls_table(table: pa.Table, limit: int, *, bodies: bool) -> Iterator[str]:
    """At most ``limit`` of the calls as a table, children below their parents."""
    if not len(table):
        yield note("this recording has no calls")
        return
    several = len(sources_of(table)) > 1
    chosen = table
    if len(table) > limit:
        chosen = _telling(table, limit)
        yield note(
            f"{limit:,} of {len(table):,} calls: first those that did not complete, then the longest. "
            "All of them: CSV in the explorer, or cassette-lab load FILE -o FOLDER"
        )
    rows = tree_rows(chosen)
    head = [*(["file"] if several else []), "call", "outcome", "start latency", "duration", "model", "call key"]
    shift = 1 if several else 0
    cells = [
        [
            *([row.source] if several else []),
            "\u2003" * min(row.depth, 8) + row.label,
            row.outcome,
            duration_text(row.latency_ms),
            duration_text(row.duration_ms),
            row.model or UNKNOWN,
            row.key,
        ]
        for row in rows
    ]
    yield html_table(
        head,
        cells,
        numeric={2 + shift, 3 + shift},
        marks={1 + shift: [mark(row.category) for row in rows]},
        code={5 + shift},
        wrap={shift},
        csv="telling-calls" if len(table) > limit else "calls",
    )
    if bodies:
        yield "<h3>What the calls said</h3>"
        yield from _bodies(chosen)


def _telling(table: pa.Table, limit: int) -> pa.Table:
    """The calls a reader looks for among too many: those that did not complete, then the longest."""
    import pyarrow as pa
    import pyarrow.compute as pc

    ranked = table.append_column("failed", pa.array(category_numbers(table) > 0)).append_column(
        "row", pa.array(range(len(table)))
    )
    order = pc.sort_indices(ranked, sort_keys=[("failed", "descending"), ("duration_ms", "descending"), ("row", "ascending")])
    return table.take(order[: max(limit, 0)])


def _bodies(table: pa.Table) -> Iterator[str]:
    for row in table.select(["call_key", *SAID]).to_pylist():
        parts = []
        for name in SAID:
            if (text := row[name]) is not None:
                cut = f"<p>… {len(text) - BODY_CHARACTERS:,} more characters</p>" if len(text) > BODY_CHARACTERS else ""
                said = escape(shown(text[:BODY_CHARACTERS]))
                parts.append(f"<dt>{name.replace('_', ' ')}</dt><dd><pre>{said}</pre>{cut}</dd>")
        if parts:
            key = escape(shown(row["call_key"]))
            yield f"<details><summary><code>{key}</code></summary><dl>{''.join(parts)}</dl></details>"
