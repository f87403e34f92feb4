"""Calls tables made by hand for the tests of charts and reports."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from cassette_lab.cassette.columns import CALLS

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def call(sequence: int, label: str | None, start_ms: float | None, duration_ms: float, **other: Any) -> dict[str, Any]:
    """One row of ``calls``; a completed call of the root agent unless ``other`` says more."""
    parent = other.get("parent_key", "root")
    row: dict[str, Any] = {
        "sequence": sequence,
        "line": sequence + 1,
        "call_key": f"{parent}/{label or 'agent'}-{sequence:012x}~1",
        "parent_key": parent,
        "depth": parent.count("/") + 1,
        "label": label,
        "parent_context_fingerprint": "sha256:" + "0" * 64,
        "request_fingerprint": f"sha256:{sequence:064x}",
        "occurrence": 1,
        "started_at": None if start_ms is None else NOON + timedelta(milliseconds=start_ms),
        "start_latency_ms": 10.0,
        "duration_ms": float(duration_ms),
        "published": other.get("outcome_kind") != "start-error",
        "local": True,
        "outcome_kind": "result",
        "stop_reason": None if "error_name" in other else "completed",
    }
    return row | other


def table(*rows: dict[str, Any], source: str | None = "runs/audit.cassette.jsonl") -> pa.Table:
    """The rows as a ``calls`` table, of one file unless ``source`` is None."""
    calls = pa.Table.from_pylist(list(rows), schema=CALLS)
    return calls if source is None else calls.append_column("source", pa.array([source] * len(rows), pa.string()))


def audit() -> pa.Table:
    """Three siblings, the first with two nested calls, the last one failed."""
    api = call(1, "audit-api", 0, 1210)
    return table(
        api,
        call(2, "audit-docs", 3, 840),
        call(3, "audit-tests", 5, 620, outcome_kind="result-error", error_name="TimeoutError"),
        call(4, "check-auth", 60, 380, parent_key=api["call_key"]),
        call(5, "check-limits", 64, 910, parent_key=api["call_key"], start_latency_ms=120.0),
    )


def every_outcome() -> pa.Table:
    """One call of each outcome category."""
    return table(
        call(1, "fine", 0, 3000),
        call(2, "too long", 100, 5000, stop_reason="max-tokens"),
        call(3, "no", 200, 2000, stop_reason="refusal"),
        call(4, "stopped", 300, 6000, stop_reason="aborted", signal_aborted_at_ms=5200.0, dispose_called_at_ms=5800.0),
        call(5, "bad", 400, 4000, stop_reason="error"),
        call(6, "raised", 500, 4100, outcome_kind="result-error", error_name="RateLimitError", error_code="HTTP_429"),
        call(7, "never", 600, 2500, outcome_kind="start-error", error_name="ConnectionError", start_latency_ms=2500.0),
        call(8, "odd", 700, 7000, stop_reason="other"),
    )


def many(count: int, seed: int = 7) -> pa.Table:
    """``count`` calls of 20 labels, nested up to four levels, about one in thirty of them failed."""
    chance = random.Random(seed)  # noqa: S311 - a fixed sample
    rows: list[dict[str, Any]] = []
    parents = ["root"]
    for sequence in range(1, count + 1):
        other: dict[str, Any] = {"parent_key": chance.choice(parents[-30:])}
        if chance.random() < 0.03:
            other |= {"outcome_kind": "result-error", "error_name": "TimeoutError", "stop_reason": None}
        row = call(sequence, f"label-{int(chance.random() ** 2 * 20):02d}", sequence * 40, chance.expovariate(1 / 700), **other)
        rows.append(row)
        if chance.random() < 0.3 and row["depth"] < 4:
            parents.append(row["call_key"])
    return table(*rows)
