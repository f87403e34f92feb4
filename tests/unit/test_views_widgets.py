"""Views: what a notebook keeps of them, what Python sees of a selection, and what they give up when their cell runs again."""

from __future__ import annotations

import base64
import gzip
import html
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import cassette_lab as cl
from cassette_lab.errors import ConfigError
from cassette_lab.views import live, naming
from tests.unit.test_scan import sample, save
from tests.view_samples import HOSTILE, ROOT, call, changed_run, every_outcome, many_calls, rows_table

SESSIONS = ROOT / "notebooks" / "samples" / "sessions"
CALLS = rows_table("calls", every_outcome())


def bundle(view: cl.View) -> dict[str, Any]:
    return view._repr_mimebundle_()[0]


def inside(page: str) -> str:
    """The document of the live view's frame."""
    (source,) = re.findall(r'<iframe [^>]*srcdoc="([^"]*)"', page)
    return html.unescape(source)


def framed(document: str, name: str = "calls") -> pa.Table:
    (block,) = re.findall(rf'id="clab-{name}">([^<]*)<', document)
    return pa.ipc.open_stream(gzip.decompress(base64.b64decode(block))).read_all()


def test_without_a_kernel_a_view_is_text_and_html() -> None:
    view = cl.timeline(CALLS)
    data = bundle(view)
    assert set(data) == {"text/plain", "text/html"}
    assert data["text/plain"] == view.text()
    page = data["text/html"]
    places = [page.index(part) for part in ("<img ", "<table>", "<iframe ")]
    assert places == sorted(places), "what survives a sanitiser comes first"
    assert 'alt="Timeline · run.cassette.jsonl · 10 calls.' in page
    assert "<style" not in page
    assert "<svg" not in page
    assert 'sandbox="allow-scripts allow-downloads"' in page
    assert framed(inside(page))["label"].to_pylist() == CALLS["label"].to_pylist()


def test_the_frame_may_run_its_own_script_and_nothing_else() -> None:
    document = inside(bundle(cl.topology(CALLS))["text/html"])
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', document)
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert not re.search(r"(?:src|href)=", document.partition("<div")[0])


def test_hostile_texts_are_texts() -> None:
    table = rows_table("calls", [call(number, label, key=f"root/{label}") for number, label in enumerate(HOSTILE, 1)])
    for view in (cl.timeline(table), cl.explore(table), cl.side_by_side(table, table)):
        page = bundle(view)["text/html"]
        outside = page.replace(re.findall(r'srcdoc="[^"]*"', page)[0], "")
        assert "<img src=x" not in outside
        assert "window.pwned=2</script>" not in outside
        document = inside(page)
        assert document.count("</script>") == document.count("<script"), "data ends no script"


def test_a_selection_is_a_table_of_whole_rows() -> None:
    view = cl.timeline(CALLS)
    assert view.selected.num_rows == 0
    assert view.selected.column_names == CALLS.column_names
    told: list[int] = []
    end = view.on_select(lambda each: told.append(each.selected.num_rows))
    view.selected = [2, 1]
    assert view.selected.equals(CALLS.take([1, 2]))
    view.selected = [reason == "completed" for reason in CALLS["stop_reason"].to_pylist()]
    assert set(view.selected["stop_reason"].to_pylist()) == {"completed"}
    end()
    view.selected = None
    assert view.selected.num_rows == 0
    assert told == [2, 3]
    for wrong in ([10], [True], {"turns": [1]}, [-1]):
        with pytest.raises(ConfigError):
            view.selected = wrong


def test_the_front_end_and_python_say_the_same_selection() -> None:
    view = cl.explore(SESSIONS)
    widget = view.widget
    widget.selected = {"picked": {"tool_calls": [2]}, "rows": {"tool_calls": [2, 3], "model_calls": [4]}, "range": None}
    assert view.selected.equals(view.lab.tool_calls.take([2, 3]))
    assert view.selection["model_calls"].num_rows == 1
    widget.selected = {"picked": {}, "rows": {"sessions": [0, 1], "turns": [0]}, "range": [10, 20.5]}
    assert view.selected.equals(view.lab.sessions.take([0, 1]))
    assert view.selected_range_ms == (10.0, 20.5)
    view.selected = {"model_calls": [3]}
    assert widget.selected == {"picked": {"model_calls": [3]}, "rows": {"model_calls": [3]}, "range": None}
    widget.selected = {"picked": {"sessions": [99, "x"]}, "rows": "?"}
    assert view.selected.num_rows == 0
    view.close()


def test_a_comparison_selects_calls_of_both_runs() -> None:
    view = cl.side_by_side(CALLS, rows_table("calls", changed_run()))
    view.widget.selected = {"picked": {"expected": [7]}, "rows": {"expected": [7]}, "range": None}
    assert view.selected["label"].to_pylist() == ["lint"]
    view.selected = [9]
    assert view.selected["label"].to_pylist() == ["translate"]
    view.close()


def test_a_diff_gives_its_view(tmp_path: Path) -> None:
    path = save(tmp_path / "a.cassette.jsonl", sample(3))
    view = cl.diff(path, path).view()
    assert view.kind == "diff"
    assert view.notes[0] == "equivalent: 3 calls, same outcomes"
    assert view.widget.options["trust"] == {"state": "verified", "words": "both chains verified"}
    view.close()


def test_what_is_synced_is_bounded_and_the_rest_is_sent_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    table = many_calls(20_000)
    view = cl.timeline(table)
    widget = view.widget
    assert sum(map(len, widget.tables.values())) < 30_000
    assert widget.options["partial"] is True
    assert "of 20,000 calls are here" in widget.options["problem"]
    sent: list[tuple[dict[str, Any], list[bytes]]] = []
    monkeypatch.setattr(widget, "send", lambda content, buffers: sent.append((content, buffers)))
    widget._handle_custom_msg({"want": "something"}, [])
    widget._handle_custom_msg({"want": "tables"}, [])
    ((content, buffers),) = sent
    assert content["tables"] == ["calls"]
    assert "partial" not in content["options"]
    whole = pa.ipc.open_stream(gzip.decompress(buffers[0])).read_all()
    assert whole["call_key"].to_pylist() == table["call_key"].to_pylist()
    page = bundle(view)["text/html"]
    assert "To see all of them run this cell." in page
    assert re.search(r"all of them, by label and outcome</summary><table>.*<bdi>completed</bdi>", page)
    assert len(page) < 200_000
    view.close()


def test_a_session_is_shown_with_its_family_and_selected_in_the_whole_lab() -> None:
    lab = cl.load(SESSIONS)
    view = cl.waterfall(lab)
    shown = pa.ipc.open_stream(gzip.decompress(view.widget.tables["sessions"])).read_all()
    assert len(shown) == 4
    second = {"sessions": [shown["row"][1].as_py()]}
    view.widget.selected = {"picked": second, "rows": second}
    assert view.selected["session_id"].to_pylist() == shown["session_id"].to_pylist()[1:2]
    view.close()


def test_sessions_alone_are_shown_by_every_view() -> None:
    assert [row[0] for row in cl.topology(SESSIONS).cells.rows][1:3] == ["release-check", "· check-limits"]
    assert cl.topology(SESSIONS).title == "Topology · 5 sessions"
    assert cl.stop_reasons(SESSIONS).title.endswith("5 sessions")
    assert cl.explore(SESSIONS).title.startswith("Waterfall")


def test_calls_and_sessions_together_are_both_shown(tmp_path: Path) -> None:
    save(tmp_path / "a.cassette.jsonl", sample(3))
    lab = cl.load(tmp_path, SESSIONS)
    view = cl.timeline(lab)
    assert view.title.endswith("8 calls and sessions")
    assert {"calls", "sessions", "turns"} <= set(view.widget.tables)
    view.close()


def test_bodies_are_in_it_only_where_asked_for_and_marked(tmp_path: Path) -> None:
    path = save(tmp_path / "a.cassette.jsonl", sample(3))
    lab = cl.load(path, bodies=True)
    data, metadata = cl.explore(lab)._repr_mimebundle_()
    assert metadata == {}
    assert "data-cassette-bodies" not in data["text/html"]
    data, metadata = cl.explore(lab, bodies=True)._repr_mimebundle_()
    assert metadata == {"cassette_lab": {"bodies": True}}
    assert data["text/html"].startswith('<div data-cassette-bodies="yes">')
    assert framed(inside(data["text/html"]))["output"].null_count < 3
    with pytest.raises(ConfigError, match="bodies"):
        cl.timeline(cl.load(path), bodies=True)


def test_nothing_tells_where_on_this_machine_a_file_lies(tmp_path: Path) -> None:
    path = save(tmp_path / "a.cassette.jsonl", sample(3))
    for view in (cl.timeline(path), cl.side_by_side(path, path), cl.explore(cl.load(tmp_path))):
        data = bundle(view)
        assert str(tmp_path) not in data["text/plain"] + data["text/html"] + inside(data["text/html"]) + str(
            view.widget.options
        )
        view.close()


class Kernel:
    """As much of a kernel's shell as views ask for."""

    kernel = object()
    displayhook = SimpleNamespace(prompt_count=7)

    def __init__(self) -> None:
        self.user_ns: dict[str, Any] = {}
        self.cell = "a"
        self.hooks: list[Any] = []
        self.events = SimpleNamespace(register=lambda _name, hook: self.hooks.append(hook))

    def get_parent(self) -> dict[str, Any]:
        return {"metadata": {"cellId": self.cell}}

    def run(self, cell: str) -> None:
        self.cell = cell
        for hook in self.hooks:
            hook(SimpleNamespace(cell_id=cell))


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    found = Kernel()
    monkeypatch.setattr(naming, "shell", lambda: found)
    monkeypatch.setattr(live, "kernel_shell", lambda: found)
    monkeypatch.setattr("cassette_lab.views.view.kernel_shell", lambda: found)
    return found


def test_a_cell_that_runs_again_closes_what_it_showed(kernel: Kernel) -> None:
    from ipywidgets.widgets.widget import _instances

    before = len(_instances)
    kept = cl.timeline(CALLS)
    for _ in range(5):
        kernel.run("a")
        bundle(cl.timeline(CALLS))
        bundle(kept)
        kernel.run("b")
        bundle(kept)
    assert len(_instances) - before == 2 * 2, "two widgets, each with its layout"
    first = kept._own_widget().model_id
    kernel.run("a")
    assert kept._own_widget().model_id == first, "another cell still shows it"
    kernel.run("b")
    assert len(_instances) == before
    assert bundle(kept)["application/vnd.jupyter.widget-view+json"]["model_id"] != first
    kept.close()


def test_copied_code_names_what_the_notebook_has(kernel: Kernel) -> None:
    lab = cl.load(SESSIONS)
    kernel.user_ns |= {"_": lab, "runs": lab}
    assert cl.timeline(lab).widget.options["lab"] == "runs"
    view = cl.timeline(CALLS)
    kernel.user_ns["view"] = view
    assert view.widget.options["lab"] == "view.lab"
    assert eval("view.lab.calls.take([1, 2])", kernel.user_ns).num_rows == 2  # noqa: S307 - as a person would
    assert cl.timeline(CALLS).widget.options["lab"] == "Out[7].lab"
    cl.timeline(CALLS).close()


def test_a_widget_that_stands_in_a_box_stays_open_when_the_cell_of_its_view_runs_again(kernel: Kernel) -> None:
    kernel.run("a")
    view = cl.timeline(CALLS)
    bundle(view)
    boxed = view.widget
    kernel.run("a")
    assert boxed.comm is not None
    view.close()
    assert boxed.comm is None


def test_a_view_whose_widget_somebody_closed_is_shown_again(kernel: Kernel) -> None:
    del kernel
    view = cl.timeline(CALLS)
    first = bundle(view)["application/vnd.jupyter.widget-view+json"]["model_id"]
    view.widget.close()
    again = bundle(view)
    assert again["application/vnd.jupyter.widget-view+json"]["model_id"] != first
    assert "<img" in again["text/html"]
    view.close()
