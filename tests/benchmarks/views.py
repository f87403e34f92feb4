"""What a person waits for in Chromium: until a view is drawn, and between two frames while it is scrolled or panned.

``dev.py bench views``. Without a Chromium nothing is measured, and said so. Frames are those of a browser without a
graphics card: a machine with one is quicker.
"""

from __future__ import annotations

import os
import shutil
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from tests.benchmarks.figures import Bench, figure
from tests.browser.conftest import CHROMIUM, FLAGS
from tests.view_samples import STATIC, ipc, many_calls

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

_MOUNT = """async view => {
    window.bytes ??= new Uint8Array(await (await fetch('/calls')).arrayBuffer());
    window.handle?.dispose();
    const element = document.body.appendChild(document.createElement('div'));
    const start = performance.now();
    window.handle = cassetteLab.mount(element, {view, tables: {calls: bytes}, options: {height: 760}});
    const mounted = performance.now() - start;
    await new Promise(resolve => requestAnimationFrame(() => setTimeout(resolve)));
    return [mounted, performance.now() - start];
}"""
_FRAMES = """async ([ms, move]) => {
    const scroller = document.querySelector('.clab-scroller');
    const moves = {
        scroll: frame => { scroller.scrollTop += 37; },
        pan: frame => scroller.dispatchEvent(new WheelEvent('wheel', {deltaX: frame % 200 < 100 ? 9 : -9, cancelable: true})),
    };
    if (move === 'pan') {
        scroller.focus();
        for (let i = 0; i < 5; i++) scroller.dispatchEvent(new KeyboardEvent('keydown', {key: '+'}));
    }
    const start = performance.now();
    const frames = [];
    let last = start;
    while (last - start < ms) {
        const now = await new Promise(requestAnimationFrame);
        moves[move](frames.length);
        frames.push(now - last);
        last = now;
    }
    return (frames.length - 1) / ((last - start) / 1000);
}"""


class _Wishes(NamedTuple):
    view: str
    limit_ms: float
    move: str
    least_fps: float


@figure("views")
def views(bench: Bench) -> None:
    """Time until views are drawn, and frames a second."""
    from playwright.sync_api import sync_playwright

    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUM)), None)
    if path is None:
        print("views: no Chromium found; install one, or name it in the variable CHROMIUM")
        return
    bench.report("widget bundle", (STATIC / "widget.js").stat().st_size / 1000, unit="KB", limit=120)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        for count, view, limit_ms, move, least in (
            (5_000, "topology", 150, "scroll", 55),
            (5_000, "explorer", 150, "scroll", 55),
            (100_000, "timeline", 500, "pan", 30),
            (100_000, "timeline", 500, "scroll", 30),
        ):
            data = ipc(many_calls(min(count, 2_000) if bench.quick else count))
            _measure(bench, browser, f"{view}, {count:,} calls", data, _Wishes(view, limit_ms, move, least))
        browser.close()


def _open(page: Page, calls: bytes) -> None:
    """A page of our own making, which can fetch these calls and nothing else."""
    page.route("**/page", lambda route: route.fulfill(body="<!doctype html><body>", content_type="text/html"))
    page.route("**/calls", lambda route: route.fulfill(body=calls))
    page.goto("http://views.invalid/page")
    page.add_script_tag(content=(STATIC / "report.js").read_text(encoding="utf-8"))


def _measure(bench: Bench, browser: Browser, name: str, data: bytes, wishes: _Wishes) -> None:
    """Judge the first view of a page, which is what a person waits for; say beside it what the next ones take."""
    fresh, warm, frames = [], [], 0.0
    pages = 2 if bench.quick else 7
    for number in range(pages):
        page = browser.new_page(viewport={"width": 1300, "height": 900})
        _open(page, data)
        fresh.append(page.evaluate(_MOUNT, wishes.view))
        if number == pages - 1:
            warm = [page.evaluate(_MOUNT, wishes.view)[1] for _ in range(2 if bench.quick else 5)]
            frames = page.evaluate(_FRAMES, [500 if bench.quick else 2_000, wishes.move])
        page.close()
    mounted, drawn = (median(run[part] for run in fresh) for part in (0, 1))
    note = f"first view of a page, median of {pages}; mounted {mounted:.0f}, quickest {min(run[1] for run in fresh):.0f}, "
    note += f"later views {min(warm):.0f}"
    bench.report(f"{name}, drawn", drawn, unit="ms", limit=wishes.limit_ms, note=note)
    limit = round(1000 / wishes.least_fps, 1)
    bench.report(f"{name}, {wishes.move}", 1000 / frames, unit="ms a frame", limit=limit, note=f"{frames:.0f} fps")
