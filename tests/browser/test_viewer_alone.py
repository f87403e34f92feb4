"""The viewer where the server half is switched off: it reads what it can in the browser, and says that nothing is verified."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

import cassette_lab as cl
from tests.browser.conftest import Lab, Window, jupyterlab
from tests.browser.viewer import RUNS, Viewer, fill

ENABLE = "jupyter server extension enable cassette_lab.server.jupyter"
OFF = "--ServerApp.jpserver_extensions={'cassette_lab.server.jupyter': False}"


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with jupyterlab(tmp_path_factory.mktemp("alone"), OFF) as running:
        fill(running.root / RUNS)
        yield running


@pytest.fixture
def viewer(browser: Browser, alone: Lab) -> Iterator[Viewer]:
    context = browser.new_context(viewport={"width": 1300, "height": 1000})
    window = Window(context.new_page(), alone)
    viewer = Viewer(window)
    yield viewer
    context.close()
    assert window.left_the_machine == []
    assert viewer.errors == []


def test_what_is_read_in_the_browser_is_not_verified(viewer: Viewer, alone: Lab) -> None:
    tab = viewer.open("a.cassette.jsonl")
    assert viewer.trust(tab) == "? not verified here"
    expect(tab.get_by_role("alert")).to_contain_text(ENABLE)
    calls = cl.load(alone.root / RUNS / "a.cassette.jsonl").calls
    told = viewer.rows(tab)
    assert [text.split(",")[0] for text in told] == calls["label"].to_pylist()[: len(told)]
    expect(tab.locator(".clab-facts")).to_contain_text("40 calls")
    viewer.keep("alone")

    tab = viewer.open("requests.flight.json")
    assert viewer.trust(tab) == "? not verified here"
    assert len([text for text in viewer.rows(tab) if "m-1" in text]) == 2

    tab = viewer.open("broken.cassette.jsonl")  # whole JSON, with a record that breaks the format: only the server half sees it
    assert viewer.trust(tab) == "? not verified here"

    tab = viewer.open("session.jsonl")
    assert viewer.trust(tab) == "✕ not read"
    expect(tab.get_by_role("alert")).to_contain_text("read by the server half")

    damaged = Path(alone.root / RUNS / "damaged.cassette.jsonl")
    lines = (alone.root / RUNS / "a.cassette.jsonl").read_bytes().splitlines(keepends=True)
    damaged.write_bytes(b"".join([*lines[:4], b"{ this is no JSON\n", *lines[4:]]))
    viewer.run("docmanager:open", path=f"{RUNS}/damaged.cassette.jsonl")
    expect(viewer.page.locator(".clab-tab:visible [role=alert]")).to_contain_text("damaged.cassette.jsonl, line 5")
    viewer.keep("alone-damaged")

    viewer.run("cassette-lab:compare", expected=f"{RUNS}/a.cassette.jsonl", actual=f"{RUNS}/b.cassette.jsonl")
    expect(viewer.page.locator(".clab-tab:visible [role=alert]")).to_contain_text("are read by the server half")
