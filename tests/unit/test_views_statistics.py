"""The charts of statistics: what they say of real rows, what they leave out and admit, and that they stay small."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import cassette_lab as cl
from cassette_lab.errors import ConfigError
from cassette_lab.views import Drawing, statistics_of
from tests.unit.statistics_samples import HOSTILE, lab, rows
from tests.unit.test_views_charts import hovers, texts
from tests.unit.views_samples import call, table

SAMPLES = Path(__file__).parents[2] / "notebooks" / "samples" / "sessions"
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
AT = pa.timestamp("ms", "UTC")
NAN, INF = float("nan"), float("inf")


def model_calls(count: int, seed: int = 1, models: int = 9) -> pa.Table:
    """Calls of some models over two hours, the second model half as quick as the first, and so on."""
    chance = np.random.default_rng(seed)
    model = chance.integers(models, size=count)
    seconds = chance.lognormal(1.5, 0.5, count)
    return rows(
        "model_calls",
        model=np.char.add("model-", model.astype(str)).tolist(),
        started_at=pa.array(chance.integers(7_200_000, size=count) + round(NOON.timestamp() * 1000)).cast(AT),
        first_chunk_ms=chance.lognormal(6, 0.6, count) * (1 + model),
        duration_ms=seconds * 1000,
        output_tokens=[int(tokens) for tokens in seconds * 100 / (1 + model)],
    )


def tool_calls(**errors: tuple[int, int]) -> pa.Table:
    """Tools with so many errors among so many calls."""
    names = [name for name, (_, calls) in errors.items() for _ in range(calls)]
    failed = [place < wrong for wrong, calls in errors.values() for place in range(calls)]
    codes = ["FS_NOT_FOUND" if wrong else None for wrong in failed]
    return rows("tool_calls", name=names, is_error=failed, error_code=codes, duration_ms=[5.0] * len(names))


# durations


def test_durations_tell_quantiles_of_each_label_the_slowest_first() -> None:
    chance = np.random.default_rng(2)
    quick, slow = chance.lognormal(5, 0.4, 101), chance.lognormal(6, 0.4, 50)
    calls = [call(number, "quick", 0, each) for number, each in enumerate(quick, 1)]
    calls += [call(number, "slow", 0, each) for number, each in enumerate(slow, 200)]
    drawing = cl.durations(table(*calls))
    assert [row[:2] for row in drawing.cells.rows] == [("slow", "50"), ("quick", "101")]
    assert drawing.cells.headers == ("label", "n", "p5", "p25", "median", "p75", "p90", "p95")
    for row, values in zip(drawing.cells.rows, (slow, quick), strict=True):
        assert row[2:] == tuple(f"{np.quantile(values, share):.0f} ms" for share in (0.05, 0.25, 0.5, 0.75, 0.9, 0.95))
    shown = texts(drawing)
    assert "duration (ms)" in shown
    assert {"median", "p90", "n", "slow", "quick", f"{np.quantile(slow, 0.9):.0f} ms"} <= set(shown)


def test_durations_that_spread_over_sizes_get_a_logarithmic_axis_with_units() -> None:
    drawing = cl.durations(table(*[call(number, "a", 0, 10.0 ** (number % 6)) for number in range(1, 61)]))
    shown = texts(drawing)
    assert "duration (ms, s, min; log scale)" in shown
    assert {"1 ms", "10 ms", "100 ms", "1 s", "10 s", "1 min"} <= set(shown)


def test_zero_is_a_duration_and_stands_at_the_left_edge_of_a_logarithmic_axis() -> None:
    drawing = cl.durations(table(*[call(number, "a", 0, each) for number, each in enumerate((0, 1, 5, 400, 90_000), 1)]))
    assert drawing.cells.rows[0][1] == "5"
    assert drawing.notes[-1] == "1 call of less than 0.9 ms at the left edge"


def test_unknown_durations_are_counted_and_never_zero() -> None:
    calls = table(*[call(number, "a", 0, each) for number, each in enumerate((NAN, INF, -5, 40, 60), 1)])
    drawing = cl.durations(calls)
    assert drawing.cells.rows == [("a", "2", "41 ms", "45 ms", "50 ms", "55 ms", "58 ms", "59 ms")]
    assert drawing.notes[-1] == "3 calls without a known duration left out"
    nothing = cl.durations(table(call(1, "a", 0, NAN)))
    assert "No duration is known: 1 call without one." in texts(nothing)


def test_one_duration_is_a_picture_and_claims_no_p90() -> None:
    drawing = cl.durations(table(call(1, "only", 0, 840)))
    assert {"only", "840 ms", "\N{EN DASH}", "1"} <= set(texts(drawing))
    assert drawing.png().startswith(b"\x89PNG")
    assert "NaN" not in drawing.svg


def test_thousands_of_labels_are_twenty_rows_and_a_note() -> None:
    calls = table(*[call(number, f"label-{number % 3000}", 0, number % 97 + 1) for number in range(1, 6001)])
    drawing = cl.durations(calls)
    assert len(drawing.cells.rows) == 20
    assert "2,980 labels with 5,960 calls not drawn" in drawing.notes


def test_durations_of_sessions_by_what_their_rows_are_named_by() -> None:
    sessions = cl.load(SAMPLES)
    own = sessions.sql("select model, count(duration_ms) n from model_calls where not inherited group by 1").to_pylist()
    assert {row[0]: int(row[1]) for row in cl.durations(sessions).cells.rows} == {row["model"]: row["n"] for row in own}
    assert cl.durations(sessions, of="tool_calls").cells.headers[0] == "tool"
    assert cl.durations(sessions, of="turns").cells.headers[0] == "session"
    assert cl.durations(sessions, "file", of="turns").cells.headers[0] == "file"
    with pytest.raises(ConfigError, match="tool calls are grouped by label or file, not by model"):
        cl.durations(sessions, "model", of="tool_calls")
    with pytest.raises(ConfigError, match="calls, model_calls, tool_calls, turns, not of weather"):
        cl.durations(sessions, of="weather")  # type: ignore[arg-type]


def test_inherited_rows_are_left_out_everywhere() -> None:
    tools = rows(
        "tool_calls",
        name=["a", "a", "b"],
        is_error=[True, False, True],
        duration_ms=[1.0, 2.0, 3.0],
        inherited=[False, False, True],
    )
    assert [row[:3] for row in cl.tool_errors(tools).cells.rows] == [("a", "1", "2")]
    assert [row[:2] for row in cl.durations(tools).cells.rows] == [("a", "2")]
    fresh, old = model_calls(3, models=1), model_calls(3, models=1)
    old = old.set_column(old.schema.get_field_index("inherited"), old.schema.field("inherited"), pa.array([True] * 3))
    both = pa.concat_tables([fresh, old])
    assert cl.first_chunks(both).cells.rows[0][1] == "3"
    assert sum(int(row[2]) for row in cl.token_rates(both).cells.rows) == 3


# first chunks


def test_first_chunks_are_curves_with_their_medians() -> None:
    calls = rows("model_calls", model=["small"] * 4 + ["large"] * 3, first_chunk_ms=[100.0, 200, 300, None, 900, 1000, None])
    drawing = cl.first_chunks(calls)
    assert [(*row[:2], row[4]) for row in drawing.cells.rows] == [("small", "3", "200 ms"), ("large", "2", "950 ms")]
    assert "2 model calls without a known first chunk left out" in drawing.notes
    assert {"time to first chunk (ms)", "share of calls (%)", "small", "large", "200 ms", "950 ms"} <= set(texts(drawing))
    curves = [[(point["x"], point["y"]) for point in each] for each in _lines_of(drawing)]
    assert curves[0][:-1] == [(100, 0), (100, 33.333), (200, 66.667), (300, 100)]
    assert curves[1][:-1] == [(900, 0), (900, 50), (1000, 100)]


def test_curves_are_told_apart_without_colour() -> None:
    drawing = cl.first_chunks(model_calls(600))
    dashes = [layer["mark"]["strokeDash"] for layer in _layers(drawing.grammar()) if _mark(layer) == "line"]
    assert len({tuple(dash) for dash in dashes}) == 6
    assert any("3 models with" in note for note in drawing.notes)


def test_first_chunks_of_flights_where_there_are_no_model_calls(tmp_path: Path) -> None:
    flights = rows("flights", model=["m", "m"], first_chunk_ms=[250.0, None], duration_ms=[1000.0, 2000.0])
    drawing = cl.first_chunks(lab(tmp_path, flights=flights))
    assert drawing.cells.rows[0][:2] == ("m", "1")
    assert drawing.notes[-1] == "1 model request without a known first chunk left out"


# token rates


def test_token_rates_are_medians_of_slices_of_time() -> None:
    at = [NOON + timedelta(seconds=second) for second in (0, 0.2, 0.4, 0.6, 10)]
    calls = rows("model_calls", model=["m"] * 5, started_at=at, duration_ms=[1000.0] * 5, output_tokens=[10, 20, 30, 40, 0])
    drawing = cl.token_rates(calls)
    rate = "{:.1f} tokens/s".format
    assert drawing.cells.rows == [
        ("m", "2026-11-30 12:00:00", "4", rate(25), rate(17.5), rate(32.5)),
        ("m", "2026-11-30 12:00:10", "1", rate(0), rate(0), rate(0)),
    ]
    assert {"tokens/s", "start of the call (UTC, 2026-11-30)", "m", "median 20.0 tokens/s · n 5"} <= set(texts(drawing))


def test_a_rate_that_cannot_be_known_is_left_out() -> None:
    calls = rows(
        "model_calls",
        model=["m"] * 6,
        started_at=[NOON, NOON, NOON, NOON, None, NOON],
        duration_ms=[1000.0, 0.0, NAN, None, 500.0, -3.0],
        output_tokens=[50, 50, 50, 50, 50, 50],
    )
    drawing = cl.token_rates(calls)
    assert [row[2:4] for row in drawing.cells.rows] == [("1", "50.0 tokens/s")]
    assert drawing.notes[-2:] == (
        "4 model calls left out whose tokens or duration are unknown",
        "1 model call left out whose start is unknown",
    )


@pytest.mark.parametrize("years", [1, 40, 900, 7900])
def test_token_rates_over_any_time_are_at_most_sixty_slices(years: int) -> None:
    at = [
        datetime(2000 if years < 7000 else 100, 1, 1, tzinfo=UTC) + timedelta(days=365 * years * part / 200)
        for part in range(200)
    ]
    calls = rows("model_calls", model=["m"] * 200, started_at=at, duration_ms=[1000.0] * 200, output_tokens=[10] * 200)
    drawing = cl.token_rates(calls)
    assert 5 <= len(drawing.cells.rows) <= 61
    assert sum(int(row[2]) for row in drawing.cells.rows) == 200
    assert "NaN" not in drawing.svg


# tool errors


def test_tool_errors_have_wilsons_interval_counts_and_codes() -> None:
    drawing = cl.tool_errors(tool_calls(read=(1, 10), bash=(5, 10), grep=(0, 10)))
    assert drawing.cells.rows == [
        ("bash", "5", "10", "50 %", "24 to 76 %", "FS_NOT_FOUND \N{MULTIPLICATION SIGN}5"),
        ("read", "1", "10", "10 %", "1.8 to 40 %", "FS_NOT_FOUND \N{MULTIPLICATION SIGN}1"),
        ("grep", "0", "10", "0 %", "0 to 28 %", ""),
    ]
    assert drawing.notes[0].startswith("all tools: 6 errors in 30 calls, 20 %; ")
    assert {"calls whose result is an error (%)", "5 / 10", "24 to 76 %"} <= set(texts(drawing))


def test_a_call_without_a_result_is_neither_error_nor_success() -> None:
    tools = rows("tool_calls", name=["a"] * 4, is_error=[True, False, None, None])
    drawing = cl.tool_errors(tools)
    assert drawing.cells.rows[0][:4] == ("a", "1", "2", "50 %")
    assert drawing.notes[-1] == "2 tool calls without a result left out"
    assert "No tool call has a result." in texts(cl.tool_errors(rows("tool_calls", name=["a"], is_error=[None])))


def test_tools_beyond_twenty_are_counted_with_their_errors() -> None:
    drawing = cl.tool_errors(tool_calls(**{f"tool-{number:02d}": (number % 3, 4) for number in range(30)}))
    assert len(drawing.cells.rows) == 20
    assert drawing.notes[-1] == "10 tools with 0 errors in 40 calls not drawn"


# all of them

DRAWN: list[tuple[str, Callable[[Any], Drawing]]] = [
    ("model_calls", cl.durations),
    ("model_calls", cl.first_chunks),
    ("model_calls", cl.token_rates),
    ("tool_calls", cl.tool_errors),
    ("calls", cl.durations),
]


@pytest.mark.parametrize(("name", "draw"), DRAWN)
def test_no_rows_are_a_picture_that_says_so(tmp_path: Path, name: str, draw: Callable[[Any], Drawing]) -> None:
    empty = lab(tmp_path)
    for data in (empty, empty.tables[name]):
        drawing = draw(data)
        assert any(text.startswith("There are no ") for text in texts(drawing))
        assert drawing.text().count("There are no ") == 1
        assert drawing.cells.rows == []


@pytest.mark.parametrize(("name", "draw"), DRAWN)
def test_texts_of_files_are_never_markup(name: str, draw: Callable[[Any], Drawing]) -> None:
    times: dict[str, list[Any]] = {"duration_ms": [5.0], "first_chunk_ms": [5.0], "output_tokens": [5], "started_at": [NOON]}
    columns: dict[str, dict[str, list[Any]]] = {
        "model_calls": {"model": [HOSTILE], **times},
        "tool_calls": {"name": [HOSTILE], "is_error": [True], "error_code": [HOSTILE]},
    }
    drawing = draw(rows(name, **columns[name]) if name in columns else table(call(1, HOSTILE, 0, 5)))
    for written in (drawing.svg, drawing.html()):
        assert "<img src=x" not in written
        assert "&lt;img src=x" in written
        assert not set("\u202e\u0007\uffff") & set(written)
    assert "\\u{202e}" in drawing.text(200)


@pytest.mark.parametrize(("name", "draw"), DRAWN)
def test_texts_fit_their_columns(name: str, draw: Callable[[Any], Drawing]) -> None:
    data = {"model_calls": model_calls(300), "tool_calls": tool_calls(**{"a" * 60: (3, 9), "b": (1, 2)})}
    drawing = draw(data.get(name, table(call(1, "x" * 80, 0, 5), call(2, "y", 0, 90_000))))
    for columns in (60, 88):
        assert all(len(line) <= columns for line in drawing.text(columns).splitlines()), drawing.text(columns)


def test_a_hundred_thousand_rows_are_small_and_quick() -> None:
    many = model_calls(100_000)
    chance = np.random.default_rng(3)
    tools = rows(
        "tool_calls",
        name=[f"tool-{number}" for number in chance.integers(3000, size=100_000)],
        is_error=chance.random(100_000) < 0.1,
    )
    for draw, data in ((cl.durations, many), (cl.first_chunks, many), (cl.token_rates, many), (cl.tool_errors, tools)):
        began = time.process_time()
        drawing = draw(data)
        bundle = drawing._repr_mimebundle_()
        assert time.process_time() - began < 8, draw
        assert sum(map(len, bundle.values())) < 1_000_000
        assert len(json.dumps(drawing.grammar())) < 300_000


@pytest.mark.parametrize("longest", [1e300, 1.7e308, 1e-300])
def test_times_beyond_every_scale_leave_no_hole(longest: float) -> None:
    for other in (longest, 5.0) if longest > 1e300 else (5.0,):
        times: dict[str, list[Any]] = {"duration_ms": [longest, other], "started_at": [NOON] * 2, "output_tokens": [2**62, 1]}
        for drawing in (
            cl.durations(table(call(1, "a", 0, longest), call(2, "a", 0, other))),
            cl.first_chunks(rows("model_calls", model=["a", "a"], first_chunk_ms=[longest, other])),
            cl.token_rates(rows("model_calls", model=["a"] * 2, **times)),
        ):  # fmt: skip
            assert not re.search("NaN|Infinity", drawing.svg)
            assert max(map(len, texts(drawing))) < 200
            assert drawing.text()


def test_a_chart_of_rows_it_cannot_measure_says_what_it_needs() -> None:
    with pytest.raises(ConfigError, match="needs tool_calls; here are calls"):
        cl.tool_errors(table(call(1, "a", 0, 1)))
    with pytest.raises(ConfigError, match="no known tables"):
        cl.durations(pa.table({"x": [1]}))


def test_a_row_tells_its_whole_name_when_it_is_pointed_at() -> None:
    drawing = cl.durations(table(call(1, "long-" * 30, 0, 840)))
    assert hovers(drawing) == ["long-" * 30 + " · median 840 ms, p90 \N{EN DASH}, n 1"]


def test_statistics_of_a_lab_are_those_that_have_something_to_show(tmp_path: Path) -> None:
    assert [drawing.title.partition(" · ")[0] for drawing in statistics_of(cl.load(SAMPLES))] == [
        "Durations by model", "Durations by tool", "Time to first chunk by model", "Output tokens per second", "Tool errors",
    ]  # fmt: skip
    assert statistics_of(lab(tmp_path)) == []
    flights = rows("flights", model=["m"], first_chunk_ms=[250.0], duration_ms=[900.0], output_tokens=[9], started_at=[NOON])
    silent = rows("model_calls", model=["m"], started_at=[NOON])
    drawn = statistics_of(lab(tmp_path, flights=flights, model_calls=silent, calls=table(call(1, "a", 0, 5))))
    assert [drawing.title.partition(" · ")[0] for drawing in drawn] == [
        "Durations by label", "Time to first chunk by model", "Output tokens per second",
    ]  # fmt: skip


def _mark(layer: dict[str, Any]) -> str:
    mark = layer.get("mark", {})
    return str(mark if isinstance(mark, str) else mark.get("type"))


def _layers(spec: dict[str, Any]) -> list[dict[str, Any]]:
    inner = [each for key in ("layer", "vconcat") for layer in spec.get(key, []) for each in _layers(layer)]
    return inner or [spec]


def _lines_of(drawing: Drawing) -> list[list[dict[str, Any]]]:
    grammar = drawing.grammar()
    return [grammar["datasets"][layer["data"]["name"]] for layer in _layers(grammar) if _mark(layer) == "line"]
