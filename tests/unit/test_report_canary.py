"""One secret in every field of cassettes, logs and flight records: in no report and no notebook page, names aside."""

from __future__ import annotations

import base64
import copy
import gzip
import json
import re
from pathlib import Path
from typing import Any

import nbformat
import pyarrow as pa
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

import cassette_lab as cl
from cassette_lab.errors import CassetteLabError
from cassette_lab.flight.reader import save_snapshot
from cassette_lab.flight.recorder import FlightRecorder
from cassette_lab.jsonio import parse
from cassette_lab.views.notebook_page import notebook_page
from tests.unit.session_samples import event, header, text, turn
from tests.unit.test_scan import sample, save
from tests.unit.test_viewer_canary import CANARY, NAMES, places_of, with_canary

_BLOCK = re.compile(r'base64" id="[^"]*">([^<]*)<')
_FRAME_BLOCK = re.compile(r"base64&quot; id=&quot;[^&]*&quot;&gt;([^&]*)&lt;|base64\" id=\"[^\"]*\"&gt;([^&]*)&lt;")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A folder of cassettes that are verified in spite of the secret in them, and one of those that are not."""
    lines = sample(6)
    folders = tuple(tmp_path_factory.mktemp(name) for name in ("whole", "broken"))
    for number in range(len(lines)):
        for count, place in enumerate(places_of(parse(lines[number]))):
            if ".".join(step for step in place if isinstance(step, str)) in NAMES:
                continue
            name = f"{number}-{count}.cassette.jsonl"
            path = save(folders[0] / name, with_canary(lines, number, place))
            try:
                cl.load(path)
            except CassetteLabError:
                path.rename(folders[1] / name)
    return folders[0], folders[1]


def told(html: str) -> str:
    """A page with its data blocks unpacked, those of frames inside it, too."""
    blocks = [*_BLOCK.findall(html), *("".join(each) for each in _FRAME_BLOCK.findall(html))]
    tables = [pa.ipc.open_stream(gzip.decompress(base64.b64decode(block))).read_all() for block in blocks if block]
    return html + "".join(str(table.to_pylist()) + str(table.schema) for table in tables)


def reported(data: Any, folder: Path, **options: Any) -> str:
    return told(cl.report(data, folder / "report.html", **options).read_text(encoding="utf-8"))


def test_no_value_of_a_cassette_is_in_a_report(files: tuple[Path, Path], tmp_path: Path) -> None:
    lab = cl.load(files[0], bodies=True)
    assert len(lab.cassettes) > 20
    report = reported(lab, tmp_path, max_calls=10_000)
    assert "clab-explorer-calls" in report
    assert CANARY not in report
    before, after = min(files[0].iterdir()), max(files[0].iterdir())
    assert CANARY not in reported(cl.load(after), tmp_path, compare=before)


def test_no_value_is_told_where_it_breaks_a_file(files: tuple[Path, Path], tmp_path: Path) -> None:
    lab = cl.load(files[1], on_error="collect")
    assert len(lab.problems) > 20
    assert CANARY not in str(lab.problems.to_pylist())
    report = reported(lab, tmp_path)
    assert report.count("CASSETTE_") >= 20
    assert CANARY not in report


def test_with_bodies_the_secret_is_there(files: tuple[Path, Path], tmp_path: Path) -> None:
    assert CANARY in reported(cl.load(files[0], bodies=True), tmp_path, bodies=True, max_calls=10_000)


def test_no_value_is_in_the_page_of_a_notebook(files: tuple[Path, Path], tmp_path: Path) -> None:
    whole = cl.load(files[0], bodies=True)
    lab = cl.load(files[0], files[1], on_error="collect")
    first = min(files[0].iterdir())
    shown: list[Any] = [cl.explore(lab), cl.explore(whole), cl.stop_reasons(lab), lab, whole, cl.side_by_side(first, first)]
    bundles = [each._repr_mimebundle_() for each in shown]
    cells = [
        new_code_cell("view", outputs=[new_output("display_data", bundle[0] if isinstance(bundle, tuple) else bundle)])
        for bundle in bundles
    ]
    state = {"application/vnd.jupyter.widget-state+json": {"state": {"m": {"state": {"tables": CANARY}}}}}
    file = tmp_path / "a.ipynb"
    file.write_text(nbformat.writes(new_notebook(cells=cells, metadata={"widgets": state})), encoding="utf-8")
    page = told(notebook_page(file).html)
    assert page.count("<iframe") == 4
    assert "duration_ms" in page
    assert CANARY not in page


def test_no_text_of_a_log_is_in_a_report(tmp_path: Path) -> None:
    place = {"turn": 1, "step": 1}
    asked = {"type": "tool-call", "id": "c1", "name": "bash", "arguments": json.dumps({"command": CANARY})}
    rows = [
        event(0, "user/message", {"message": {"role": "user", "content": [{"type": "text", "text": CANARY}]}}),
        event(1, "session/title", {"title": CANARY}),
        *turn(2)[:3],
        event(5, "assistant/chunk", {**place, "chunk": {"type": "text-delta", "index": 0, "text": CANARY}}),
        event(6, "assistant/message", {**place, "message": {"role": "assistant", "content": [asked]}}),
        event(7, "tool/call", {**place, "callId": "c1", "name": "bash", "arguments": {"command": CANARY}}),
        event(8, "tool/result", {**place, "callId": "c1", "content": [{"type": "text", "text": CANARY}], "isError": True}),
        event(9, "step/end", place),
        event(10, "turn/end", {"turn": 1, "reason": {"kind": "error", "error": {"message": CANARY}}}),
    ]
    logs = tmp_path / "logs"
    (logs / "whole").mkdir(parents=True)
    (logs / "whole" / "session.jsonl").write_bytes(text(header(cwd=f"/home/{CANARY}"), *rows))
    for number in range(len(rows)):
        folder = logs / f"broken-{number}"
        folder.mkdir()
        broken = b'{"type":"' + CANARY.encode() + b"\n"
        (folder / "session.jsonl").write_bytes(text(header(), *rows[:number]) + broken + text(*rows[number:]))
    report = reported(cl.load(logs, on_error="collect", bodies=True), tmp_path, bodies=False)
    assert "clab-explorer-sessions" in report
    assert CANARY not in report


def test_no_value_of_a_flight_record_is_in_a_report(tmp_path: Path) -> None:
    folder = tmp_path / "flights"
    folder.mkdir()
    save_snapshot(FlightRecorder().snapshot(), folder / "whole.flight.json")
    whole = json.loads((folder / "whole.flight.json").read_bytes())
    for number, place in enumerate(places_of(whole)):
        value = copy.deepcopy(whole)
        *above, last = place
        inner = value
        for step in above:
            inner = inner[step]
        inner[last] = CANARY
        (folder / f"{number}.flight.json").write_text(json.dumps(value))
    assert CANARY not in reported(cl.load(folder, on_error="collect"), tmp_path)
