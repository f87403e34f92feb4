"""The notebook that compares two days runs from top to bottom, and shows what its text promises."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.notebooks.executed import executed, outputs, text

NOTEBOOK = Path(__file__).resolve().parents[2] / "notebooks" / "04-compare-runs.ipynb"


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return executed(NOTEBOOK, tmp_path_factory.mktemp("compare"), times=2)


def test_the_diff_says_what_is_new_gone_and_otherwise(ran: Any) -> None:
    assert "2 added, 1 removed, 1 outcome changed" in text(ran, "diff")


def test_both_sides_are_shown_aligned(ran: Any) -> None:
    (bundle,) = outputs(ran, "side-by-side")
    assert "application/vnd.jupyter.widget-view+json" in bundle
    for label in ("read-api", "read-docs", "read-licences", "write"):
        assert label in bundle["text/html"]


def test_differences_of_one_run_and_of_all_of_them(ran: Any) -> None:
    assert "3 calls in both recordings" in text(ran, "deltas")
    paired = text(ran, "paired")
    assert {"read-api", "read-docs", "read-tests"} <= set(re.findall(r"read-\w+", paired))
    assert "95 %" in paired


def test_tables_tell_the_days_apart(ran: Any) -> None:
    medians = text(ran, "sql")
    assert medians.count("yesterday") == 4
    assert medians.count("today") == 5
