"""``cassette-lab nbhtml``: a page of a notebook that loads nothing, whatever the notebook's outputs would load."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import Any

import nbformat
import pytest
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

import cassette_lab as cl
from cassette_lab.cli import main
from tests.unit.cassette_samples import siblings
from tests.unit.cassette_samples import write as write_cassette
from tests.unit.test_notebook_strip import MARKED
from tests.view_samples import HOSTILE

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c63f8cfc0f01f0005000"
    "1ff56c72f0d0000000049454e44ae426082"
)


def converted(folder: Path, *cells: Any, metadata: dict[str, Any] | None = None) -> BeautifulSoup:
    """The page of a notebook with these cells."""
    file = folder / "a notebook.ipynb"
    file.write_text(nbformat.writes(new_notebook(cells=list(cells), metadata=metadata or {})), encoding="utf-8")
    assert main(["nbhtml", str(file)]) == 0
    return BeautifulSoup((folder / "a notebook.html").read_text(encoding="utf-8"), "html.parser")


def html_cell(html: str, **more: str) -> Any:
    return new_code_cell("1", outputs=[new_output("display_data", {"text/plain": "x", "text/html": html, **more})])


def policy_of(page: BeautifulSoup) -> str:
    assert page.head is not None
    first = page.head.find(True)
    assert first is not None
    assert first["http-equiv"] == "Content-Security-Policy"
    return str(first["content"])


def test_nothing_is_loaded_from_elsewhere(tmp_path: Path) -> None:
    loading = (
        '<script src="https://cdn.invalid/a.js"></script><link rel="stylesheet" href="//cdn.invalid/a.css">'
        '<img src="https://cdn.invalid/a.png" alt="a plot"><img src="https://cdn.invalid/b.png" srcset="https://cdn.invalid/2x">'
        '<iframe src="https://cdn.invalid/"></iframe><object data="x.swf"></object><base href="https://cdn.invalid/">'
        '<meta http-equiv="refresh" content="0;url=https://cdn.invalid/"><video src="https://cdn.invalid/v"></video>'
    )
    widgets = {"application/vnd.jupyter.widget-state+json": {"state": {"m": {"secret-state": 1}}}}
    page = converted(
        tmp_path,
        new_markdown_cell("$x^2$ ![remote](https://cdn.invalid/c.png)\n\n<script>alert(1)</script>"),
        html_cell(loading, **{"application/javascript": "alert(2)"}),
        metadata={"widgets": widgets, "title": HOSTILE[0]},
    )
    text = str(page)
    assert "secret-state" not in text
    assert "alert(" not in text
    assert "cdnjs" not in text
    assert [element for element in page.find_all(src=True) if not str(element["src"]).startswith("data:")] == []
    assert page.find_all(["link", "base", "object", "video", "script", "iframe"]) == []
    assert [link["href"] for link in page.find_all("a", string=re.compile("a plot|remote|picture"))] == [
        "https://cdn.invalid/c.png", "https://cdn.invalid/a.png", "https://cdn.invalid/b.png",
    ]  # fmt: skip
    assert policy_of(page).startswith("default-src 'none'; script-src 'sha256-")
    assert "; style-src 'unsafe-inline'; img-src data: blob:;" in policy_of(page)
    assert len(page.find_all("meta", attrs={"http-equiv": True})) == 1
    assert page.title is not None
    assert page.title.get_text() == HOSTILE[0]


def test_pictures_beside_the_notebook_are_inside_the_page(tmp_path: Path) -> None:
    (tmp_path / "pixel.png").write_bytes(PIXEL)
    page = converted(tmp_path, new_markdown_cell("![dot](pixel.png) ![gone](missing.png)"))
    (picture,) = page.find_all("img")
    assert str(picture["src"]).startswith("data:image/png;base64,")
    assert "gone" in page.get_text()


def test_a_view_keeps_its_frame_and_the_page_allows_its_scripts(tmp_path: Path) -> None:
    write_cassette(tmp_path / "a.cassette.jsonl", siblings())
    html = cl.explore(cl.load(tmp_path / "a.cassette.jsonl"))._repr_mimebundle_()[0]["text/html"]
    page = converted(tmp_path, html_cell(html))
    (frame,) = page.find_all("iframe")
    assert 'data-cassette-theme="light"' in str(frame["srcdoc"])
    own = re.search(r"script-src ([^;]*);", str(frame["srcdoc"]))
    assert own is not None
    for name in own[1].split():
        assert name in policy_of(page)
    assert policy_of(page).count("sha256-") == len(own[1].split()) + 1, "and that of what makes the picture give way"
    assert "data-cassette-still" in str(page)


def test_a_frame_that_only_claims_to_be_ours_gets_no_rights(tmp_path: Path) -> None:
    plain = policy_of(converted(tmp_path, new_markdown_cell("nothing")))
    claimed = "script-src 'sha256-" + "A" * 43 + "='"
    for sandbox in ('sandbox="allow-scripts allow-same-origin"', 'sandbox="allow-scripts"', ""):
        frame = f'<iframe data-cassette-live="yes" {sandbox} srcdoc="{claimed}; &lt;title&gt;"></iframe>'
        for cell in (html_cell(frame), new_markdown_cell(frame)):
            page = converted(tmp_path, cell)
            assert policy_of(page) == plain
            assert {str(each["sandbox"]) for each in page.find_all("iframe")} <= {"['allow-scripts', 'allow-downloads']"}


@pytest.mark.parametrize(
    "hidden",
    [
        "<!--><PAYLOAD>-->",
        "<!-- x --!><PAYLOAD>-->",
        "<![CDATA[><PAYLOAD>]]>",
        "<?x><PAYLOAD>?>",
        "<svg><style><PAYLOAD></style></svg>",
        "<math><style><PAYLOAD></style></math>",
        "<noscript><PAYLOAD></noscript>",
        "<textarea></textarea><PAYLOAD>",
        "<svg><![CDATA[</svg><PAYLOAD>]]></svg>",
        '<div data-mime-type="text/html"><PAYLOAD></div>',
    ],
)
@pytest.mark.parametrize(
    "payload",
    ['meta http-equiv="refresh" content="0;url=https://far.invalid/"', 'META HTTP-EQUIV="refresh" content="0"', "script"],
)
def test_what_browsers_and_parsers_read_in_two_ways_orders_nothing(tmp_path: Path, hidden: str, payload: str) -> None:
    content = hidden.replace("PAYLOAD", payload) + ("document.title = 'pwned'</script>" if payload == "script" else "")
    for cell in (html_cell(content), new_markdown_cell(content)):
        page = converted(tmp_path, cell)
        text = (tmp_path / "a notebook.html").read_text(encoding="utf-8")
        assert len(re.findall("http-equiv", text, re.IGNORECASE)) == 1, "that of the policy"
        assert page.find_all("script") == []


def test_a_text_about_orders_reads_as_it_is(tmp_path: Path) -> None:
    page = converted(tmp_path, new_code_cell("print('<meta HTTP-EQUIV=refresh>')"))
    assert page.body is not None
    assert "<meta HTTP-EQUIV=refresh>" in page.body.get_text()


def test_a_page_with_bodies_is_said_to_have_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    converted(tmp_path, html_cell(MARKED))
    told = capsys.readouterr()
    assert "1 output was made with bodies, and the page has it; `cassette-lab strip" in told.err
    assert "nothing is loaded from elsewhere" in told.out


def test_the_same_notebook_gives_the_same_page(tmp_path: Path) -> None:
    cell = html_cell("<b>x</b>", **{"application/javascript": "1"})
    assert str(converted(tmp_path, cell)) == str(converted(tmp_path, cell))


def test_the_notebook_itself_is_not_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.html"
    file.write_text(nbformat.writes(new_notebook()))
    assert main(["nbhtml", str(file)]) == 1
    assert "would write over the notebook" in capsys.readouterr().err
    assert main(["nbhtml", str(file), "-o", str(tmp_path / "sub" / "b.html")]) == 0
    assert (tmp_path / "sub" / "b.html").exists()


def test_a_notebook_of_an_old_format_is_a_page_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "old.ipynb"
    cell = {
        "cell_type": "code",
        "language": "python",
        "input": ["print('old')"],
        "outputs": [],
        "collapsed": False,
        "metadata": {},
    }
    sheet = {"cells": [cell], "metadata": {}}
    file.write_text(json.dumps({"nbformat": 3, "nbformat_minor": 0, "metadata": {"name": ""}, "worksheets": [sheet]}))
    assert main(["nbhtml", str(file)]) == 0
    assert "old" in file.with_suffix(".html").read_text(encoding="utf-8")
    assert (
        capsys.readouterr().err
        == f"cassette-lab: {file}: no cell has an output; run the notebook and save it, then the page shows them\n"
    )


def test_half_a_character_is_shown_as_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "half.ipynb"
    cell = {"cell_type": "markdown", "metadata": {}, "source": "x \ud800 y"}
    file.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": [cell]}))
    assert main(["nbhtml", str(file)]) == 0
    assert "x \\ud800 y" in file.with_suffix(".html").read_text(encoding="utf-8")
    assert capsys.readouterr().err == ""


def test_odd_pictures_and_attachments_do_not_stop_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "secrets.txt").write_text("kept here")
    words = "![a](pipe.png) ![b](folder.png) ![c](.) ![d](attachment:gone.png) ![e](secrets.txt)"
    page = converted(tmp_path, new_markdown_cell(words))
    assert page.find_all("img") == []
    assert page.body is not None
    for word in "abcde":
        assert word in page.body.get_text().split()
    assert "kept here" not in str(page)
    assert capsys.readouterr().err == ""


def test_an_output_of_many_megabytes_is_shown_in_part(tmp_path: Path) -> None:
    started = time.process_time()
    page = converted(tmp_path, new_code_cell("1", outputs=[new_output("stream", text="abc def\n" * 2_000_000)]))
    assert "… 15,000,000 more characters are in the notebook" in page.get_text()
    assert time.process_time() - started < 20


def test_languages_and_kinds_that_nobody_knows_are_no_noise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    strange = new_output("display_data", {"application/x-strange": "?"})
    cells = [new_markdown_cell("```nolanguage\nx\n```"), new_code_cell("1", outputs=[strange])]
    converted(tmp_path, *cells, metadata={"language_info": {"name": "nolanguage"}})
    assert capsys.readouterr().err == ""
