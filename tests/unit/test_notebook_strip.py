"""``cassette-lab strip``: outputs made with bodies go, everything else stays byte for byte."""

from __future__ import annotations

import json
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import altair as alt
import nbformat
import pytest
from IPython.core.formatters import DisplayFormatter
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

import cassette_lab as cl
from cassette_lab.cli import main
from cassette_lab.errors import ConfigError, FormatError
from cassette_lab.views.notebook_bodies import WIDGET_STATE, WIDGET_VIEW, without_bodies
from tests.unit.cassette_samples import header, interaction, result, siblings
from tests.unit.cassette_samples import write as write_cassette

SECRET = "what-was-said"  # noqa: S105 - to be looked for
MARKED = f'<div data-cassette-bodies="yes">{SECRET}</div>'


def shown(html: str = "", text: str = "", **more: Any) -> Any:
    """An output as a kernel would send it."""
    return new_output("display_data", {"text/plain": text, **({"text/html": html} if html else {})}, **more)


def notebook(*outputs: Any) -> Any:
    """A notebook with these outputs in one cell, between others."""
    return new_notebook(
        cells=[
            new_markdown_cell("# Größen\n", id="a"),
            new_code_cell("1", id="b", outputs=[new_output("stream", text="fine\n")], execution_count=1),
            new_code_cell("2", id="c", outputs=list(outputs), execution_count=2),
            new_code_cell("3", id="d"),
        ]
    )


def texts(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


KEPT = shown("<b>kept</b>", "kept", metadata={"other": {"bodies": True}})


@pytest.mark.parametrize(
    "marked",
    [
        shown(MARKED, "x"),
        shown(f"<iframe srcdoc='&lt;html data-cassette-bodies=&quot;yes&quot;&gt;{SECRET}'></iframe>"),
        shown(f"<p>{SECRET}</p>", metadata={"cassette_lab": {"bodies": True}}),
        new_output("stream", text=f"<html lang=en data-cassette-bodies=yes>{SECRET}"),
        shown("<table><th>call_key</th><th>prompt</th><td>" + SECRET),
        shown("<table><th>session_id</th>\n<th>result</th><td>" + SECRET),
        shown(text=f"pyarrow.Table\ncall_key: string\noutput: string\n----\noutput: [[{SECRET}]]"),
        shown(text=f"[{{'call_key': 'a', 'error_message': '{SECRET}'}}]"),
        new_output("display_data", {"application/json": {"call_key": "a", "output": SECRET}}),
        new_output(
            "display_data", {"application/vnd.vegalite.v5+json": {"datasets": {"d": [{"session_id": 1, "result": SECRET}]}}}
        ),
    ],
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_outputs_with_bodies_go_and_the_others_stay(marked: Any, place: int) -> None:
    outputs = [KEPT, KEPT]
    outputs.insert(place, marked)
    stripped = without_bodies(nbformat.writes(notebook(*outputs)))
    assert (stripped.outputs, stripped.widgets) == (1, 0)
    assert stripped.text == nbformat.writes(notebook(KEPT, KEPT))


@pytest.mark.parametrize(
    "kept",
    [
        shown("<table><th>prompt</th><th>output</th>", "call_key"),
        shown("<table><th>call_key</th><th>prompt_blocks</th>"),
        shown(text="pyarrow.Table\ncall_key: string\nprompt_bytes: int64\n"),
        shown("<p>data-cassette-bodies=&quot;no&quot;</p>"),
        new_output("error", ename="KeyError", evalue="prompt", traceback=["call_key: prompt"]),
    ],
)
def test_what_only_looks_a_little_like_it_stays(kept: Any) -> None:
    text = nbformat.writes(notebook(kept))
    assert without_bodies(text).text == text


@pytest.mark.parametrize("layout", [{"indent": 1}, {"indent": 4, "ensure_ascii": True}, {"separators": (",", ":")}])
def test_the_rest_of_the_file_stays_byte_for_byte(layout: dict[str, Any]) -> None:
    made = notebook(KEPT, shown(MARKED), KEPT, shown(MARKED), shown(MARKED))
    whole = json.dumps(made, ensure_ascii=layout.pop("ensure_ascii", False), **layout)
    stripped = without_bodies(whole)
    assert stripped.outputs == 3
    assert stripped.text == json.dumps(notebook(KEPT, KEPT), ensure_ascii="\\u00f6" in whole, **layout)
    alone = json.dumps(notebook(shown(MARKED)), **layout)
    assert json.loads(without_bodies(alone).text) == notebook()


def test_states_of_widgets_that_show_bodies_go_with_their_outputs() -> None:
    view = {"model_id": "one", "version_major": 2, "version_minor": 0}
    states = {
        "zero": {"state": {"value": 1}},
        "one": {"state": {"tables": SECRET}},
        "two": {"state": {"options": {"bodies": True}, "tables": SECRET}},
        "three": {"state": {"options": {"bodies": False}}},
    }
    made = notebook(new_output("display_data", {"text/html": MARKED, WIDGET_VIEW: view}))
    made.metadata["widgets"] = {WIDGET_STATE: {"state": states, "version_major": 2, "version_minor": 0}}
    stripped = without_bodies(nbformat.writes(made))
    assert (stripped.outputs, stripped.widgets) == (1, 2)
    assert SECRET not in stripped.text
    assert set(json.loads(stripped.text)["metadata"]["widgets"][WIDGET_STATE]["state"]) == {"zero", "three"}


def test_all_displays_of_ours_that_show_what_was_said_are_found(tmp_path: Path) -> None:
    write_cassette(tmp_path / "a.cassette.jsonl", siblings())
    whole, plain = (cl.load(tmp_path / "a.cassette.jsonl", bodies=bodies) for bodies in (True, False))
    page = cl.report(whole, tmp_path / "report.html", bodies=True).read_text()
    with_bodies = [
        shown(cl.explore(whole, bodies=True)._repr_mimebundle_()[0]["text/html"]),
        shown(whole.sql("select output as answer from calls")._repr_mimebundle_()["text/html"]),
        shown(whole.to_pandas().to_html(max_cols=20)),
        shown(text=str(whole.calls)),
        shown(text=repr(whole.calls.slice(0, 1).to_pylist())),
        new_output("stream", text=page),
    ]
    without = [
        shown(cl.explore(whole)._repr_mimebundle_()[0]["text/html"]),
        shown(whole._repr_mimebundle_()["text/html"], repr(whole)),
        shown(plain.sql("select label from calls")._repr_mimebundle_()["text/html"]),
        shown(plain.to_pandas().to_html(max_cols=20)),
        shown(text=str(plain.calls)),
        new_output("stream", text=cl.report(plain, tmp_path / "report.html").read_text()),
    ]
    for output in with_bodies:
        assert without_bodies(nbformat.writes(notebook(output))).outputs == 1, texts(output)[:200]
    for output in without:
        assert without_bodies(nbformat.writes(notebook(output))).outputs == 0, texts(output)[:200]


def test_strip_works_in_place_or_into_another_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.ipynb"
    file.write_text(nbformat.writes(notebook(KEPT, shown(MARKED))) + "\n", encoding="utf-8")
    file.chmod(0o640)
    before = file.read_bytes()
    assert main(["strip", str(file), "-o", str(tmp_path / "b.ipynb")]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'b.ipynb'}: removed 1 output made with bodies\n"
    assert file.read_bytes() == before
    assert main(["strip", str(file)]) == 0
    assert file.read_bytes() == (tmp_path / "b.ipynb").read_bytes()
    assert SECRET.encode() not in file.read_bytes()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.ipynb", "b.ipynb"]
    changed = file.stat().st_mtime_ns
    capsys.readouterr()
    assert main(["strip", str(file)]) == 0
    assert capsys.readouterr().out == f"{file}: no output was made with bodies\n"
    assert file.stat().st_mtime_ns == changed


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"cells": 1}', '{"cells": [', "[" * 100_000, "\ufeff\x00"])
def test_what_is_no_notebook_is_refused_in_one_sentence(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(FormatError):
        without_bodies(text)
    file = tmp_path / "a.ipynb"
    file.write_text(text, encoding="utf-8")
    for verb in ("strip", "nbhtml"):
        assert main([verb, str(file)]) == 1
        told = capsys.readouterr().err
        assert told.startswith(f"cassette-lab: {file}: this is not a")
        assert told.count("\n") == 1
    assert file.read_text(encoding="utf-8") == text
    file.write_bytes(b"\xff\xfe")
    assert main(["strip", str(file)]) == main(["nbhtml", str(file)]) == 1
    assert capsys.readouterr().err.count("no UTF-8") == 2


def test_a_notebook_that_is_not_there_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["strip", str(tmp_path / "no.ipynb")]) == main(["nbhtml", str(tmp_path / "no.ipynb")]) == 1
    assert capsys.readouterr().err.count("no.ipynb: No such file") == 2


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> cl.Lab:
    """A lab with bodies, in which the answer of a call is the secret."""
    path = tmp_path_factory.mktemp("said") / "run.cassette.jsonl"
    write_cassette(path, (header(), [interaction(1, outcome=result([{"type": "text", "text": SECRET}]))]))
    return cl.load(path, bodies=True)


PARTS: dict[str, Callable[[cl.Lab], Any]] = {
    "a row": lambda lab: lab.to_pandas().iloc[0],
    "columns": lambda lab: lab.to_pandas()[["label", "output"]],
    "a column": lambda lab: lab.to_pandas()["output"],
    "an index": lambda lab: lab.to_pandas().set_index("label")[["output"]],
    "columns in Arrow": lambda lab: lab.calls.select(["label", "output"]),
    "a column in Arrow": lambda lab: lab.calls["output"],
    "a chart's rows": lambda lab: alt.Chart(lab.to_pandas()[["label", "output"]]).mark_bar().encode(x="label"),
    "rows of SQL": lambda lab: lab.sql("select label, output from calls").to_pandas(),
}


@pytest.mark.parametrize("part", PARTS)
def test_parts_of_a_table_go_where_a_cell_asked_for_bodies(said: cl.Lab, part: str) -> None:
    shell = DisplayFormatter()
    data, _ = shell.format(PARTS[part](said))
    assert SECRET in texts(data)
    asking = notebook(new_output("execute_result", data, execution_count=2), KEPT)
    asking.cells[3].source = "lab = cl.load('runs', bodies=True)"
    stripped = without_bodies(texts(asking))
    assert SECRET not in stripped.text
    assert stripped.outputs == 1
    assert KEPT in json.loads(stripped.text)["cells"][2]["outputs"]


def test_a_table_of_ones_own_stays_where_nobody_asked_for_bodies() -> None:
    own = notebook(shown("<table><th>label</th><th>output</th><td>1", "  label output\n0     a     1"))
    assert without_bodies(texts(own)).outputs == 0


@pytest.mark.parametrize(
    "state",
    [
        {"outputs": [shown(MARKED, "x")]},
        {"outputs": [shown("<table><th>call_key</th><th>output</th><td>" + SECRET)]},
        {"value": MARKED},
        {"children": [{"value": f"<table><th>call_key</th><th>prompt</th><td>{SECRET}"}]},
    ],
)
def test_other_widgets_that_hold_what_was_said_go(state: dict[str, Any]) -> None:
    made = notebook(KEPT)
    models = {"one": {"model_name": "OutputModel", "state": state}, "two": {"state": {"value": "kept"}}}
    made.metadata["widgets"] = {WIDGET_STATE: {"state": models}}
    stripped = without_bodies(texts(made))
    assert stripped.widgets == 1
    assert list(json.loads(stripped.text)["metadata"]["widgets"][WIDGET_STATE]["state"]) == ["two"]


def test_a_huge_output_takes_no_time_of_its_square() -> None:
    made = notebook(shown("<th" * 2_000_000))
    started = time.process_time()
    assert without_bodies(texts(made)).outputs == 0
    assert time.process_time() - started < 5


def test_an_error_of_sql_quotes_no_value_that_was_said(said: cl.Lab) -> None:
    with pytest.raises(ConfigError, match="Conversion error, at a value") as failure:
        said.sql("select cast(output as int) from calls")
    assert SECRET not in str(failure.value)
    with pytest.raises(ConfigError, match="outputs"):
        said.sql("select outputs from calls")


@pytest.mark.parametrize(
    "twice", ['"cells": [], "cells": []', '"cells": [{"cell_type": "code", "outputs": [], "outputs": []}]']
)
def test_a_member_that_is_named_twice_is_told(twice: str) -> None:
    with pytest.raises(FormatError, match="names a member twice"):
        without_bodies(f'{{"nbformat": 4, "metadata": {{}}, {twice}}}')
