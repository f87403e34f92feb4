"""What the viewer reads without the server half is what Python reads: one fixture, which its own tests read, too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

import cassette_lab as cl
from cassette_lab.flight.model import Outcome, RecordExtra, Snapshot
from cassette_lab.flight.reader import save_snapshot
from tests.unit.flight_samples import record
from tests.unit.test_scan import sample, save

FIXTURE = Path(__file__).parents[2] / "extension" / "test" / "local-tables.json"
COLUMNS = {
    "calls": [
        "source", "sequence", "call_key", "parent_key", "label", "occurrence", "started_at", "start_latency_ms", "duration_ms",
        "signal_aborted_at_ms", "dispose_called_at_ms", "outcome_kind", "stop_reason", "error_code", "error_name", "redactions",
        "child_model",
    ],
    "flights": [
        "source", "record_id", "session_id", "turn", "step", "attempt", "model", "started_at", "first_chunk_ms", "duration_ms",
        "outcome_kind", "finish_kind", "error_kind", "error_code", "aborted_by",
    ],
}  # fmt: skip


def files(folder: Path) -> None:
    """A cassette with metadata, one with whole requests, a snapshot."""
    save(folder / "mixed.cassette.jsonl", sample(12, "mixed"))
    save(folder / "full.cassette.jsonl", sample(6, "full"))
    ended = Outcome("finished", finish="stop", total_ms=900.5, first_chunk_ms=120.25)
    threw = Outcome("threw", error="error", total_ms=30.0)
    records = (
        record("r3", step=2, started_at_ms=1_700_000_002_000),
        record("r2", attempt=2, started_at_ms=1_700_000_001_000, outcome=ended),
        record("r1", outcome=threw, extra=RecordExtra(error_code="RATE_LIMIT", aborted="user")),
    )
    title = record("t1", started_at_ms=1_700_000_001_500, outcome=ended, extra=RecordExtra(auxiliary=True))
    save_snapshot(Snapshot(records=records, auxiliary=(title,)), folder / "requests.flight.json")


def fixture(folder: Path) -> dict[str, Any]:
    files(folder)
    made = {}
    for path in sorted(folder.iterdir()):
        name = "flights" if path.name.endswith(".flight.json") else "calls"
        table = cl.load(path).tables[name].select(COLUMNS[name])
        at = table.schema.get_field_index("started_at")
        table = table.set_column(at, "started_at", table["started_at"].cast(pa.int64()))
        made[path.name] = {"text": path.read_text(encoding="utf-8"), "table": name, "rows": table.to_pylist()}
    return made


def test_the_fixture_is_what_python_reads(tmp_path: Path) -> None:
    assert json.loads(FIXTURE.read_text(encoding="utf-8")) == fixture(tmp_path), (
        "what Python reads has changed: python -m tests.unit.test_viewer_local writes the fixture anew"
    )


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        FIXTURE.write_text(json.dumps(fixture(Path(place)), indent=1) + "\n", encoding="utf-8")
