"""What the front end and the Python package both know is the same: words, categories, colours, escaping, aligned calls."""

from __future__ import annotations

import base64
import json
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cassette_lab.jsonio.text import show
from cassette_lab.views.deltas import Delta
from cassette_lab.views.rows import NO_LABEL
from cassette_lab.views.theme import CATEGORIES, PALE, QUICKER, SLOWER, category_of, percent_text
from cassette_lab.words import delta_text, duration_text, plural
from tests.view_samples import HOSTILE, call, changed_run, every_outcome, ipc, rows_table

EXTENSION = Path(__file__).resolve().parents[2] / "extension"
DURATIONS = [
    0.0, 0.01, 0.04999, 0.05, 0.25, 0.35, 0.75, 9.949, 9.95, 10.5, 11.5, 12.25, 999.49, 999.5, 1000.0, 1250.0, 1750.0, 2350.0,
    12_400.0, 59_949.0, 59_950.0, 60_500.0, 62_500.0, 63_500.0, 3_599_499.0, 3_599_500.0, 3_750_000.0, 86_369_000.0,
    86_370_000.0, 200_000_000.0, 1e12, 1e15, 1e16, 1e30, -5.0, -1250.0, float("nan"),
]  # fmt: skip
PAIRS = [
    (100.0, 150.0), (100.0, 50.0), (100.0, 100.4), (200.0, 201.0), (200.0, 205.0), (1.0, 60.0), (1.0, 10.99), (2.0, 25.0),
    (0.0, 5.0), (1.0, 1e9), (3.0, 1.0), (9100.0, 10_010.0),
]  # fmt: skip
PARTS = [(1.0, 3.0), (1.0, 1000.0), (999.0, 1000.0), (1.0, 8.0), (3.0, 8.0), (0.0, 5.0), (5.0, 5.0), (0.0, 0.0)]
TEXTS = [*HOSTILE, "gr\u00f6\u00dfer \U0001f3bc <b>", "a\u0000\u2028\ud800z", "\U000e0001tag", "\u00ad", ""]
SCRIPT = """
import { CATEGORIES, PALE, callCategory } from './src/model/categories.ts';
import { compare } from './src/model/comparison.ts';
import { callLabel } from './src/model/names.ts';
import { Table } from './src/data/table.ts';
import { show } from './src/text.ts';
import { deltaPercent, deltaText, durationText, percentText, plural } from './src/words.ts';
const read = text => Table.read(Uint8Array.from(Buffer.from(text, 'base64')));
const given = JSON.parse(process.argv[1]);
const nan = ms => ms ?? NaN;
const tables = given.tables.map(read);
const merged = compare(tables[0], tables[1]);
console.log(JSON.stringify({
  durations: given.durations.map(ms => durationText(nan(ms))),
  deltas: given.durations.filter(ms => ms !== null).map(deltaText),
  percents: given.pairs.map(([a, b]) => deltaPercent(a, b)),
  shares: given.parts.map(([a, b]) => percentText(a, b)),
  counts: given.counts.map(n => plural(n, 'call')),
  shown: given.texts.map(show),
  categories: CATEGORIES.map(({ name, colour, word, fill, end }) => [name, colour, word, fill, end]),
  named: given.outcomes.map(([kind, reason]) => CATEGORIES[callCategory(kind, reason)].name),
  pale: PALE,
  labels: Array.from({ length: tables[0].rows }, (_, row) => callLabel(tables[0], row)),
  pairs: Array.from(merged.expectedRow, (old, node) => [old, merged.actualRow[node]]),
}));
"""


def told(given: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What the front end makes of these inputs."""
    bundle = folder / "twins.cjs"
    command = [str(EXTENSION / "node_modules" / ".bin" / "esbuild"), "--bundle", "--platform=node", f"--outfile={bundle}"]
    subprocess.run(
        [*command, "--log-level=warning", "--loader=ts"], cwd=EXTENSION, input=SCRIPT.encode(), check=True, timeout=60
    )
    run = f"process.argv.splice(1, 1); require({json.dumps(str(bundle))})"
    text = json.dumps(given)
    done = subprocess.run(["node", "-e", run, "x", text], capture_output=True, check=True, timeout=60)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def key_of(row: dict[str, Any]) -> tuple[Any, ...]:
    """What makes a call the call it is."""
    return tuple(row[name] for name in ("parent_key", "parent_context_fingerprint", "request_fingerprint", "occurrence"))


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not here to run the front end")
@pytest.mark.skipif(not (EXTENSION / "node_modules" / "esbuild").is_dir(), reason="extension/node_modules is not installed")
def test_both_say_the_same(tmp_path: Path) -> None:
    draw = random.Random(7)  # noqa: S311 - the same numbers every time are the point
    durations = [*DURATIONS, *(draw.randrange(1, 4 * 10**8) / draw.choice((1, 2, 4, 10, 1000)) for _ in range(2000))]
    outcomes = [
        (kind, reason)
        for kind in ("result", "result-error", "start-error", "new-kind", None)
        for reason in (*CATEGORIES, "new-reason", None)
    ]
    before, after = [*every_outcome(), call(11, ""), call(12, "a\u202eb")], changed_run()
    said = told(
        {
            "durations": [None if ms != ms else ms for ms in durations],  # noqa: PLR0124 - NaN alone differs from itself
            "pairs": PAIRS,
            "parts": PARTS,
            "counts": [0, 1, 2, 999, 1000, 1_234_567],
            "texts": TEXTS,
            "outcomes": outcomes,
            "tables": [base64.b64encode(ipc(rows_table("calls", rows))).decode() for rows in (before, after)],
        },
        tmp_path,
    )
    assert said["durations"] == [duration_text(ms) for ms in durations]
    assert said["deltas"] == [delta_text(ms) for ms in durations if ms == ms]  # noqa: PLR0124 - not for NaN
    assert said["percents"] == [Delta("", "", old, new).percent for old, new in PAIRS]
    assert said["shares"] == [percent_text(part, whole) for part, whole in PARTS]
    assert said["counts"] == [plural(number, "call") for number in (0, 1, 2, 999, 1000, 1_234_567)]
    assert said["shown"] == [show(text) for text in TEXTS]
    here = [[each.name, each.colour, each.word, each.fill, each.end] for each in CATEGORIES.values()]
    assert said["categories"][: len(here)] == here
    assert [name for name, *_ in said["categories"][len(here) :]] == ["open", "none"]
    assert said["named"] == [category_of(kind, reason).name for kind, reason in outcomes]
    assert said["pale"] == PALE
    again = [f" ~{row['occurrence']}" if row["occurrence"] > 1 else "" for row in before]
    assert said["labels"] == [show(row["label"] or NO_LABEL) + more for row, more in zip(before, again, strict=True)]
    places = {key_of(row): place for place, row in enumerate(after)}
    both = [(old, places[key_of(row)]) for old, row in enumerate(before) if key_of(row) in places]
    assert sorted((old, new) for old, new in said["pairs"] if old >= 0 <= new) == both
    assert len(said["pairs"]) == len(before) + len(after) - len(both)


def test_slower_and_quicker_have_the_same_colours() -> None:
    style = (EXTENSION / "src" / "dom" / "style.ts").read_text(encoding="utf-8")
    assert f"--clab-slower: {SLOWER};" in style
    assert f"--clab-quicker: {QUICKER};" in style
