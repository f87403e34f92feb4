"""The sample logs are what their generator writes, and the notebook about them runs and shows what its text promises."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest

import cassette_lab as cl
from cassette_lab.session.reader import read_session
from cassette_lab.views.theme import TIMES
from tests.notebooks.executed import executed, outputs, text
from tests.notebooks.sample_sessions import SAMPLES, TORN, write_samples

NOTEBOOK = SAMPLES.parents[1] / "02-session-timing.ipynb"
MOST_BYTES = 200_000


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The notebook after a run on a copy of the samples."""
    folder = tmp_path_factory.mktemp("session-timing")
    shutil.copytree(SAMPLES, folder / "samples" / "sessions")
    notebook = executed(NOTEBOOK, folder)
    assert _files(folder / "samples" / "sessions") == _files(SAMPLES), "reading changes nothing"
    return notebook


def test_the_samples_are_what_their_generator_writes(tmp_path: Path) -> None:
    write_samples(tmp_path / "sessions")
    assert _files(tmp_path / "sessions") == _files(SAMPLES)
    assert sum(len(data) for data in _files(SAMPLES).values()) < MOST_BYTES


def test_a_sample_is_torn_and_a_sample_inherits() -> None:
    logs = {path.parent.name: read_session(path) for path in SAMPLES.rglob("session.jsonl")}
    assert {name: log.torn_bytes for name, log in logs.items() if log.torn_bytes} == {"night-report": len(TORN)}
    assert {name for name, log in logs.items() if log.header.seed_length} == {"second-opinion"}


def test_tables_show_the_store_and_its_forest(ran: Any) -> None:
    assert "5 sessions" in text(ran, "load")
    assert "\n  second-opinion " in text(ran, "tree")
    for cell_id, words in {
        "sessions": "night-report",
        "time-table": "back_off_ms",
        "notes": "TORN_TAIL",
        "children": "second-opinion",
        "tokens": "tokens_per_second",
        "retries": "RATE_LIMIT",
        "tools": "FS_NOT_FOUND",
        "ends": "max-tokens",
    }.items():
        assert words in text(ran, cell_id)


def test_the_waterfall_is_live_and_a_picture_with_text_beside_it(ran: Any) -> None:
    (bundle,) = outputs(ran, "waterfall")
    assert {"text/html", "application/vnd.jupyter.widget-view+json", "text/plain"} == set(bundle)
    assert 0 < bundle["text/html"].index("<img ") < bundle["text/html"].index("<iframe ")
    for words in ("Waterfall · release-check", f"after 2 {TIMES} RATE_LIMIT", "565 ms · aborted", "10.4 s"):
        assert words in bundle["text/plain"]


def test_every_cell_runs_on_logs_of_ones_own(tmp_path: Path) -> None:
    """A store with another session, a broken log and a cut one: what is asserted is about the samples alone."""
    own = tmp_path / "own"
    shutil.copytree(SAMPLES / "--srv-orders--" / "run-tests", own / "--p--" / "run-tests")
    shutil.copytree(SAMPLES / "--srv-orders--" / "night-report", own / "--q--" / "night-report")
    (own / "--q--" / "bad").mkdir()
    (own / "--q--" / "bad" / "session.jsonl").write_text('{"type": "session", "version": 99}\n')
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    (store,) = [cell for cell in notebook.cells if cell.id == "store"]
    store.source = store.source.replace("STORE = SAMPLES", 'STORE = "own"')
    nbformat.write(notebook, tmp_path / "own.ipynb")
    ran = executed(tmp_path / "own.ipynb", tmp_path)
    assert "1 file not loaded" in text(ran, "load")
    assert "Waterfall · run-tests" in text(ran, "waterfall")


def test_the_tables_hold_no_texts() -> None:
    lab = cl.load(SAMPLES)
    told = "".join(str(table.to_pylist()) for table in (lab.sessions, lab.turns, lab.model_calls, lab.tool_calls))
    assert "rate limit" not in told
    assert "rate limit" in str(cl.load(SAMPLES, bodies=True).sessions.to_pylist())


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
