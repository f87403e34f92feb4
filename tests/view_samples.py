"""Tables for the views, and pages that show them: sample recordings made in place, and the bytes that a front end gets."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from cassette_lab.tables.schemas import table_schema

ROOT: Final = Path(__file__).resolve().parents[1]
STATIC: Final = ROOT / "cassette_lab" / "views" / "static"
START_MS: Final = 1_793_610_000_000
POLICY: Final = "default-src 'none'; script-src 'sha256-{script}'; style-src 'none'; img-src data: blob:; base-uri 'none'"

HOSTILE: Final = (
    '<img src=x onerror="window.pwned=1">',
    "\x1b[31mred\x1b[0m",
    "admin\u202egnp.exe",
    "</script><script>window.pwned=2</script>",
    "zero\u200bwidth",
)
"""Labels that would do something if they were taken for more than text."""


def ipc(table: pa.Table) -> bytes:
    """A table as an Arrow IPC stream: what a view is given."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def rows_table(name: str, rows: Sequence[Mapping[str, Any]], *, bodies: bool = False) -> pa.Table:
    """A table of the lab with these rows; columns that a row does not name are unknown."""
    columns = table_schema(name, bodies=bodies)
    return pa.table(
        {field.name: pa.array([row.get(field.name) for row in rows], field.type) for field in columns}, schema=columns
    )


def call(sequence: int, label: str | None, parent: str = "root", **facts: Any) -> dict[str, Any]:
    """A row of ``calls``; ``at`` is when it was admitted, in milliseconds from the first one."""
    at = facts.pop("at", 0)
    key = facts.pop("key", f"{parent}/{label or 'none'}-{sequence}")
    return {
        "source": "run.cassette.jsonl", "sequence": sequence, "line": sequence + 1, "call_key": key, "parent_key": parent,
        "depth": parent.count("/") + 1, "label": label, "parent_context_fingerprint": "none",
        "request_fingerprint": hashlib.sha256(f"{label}".encode()).hexdigest(), "occurrence": 1,
        "started_at": START_MS + at, "start_latency_ms": 40.0, "duration_ms": 1000.0, "published": True, "local": True,
        "outcome_kind": "result", "stop_reason": "completed", "outcome_fingerprint": "fine", "redactions": 0,
        "prompt_blocks": 1, "prompt_bytes": 120, "has_output_schema": False, "has_persona": False, "output_blocks": 1,
        "output_bytes": 300, **facts,
    }  # fmt: skip


def every_outcome() -> list[dict[str, Any]]:
    """Calls that end in each way there is, two levels deep, with redactions, an abort and a dispose."""
    audit, docs = "root/audit-1", "root/docs-5"
    failed = {"outcome_kind": "result-error", "stop_reason": None, "error_name": "RateLimit", "error_code": "429"}
    unstarted = {"outcome_kind": "start-error", "stop_reason": None, "error_code": "OFFLINE", "published": False}
    return [
        call(1, "audit", key=audit, duration_ms=9100.0, start_latency_ms=900.0, child_model="large", redactions=2),
        call(2, "check-api", audit, at=1200, duration_ms=2200.0, start_latency_ms=300.0, child_model="small"),
        call(3, "check-api", audit, at=3600, duration_ms=320.0, occurrence=2, child_model="small", **failed),
        call(4, "check-api", audit, at=4200, duration_ms=260.0, occurrence=3, start_latency_ms=260.0, **unstarted),
        call(5, "docs", key=docs, at=3500, duration_ms=7050.0, stop_reason="max-tokens", child_model="large"),
        call(6, "write", docs, at=4100, duration_ms=3100.0, stop_reason="refusal"),
        call(7, "write", docs, at=4300, duration_ms=5200.0, occurrence=2, stop_reason="aborted", signal_aborted_at_ms=5000.0),
        call(8, "lint", at=8200, duration_ms=6400.0, stop_reason="other", dispose_called_at_ms=5800.0),
        call(9, "release notes", at=11_000, duration_ms=7300.0, start_latency_ms=1500.0),
        call(10, None, at=12_500, duration_ms=4100.0, stop_reason="error"),
    ]


def changed_run() -> list[dict[str, Any]]:
    """The same calls another day: one is gone, one is new, some end otherwise, all take another time."""
    rows = [dict(row) for row in every_outcome()]
    for row in rows:
        factor = 0.6 + (row["sequence"] * 37 % 11) / 8
        row["duration_ms"] *= factor
    rows[1] |= {"stop_reason": "max-tokens", "outcome_fingerprint": "cut"}
    rows[8] |= {"local": False}
    del rows[7]
    return [*rows, call(11, "translate", "root/docs-5", at=6000, duration_ms=1900.0)]


def many_calls(count: int, seed: int = 5) -> pa.Table:
    """A run of so many calls, five levels deep at most, made column by column; the same every time."""
    draw = random.Random(seed)  # noqa: S311 - the same table every time is the point
    labels = [f"{verb} {noun}" for verb in ("check", "write", "read", "plan") for noun in ("api", "docs", "tests", "schema")]
    reasons = ["completed"] * 34 + ["max-tokens", "max-tokens", "refusal", "aborted", "error", "other"]
    running: list[tuple[str, float]] = []
    now = 0.0
    made: dict[str, list[Any]] = {name: [] for name in ("call_key", "parent_key", "label", "started_at", "duration_ms")}
    for sequence in range(1, count + 1):
        now += draw.expovariate(1 / 220)
        running = [each for each in running if each[1] > now][-40:]
        above = [key for key, _ in running if key.count("/") < 5]
        parent = draw.choice(above) if above and draw.random() < 0.8 else "root"
        label = draw.choice(labels)
        key = f"{parent}/{label.replace(' ', '-')}-{sequence:x}~1"
        took = draw.lognormvariate(7.6, 1.1)
        running.append((key, now + took))
        for name, value in zip(made, (key, parent, label, START_MS + round(now), took), strict=True):
            made[name].append(value)
    columns: dict[str, Any] = {
        **made,
        "source": ["run.cassette.jsonl"] * count,
        "sequence": range(1, count + 1),
        "start_latency_ms": [draw.random() * took / 4 for took in made["duration_ms"]],
        "request_fingerprint": [f"{draw.getrandbits(256):064x}" for _ in range(count)],
        "outcome_kind": ["result"] * count,
        "stop_reason": draw.choices(reasons, k=count),
    }
    columns |= {name: [1] * count for name in ("occurrence", "prompt_blocks", "output_blocks")}
    fields = table_schema("calls")
    return pa.table(
        {
            field.name: pa.array(columns[field.name], field.type) if field.name in columns else pa.nulls(count, field.type)
            for field in fields
        },
        schema=fields,
    )


def page(views: Sequence[Mapping[str, Any]], *, ground: str = "") -> str:
    """A page with these views, under a policy that allows nothing but the report's own script.

    A view has ``view``, ``tables`` (names to Arrow tables), ``options`` and maybe ``theme``.
    """
    script = (STATIC / "report.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    parts = []
    for number, each in enumerate(views):
        names = []
        for name, table in each["tables"].items():
            names.append(f"{name}=data-{number}-{name}")
            block = base64.b64encode(gzip.compress(ipc(table), 6)).decode()
            parts.append(
                f'<script type="application/vnd.apache.arrow.stream;base64" id="data-{number}-{name}">{block}</script>'
            )
        options = json.dumps(each.get("options", {})).replace("<", "\\u003c")
        parts.append(f'<script type="application/json" id="options-{number}">{options}</script>')
        parts.append(
            f'<div id="view-{number}" data-cassette-view="{each["view"]}" data-cassette-theme="{each.get("theme", "auto")}" '
            f'data-cassette-tables="{html.escape(" ".join(names))}" data-cassette-options="options-{number}"></div>'
        )
    policy = POLICY.format(script=digest)
    return (
        f'<!doctype html><html {ground}><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<title>views</title><body>{''.join(parts)}<script>{script}</script></body></html>"
    )
