"""Views in executed notebooks: how much they add, and that no secret of a recording is in what a notebook keeps."""

from __future__ import annotations

import base64
import copy
import gzip
import html
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

import cassette_lab as cl
from cassette_lab.flight.model import Health, Snapshot
from cassette_lab.flight.reader import save_snapshot
from cassette_lab.jsonio import parse
from tests.unit.flight_samples import record
from tests.unit.session_samples import event, header, text, turn
from tests.unit.test_scan import sample, save
from tests.unit.test_viewer_canary import CANARY, NAMES, places_of, with_canary
from tests.view_samples import ROOT

LIMIT = 300_000
BEGIN = "import cassette_lab as cl\nfrom tests.view_samples import *\ncalls = many_calls(20_000)"
VIEWS = ("cl.timeline(calls)", "cl.topology(calls)", "cl.explore(calls)", "cl.side_by_side(calls, calls)")


@pytest.fixture
def executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs cells in a kernel and gives the notebook, with its widgets' state."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))

    def run(*cells: str) -> nbformat.NotebookNode:
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        client = NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}})
        return client.execute()

    return run


def size(value: Any) -> int:
    return len(json.dumps(value).encode())


def test_a_view_of_twenty_thousand_calls_adds_little_to_a_notebook(executed: Any) -> None:
    notebook = executed(BEGIN, *VIEWS)
    state = notebook.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"]
    for cell in notebook.cells[1:]:
        (output,) = cell.outputs
        model = output.data["application/vnd.jupyter.widget-view+json"]["model_id"]
        kept = {name: state[name] for name in (model, state[model]["state"]["layout"].removeprefix("IPY_MODEL_"))}
        assert size(output) + size(kept) < LIMIT, cell.source
        assert size(output) < 0.75 * LIMIT
        assert "of 20,000 " in output.data["text/html"]


def everything(view: cl.View) -> bytes:
    """All that a notebook keeps of a view, unpacked."""
    data, _ = view._repr_mimebundle_()
    page = data["text/html"]
    document = html.unescape(page)
    blocks = [gzip.decompress(base64.b64decode(block)) for block in re.findall(r'base64" id="[^"]*">([^<]*)<', document)]
    widget = view.widget
    state = widget.get_state()
    tables = [gzip.decompress(each) for each in (*state.pop("tables").values(), *view._whole()[0].values())]
    view.close()
    return b"\n".join([data["text/plain"].encode(), document.encode(), repr(state).encode(), *blocks, *tables])


def quick(view: cl.View) -> bytes:
    """The same without drawing: tables, options, texts."""
    tables, options = view._whole()
    packed = [*view._saved.tables.values(), *tables.values()]
    texts = json.dumps([options, view.text(), view.cells.rows, view.drawing.description])
    return b"\n".join([texts.encode(), *map(gzip.decompress, packed)])


def views_of(data: Any) -> Iterable[cl.View]:
    return (cl.explore(data), cl.topology(data), cl.stop_reasons(data))


def test_no_value_of_a_cassette_is_kept(tmp_path: Path) -> None:
    lines = sample(12)
    path = tmp_path / "a.cassette.jsonl"
    places = [(number, place) for number in range(len(lines)) for place in places_of(parse(lines[number]))]
    shown = 0
    for number, place in places:
        if ".".join(step for step in place if isinstance(step, str)) in NAMES:
            continue
        save(path, with_canary(lines, number, place))
        lab = cl.load(path, on_error="collect")
        shown += len(lab.calls) > 0
        assert CANARY.encode() not in quick(cl.explore(lab)), place
    assert shown > 20
    said = [(number, place) for number, place in places if place[-1] in ("text", "message") and number > 0]
    for number, place in said:
        lines = with_canary(lines, number, place)
    save(path, lines)
    assert CANARY in path.read_text("utf-8")
    for view in (*views_of(path), *views_of(cl.load(path, bodies=True)), cl.side_by_side(path, path)):
        assert CANARY.encode() not in everything(view), view
    assert CANARY.encode() in everything(cl.explore(cl.load(path, bodies=True), bodies=True))


def test_no_text_of_a_log_is_kept(tmp_path: Path) -> None:
    chunk = {"turn": 1, "step": 1}
    called = {"type": "tool-call", "id": "c1", "name": "bash", "arguments": json.dumps({"command": CANARY})}
    rows = [
        event(0, "user/message", {"message": {"role": "user", "content": [{"type": "text", "text": CANARY}]}}),
        event(1, "session/title", {"title": CANARY}),
        *turn(2)[:3],
        event(5, "assistant/chunk", {**chunk, "chunk": {"type": "text-delta", "index": 0, "text": CANARY}}),
        event(6, "assistant/message", {**chunk, "message": {"role": "assistant", "content": [called]}}),
        event(7, "tool/call", {**chunk, "callId": "c1", "name": "bash", "arguments": {"command": CANARY}}),
        event(8, "tool/result", {**chunk, "callId": "c1", "content": [{"type": "text", "text": CANARY}], "isError": True}),
        event(9, "step/end", chunk),
        event(10, "turn/end", {"turn": 1, "reason": {"kind": "error", "error": {"message": CANARY}}}),
    ]
    (tmp_path / "session.jsonl").write_bytes(text(header(cwd=f"/home/{CANARY}"), *rows))
    for data in (cl.load(tmp_path), cl.load(tmp_path, bodies=True)):
        assert len(data.sessions) == 1
        for view in (*views_of(data), cl.waterfall(data)):
            assert CANARY.encode() not in everything(view), view


def test_no_value_of_a_flight_record_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.flight.json"
    save_snapshot(Snapshot(7, Health(), (record("r1"),), ()), path)
    whole = json.loads(path.read_bytes())
    for place in places_of(whole):
        if place[-1] in ("id", "sessionId", "model", "provider"):
            continue
        value = copy.deepcopy(whole)
        inner = value
        for step in place[:-1]:
            inner = inner[step]
        inner[place[-1]] = CANARY
        path.write_text(json.dumps(value), "utf-8")
        assert CANARY.encode() not in quick(cl.explore(cl.load(path, on_error="collect"))), place
