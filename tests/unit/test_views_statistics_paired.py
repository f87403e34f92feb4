"""Paired differences over repeated runs: who is paired with whom, what is resampled, and what the picture admits."""

from __future__ import annotations

import asyncio
import json
import re
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import cassette_lab as cl
from cassette_lab.errors import ConfigError
from cassette_lab.views.statistics.figures import resample_runs
from cassette_lab.views.statistics.paired import pairs_of
from tests.unit.statistics_samples import HOSTILE, run, runs
from tests.unit.test_views_charts import texts
from tests.unit.views_samples import call, table

MINUS = "\N{MINUS SIGN}"
DASH = "\N{EN DASH}"


def test_single_runs_are_compared_call_by_call() -> None:
    before = run({"a": [100, 200, 300], "b": [1000, 1000]}, "before.cassette.jsonl")
    after = run({"a": [150, 250, 350], "b": [900, 1000]}, "after.cassette.jsonl")
    drawing = cl.paired_deltas(before, after)
    assert drawing.title == "Paired differences · 5 calls · 1 run before, 1 after"
    assert [(row[0], row[1], row[4], row[6]) for row in drawing.cells.rows] == [
        ("all calls", "5", "+10 ms", "+1.9 %"),
        ("a", "3", "+50 ms", "+25 %"),
        ("b", "2", f"{MINUS}50 ms", f"{MINUS}5.0 %"),
    ]
    assert drawing.cells.rows[1][5] == "+50 ms to +50 ms", "all differences are the same, so are those of resamples"
    assert drawing.cells.rows[2][5] == f"{MINUS}100 ms to ±0 ms"
    assert "a single run on a side: intervals tell how calls differ, not what other runs would give" in drawing.notes
    assert {"← quicker · mean change of duration (ms) · slower →", "all calls", "+50 ms", "+25 %"} <= set(texts(drawing))


def test_a_single_pair_has_no_interval_and_says_so() -> None:
    drawing = cl.paired_deltas(run({"a": [100]}, "x"), run({"a": [180]}, "y"))
    assert drawing.cells.rows == [("a", "1", "100 ms", "180 ms", "+80 ms", DASH, "+80 %", DASH)]
    assert drawing.notes == ("a single pair has no interval (1 row)",)


def test_repeated_runs_are_resampled_as_runs() -> None:
    before = runs({"a": [100, 300]}, {"a": [120, 320]}, {"a": [80, 280]}, name="before")
    after = runs({"a": [200, 400]}, {"a": [240, 440]}, name="after")
    drawing = cl.paired_deltas(before, after)
    expected = np.array([[100.0, 120, 80], [300, 320, 280]]), np.array([[200.0, 240], [400, 440]])
    ((drawn, _),) = resample_runs(*expected, "mean", [np.arange(2)])
    low, high = np.percentile(drawn, [2.5, 97.5])
    assert drawing.cells.rows == [
        ("a", "2", "200 ms", "320 ms", "+120 ms", f"+{low:.0f} ms to +{high:.0f} ms", "+60 %", drawing.cells.rows[0][7])
    ]
    assert drawing.notes[0].startswith("dot: mean; line: 95 % bootstrap interval, 2,000 resamples of whole runs")
    assert drawing.notes[1] == "fewer than 5 runs on a side: intervals are rough, and rather too short"


def test_the_median_is_that_of_the_pairs() -> None:
    before, after = run({"a": [100, 100, 100]}, "x"), run({"a": [110, 120, 900]}, "y")
    assert cl.paired_deltas(before, after, statistic="median").cells.rows[0][4:7:2] == ("+20 ms", "+20 %")
    assert cl.paired_deltas(before, after).cells.rows[0][4:7:2] == ("+277 ms", "+277 %")
    with pytest.raises(ConfigError, match="mean or median, not by mode"):
        cl.paired_deltas(before, after, statistic="mode")  # type: ignore[arg-type]


def test_calls_without_a_partner_or_a_duration_are_counted() -> None:
    before = runs({"a": [100, 200, None], "gone": [1]}, {"a": [100, None, None]}, name="before")
    after = runs({"a": [110, 210, 50], "new": [1, 1]}, {"a": [110, 210, 50]}, name="after")
    drawing = cl.paired_deltas(before, after)
    assert drawing.cells.rows[0][:5] == ("a", "2", "150 ms", "160 ms", "+10 ms")
    assert drawing.notes[2:] == (
        "without a partner: 1 call only before, 2 only after",
        "1 call without a known duration on one side left out",
        "1 call not in every run: counted with the runs that have them",
    )


def test_calls_are_paired_by_all_of_their_identity() -> None:
    one = call(1, "a", 0, 100)
    for other in (
        {"parent_key": "root/elsewhere"},
        {"parent_context_fingerprint": "sha256:" + "1" * 64},
        {"request_fingerprint": "sha256:" + "2" * 64},
        {"occurrence": 2},
    ):
        pairs = pairs_of(table(one), table({**one, **other}))
        assert (len(pairs.label), pairs.only_before, pairs.only_after) == (0, 1, 1)
    assert len(pairs_of(table(one), table({**one, "label": "renamed", "call_key": "root/other"})).label) == 1
    drawing = cl.paired_deltas(table(one), table({**one, "occurrence": 2}))
    assert "No call is in both sides with a known duration." in texts(drawing)


def test_pairs_are_those_of_a_diff(tmp_path: Path) -> None:
    @cl.subagent("greet")
    async def greet(name: str) -> str:
        return f"hello {name}"

    async def record(file: Path, names: str) -> None:
        async with cl.record(file):
            for name in names:
                await greet(name)

    for side, names in (("before", ("aab", "ab")), ("after", ("abb", "aabc"))):
        (tmp_path / side).mkdir()
        for number, each in enumerate(names):
            asyncio.run(record(tmp_path / side / f"{number}.cassette.jsonl", each))
    first, second = tmp_path / "before" / "0.cassette.jsonl", tmp_path / "after" / "0.cassette.jsonl"
    alone = pairs_of(cl.load(first).calls, cl.load(second).calls)
    aligned = cl.timing_deltas(first, second)
    assert (len(alone.label), alone.only_before, alone.only_after) == (len(aligned.cells.rows), 1, 1)
    drawing = cl.paired_deltas(tmp_path / "before", cl.load(tmp_path / "after"))
    assert drawing.title == "Paired differences · 3 calls · 2 runs before, 2 after"


def test_more_labels_than_rows_count_in_the_first_row() -> None:
    many = {f"label-{number:03d}": [100.0 + number] for number in range(300)}
    drawing = cl.paired_deltas(run(many, "x"), run({label: [2 * each for each in times] for label, times in many.items()}, "y"))
    assert [row[0] for row in drawing.cells.rows[:3]] == ["all calls", "label-299", "label-298"]
    assert len(drawing.cells.rows) == 21
    assert drawing.cells.rows[0][1] == "300"
    assert drawing.notes[-1] == "280 labels with smaller changes in the first row only"


def test_the_same_data_give_the_same_picture() -> None:
    chance = np.random.default_rng(1)
    sides = [run({"a": chance.lognormal(6, 1, 30).tolist()}, name) for name in "xy"]
    assert cl.paired_deltas(*sides).svg == cl.paired_deltas(*sides).svg


def test_what_got_slower_quicker_or_cannot_be_told_has_its_own_colour() -> None:
    before = run({"down": [500, 510, 490], "same": [100, 100, 100], "up": [100, 110, 90]}, "x")
    after = run({"down": [300, 300, 300], "same": [90, 120, 90], "up": [300, 300, 300]}, "y")
    svg = cl.paired_deltas(before, after).svg
    assert {"#d55e00", "#0072b2", "#59636e"} <= set(re.findall(r'fill="(#[0-9a-f]{6})"', svg))


@pytest.mark.parametrize("statistic", ["mean", "median"])
def test_many_calls_are_quick_and_small(statistic: str) -> None:
    chance = np.random.default_rng(4)
    count = 25_000
    one = table(*[call(number, f"label-{number % 50}", 0, 1) for number in range(1, count + 1)], source=None)
    place = one.schema.get_field_index("duration_ms")

    def side(name: str, number: int) -> pa.Table:
        tables = [one.set_column(place, "duration_ms", pa.array(chance.lognormal(6, 1, count))) for _ in range(number)]
        return pa.concat_tables(
            [each.append_column("source", pa.array([f"{name}{n}"] * count)) for n, each in enumerate(tables)]
        )

    number = 4 if statistic == "mean" else 1
    before, after = side("before", number), side("after", number)
    began = time.process_time()
    drawing = cl.paired_deltas(before, after, statistic=statistic)  # type: ignore[arg-type]
    bundle = drawing._repr_mimebundle_()
    assert time.process_time() - began < 6
    assert sum(map(len, bundle.values())) < 600_000
    assert len(json.dumps(drawing.grammar())) < 100_000


@pytest.mark.parametrize("longest", [1.7e308, 1e300, 1e-300, 0.0])
def test_durations_beyond_every_scale_leave_no_hole(longest: float) -> None:
    drawing = cl.paired_deltas(run({"a": [longest, 5.0], "b": [0, 0]}, "x"), run({"a": [5.0, longest], "b": [0, 3]}, "y"))
    assert not re.search("NaN|Infinity", drawing.svg)
    assert max(map(len, texts(drawing))) < 200
    assert all(len(line) <= 88 for line in drawing.text().splitlines())


def test_hostile_labels_are_text() -> None:
    drawing = cl.paired_deltas(run({HOSTILE: [5]}, "x"), run({HOSTILE: [7]}, "y"))
    assert "<img src=x" not in drawing.html()
    assert not set("\u202e\u0007\uffff") & set(drawing.html() + drawing.text())


def test_anything_with_calls_is_a_side() -> None:
    sides = [SimpleNamespace(calls=run({"a": [5, 6]}, name)) for name in "xy"]
    assert cl.paired_deltas(*sides).cells.rows[0][4] == "±0 ms"
