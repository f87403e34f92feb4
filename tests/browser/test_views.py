"""The views in Chromium: every mark stands for its row, the accessible tree says the same, keys reach everything."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from playwright.sync_api import Browser

import cassette_lab as cl
from cassette_lab.views.theme import CATEGORIES, category_of
from cassette_lab.words import UNKNOWN, duration_text
from tests.browser.views import ViewPage, colour_at, opened
from tests.view_samples import HOSTILE, ROOT, STATIC, call, changed_run, every_outcome, ipc, many_calls, rows_table

CALLS = rows_table("calls", every_outcome())
SESSIONS = ("sessions", "turns", "steps", "model_calls", "tool_calls")
AXE = ROOT / "extension" / "node_modules" / "axe-core" / "axe.min.js"
SINGLE = {"tables": {"calls": CALLS}}
TWO = {"expected": CALLS, "actual": rows_table("calls", changed_run())}


@pytest.fixture(scope="module")
def sample_sessions() -> dict[str, pa.Table]:
    lab = cl.load(ROOT / "notebooks" / "samples" / "sessions")
    return {name: lab.tables[name] for name in SESSIONS}


def keep(shown: ViewPage, name: str) -> None:
    """A screenshot, where somebody wants to look."""
    if "SCREENSHOTS" in os.environ:
        shown.page.screenshot(path=Path(os.environ["SCREENSHOTS"]) / f"{name}.png")


@pytest.mark.parametrize("view", ["timeline", "topology"])
def test_every_bar_stands_for_its_row(browser: Browser, tmp_path: Path, view: str) -> None:
    with opened(browser, tmp_path, [{"view": view, **SINGLE}]) as shown:
        keep(shown, view)
        shown.watch()
        canvas = shown.tree().locator("canvas")
        bars = {mark["row"]: mark for mark in shown.marks() if mark["part"] == "bar"}
        assert sorted(bars) == list(range(len(CALLS)))
        rows = CALLS.to_pylist()
        longest = max(bar["width"] for bar in bars.values())
        for number, bar in bars.items():
            row = rows[number]
            category = category_of(row["outcome_kind"], row["stop_reason"])
            # A colour where the bar is nothing but its colour.
            if category.fill == "solid" and bar["width"] > 8:
                assert colour_at(canvas, bar["x"] + 3, bar["y"] + bar["height"] / 2) == category.colour
            ready = 0.0 if category.fill == "hollow" else row["start_latency_ms"]
            share = (row["duration_ms"] - ready) / (rows[0]["duration_ms"] - rows[0]["start_latency_ms"])
            assert bar["width"] == pytest.approx(share * bars[0]["width"], abs=1.5)
            assert bar["width"] <= longest
            shown.click_mark(bar, canvas)
            assert shown.said()["picked"] == {"calls": [number]}
            below = [i for i, each in enumerate(rows) if each["call_key"].startswith(row["call_key"])]
            assert shown.said()["rows"] == {"calls": below}
        aborts = [mark for mark in shown.marks() if mark["part"] == "abort"]
        disposals = [mark for mark in shown.marks() if mark["part"] == "dispose"]
        assert [mark["row"] for mark in (*aborts, *disposals)] == [6, 7]


def test_the_accessible_tree_says_what_is_drawn(browser: Browser, tmp_path: Path) -> None:
    with opened(browser, tmp_path, [{"view": "timeline", **SINGLE}]) as shown:
        told = shown.told()
        rows = CALLS.to_pylist()
        assert len(told) == len(rows)
        for text, row in zip(told, rows, strict=True):
            name = (row["label"] or "(no label)") + (f" ~{row['occurrence']}" if row["occurrence"] > 1 else "")
            assert text.startswith(f"{name}, call, {category_of(row['outcome_kind'], row['stop_reason']).name}")
            assert duration_text(row["duration_ms"]) in text
        assert "redacted" in told[0]
        assert "abort asked for at 5.0 s" in told[6]
        items = shown.tree().locator("[role=treeitem]")
        levels = [items.nth(i).get_attribute("aria-level") for i in range(len(rows))]
        assert levels == ["1", "2", "2", "2", "1", "2", "2", "1", "1", "1"]
        assert items.nth(0).get_attribute("aria-expanded") == "true"
        assert items.nth(0).get_attribute("aria-setsize") == "5"
        assert items.nth(4).get_attribute("aria-posinset") == "2"
        assert items.nth(1).get_attribute("aria-expanded") is None
        strip = shown.root().locator("[role=img]").get_attribute("aria-label")
        assert strip is not None
        assert strip.startswith("Concurrency: at most 5 at once")


def test_sessions_show_turns_attempts_and_back_off(
    browser: Browser, tmp_path: Path, sample_sessions: dict[str, pa.Table]
) -> None:
    with opened(browser, tmp_path, [{"view": "timeline", "tables": sample_sessions, "options": {"height": 760}}]) as shown:
        keep(shown, "sessions")
        marks = shown.marks()
        calls = sample_sessions["model_calls"].to_pylist()
        for mark in marks:
            if mark["part"] == "retry":
                assert mark["table"] == "model_calls"
                assert calls[mark["row"]]["attempt"] > 1
        told = shown.told()
        assert any(text.startswith("release-check, session, completed") for text in told)
        assert any("retry after" in text for text in told)
        assert any("first chunk after" in text for text in told)


def test_keys_reach_everything(browser: Browser, tmp_path: Path) -> None:
    with opened(browser, tmp_path, [{"view": "explorer", **SINGLE}]) as shown:
        shown.watch()
        keyboard = shown.page.keyboard
        shown.tree().focus()
        assert shown.active().startswith("audit")
        keyboard.press("ArrowDown")
        assert shown.active().startswith("check-api,")
        keyboard.press("End")
        assert shown.active().startswith("(no label)")
        keyboard.press("Home")
        keyboard.press("ArrowLeft")
        assert [text.split(",")[0] for text in shown.told()][:2] == ["audit", "docs"]
        keyboard.press("Enter")
        keyboard.press("ArrowRight")
        assert shown.active().startswith("check-api,")
        keyboard.press("ArrowLeft")
        assert shown.active().startswith("audit")
        keyboard.press("Space")
        assert shown.said()["rows"] == {"calls": [0, 1, 2, 3]}
        keyboard.press("End")
        keyboard.press("Shift+Space")
        assert shown.said()["picked"] == {"calls": [0, 9]}
        keyboard.press("Escape")
        assert shown.said() == {"picked": {}, "rows": {}, "range": None}
        keyboard.press("/")
        keyboard.type("429")
        shown.page.wait_for_timeout(250)
        assert [text.split(",")[0] for text in shown.told()] == ["audit", "check-api ~2"]
        keyboard.press("Enter")
        assert shown.said()["picked"] == {"calls": [2]}
        keyboard.press("Escape")
        assert len(shown.told()) >= 8
        grid = shown.root().locator("[role=grid]")
        assert grid.is_visible()
        keyboard.press("t")
        assert not grid.is_visible()
        keyboard.press("t")
        assert grid.is_visible()
        assert shown.page.evaluate("document.activeElement.getAttribute('role')") == "grid"


def test_zoom_pan_and_brush(browser: Browser, tmp_path: Path) -> None:
    with opened(browser, tmp_path, [{"view": "timeline", **SINGLE}]) as shown:
        shown.watch()
        shown.tree().focus()
        before = {mark["row"]: mark for mark in shown.marks() if mark["part"] == "bar"}
        shown.page.keyboard.press("+")
        shown.page.keyboard.press("+")
        shown.page.wait_for_timeout(100)
        after = {mark["row"]: mark for mark in shown.marks() if mark["part"] == "bar"}
        assert after[4]["width"] > 1.3 * before[4]["width"]
        left = after[5]["x"]
        shown.page.keyboard.press("Shift+ArrowLeft")
        shown.page.wait_for_timeout(100)
        assert next(mark["x"] for mark in shown.marks() if mark["row"] == 5 and mark["part"] == "bar") > left
        shown.page.keyboard.press("0")
        shown.page.wait_for_timeout(100)
        assert {mark["row"]: mark for mark in shown.marks() if mark["part"] == "bar"}[4] == before[4]
        box = shown.tree().locator("canvas").bounding_box()
        assert box is not None
        shown.page.mouse.move(box["x"] + before[8]["x"] + 20, box["y"] + 60)
        shown.page.mouse.down()
        shown.page.mouse.move(box["x"] + before[8]["x"] + 60, box["y"] + 90, steps=4)
        shown.page.mouse.up()
        said = shown.said()
        assert said["picked"] == {}
        start, end = said["range"]
        base = CALLS["started_at"].cast(pa.int64()).to_pylist()
        times = [(at - base[0], at - base[0] + took) for at, took in zip(base, CALLS["duration_ms"].to_pylist(), strict=True)]
        assert said["rows"]["calls"] == [row for row, (at, until) in enumerate(times) if at <= end and until >= start]


def test_a_subtree_filters_counts_and_table(browser: Browser, tmp_path: Path) -> None:
    with opened(browser, tmp_path, [{"view": "explorer", **SINGLE}]) as shown:
        keep(shown, "explorer")
        shown.watch()
        options = shown.root().locator("[role=option]")
        shown.page.wait_for_timeout(150)
        assert options.nth(0).inner_text().startswith("all: 10 calls: 3 completed, 1 max-tokens")
        bar = next(mark for mark in shown.marks() if mark.get("row") == 4 and mark["part"] == "bar")
        shown.click_mark(bar, shown.tree().locator("canvas"))
        shown.page.wait_for_timeout(150)
        assert options.nth(0).inner_text() == "all: 3 calls: 1 max-tokens, 1 refusal, 1 aborted"
        assert shown.root().locator("[role=grid]").get_attribute("aria-rowcount") == "4"
        details = shown.root().locator(".clab-detail")
        assert "root/docs-5" in details.inner_text()
        assert shown.root().locator("[role=grid] [role=row]").nth(1).inner_text().startswith("5\ndocs")


def test_stop_reasons_select_what_they_count(browser: Browser, tmp_path: Path) -> None:
    with opened(browser, tmp_path, [{"view": "stop_reasons", **SINGLE}]) as shown:
        keep(shown, "stop_reasons")
        shown.watch()
        canvas = shown.root().locator("[role=listbox] canvas")
        segments = shown.marks()
        assert sum(mark["value"] for mark in segments if mark["group"] == "all") == len(CALLS)
        for mark in segments:
            shown.click_mark(mark, canvas)
            rows = shown.said()["rows"]["calls"]
            found = [CALLS.slice(row, 1).to_pylist()[0] for row in rows]
            assert len(found) == mark["value"]
            assert {category_of(row["outcome_kind"], row["stop_reason"]).name for row in found} == {mark["category"]}
            if mark["group"] != "all":
                assert {row["label"] or "(no label)" for row in found} == {mark["group"]}
            category = CATEGORIES[mark["category"]]
            if category.fill == "solid" and mark["width"] > 6:
                assert colour_at(canvas, mark["x"] + 3, mark["y"] + mark["height"] / 2) == category.colour


def test_a_diff_walks_its_changes(browser: Browser, tmp_path: Path) -> None:
    facts = {"diff": {"expected": "monday", "actual": "tuesday", "policy_changes": ["redactSecrets"]}}
    with opened(browser, tmp_path, [{"view": "diff", "tables": TWO, "options": facts}]) as shown:
        keep(shown, "diff")
        shown.watch()
        verdict = shown.root().locator(".clab-verdict")
        assert "different: 1 outcome changed, 1 boundary changed, 1 added, 1 removed, 1 policy change" in verdict.inner_text()
        assert "policy: redactSecrets differs" in verdict.inner_text()
        canvas = shown.tree().locator("canvas")
        expected, actual = (TWO[side].to_pylist() for side in ("expected", "actual"))
        for mark in shown.marks():
            if mark["part"] != "delta":
                continue
            change = actual[mark["actual"]]["duration_ms"] - expected[mark["expected"]]["duration_ms"]
            assert actual[mark["actual"]]["call_key"] == expected[mark["expected"]]["call_key"]
            if mark["width"] > 4:
                drawn = colour_at(canvas, mark["x"] + mark["width"] / 2, mark["y"] + 5)
                assert drawn == ("#d55e00" if change > 0 else "#0072b2")
        shown.tree().focus()
        seen = []
        for _ in range(4):
            shown.page.keyboard.press("n")
            seen.append(shown.active())
        kinds = ("outcome changed", "added", "removed", "boundary changed")
        assert all(kind in text for kind, text in zip(kinds, seen, strict=True)), seen
        assert shown.said()["rows"] == {"expected": [8], "actual": [7]}
        shown.page.keyboard.press("p")
        assert "removed" in shown.active()
        shown.root().get_by_text("changes only").click()
        assert [text.split(",")[0] for text in shown.told()] == [
            "audit", "check-api", "docs", "translate", "lint", "release notes",
        ]  # fmt: skip


def test_the_explorer_compares_in_place(browser: Browser, tmp_path: Path) -> None:
    tables = {"calls": TWO["actual"], **TWO}
    with opened(browser, tmp_path, [{"view": "explorer", "tables": tables}]) as shown:
        shown.watch()
        shown.root().get_by_role("button", name="compare").click()
        keep(shown, "explorer-compare")
        trees = shown.root().locator("[role=tree]")
        assert [trees.nth(i).is_visible() for i in range(2)] == [True, False]
        bar = next(mark for mark in shown.marks() if mark.get("part") == "actual" and mark["actual"] == 4)
        shown.click_mark(bar, trees.nth(0).locator("canvas"))
        assert shown.said()["picked"] == {"calls": [4]}
        shown.root().get_by_role("button", name="compare").click()
        assert [trees.nth(i).is_visible() for i in range(2)] == [False, True]
        before = {mark["row"]: mark["x"] for mark in shown.marks() if mark.get("part") == "bar"}
        shown.root().get_by_label("bars").select_option("how long it took")
        shown.page.wait_for_timeout(100)
        after = {mark["row"]: mark["x"] for mark in shown.marks() if mark.get("part") == "bar"}
        assert after[4] < before[4]


def test_what_a_person_did_stays_while_rows_come(browser: Browser, tmp_path: Path) -> None:
    views = [{"view": "explorer", "tables": {"calls": CALLS.slice(0, 8)}, "options": {"title": "run", "progress": 0.5}}]
    rest = base64.b64encode(ipc(CALLS)).decode()
    update = """([text, options]) => {
        const tables = text ? {tables: {calls: cassetteLab.fromBase64(text)}} : {};
        cassetteLab.views.get('view-0').update({...tables, options});
    }"""
    with opened(browser, tmp_path, views) as shown:
        shown.watch()
        shown.tree().focus()
        shown.page.keyboard.press("ArrowLeft")
        shown.page.keyboard.press("ArrowDown")
        shown.page.keyboard.press("Space")
        shown.root().get_by_label("outcome").select_option("not completed")
        shown.page.evaluate(update, ["", {"title": "run", "progress": 0.7}])
        assert shown.root().locator("[role=progressbar]").get_attribute("aria-valuenow") == "70"
        shown.page.evaluate(update, [rest, {"title": "run", "progress": None}])
        assert shown.root().locator("[role=progressbar]").count() == 0
        assert [text.split(",")[0] for text in shown.told()] == ["audit", "docs", "write", "write ~2", "lint", "(no label)"]
        assert shown.root().locator("[aria-selected=true]").first.inner_text().startswith("docs")
        assert shown.root().get_by_label("outcome").input_value() == "1"
        shown.page.evaluate(update, [rest, {"title": "another"}])
        assert shown.said() == {"picked": {}, "rows": {}, "range": None}


def test_texts_stand_side_by_side_only_when_asked_for(browser: Browser, tmp_path: Path) -> None:
    row = call(1, "audit") | {"output": '[{"text":"the secret"}]', "prompt": "[]"}
    table = rows_table("calls", [row], bodies=True)
    with opened(browser, tmp_path, [{"view": "diff", "tables": {"expected": table, "actual": table}}]) as shown:
        shown.tree().focus()
        shown.page.keyboard.press("Space")
        assert "the secret" not in shown.page.locator("body").inner_text()
        shown.root().get_by_text("show texts side by side").click()
        assert shown.root().locator("pre").all_inner_texts() == ['[{"text":"the secret"}]'] * 2


def test_hostile_labels_execute_and_hide_nothing(browser: Browser, tmp_path: Path) -> None:
    rows = [call(number, label, key=f"root/{label}", at=number, error_code=label) for number, label in enumerate(HOSTILE, 1)]
    table = rows_table("calls", rows)
    head = {"title": HOSTILE[0], "trust": {"state": "broken", "words": HOSTILE[2]}}
    views: list[dict[str, Any]] = [
        {"view": "explorer", "tables": {"calls": table}, "options": head},
        {"view": "diff", "tables": {"expected": table, "actual": table}, "options": {"diff": {"verdict": HOSTILE[0]}}},
        {"view": "topology", "tables": {"calls": table}, "options": {"problem": HOSTILE[3]}},
    ]
    with opened(browser, tmp_path, views) as shown:
        keep(shown, "hostile")
        told = [text.split(", call,")[0] for text in shown.told()]
        assert told == [
            HOSTILE[0], "\\u{001b}[31mred\\u{001b}[0m", "admin\\u{202e}gnp.exe", HOSTILE[3], "zero\\u{200b}width",
        ]  # fmt: skip
        for _ in range(len(rows)):
            shown.tree().focus()
            shown.page.keyboard.press("Space")
            shown.page.keyboard.press("ArrowDown")
        assert shown.page.locator("img, script[src], iframe").count() == 0
        text = shown.page.locator("body").inner_text() + "".join(shown.told(1)) + "".join(shown.told(2))
        assert not [char for char in text if char in "\x1b\u202e\u200b"]
        assert HOSTILE[0] in shown.root(0).locator(".clab-title").inner_text()
        assert shown.root(2).locator("[role=alert]").inner_text() == HOSTILE[3]


@pytest.mark.parametrize(
    ("dark", "theme", "ground", "paper"),
    [
        (False, "auto", "", "rgb(255, 255, 255)"),
        (True, "auto", "", "rgb(15, 19, 24)"),
        (False, "dark", "", "rgb(15, 19, 24)"),
        (False, "auto", "data-test=jupyter", "rgb(17, 17, 17)"),
    ],
)
def test_light_and_dark(browser: Browser, tmp_path: Path, dark: bool, theme: str, ground: str, paper: str) -> None:
    view = {"view": "explorer", "theme": theme, **SINGLE}
    with opened(browser, tmp_path, [view], ground=ground, dark=dark) as shown:
        if ground:
            shown.page.evaluate(
                """() => {
                    const {style} = document.body;
                    for (const [name, colour] of [['layout-color0', '#111111'], ['ui-font-color1', '#eeeeee']])
                        style.setProperty('--jp-' + name, colour);
                }"""
            )
            shown.page.wait_for_timeout(150)
        root = shown.root()
        assert root.evaluate("view => getComputedStyle(view).backgroundColor") == paper
        assert root.get_attribute("data-tone") == ("light" if paper == "rgb(255, 255, 255)" else "dark")
        keep(shown, f"theme-{paper.replace(', ', '-')}")


def test_states_are_said(browser: Browser, tmp_path: Path) -> None:
    none = {"calls": CALLS.slice(0, 0)}
    broken = {
        "trust": {"state": "broken", "words": "not verified: line 31, hash"},
        "problem": "Line 31 is not what was written.",
    }
    views: list[dict[str, Any]] = [
        {"view": "timeline", "tables": none, "options": {"title": "empty.cassette.jsonl"}},
        {"view": "explorer", "tables": none, "options": {"progress": 0.4, "title": "large.cassette.jsonl"}},
        {"view": "explorer", "tables": {"calls": CALLS.slice(0, 3)}, "options": broken},
    ]
    with opened(browser, tmp_path, views) as shown:
        assert "This recording has no calls." in shown.root(0).inner_text()
        assert shown.root(1).locator("[role=progressbar]").get_attribute("aria-valuenow") == "40"
        assert shown.root(2).locator("[role=alert]").inner_text() == "Line 31 is not what was written."
        assert "✕ not verified: line 31, hash" in shown.root(2).inner_text()
        assert len(shown.told(2)) == 3
        shown.page.evaluate(
            "() => cassetteLab.views.get('view-0').update({tables: {calls: new Uint8Array([1, 2, 3, 4, 5, 6, 7, 8])}})"
        )
        assert shown.root(0).locator("[role=alert]").inner_text().startswith("These tables cannot be shown")


def test_downloads(browser: Browser, tmp_path: Path) -> None:
    with opened(browser, tmp_path, [{"view": "explorer", "options": {"downloads": True}, **SINGLE}]) as shown:

        def saved(name: str) -> bytes:
            with shown.page.expect_download() as download:
                shown.root().get_by_role("button", name=name).click()
            return Path(download.value.path()).read_bytes()

        lines = saved("CSV").decode().split("\r\n")
        assert lines[0].split(",")[:3] == CALLS.column_names[:3]
        assert len(lines) == len(CALLS) + 2
        assert saved("PNG").startswith(b"\x89PNG")


def test_the_mouse_selects_adds_and_folds(browser: Browser, tmp_path: Path) -> None:
    with opened(browser, tmp_path, [{"view": "explorer", **SINGLE}]) as shown:
        shown.watch()
        canvas = shown.tree().locator("canvas")
        bars = {mark["row"]: mark for mark in shown.marks() if mark.get("part") == "bar"}
        shown.click_mark(bars[1], canvas)
        shown.click_mark(bars[4], canvas, modifiers=["Shift"])
        assert shown.said()["picked"] == {"calls": [1, 4]}
        shown.click_mark(bars[1], canvas, modifiers=["Shift"])
        assert shown.said()["picked"] == {"calls": [4]}
        canvas.dblclick(position={"x": 60, "y": bars[0]["y"] + 4})
        assert [text.split(",")[0] for text in shown.told()][:2] == ["audit", "docs"]
        canvas.dblclick(position={"x": 60, "y": bars[0]["y"] + 4})
        assert [text.split(",")[0] for text in shown.told()][:2] == ["audit", "check-api"]


def odd_calls() -> list[dict[str, Any]]:
    """Calls as no recorder writes them: times that cannot be, keys that are there twice, a label of 10,000 letters."""
    unknown: dict[str, Any] = {"duration_ms": None, "start_latency_ms": None, "outcome_kind": None, "stop_reason": None}
    return [
        call(1, "L" * 10_000), call(2, "zero", at=5, duration_ms=0.0, start_latency_ms=0.0),
        call(3, "negative", at=10, duration_ms=-50.0, start_latency_ms=-3.0), call(4, "nan", at=20, duration_ms=float("nan")),
        call(5, "unknown", at=20, **unknown), call(6, "twice", key="k", at=30),
        call(7, "twice", key="k", at=40, duration_ms=1e17),
        call(8, "under", "k", at=50), call(9, "late", at=60, start_latency_ms=5000.0), call(10, "", "self", key="self", at=70),
        call(11, "no start") | {"started_at": None},
    ]  # fmt: skip


def test_odd_calls_are_drawn_and_said(browser: Browser, tmp_path: Path) -> None:
    with opened(browser, tmp_path, [{"view": "explorer", "tables": {"calls": rows_table("calls", odd_calls())}}]) as shown:
        keep(shown, "odd")
        told = [text.split(", ") for text in shown.told()]
        assert [text[0] for text in told[1:]] == [
            "zero", "negative", "nan", "unknown", "twice", "under", "twice", "late", "(no label)", "no start",
        ]  # fmt: skip
        assert [text[3] for text in told[1:5]] == ["0 ms", "0 ms", UNKNOWN, UNKNOWN]
        assert told[-1][-1] == "no start on record"
        bars = [mark for mark in shown.marks() if mark.get("part") == "bar"]
        width = shown.root().bounding_box()
        assert width is not None
        assert all(bar["x"] >= 0 and bar["width"] >= 0 and bar["x"] + bar["width"] <= width["width"] for bar in bars)
        assert max(map(len, shown.root().get_by_label("label").locator("option").all_inner_texts())) == 60


@pytest.mark.parametrize("wide", [400, 1200])
def test_nothing_overlaps_and_buttons_can_be_hit(browser: Browser, tmp_path: Path, wide: int) -> None:
    views: list[dict[str, Any]] = [
        {"view": "explorer", "options": {"title": "run.cassette.jsonl", "downloads": True}, **SINGLE},
        {"view": "diff", "tables": TWO, "options": {"title": "two runs"}},
    ]
    with opened(browser, tmp_path, views) as shown:
        shown.page.set_viewport_size({"width": wide, "height": 900})
        shown.page.wait_for_timeout(150)
        keep(shown, f"wide-{wide}")
        boxes = shown.page.evaluate(
            """() => [...document.querySelectorAll('.clab-bar, .clab-panel-head, .clab-scroller, .clab-detail, .clab-strip')]
                .filter(each => each.offsetParent).map(each => each.getBoundingClientRect())
                .map(({left, right, top, bottom}) => [left, right, top, bottom])"""
        )
        for i, (left, right, top, bottom) in enumerate(boxes):
            assert right <= wide
            for other in boxes[:i]:
                apart = left >= other[1] - 1 or right <= other[0] + 1 or top >= other[3] - 1 or bottom <= other[2] + 1
                assert apart, (boxes[i], other)
        controls = shown.page.locator(".clab-view :is(.clab-bar, .clab-panel-head) :is(button, select)").all()
        for control in controls:
            box = control.bounding_box()
            if box is not None:
                assert min(box["width"], box["height"]) >= 24
                assert box["x"] + box["width"] <= wide
        marks = [mark for mark in shown.marks(1) if mark["part"] == "delta"]
        assert len(marks) == 9
        sides = [mark for mark in shown.marks(1) if mark["part"] != "delta"]
        for mark in marks:
            near = [side for side in sides if side["node"] == mark["node"]]
            assert all(side["x"] >= mark["x"] + mark["width"] or side["x"] + side["width"] <= mark["x"] for side in near)


@pytest.mark.skipif(not AXE.is_file(), reason="extension/node_modules is not installed")
@pytest.mark.parametrize("dark", [False, True])
def test_an_accessibility_checker_finds_nothing(
    browser: Browser, tmp_path: Path, dark: bool, sample_sessions: dict[str, pa.Table]
) -> None:
    head = {"title": "run.cassette.jsonl", "trust": {"state": "partial", "words": "torn tail"}, "downloads": True}
    views: list[dict[str, Any]] = [
        {"view": "explorer", "options": head, **SINGLE},
        {"view": "explorer", "options": head | {"progress": 0.3, "problem": "Line 3 is torn."}, "tables": sample_sessions},
        {"view": "diff", "options": head | {"diff": {"issues": ["providers differ"]}}, "tables": TWO},
        {"view": "stop_reasons", **SINGLE},
        {"view": "table", **SINGLE},
    ]
    with opened(browser, tmp_path, views, dark=dark) as shown:
        shown.tree().focus()
        shown.page.keyboard.press("Space")
        shown.page.wait_for_timeout(200)
        shown.page.evaluate(AXE.read_text(encoding="utf-8"))
        found = shown.page.evaluate(
            "axe.run('.clab-view').then(said => said.violations.map(each => [each.id, each.nodes.map(node => node.html)]))"
        )
        assert found == []


def test_high_contrast_has_its_colours_on_the_canvas(browser: Browser, tmp_path: Path) -> None:
    with opened(browser, tmp_path, [{"view": "explorer", **SINGLE}]) as shown:
        shown.page.emulate_media(forced_colors="active", color_scheme="dark")
        shown.page.wait_for_timeout(200)
        style = "view => getComputedStyle(view).getPropertyValue('--clab-ink')"
        assert shown.root().evaluate(style).strip() == "CanvasText"
        canvas = shown.tree().locator("canvas")
        bar = next(mark for mark in shown.marks() if mark.get("part") == "abort")
        assert colour_at(canvas, bar["x"] + 4, bar["y"] + 2) == "#ffffff"


def test_rows_out_of_sight_are_not_drawn_and_can_be_reached(browser: Browser, tmp_path: Path) -> None:
    table = many_calls(1000)
    with opened(browser, tmp_path, [{"view": "timeline", "tables": {"calls": table}}]) as shown:
        assert len(shown.told()) < 30
        shown.tree().focus()
        shown.page.keyboard.press("End")
        last = shown.active()
        bars = [mark for mark in shown.marks() if mark["part"] == "bar"]
        shown.watch()
        shown.click_mark(bars[-1], shown.tree().locator("canvas"))
        (row,) = shown.said()["picked"]["calls"]
        assert last.startswith(f"{table['label'][row]}, call")


WIDGET = """async ([source, tables]) => {
    const url = URL.createObjectURL(new Blob([source], {type: 'text/javascript'}));
    const widget = await import(url);
    const bytes = text => new DataView(Uint8Array.from(atob(text), char => char.charCodeAt(0)).buffer);
    const options = {actions: [{id: 'open', label: 'open'}]};
    const values = {view: 'timeline', tables: {calls: bytes(tables)}, options, selected: {}};
    const heard = new Map();
    window.saved = []; window.sent = [];
    window.model = {
        get: name => values[name],
        set: (name, value) => { values[name] = value; },
        save_changes: () => window.saved.push(structuredClone(values.selected)),
        send: content => window.sent.push(content),
        on: (event, callback) => heard.set(event, callback),
        off: event => heard.delete(event),
        change: (name, value) => { values[name] = value; heard.get('change:' + name)(); },
        heard,
    };
    document.body.replaceChildren();
    const el = document.body.appendChild(document.createElement('div'));
    window.end = await widget.default.render({model: window.model, el});
}"""


def test_the_widget_speaks_with_its_model(browser: Browser) -> None:
    context = browser.new_context(viewport={"width": 1000, "height": 700})
    page = context.new_page()
    page.evaluate(WIDGET, [(STATIC / "widget.js").read_text(), base64.b64encode(ipc(CALLS)).decode()])
    tree = page.locator("[role=tree]")
    tree.focus()
    page.keyboard.press("Space")
    assert page.evaluate("saved") == [{"picked": {"calls": [0]}, "rows": {"calls": [0, 1, 2, 3]}, "range": None}]
    page.evaluate("model.change('selected', {picked: {calls: [4]}})")
    page.wait_for_timeout(150)
    assert page.locator("[role=treeitem][aria-selected=true]").inner_text().startswith("docs")
    assert len(page.evaluate("saved")) == 1
    page.get_by_role("button", name="open").click()
    assert page.evaluate("sent") == [{"action": "open"}]
    page.evaluate("model.change('view', 'stop_reasons')")
    page.locator("[role=listbox]").wait_for()
    assert page.evaluate("saved").pop() == {"picked": {}, "rows": {}, "range": None}
    page.evaluate("end()")
    assert page.locator(".clab-view").count() == 0
    assert page.evaluate("model.heard.size") == 0
    context.close()


def test_the_selection_is_copied_as_python(browser: Browser, tmp_path: Path) -> None:
    with opened(browser, tmp_path, [{"view": "explorer", "options": {"lab": "runs"}, **SINGLE}]) as shown:
        shown.tree().focus()
        shown.page.keyboard.press("Space")

        shown.page.evaluate("() => { navigator.clipboard.writeText = async text => { window.copied = text; }; }")
        shown.root().get_by_role("button", name="copy as Python").click()
        shown.page.wait_for_timeout(100)
        assert shown.page.evaluate("window.copied") == "runs.calls.slice(0, 4)"
