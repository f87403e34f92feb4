"""The quickstart runs from top to bottom without a network, and shows what its text promises."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.notebooks.executed import executed, outputs, text

NOTEBOOK = Path(__file__).resolve().parents[2] / "notebooks" / "01-quickstart.ipynb"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("quickstart")


@pytest.fixture(scope="module")
def ran(folder: Path) -> Any:
    return executed(NOTEBOOK, folder, times=2)


def test_recording_and_replaying_say_what_they_did(ran: Any) -> None:
    recorded, replayed = text(ran, "record"), text(ran, "replay")
    assert "5 calls" in recorded
    assert "TimeoutError('the test runner gave no answer')" in recorded
    assert "first.cassette.jsonl" in recorded
    assert "first.cassette.jsonl" in replayed
    assert re.search(r"replayed .*5", replayed)
    assert "Findings(open_routes='GET /orders/export'" in replayed


def test_a_changed_prompt_is_explained(ran: Any) -> None:
    explained = text(ran, "change")
    assert 'asked: the call "audit-api" of root' in explained
    assert "why: nothing recorded for this request; a call with the same label was recorded" in explained
    assert "near: #1 root/audit-api-" in explained
    assert "next: " in explained


def test_the_second_run_differs_in_one_outcome(ran: Any) -> None:
    assert "All 212 tests pass." in text(ran, "second")
    shown = "\n".join(str(value) for output in outputs(ran, "diff") for value in output.values())
    assert "different" in shown
    assert "root/audit-tests-" in shown


def test_views_are_live_and_have_a_picture_and_text_beside_them(ran: Any) -> None:
    for cell_id, words in {
        "side-by-side": "different: 1 outcome changed",
        "explore": "Timeline · ",
        "timeline": "Timeline · ",
        "stop-reasons": "Stop reasons · ",
    }.items():
        (bundle,) = outputs(ran, cell_id)
        assert {"text/html", "text/plain", "application/vnd.jupyter.widget-view+json"} == set(bundle)
        assert words in bundle["text/plain"]
        assert "<img " in bundle["text/html"].partition("<iframe")[0]
        assert "audit-tests" in bundle["text/html"].partition("<iframe")[0] or cell_id == "stop-reasons"
    assert "audit-tests" in text(ran, "timeline")
    assert re.search(r"max-tokens +█+◼ +1 +20 %", text(ran, "stop-reasons"))


def test_a_selection_from_python_is_a_table(ran: Any) -> None:
    (table,) = outputs(ran, "selected")
    assert "audit-docs" in table["text/plain"]
    assert "check-login" not in table["text/plain"]


def test_tables_and_sql_show_the_calls_of_both_runs(ran: Any) -> None:
    (table,) = outputs(ran, "calls")
    assert table["text/html"].count("<tr") == 11
    assert "TimeoutError" in table["text/plain"]
    (slowest,) = outputs(ran, "sql")
    assert "audit-tests" in slowest["text/plain"]


def test_what_the_notebook_wrote(ran: Any, folder: Path) -> None:
    del ran
    assert sorted(path.name for path in (folder / "runs").iterdir()) == [
        "first.cassette.jsonl",
        "report.html",
        "second.cassette.jsonl",
    ]
    report = (folder / "runs" / "report.html").read_text(encoding="utf-8")
    assert "Repository audit, two runs" in report
    assert str(folder) not in report
    assert "login" not in report.replace("check-login", ""), "a report holds no prompts and no answers"
