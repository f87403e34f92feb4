"""The notebook about sharing runs from top to bottom; what it writes to be sent holds nothing that was said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.notebooks.executed import executed, outputs, text

NOTEBOOK = Path(__file__).resolve().parents[2] / "notebooks" / "05-shareable-report.ipynb"
SAID = ("tr0ub4dor", "charged twice", "We look into it", "needs a person")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("share")


@pytest.fixture(scope="module")
def ran(folder: Path) -> Any:
    return executed(NOTEBOOK, folder, times=2)


def test_the_reports_hold_what_was_said_only_where_that_was_asked_for(ran: Any, folder: Path) -> None:
    del ran
    reports = {path.name: path.read_text(encoding="utf-8") for path in (folder / "runs" / "share").glob("*.html")}
    assert sorted(reports) == ["compared.html", "report-with-bodies.html", "report.html"]
    for said in SAID:
        assert said not in reports["report.html"]
        assert said not in reports["compared.html"]
        assert said in reports["report-with-bodies.html"]


def test_the_view_in_the_notebook_holds_nothing_that_was_said(ran: Any) -> None:
    (bundle,) = outputs(ran, "view")
    assert "classify" in bundle["text/html"]
    assert [said for said in SAID if said in str(bundle)] == []


def test_the_text_beside_says_where_the_report_is(ran: Any) -> None:
    assert "report.html: " in text(ran, "report")
