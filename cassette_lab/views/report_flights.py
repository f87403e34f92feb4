"""What a report tells of flight records: how requests of models ended, how soon they answered, and what was not seen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from cassette_lab.tables.flight_display import HEAD, flight_rows
from cassette_lab.views.page import count_text, html_table, note
from cassette_lab.views.rows import shown, source_text
from cassette_lab.words import UNKNOWN, duration_text, plural

if TYPE_CHECKING:
    import pyarrow as pa

REQUEST_ROWS: Final = 200
_REQUESTS: Final = (
    "session_id", "turn", "step", "attempt", "model", "outcome_kind", "finish_kind", "error_kind", "error_code",
    "first_chunk_ms", "duration_ms", "input_tokens", "output_tokens", "source",
)  # fmt: skip


def flights_html(lab: Any) -> Iterator[str]:
    """Requests by model, the telling ones one by one, and the health of each file."""
    flights, health = lab.flights, lab.flight_health
    if len(flights):
        yield html_table(list(HEAD), flight_rows(flights), numeric=range(1, len(HEAD)), csv="models")
        yield from _requests(flights)
    yield from _health(health)


def _requests(flights: pa.Table) -> Iterator[str]:
    import pyarrow.compute as pc

    failed = pc.not_equal(flights["outcome_kind"].cast("string"), "finished")
    ranked = flights.append_column("failed", failed).select([*_REQUESTS, "failed"])
    order = pc.sort_indices(ranked, sort_keys=[("failed", "descending"), ("duration_ms", "descending")])
    chosen = sorted(order[:REQUEST_ROWS].to_pylist())
    head = ["session", "turn", "step", "attempt", "model", "outcome", "first chunk", "total", "tokens in", "out", "file"]
    rows = [
        [
            shown(row["session_id"] or UNKNOWN),
            *(count_text(row[name]) for name in ("turn", "step", "attempt")),
            shown(row["model"] or UNKNOWN),
            _outcome(row),
            *(duration_text(row[name]) for name in ("first_chunk_ms", "duration_ms")),
            *(count_text(row[name]) for name in ("input_tokens", "output_tokens")),
            source_text(row["source"]),
        ]
        for row in ranked.take(chosen).to_pylist()
    ]
    if len(flights) > REQUEST_ROWS:
        yield note(f"{REQUEST_ROWS} of {plural(len(flights), 'request')}: those that did not finish, then the longest")
    yield html_table(head, rows, numeric={1, 2, 3, 6, 7, 8, 9}, wrap={10}, csv="requests")


def _health(health: pa.Table) -> Iterator[str]:
    """What each recorder saw, and what it could not keep or tell."""
    names = ("records", "captured", "completed", "active", "evicted", "truncated_records", "correlation_misses")
    rows = [
        [source_text(row["source"]), shown(row["kind"] or UNKNOWN), *(count_text(row[name]) for name in names), _read(row)]
        for row in health.slice(0, REQUEST_ROWS).to_pylist()
    ]
    heads = ["file", "kind", *(name.replace("_", " ") for name in names), "trust"]
    yield html_table(heads, rows, numeric=range(2, 2 + len(names)), csv="flight-files")


def _outcome(row: dict[str, Any]) -> str:
    words = (row["outcome_kind"], row["finish_kind"], row["error_kind"], row["error_code"])
    return " · ".join(shown(word) for word in dict.fromkeys(words) if word)


def _read(row: dict[str, Any]) -> str:
    torn = row["torn_bytes"] or 0
    return f"read up to a torn tail of {torn:,} bytes" if torn else "✓ read to its end"
