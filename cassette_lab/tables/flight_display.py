"""How the flight records of a lab show themselves: how many requests of which models, how they ended, how long they took."""

from __future__ import annotations

from collections import Counter
from statistics import median
from typing import Any, Final

import pyarrow as pa

from cassette_lab.jsonio.text import show
from cassette_lab.words import UNKNOWN, duration_text, plural

HEAD: Final = ("provider / model", "requests", "finished", "first chunk, median", "total, median", "tokens in", "out")
SHOWN_MODELS: Final = 10
_SHOWN_CHARACTERS: Final = 48


def flights_line(flights: pa.Table, health: pa.Table) -> str:
    """``42 requests in 2 files of flight records: 40 finished, 2 threw``, and what the recorders could not see."""
    kinds = Counter(flights["outcome_kind"].to_pylist())
    ends = ", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common())
    files = f"{plural(len(flights), 'request')} in {plural(len(health), 'file')} of flight records"
    missed = max((count for count in health["correlation_misses"].to_pylist() if count), default=0)
    return f"{files}{f': {ends}' if ends else ''}" + (f" · {plural(missed, 'request')} not told whose" if missed else "")


def flight_rows(flights: pa.Table) -> list[list[str]]:
    """The models with the most requests, a cell for each of ``HEAD``."""
    names = ("provider", "model", "outcome_kind", "first_chunk_ms", "duration_ms", "input_tokens", "output_tokens")
    by_model: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in flights.select(names).to_pylist():
        by_model.setdefault((row["provider"], row["model"]), []).append(row)
    ranked = sorted(by_model.items(), key=lambda each: -len(each[1]))
    return [_row(f"{provider} / {model}", rows) for (provider, model), rows in ranked[:SHOWN_MODELS]]


def flight_lines(flights: pa.Table) -> list[str]:
    """The same as lines."""
    return [
        f"{model} · {requests} request{'' if requests == '1' else 's'} · first chunk {first} · total {total} (medians)"
        for model, requests, _, first, total, *_ in flight_rows(flights)
    ]


def _row(name: str, rows: list[dict[str, Any]]) -> list[str]:
    shown = show(name)
    return [
        shown if len(shown) <= _SHOWN_CHARACTERS else f"{shown[: _SHOWN_CHARACTERS - 1]}…",
        f"{len(rows):,}",
        f"{sum(row['outcome_kind'] == 'finished' for row in rows):,}",
        *(_median(rows, name) for name in ("first_chunk_ms", "duration_ms")),
        *(f"{sum(known):,}" if (known := _known(rows, name)) else UNKNOWN for name in ("input_tokens", "output_tokens")),
    ]


def _median(rows: list[dict[str, Any]], name: str) -> str:
    known = _known(rows, name)
    return duration_text(median(known) if known else None)


def _known(rows: list[dict[str, Any]], name: str) -> list[float]:
    return [row[name] for row in rows if row[name] is not None]
