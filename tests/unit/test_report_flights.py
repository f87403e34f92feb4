"""Reports of flight records: how requests ended, by model and one by one, and what the recorder could not see."""

from __future__ import annotations

from pathlib import Path

import cassette_lab as cl
from cassette_lab.flight.model import Outcome
from cassette_lab.views.report_flights import REQUEST_ROWS
from tests.unit.flight_samples import record
from tests.unit.test_report import write
from tests.unit.test_tables_flights import FINISHED, save

THREW = Outcome("threw", error="timeout-error", total_ms=9.0)


def test_requests_have_their_section_and_there_are_none_of_calls(tmp_path: Path) -> None:
    file = save(
        tmp_path / "a.flight.json", record("r1", outcome=FINISHED), record("r2", step=2, outcome=THREW), correlation_misses=3
    )
    _, page = write(tmp_path, cl.load(file))
    assert page.headings[0].endswith("a.flight.json")
    assert page.headings[1:] == ["Explorer", "Model requests", "Statistics"]
    assert "2 flight records" in page.text
    assert "0 calls" not in page.text
    assert "every file verified" not in page.text, "flight records have no hash chain"
    for words in ("mock / m-1", "finished · stop", "threw · timeout-error", "12 ms", "✓ read to its end", "3"):
        assert words in page.words, words
    assert sorted(page.rows("clab-explorer-flights")["record_id"].to_pylist()) == ["r1", "r2"]


def test_of_too_many_requests_the_telling_ones_are_listed(tmp_path: Path) -> None:
    count = REQUEST_ROWS + 50
    records = [
        record(f"r{number}", step=number, outcome=THREW if number == count else FINISHED) for number in range(1, count + 1)
    ]
    html, page = write(tmp_path, cl.load(save(tmp_path / "a.flight.json", *records)))
    assert f"{REQUEST_ROWS} of {count} requests: those that did not finish, then the longest" in page.text
    assert html.count(">threw · timeout-error<") == 1
    assert len(page.rows("clab-explorer-flights")) == count
