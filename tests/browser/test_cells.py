"""A notebook in JupyterLab: what a person sees under cells that record, replay and do not match."""

from __future__ import annotations

import os
import re
from pathlib import Path

from cassette_lab.cassette.reader import read_cassette
from tests.browser.conftest import Lab, Window

CELLS = [
    """%load_ext cassette_lab
import asyncio
import cassette_lab as cl

@cl.subagent("audit")
async def audit(prompt, *, delay=0.05):
    await asyncio.sleep(delay)
    if prompt == "broken":
        raise ValueError("this file cannot be read")
    return f"{prompt}: fine"
""",
    """%%cassette record run.jsonl
await asyncio.gather(audit("api", delay=1.5), audit("docs", delay=0.2), audit("broken", delay=0.1), return_exceptions=True)""",
    """%%cassette replay run.jsonl
await asyncio.gather(audit("broken", delay=0.1), audit("docs", delay=0.2), audit("api", delay=1.5), return_exceptions=True)""",
    """%cassette inspect run.jsonl --show-calls""",
    """%%cassette replay run.jsonl
await audit("tests", delay=0.1)""",
]


def test_record_replay_and_a_mismatch(window: Window, lab: Lab) -> None:
    lab.write("cells.ipynb", CELLS)
    window.run_all("cells.ipynb")
    under = window.page.locator(".jp-CodeCell")
    under.nth(4).locator(".jp-OutputArea", has_text="MismatchError").wait_for()

    recorded = window.output(1)
    assert "['api: fine', 'docs: fine', ValueError('this file cannot be read')]" in recorded
    assert re.search(r"● recorded 3 calls · 1 error raised · .* of work in .* · run\.jsonl", recorded)
    assert recorded.count("●") == 1
    assert "recording" not in recorded
    assert re.search(r"▶ replayed 3 of 3 calls · 1 recorded error raised · .* of work in .* · run\.jsonl", window.output(2))
    for cell in (1, 2):
        picture = under.nth(cell).locator("img[alt^='3 calls over']")
        assert picture.evaluate("image => image.complete && image.naturalWidth") == 420
    assert "✓ chain verified · 3 calls · 1 failed" in window.output(3)
    mismatch = window.output(4)
    assert "No recorded call answers this one" in mismatch
    assert "≠" in mismatch
    assert mismatch.count("MismatchError: ") == 1
    assert mismatch.count("(in run.jsonl)") == 1
    assert "Traceback" not in mismatch
    assert len(read_cassette(lab.root / "run.jsonl").interactions) == 3
    if "SCREENSHOTS" in os.environ:
        for cell in range(len(CELLS)):
            under.nth(cell).screenshot(path=Path(os.environ["SCREENSHOTS"]) / f"cell-{cell}.png")
