"""The notebook about agents runs from top to bottom without a network, with the real harness at its end."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.notebooks.executed import executed, outputs, text
from tests.unit.harness_runs import missing, need_runtime

NOTEBOOK = Path(__file__).resolve().parents[2] / "notebooks" / "03-agents-and-flights.ipynb"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("agents")


@pytest.fixture(scope="module")
def ran(folder: Path) -> Any:
    return executed(NOTEBOOK, folder)


def test_the_subagents_are_recorded_and_replayed(ran: Any) -> None:
    recorded, replayed = text(ran, "record"), text(ran, "replay")
    assert re.search(r"● recorded 2 calls · .* of work in .* · runs/audit.cassette.jsonl", recorded)
    assert re.search(r"▶ replayed 2 of 2 calls · .* of work in \d+ ms · ", replayed)
    for shown in (recorded, replayed, text(ran, "endpoint-record")):
        assert "'Not yet: the import has no limit, a test fails, and the guide still names v1.'" in shown
    assert "equivalent: 2 calls, same outcomes" in text(ran, "same")


def test_flights_show_requests_with_a_picture_and_a_table(ran: Any) -> None:
    for cell_id, requests in {"list": 3, "diff": 2, "explain": 1, "endpoint-list": 4}.items():
        (bundle,) = outputs(ran, cell_id)
        assert bundle["text/html"].count("<svg") == requests
    assert "messages from source tool: 2 → 4 (+2)" in text(ran, "diff")
    assert "The first chunk took 1.1 s." in text(ran, "explain")
    assert re.search(r"1\.1\.1 · \w{8}  .* failed: HTTP 429 \(RATE_LIMIT\)", text(ran, "endpoint-list"))


def test_requests_and_what_came_of_them_are_one_table(ran: Any) -> None:
    (table,) = outputs(ran, "tables")
    assert table["text/html"].count("<tr") == 8
    assert "RATE_LIMIT" in table["text/plain"]


def test_the_real_harness_is_recorded_and_replayed(ran: Any, folder: Path) -> None:
    need_runtime()
    assert re.search(r"● recorded 5 model calls · 2 sessions · .* · runs/harness", text(ran, "harness-record"))
    assert re.search(r"▶ replayed 5 of 5 model calls · as recorded · ", text(ran, "harness-replay"))
    assert "4 departures from the recording" in text(ran, "harness-depart")
    assert "another request: calls 1 to 4 of session session-1: message 2 (user)" in text(ran, "harness-depart")
    assert {path.name for path in (folder / "runs" / "harness").iterdir()} == {"run.flight.json", "sessions", "trace.jsonl"}


def test_without_the_extra_that_part_says_so(ran: Any) -> None:
    assert bool(text(ran, "harness-there")) == (missing() is not None)
