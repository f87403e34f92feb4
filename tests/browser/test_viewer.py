"""Recordings opened in JupyterLab: by a double-click, side by side, as a folder; what is not verified is said."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

import cassette_lab as cl
from tests.benchmarks.generate import cassette_file
from tests.browser.conftest import RUN_ALL, Lab, Window
from tests.browser.viewer import RUNS, Viewer, fill
from tests.unit.test_scan import sample, save
from tests.unit.viewer_server import children, command_of
from tests.view_samples import HOSTILE

SET = "settings => jupyterapp.serviceManager.settings.save('cassette-lab:plugin', settings)"
CLOSE_ALL = """async () => {
    await jupyterapp.commands.execute('docmanager:save-all');
    await jupyterapp.commands.execute('application:close-all');
}"""


@pytest.fixture(scope="module")
def runs(lab: Lab) -> Path:
    folder = lab.root / RUNS
    fill(folder)
    return folder


@pytest.fixture(scope="module")
def page(browser: Browser, lab: Lab, runs: Path) -> Iterator[Viewer]:
    """One JupyterLab for all tests here: it takes seconds to load."""
    assert runs.is_dir()
    context = browser.new_context(viewport={"width": 1300, "height": 1000})
    window = Window(context.new_page(), lab)
    window.page.set_default_timeout(15_000)
    viewer = Viewer(window)
    yield viewer
    context.close()
    assert window.left_the_machine == []
    assert viewer.errors == []


@pytest.fixture
def viewer(page: Viewer) -> Viewer:
    """With no tab but the launcher."""
    for dialog in page.page.locator(".jp-Dialog").all():
        dialog.press("Escape")
    page.page.evaluate(CLOSE_ALL)
    page.page.locator(".jp-LauncherCard").first.wait_for()
    return page


def test_a_double_click_opens_each_kind_of_file(viewer: Viewer, runs: Path) -> None:
    tab = viewer.open("a.cassette.jsonl")
    assert viewer.trust(tab) == "✓ chain verified"
    expect(tab.locator(".clab-facts")).to_contain_text("40 calls")
    expect(tab.locator(".clab-facts")).to_contain_text("metadata only")
    expected = cl.load(runs / "a.cassette.jsonl").calls
    told = viewer.rows(tab)
    assert [text.split(",")[0] for text in told] == expected["label"].to_pylist()[: len(told)]
    viewer.keep("cassette")

    tab = viewer.open("session.jsonl")
    assert viewer.trust(tab) == "✓ read to its end"
    turns = len(cl.load(runs / "session.jsonl").turns)
    assert sum(text.startswith("turn ") for text in viewer.rows(tab)) == turns
    viewer.keep("session")

    tab = viewer.open("session.v4.jsonl.zstd")
    assert any(text.startswith("turn 1") for text in viewer.rows(tab))

    tab = viewer.open("requests.flight.json")
    assert len([text for text in viewer.rows(tab) if "m-1" in text]) >= 2
    viewer.keep("flight")


def test_a_broken_file_says_what_and_where_and_shows_what_is_verified(viewer: Viewer) -> None:
    tab = viewer.open("broken.cassette.jsonl")
    assert re.search(r"verified up to line \d+, not verified: line 31", viewer.trust(tab))
    expect(tab.get_by_role("alert")).to_contain_text("broken.cassette.jsonl, line 31")
    viewer.keep("broken")


def test_hostile_names_and_labels_are_text(viewer: Viewer) -> None:
    viewer.page.locator(".jp-DirListing-item", has_text="onerror").dblclick()
    tab = viewer.tab()
    viewer.keep("hostile")
    told = " ".join(viewer.rows(tab))
    assert HOSTILE[0] in told
    assert "admin\\u{202e}gnp.exe" in told
    assert "\x1b" not in told
    assert "\\u{202e}.cassette.jsonl" in tab.locator(".clab-title").inner_text()
    assert tab.locator("img").count() == 0
    assert viewer.page.evaluate("window.pwned") is None


def test_two_files_are_compared_the_older_one_first(viewer: Viewer) -> None:
    viewer.item("a.cassette.jsonl").click()
    viewer.item("b.cassette.jsonl").click(modifiers=["Control"])
    viewer.item("b.cassette.jsonl").click(button="right")
    viewer.page.locator(".lm-Menu-item", has_text="Compare Agent Runs").click()
    tab = viewer.tab()
    viewer.keep("compare")
    assert tab.locator(".clab-title").inner_text() == "b.cassette.jsonl → a.cassette.jsonl"
    expect(tab.locator(".clab-verdict")).to_contain_text("1 added")
    assert viewer.trust(tab) == "✓ chain verified"
    viewer.button("Swap").click()
    expect(tab.locator(".clab-title")).to_have_text("a.cassette.jsonl → b.cassette.jsonl")
    expect(tab.locator(".clab-verdict")).to_contain_text("1 removed")


def test_a_folder_is_a_lab_from_its_menu_the_launcher_and_by_command(viewer: Viewer) -> None:
    viewer.item("pair").click(button="right")
    viewer.page.locator(".lm-Menu-item", has_text="Open as Lab").click()
    tab = viewer.tab()
    assert viewer.trust(tab) == "✓ 2 files read"
    expect(tab.locator(".clab-facts")).to_contain_text("1 session")
    viewer.keep("folder")

    viewer.page.locator(".lm-TabBar-tabLabel", has_text="Launcher").click()
    viewer.page.locator(".jp-LauncherCard", has_text="Agent runs").click()
    tab = viewer.tab()
    expect(tab.locator(".clab-title")).to_have_text(RUNS)
    expect(tab.get_by_role("alert")).to_contain_text("broken.cassette.jsonl, line 31")
    assert viewer.trust(tab).endswith("1 problem")
    viewer.keep("launcher")

    viewer.run("cassette-lab:open-folder", isPalette=True)
    viewer.page.locator(".jp-Dialog input").fill(f"{RUNS}/pair")
    viewer.page.locator(".jp-Dialog .jp-mod-accept").click()
    expect(viewer.tab().locator(".clab-title")).to_have_text("pair")


def test_open_with_keeps_the_editors(viewer: Viewer) -> None:
    menu = viewer.page.locator(".lm-Menu-item")
    for name, editor, view in (
        ("a.cassette.jsonl", "Editor", ".jp-FileEditor"),
        ("requests.flight.json", "JSON", ".jp-RenderedJSON"),
        ("requests.flight.json", "Agent Run", ".clab-tab"),
    ):
        viewer.item(name).click(button="right")
        menu.filter(has_text=re.compile("^Open With$")).hover()
        menu.filter(has_text=re.compile(f"^{editor}( .default.)?$")).click()
        viewer.page.locator(f"{view}:visible").wait_for()


def test_the_python_of_a_view_runs_in_a_new_notebook(viewer: Viewer, runs: Path) -> None:
    tab = viewer.open("a.cassette.jsonl")
    tab.locator("[role=tree]").first.press("ArrowDown")
    tab.locator("[role=tree]").first.press("Space")
    viewer.button("Python").click()
    viewer.page.wait_for_selector(".jp-Notebook .jp-CodeCell")
    viewer.page.evaluate(RUN_ALL)
    cells = viewer.page.locator(".jp-Notebook:visible .jp-CodeCell")
    sources = [cell.inner_text() for cell in cells.locator(".jp-InputArea-editor").all()]
    viewer.keep("python")
    assert 'cl.load("a.cassette.jsonl")' in sources[0]
    assert sources[1].strip() == "cl.explore(lab)"
    assert sources[2].strip() == "lab.calls.take([1])"
    assert (runs / "a.ipynb").is_file()
    assert viewer.page.locator(".jp-RenderedText[data-mime-type*=stderr]").count() == 0

    viewer.run("cassette-lab:compare", expected=f"{RUNS}/b.cassette.jsonl", actual=f"{RUNS}/pair/a.cassette.jsonl")
    viewer.tab()
    viewer.button("Python").click()
    viewer.page.wait_for_selector(".lm-TabBar-tab.lm-mod-current:has-text('comparison.ipynb')")
    viewer.page.evaluate(RUN_ALL)
    text = viewer.page.locator(".jp-Notebook:visible").inner_text()
    assert 'expected = "../b.cassette.jsonl"' in text
    assert "1 added" in text
    assert viewer.page.locator(".jp-RenderedText[data-mime-type*=stderr]").count() == 0


def test_keys_walk_the_rows_and_the_theme_is_followed(viewer: Viewer) -> None:
    tab = viewer.open("a.cassette.jsonl")
    view = tab.locator(".clab-view")
    assert view.get_attribute("data-tone") == "light"
    keyboard = viewer.page.keyboard
    expect(tab.locator("[role=tree]").first).to_be_focused()
    keyboard.press("End")
    keyboard.press("Space")
    expect(tab).to_contain_text("1 selected")
    keyboard.press("/")
    keyboard.type("audit")
    expect(tab).to_contain_text("40 of 40")
    keyboard.press("Escape")
    keyboard.press("t")
    expect(tab.locator("[role=grid]:visible")).to_have_count(0)
    keyboard.press("Control+Shift+c")
    palette = viewer.page.locator("#modal-command-palette")
    palette.locator("input").fill("agent run")
    expect(palette).to_contain_text("Compare Two Runs")
    viewer.keep("palette")
    keyboard.press("Escape")
    viewer.run("apputils:change-theme", theme="JupyterLab Dark")
    expect(view).to_have_attribute("data-tone", "dark")
    viewer.keep("dark")
    viewer.run("apputils:change-theme", theme="JupyterLab Light")
    expect(view).to_have_attribute("data-tone", "light")


def test_a_file_that_changes_is_told_and_read_again_with_its_selection(viewer: Viewer, runs: Path) -> None:
    path = save(runs / "growing.cassette.jsonl", sample(10, "plain"))
    tab = viewer.open(path.name)
    for key in ("ArrowDown", "ArrowDown", "Space"):
        viewer.page.keyboard.press(key)
    expect(tab).to_contain_text("1 selected")
    picked = tab.locator(".clab-detail").inner_text()
    save(path, sample(25, "plain"))
    expect(tab.get_by_role("alert")).to_contain_text("changed on disk since it was read: reload")
    expect(tab.locator(".clab-facts")).to_contain_text("10 calls")
    viewer.keep("changed")
    viewer.button("Reload").click()
    expect(tab.locator(".clab-facts")).to_contain_text("25 calls")
    expect(tab.get_by_role("alert")).to_have_count(0)
    expect(tab).to_contain_text("1 selected")
    assert tab.locator(".clab-detail").inner_text() == picked


def test_saving_leaves_a_recording_as_it_is(viewer: Viewer, runs: Path) -> None:
    path = runs / "b.cassette.jsonl"  # the editor may have made a checkpoint of the other one
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    viewer.open(path.name)
    viewer.page.keyboard.press("Control+s")
    viewer.page.evaluate("jupyterapp.commands.execute('docmanager:save')")
    viewer.page.evaluate("jupyterapp.commands.execute('docmanager:save-all')")
    viewer.run("docmanager:save-as")
    viewer.page.locator(".jp-Dialog", has_text="only read here").get_by_role("button").click()
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert not list(runs.rglob("b.cassette-checkpoint*"))


def test_bodies_come_when_they_are_asked_for(viewer: Viewer) -> None:
    tab = viewer.open("session.jsonl")
    expect(tab.locator(".clab-facts")).to_contain_text("metadata only")
    viewer.button("Load texts").click()
    expect(tab.locator(".clab-facts")).to_contain_text("with bodies")
    expect(viewer.button("Load texts")).to_have_count(0)


def test_tabs_come_back_after_a_reload(viewer: Viewer) -> None:
    viewer.open("a.cassette.jsonl")
    viewer.run("cassette-lab:compare", expected=f"{RUNS}/a.cassette.jsonl", actual=f"{RUNS}/b.cassette.jsonl")
    viewer.tab()
    viewer.run("cassette-lab:open-folder", path=f"{RUNS}/pair")
    expect(viewer.tab().locator(".clab-title")).to_have_text("pair")
    viewer.page.wait_for_timeout(1500)  # JupyterLab writes the layout down after a while
    viewer.goto("lab?")
    labels = viewer.page.locator("#jp-main-dock-panel .lm-TabBar-tabLabel")
    expect(labels.filter(has_text=re.compile("^pair$"))).to_have_count(1)
    expect(labels.filter(has_text="a.cassette.jsonl → b.cassette.jsonl")).to_have_count(1)
    expect(labels.filter(has_text=re.compile("^a.cassette.jsonl$"))).to_have_count(1)
    expect(viewer.tab().locator(".clab-title")).to_have_text("pair")


def test_settings_choose_the_first_view_and_what_a_double_click_does(viewer: Viewer) -> None:
    viewer.page.evaluate(SET, '{"doubleClick": false, "view": "timeline", "checkSeconds": 0.3}')
    try:
        viewer.goto(f"lab/tree/{RUNS}?reset&")
        viewer.item("b.cassette.jsonl").dblclick()
        opened = viewer.page.locator("#jp-main-dock-panel .lm-TabBar-tabLabel", has_text="b.cassette.jsonl")
        opened.wait_for()
        expect(viewer.page.locator(".jp-Document:visible")).to_have_count(1)
        assert viewer.page.locator(".clab-tab").count() == 0  # but the editor, or JupyterLab's own viewer of such lines
        viewer.run("cassette-lab:open", path=f"{RUNS}/b.cassette.jsonl")
        expect(viewer.tab().locator(".clab-view")).to_have_attribute("data-view", "timeline")
    finally:
        viewer.page.evaluate(SET, '{"checkSeconds": 0.3}')
        viewer.goto(f"lab/tree/{RUNS}?reset&")
    viewer.open("b.cassette.jsonl")


def test_the_view_is_chosen_above_it(viewer: Viewer) -> None:
    tab = viewer.open("a.cassette.jsonl")
    for label in ("stop reasons", "table", "explorer"):
        viewer.page.locator(".jp-Toolbar:visible").get_by_label("view").select_option(label=label)
        expect(tab.locator(".clab-view")).to_have_attribute("data-view", label.replace(" ", "_"))


def test_closing_a_tab_ends_the_reading(viewer: Viewer, lab: Lab, runs: Path) -> None:
    name = cassette_file(runs, 8_000).name
    viewer.item(name).dblclick()
    end = time.monotonic() + 20
    while not (found := workers(lab)):
        assert time.monotonic() < end
    os.kill(found[0], signal.SIGSTOP)
    tab = viewer.page.locator(".clab-tab:visible")
    expect(tab.locator("[role=progressbar]")).to_be_visible()
    assert tab.get_attribute("data-state") == "verifying"
    viewer.keep("verifying")
    viewer.page.locator(".lm-TabBar-tab.lm-mod-current:visible .lm-TabBar-tabCloseIcon").last.click()
    for _ in range(100):
        if not workers(lab):
            break
        viewer.page.wait_for_timeout(30)
    assert workers(lab) == []


def workers(lab: Lab) -> list[int]:
    """Processes of the server that read for somebody."""
    return [pid for pid in children(lab.server.pid) if "cassette_lab.server.jupyter" in command_of(pid)]
