"""The quickstart runs from top to bottom without a network, and shows what its text promises."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).resolve().parents[2] / "notebooks" / "01-quickstart.ipynb"
TIMEOUT_S = 120

# Runs in the kernel first: a connection to anything but this machine is an error there.
OFFLINE = """
import socket
_connect = socket.socket.connect
def _only_here(self, address):
    if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in ("127.0.0.1", "::1", "localhost"):
        raise OSError(f"the notebook wanted to talk to {address}")
    return _connect(self, address)
socket.socket.connect = _only_here
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("quickstart")


@pytest.fixture(scope="module")
def executed(folder: Path) -> Any:
    """The notebook after a run; before it, the same kernel has run it once, so every cell meets what the first run left."""
    shutil.copy(NOTEBOOK, folder)
    notebook = nbformat.read(folder / NOTEBOOK.name, as_version=4)
    before = [nbformat.v4.new_code_cell(cell.source) for cell in notebook.cells if cell.cell_type == "code"]
    notebook.cells = [nbformat.v4.new_code_cell(OFFLINE), *before, *notebook.cells]
    NotebookClient(notebook, timeout=TIMEOUT_S, kernel_name="python3", resources={"metadata": {"path": str(folder)}}).execute()
    return notebook


def outputs(notebook: Any, cell_id: str) -> Iterator[dict[str, Any]]:
    """The outputs of one cell: mime bundles, a stream as ``text/plain``."""
    (cell,) = [cell for cell in notebook.cells if cell.get("id") == cell_id]
    for output in cell.outputs:
        yield {"text/plain": output["text"]} if output["output_type"] == "stream" else dict(output["data"])


def text(notebook: Any, cell_id: str) -> str:
    return "\n".join(str(output.get("text/plain", "")) for output in outputs(notebook, cell_id))


def test_no_cell_writes_to_standard_error(executed: Any) -> None:
    for cell in executed.cells:
        for output in cell.get("outputs", []):
            assert output["output_type"] != "error"
            assert output.get("name") != "stderr", output["text"]


def test_recording_and_replaying_say_what_they_did(executed: Any) -> None:
    recorded, replayed = text(executed, "record"), text(executed, "replay")
    assert "5 calls" in recorded
    assert "TimeoutError('the test runner gave no answer')" in recorded
    assert "first.cassette.jsonl" in recorded
    assert "first.cassette.jsonl" in replayed
    assert re.search(r"replayed .*5", replayed)
    assert "Findings(open_routes='GET /orders/export'" in replayed


def test_a_changed_prompt_is_explained(executed: Any) -> None:
    explained = text(executed, "change")
    assert 'asked: the call "audit-api" of root' in explained
    assert "why: nothing recorded for this request; a call with the same label was recorded" in explained
    assert "near: #1 root/audit-api-" in explained
    assert "next: " in explained


def test_the_second_run_differs_in_one_outcome(executed: Any) -> None:
    assert "All 212 tests pass." in text(executed, "second")
    shown = "\n".join(str(value) for output in outputs(executed, "diff") for value in output.values())
    assert "different" in shown
    assert "root/audit-tests-" in shown


def test_charts_are_pictures_with_text_beside_them(executed: Any) -> None:
    for cell_id, words in {
        "deltas": "Timing · 5 calls in both recordings",
        "timeline": "Timeline · ",
        "stop-reasons": "Stop reasons · ",
    }.items():
        (bundle,) = outputs(executed, cell_id)
        assert {"text/html", "image/png", "text/plain"} == set(bundle)
        assert words in bundle["text/plain"]
        assert "<svg" in bundle["text/html"]
        assert "<script" not in bundle["text/html"]
    assert "audit-tests" in text(executed, "timeline")
    assert re.search(r"max-tokens +█+◼ +1 +20 %", text(executed, "stop-reasons"))


def test_tables_and_sql_show_the_calls_of_both_runs(executed: Any) -> None:
    (table,) = outputs(executed, "calls")
    assert table["text/html"].count("<tr") == 11
    assert "TimeoutError" in table["text/plain"]
    (slowest,) = outputs(executed, "sql")
    assert "audit-tests" in slowest["text/plain"]


def test_what_the_notebook_wrote(executed: Any, folder: Path) -> None:
    del executed
    assert sorted(path.name for path in (folder / "runs").iterdir()) == [
        "first.cassette.jsonl",
        "report.html",
        "second.cassette.jsonl",
    ]
    report = (folder / "runs" / "report.html").read_text(encoding="utf-8")
    assert "Repository audit, two runs" in report
    assert str(folder) not in report
    assert "login" not in report.replace("check-login", ""), "a report holds no prompts and no answers"
