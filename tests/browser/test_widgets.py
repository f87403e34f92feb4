"""The views as widgets in a real JupyterLab: drawn from the tables, told to assistive technology, selected from both sides."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator

from cassette_lab.views.theme import category_of
from tests.browser.conftest import Lab, Window
from tests.browser.views import colour_at
from tests.view_samples import HOSTILE, ROOT, every_outcome, rows_table

SAMPLES = ROOT / "notebooks" / "samples" / "sessions"
BEGIN = f"""import cassette_lab as cl
from types import SimpleNamespace
from tests.view_samples import *
calls = rows_table("calls", every_outcome())
lab = SimpleNamespace(calls=calls)
after = SimpleNamespace(calls=rows_table("calls", changed_run()))
sessions = cl.load({str(SAMPLES)!r})"""
CALLS = rows_table("calls", every_outcome())


class Shown:
    """A view under a cell."""

    def __init__(self, window: Window, cell: int) -> None:
        self.page = window.page
        self.root: Locator = window.page.locator(".jp-CodeCell").nth(cell).locator(".jp-OutputArea .clab-view")
        self.root.wait_for()
        self.root.scroll_into_view_if_needed()
        self.page.wait_for_timeout(150)

    @property
    def tree(self) -> Locator:
        return self.root.locator("[role=tree]")

    def marks(self) -> list[dict[str, Any]]:
        marks: list[dict[str, Any]] = self.root.evaluate("root => root.parentElement.cassetteView.marks()")
        return marks

    def bars(self) -> dict[tuple[str, int], dict[str, Any]]:
        return {(mark["table"], mark["row"]): mark for mark in self.marks() if mark.get("part") == "bar"}

    def click(self, mark: dict[str, Any]) -> None:
        x, y = mark["x"] + mark["width"] / 2, mark["y"] + mark["height"] / 2
        self.tree.locator("canvas").click(position={"x": x, "y": y})

    def told(self) -> list[str]:
        self.page.wait_for_timeout(150)
        return self.tree.locator("[role=treeitem]").all_inner_texts()


def keep(window: Window, name: str) -> None:
    """A screenshot, where somebody wants to look."""
    if "SCREENSHOTS" in os.environ:
        window.page.screenshot(path=Path(os.environ["SCREENSHOTS"]) / f"{name}.png")


def run_cell(window: Window, cell: int) -> str:
    """Run one cell again and give what it prints."""
    window.page.evaluate(
        """async cell => {
            const { content } = window.jupyterapp.shell.currentWidget;
            content.activeCellIndex = cell;
            await window.jupyterapp.commands.execute('notebook:run-cell');
        }""",
        cell,
    )
    window.page.wait_for_timeout(200)
    return window.output(cell).strip()


def begin(window: Window, lab: Lab, name: str, *cells: str) -> None:
    """Open a notebook of these cells, after one that makes the labs, and run it."""
    lab.write(f"{name}.ipynb", [BEGIN, *cells])
    window.run_all(f"{name}.ipynb")


def test_every_bar_is_where_its_row_says_and_a_click_reaches_python(window: Window, lab: Lab) -> None:
    begin(
        window,
        lab,
        "every_bar_is_where_i",
        "view = cl.timeline(lab)\nview",
        "print(view.selected['sequence'].to_pylist(), view.selected.num_columns)",
    )
    shown = Shown(window, 1)
    keep(window, "widget-timeline")
    bars = {row: bar for (table, row), bar in shown.bars().items() if table == "calls"}
    rows = CALLS.to_pylist()
    assert sorted(bars) == list(range(len(rows)))
    for number, bar in bars.items():
        row = rows[number]
        category = category_of(row["outcome_kind"], row["stop_reason"])
        if category.fill == "solid" and bar["width"] > 8:
            assert colour_at(shown.tree.locator("canvas"), bar["x"] + 3, bar["y"] + bar["height"] / 2) == category.colour
        shown.click(bar)
        below = [each["sequence"] for each in rows if each["call_key"].startswith(row["call_key"])]
        if number in (0, 4, 9):
            assert run_cell(window, 2) == f"{below} {len(CALLS.column_names)}"
    assert len(shown.told()) == len(rows)
    assert shown.told()[0].startswith("audit, call, completed")


def test_each_view_of_calls_draws(window: Window, lab: Lab) -> None:
    begin(
        window,
        lab,
        "each_view_of_calls_d",
        "cl.explore(lab)",
        "cl.topology(lab)",
        "cl.stop_reasons(lab)",
        "cl.side_by_side(lab, after)",
        "cl.timing_deltas(lab, after)",
    )
    for cell, name in enumerate(("explorer", "topology", "stop_reasons", "diff", "diff"), 1):
        shown = Shown(window, cell)
        keep(window, f"widget-{cell}-{name}")
        assert shown.root.get_attribute("data-view") == name
        assert shown.marks()


def test_each_view_of_sessions_draws(window: Window, lab: Lab) -> None:
    begin(
        window,
        lab,
        "each_view_of_session",
        "cl.explore(sessions)",
        "cl.topology(sessions)",
        "cl.stop_reasons(sessions)",
        "cl.timeline(sessions)",
        "cl.waterfall(sessions)",
    )
    for cell, name in enumerate(("explorer", "topology", "stop_reasons", "timeline", "waterfall"), 1):
        shown = Shown(window, cell)
        keep(window, f"widget-sessions-{cell}-{name}")
        assert shown.marks()
        if name != "stop_reasons":
            assert any(text.startswith("release-check, session, completed") for text in shown.told())
        if name == "waterfall":
            assert not any(text.startswith("night-report") for text in shown.told())


def test_python_selects_and_both_sides_agree(window: Window, lab: Lab) -> None:
    begin(
        window,
        lab,
        "python_selects",
        "view = cl.timeline(lab)\nview",
        "view.selected = [row == 'docs' for row in calls['label'].to_pylist()]\nprint(view.selected.num_rows)",
        "print(view.selection['calls']['label'].to_pylist())",
        "view.selected = None",
    )
    shown = Shown(window, 1)
    assert run_cell(window, 2) == "1"
    items = shown.tree.locator("[role=treeitem][aria-selected=true]")
    items.first.wait_for(state="attached")
    assert items.first.inner_text().startswith("docs, call, max-tokens")
    shown.click(shown.bars()["calls", 9])
    assert run_cell(window, 3) == "[None]"
    run_cell(window, 4)
    window.page.wait_for_timeout(300)
    assert items.count() == 0


def test_keys_walk_the_view_and_leave_the_notebook_alone(window: Window, lab: Lab) -> None:
    begin(window, lab, "keys", "view = cl.explore(lab)\nview", "print(view.selected['sequence'].to_pylist())")
    shown = Shown(window, 1)
    cells = window.page.locator(".jp-CodeCell").count()
    shown.tree.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowUp", "Space"):
        window.page.keyboard.press(key)
    assert run_cell(window, 2) == "[2]"
    shown.tree.focus()
    for key in ("a", "b", "m", "End", "Shift+Space", "t", "t"):
        window.page.keyboard.press(key)
    assert window.page.locator(".jp-CodeCell").count() == cells, "keys of the view are no commands of the notebook"
    assert run_cell(window, 2) == "[2, 10]"
    shown.tree.focus()
    window.page.keyboard.press("Escape")
    assert run_cell(window, 2) == "[]"


def test_copied_python_runs(window: Window, lab: Lab) -> None:
    window.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    begin(window, lab, "copied", "cl.timeline(lab)", "cl.timeline(calls)")
    for cell, name in ((1, "lab"), (2, "Out[3].lab")):
        shown = Shown(window, cell)
        shown.click(shown.bars()["calls", 4])
        shown.root.get_by_role("button", name="copy as Python").click()
        shown.root.get_by_text("copied: ").wait_for()
        code = window.page.evaluate("navigator.clipboard.readText()")
        assert code == f"{name}.calls.take([4, 5, 6])"


def test_the_theme_is_the_notebooks(window: Window, lab: Lab) -> None:
    begin(window, lab, "theme", "cl.explore(lab)")
    shown = Shown(window, 1)

    def grounds() -> tuple[str, str]:
        window.page.wait_for_timeout(300)
        style = shown.root.evaluate("root => getComputedStyle(root).backgroundColor")
        return str(style), colour_at(shown.tree.locator("canvas"), 4, 4)

    light = grounds()
    window.page.evaluate("window.jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'})")
    window.page.wait_for_selector("body[data-jp-theme-light=false]", state="attached")
    dark = grounds()
    keep(window, "widget-dark")
    window.page.evaluate("window.jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Light'})")
    window.page.wait_for_selector("body[data-jp-theme-light=true]", state="attached")
    assert grounds() == light
    assert all(before != after for before, after in zip(light, dark, strict=True))


def test_hostile_labels_do_nothing(window: Window, lab: Lab) -> None:
    hostile = 'calls = rows_table("calls", [call(n, label, key=f"root/{label}") for n, label in enumerate(HOSTILE, 1)])'
    begin(window, lab, "hostile", f"{hostile}\ncl.explore(calls)", "cl.stop_reasons(calls)", "cl.side_by_side(calls, calls)")
    for cell in (1, 2, 3):
        shown = Shown(window, cell)
        keep(window, f"widget-hostile-{cell}")
        assert window.page.evaluate("window.pwned") is None
        assert shown.root.locator("img, script").count() == 0
    told = Shown(window, 1).told()
    assert len(told) == len(HOSTILE)
    assert "\\u{001b}[31mred" in told[1]
    assert "\\u{202e}" in told[2]


def test_a_hundred_thousand_calls_are_all_there(window: Window, lab: Lab) -> None:
    begin(
        window, lab, "many", "view = cl.explore(many_calls(100_000))\nview", "print(view.selected['sequence'].to_pylist()[:1])"
    )
    shown = Shown(window, 1)
    shown.root.get_by_text("100,000 calls ·").wait_for()
    keep(window, "widget-many")
    assert not shown.root.get_by_role("alert").count()
    shown.tree.focus()
    window.page.keyboard.press("End")
    window.page.keyboard.press("Space")
    window.page.wait_for_timeout(500)
    last = int(run_cell(window, 2).strip("[]"))
    assert last > 99_000


def test_running_a_cell_again_leaves_no_widgets_behind(window: Window, lab: Lab) -> None:
    count = "from ipywidgets.widgets.widget import _instances\nprint(len(_instances))"
    begin(window, lab, "again", "cl.timeline(lab)", count)
    Shown(window, 1)
    before = run_cell(window, 2)
    for _ in range(4):
        run_cell(window, 1)
        Shown(window, 1)
    assert run_cell(window, 2) == before == "2"


def test_a_long_comparison_selects_in_the_whole_tables(window: Window, lab: Lab) -> None:
    begin(
        window,
        lab,
        "long_diff",
        "runs = [many_calls(6_000), many_calls(6_000)]\nview = cl.side_by_side(*runs)\nview.selected = [5_000]\nview",
        "print(view.selected['sequence'].to_pylist(), view.selection['expected'].num_rows)",
    )
    shown = Shown(window, 1)
    shown.root.get_by_text("6,000 and 6,000 calls").wait_for()
    assert run_cell(window, 2) == "[5001] 0"
    shown.tree.focus()
    window.page.keyboard.press("Home")
    window.page.keyboard.press("Space")
    window.page.wait_for_timeout(500)
    keep(window, "widget-long-diff")
    assert run_cell(window, 2) == "[1] 1"
