import base64
import re
import struct
import zlib
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import pyarrow as pa
import pytest

from cassette_lab.errors import ConfigError
from cassette_lab.views import Drawing
from cassette_lab.views.deltas import timing_deltas_drawing as timing_deltas
from cassette_lab.views.outcomes import stop_reasons_drawing as stop_reasons
from cassette_lab.views.rows import tree_rows
from cassette_lab.views.timelines import timeline_drawing as timeline
from cassette_lab.views.topologies import topology_drawing as topology
from tests.unit.views_samples import audit, call, every_outcome, many, table

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<script>alert('x')</script> & \"quoted\" \u202e\u0007\uffff " + "long " * 40


def bars(drawing: Drawing) -> list[ET.Element]:
    return [path for path in ET.fromstring(drawing.svg).iter(f"{SVG}path") if path.get("aria-roledescription") == "bar"]  # noqa: S314 - our own picture


def texts(drawing: Drawing) -> list[str]:
    return ["".join(text.itertext()) for text in ET.fromstring(drawing.svg).iter(f"{SVG}text")]  # noqa: S314 - our own picture


def hovers(drawing: Drawing) -> list[str]:
    return [bar.findtext(f"{SVG}title") or "" for bar in bars(drawing)]


def test_a_timeline_has_a_row_per_call_nested_ones_under_their_parent() -> None:
    drawing = timeline(audit())
    assert drawing.title == "Timeline · runs/audit.cassette.jsonl · 5 calls"
    assert [row[0] for row in drawing.cells.rows] == [
        "audit-api",
        "· check-auth",
        "· check-limits",
        "audit-docs",
        "audit-tests",
    ]
    shown = texts(drawing)
    for text in (
        "audit-api",
        "check-limits",
        "1.2 s",
        "380 ms",
        "620 ms · TimeoutError",
        "time since the first call was admitted (ms)",
    ):
        assert text in shown


def test_a_bar_lies_where_its_call_ran_and_begins_pale() -> None:
    drawing = timeline(table(call(1, "a", 0, 1000, start_latency_ms=250.0), call(2, "b", 500, 500, start_latency_ms=0.0)))
    spans = [
        tuple(float(number) for number in re.findall(r"M([-\d.]+),[-\d.]+h([-\d.]+)", bar.get("d") or "")[0])
        for bar in bars(drawing)
    ]
    width = 520
    assert spans == [(0, width / 4), (width / 4, width * 3 / 4), (width / 2, width / 2)]
    assert [bar.get("opacity") for bar in bars(drawing)] == ["0.38", "1", "1"]


def test_every_outcome_has_its_colour_its_mark_and_its_word() -> None:
    drawing = timeline(every_outcome())
    notes = [text for text in texts(drawing) if re.match(r"[\d.]+ s", text)]
    assert [note.partition(" · ")[2] for note in notes if "·" in note] == [
        "limit", "refused", "aborted", "other", "error", "HTTP_429", "ConnectionError",
    ]  # fmt: skip
    fills = [bar.get("fill") or "" for bar in bars(drawing)]
    assert {"#009e73", "#e69f00", "#cc79a7", "#d55e00"} <= set(fills)
    hollow = [bar for bar in bars(drawing) if bar.get("fill") is None]
    assert [bar.get("stroke") for bar in hollow] == ["#d55e00"], "a call that never started is an outline"
    assert sum(fill.endswith("hatched)") for fill in fills) == 2, "pale part and rest of the aborted call"
    assert sum(fill.endswith("dotted)") for fill in fills) == 2
    assert "outline: never started" in drawing.notes[0]


def test_hostile_labels_are_escaped_cut_and_whole_when_pointed_at() -> None:
    for drawing in (timeline(table(call(1, HOSTILE, 0, 840))), topology(table(call(1, HOSTILE, 0, 840)))):
        assert "<script" not in drawing.svg
        assert "<script" not in drawing.html()
        label = next(text for text in texts(drawing) if text.startswith("<script>"))
        assert label.endswith("…")
        assert len(label) <= 40
        assert hovers(drawing)[0].startswith("<script>alert('x')</script> & \"quoted\" \\u{202e}\\u{0007}\\u{ffff} long long")
        assert hovers(drawing)[0].count("long") >= 40
        assert "\u202e" not in drawing.html() + drawing.text()


def test_no_calls_and_one_call_are_pictures_too() -> None:
    for draw in (timeline, stop_reasons, topology):
        nothing = draw(table(source=None))
        assert "This recording has no calls." in texts(nothing)
        assert nothing.png().startswith(b"\x89PNG")
        assert nothing.text()
        assert len(bars(draw(table(call(1, "only", 0, 840, start_latency_ms=0.0))))) == 1


def test_many_calls_are_joined_and_the_picture_says_so() -> None:
    calls = many(6000)
    slices, places = timeline(calls), topology(calls)
    assert slices.notes[0].startswith("in slices of ")
    assert "the least called 6 labels share the last row" in slices.notes
    assert sum(int(row[1].replace(",", "")) for row in slices.cells.rows) == 6000
    assert places.notes[0] == "calls of one label in one place of the tree are joined in one row"
    assert len(places.cells.rows) <= 40
    for drawing in (slices, places, stop_reasons(calls, by="label")):
        assert len(drawing.svg) < 400_000
        assert drawing.cells.rows


def test_joined_places_count_every_call_once() -> None:
    calls = many(300)
    drawing = topology(calls)
    counted = sum(int(row[2].replace(",", "")) for row in drawing.cells.rows)
    left = sum(int(number.replace(",", "")) for note in drawing.notes for number in re.findall(r"with ([\d,]+) calls$", note))
    assert counted + left == 300


def test_several_files_have_a_heading_and_their_own_zero() -> None:
    late = table(call(1, "late", 5_000_000, 100), source="runs/b.jsonl")
    drawing = timeline(pa.concat_tables([table(call(1, "early", 0, 100), source="runs/a.jsonl"), late]))
    assert {"runs/a.jsonl", "runs/b.jsonl", "early", "late"} <= set(texts(drawing))
    assert [row[2] for row in drawing.cells.rows] == ["0 ms", "0 ms"]
    assert "2 files" in drawing.title
    assert {"runs/a.jsonl", "runs/b.jsonl"} <= set(
        texts(topology(pa.concat_tables([audit(), late, table(call(1, "x", 0, 1), source="runs/a.jsonl")])))
    )


def test_a_call_without_a_start_time_is_drawn_and_counted() -> None:
    drawing = timeline(table(call(1, "known", 0, 100), call(2, "unknown", None, 100)))
    assert drawing.notes[-1] == "1 call without a readable start time, drawn from 0"
    assert {"known", "unknown"} <= set(texts(drawing))
    assert [row[1] for row in drawing.cells.rows] == ["0 ms", "\N{EN DASH}"]


def test_durations_beyond_every_scale_leave_no_hole_in_the_picture() -> None:
    drawing = timeline(table(call(1, "huge", 0, 1.7e308, start_latency_ms=0.0), call(2, "tiny", 0, 0, start_latency_ms=0.0)))
    assert "NaN" not in drawing.svg
    assert "Infinity" not in drawing.svg
    assert len(bars(drawing)) == 2


def test_calls_that_name_each_other_as_parents_are_shown_at_the_top() -> None:
    rows = [
        call(1, "a", 0, 1, call_key="root/a", parent_key="root/b"),
        call(2, "b", 0, 1, call_key="root/b", parent_key="root/a"),
        call(3, "c", 0, 1, call_key="root/c", parent_key="root/c"),
        call(4, "d", 0, 1, call_key="root/d", parent_key="root/nowhere"),
    ]
    assert sorted((row.label, row.depth) for row in tree_rows(table(*rows))) == [("a", 0), ("b", 1), ("c", 0), ("d", 0)]
    assert "deeper" not in " ".join(topology(table(*rows)).notes)


def test_a_deep_chain_stays_inside_the_picture() -> None:
    rows = [call(1, "level", 0, 10)]
    for sequence in range(2, 41):
        rows.append(call(sequence, "level", sequence, 10, parent_key=rows[-1]["call_key"]))
    drawing = topology(table(*rows))
    width = float(re.findall(r'width="([\d.]+)"', drawing.svg)[0])
    assert width < 900
    deep = topology(table(*rows), max_rows=10)
    assert "32 calls deeper than 8 levels not drawn" in deep.notes


def test_stop_reasons_count_categories_and_name_the_codes() -> None:
    drawing = stop_reasons(every_outcome())
    assert [row[0] for row in drawing.cells.rows] == [
        "completed", "max-tokens", "refusal", "aborted", "error", "result-error", "start-error", "other",
    ]  # fmt: skip
    assert "1 (12 %) · HTTP_429" in texts(drawing)
    assert stop_reasons(audit()).cells.rows == [("completed", "4", "80 %", ""), ("result-error", "1", "20 %", "TimeoutError")]


def test_stop_reasons_by_label_model_and_file() -> None:
    calls = table(
        call(1, "a", 0, 1, child_model="small"),
        call(2, "a", 0, 1, child_model="small", stop_reason="max-tokens"),
        call(3, "b", 0, 1),
        call(4, None, 0, 1),
    )
    by_label = stop_reasons(calls, by="label")
    assert by_label.cells.headers == ("label", "calls", "completed", "max-tokens")
    assert by_label.cells.rows == [("a", "2", "1", "1"), ("b", "1", "1", "0"), ("(no label)", "1", "1", "0")]
    assert "2 calls · 1 limit" in texts(by_label)
    assert stop_reasons(calls, by="model").cells.rows[0] == ("small", "2", "1", "1")
    assert stop_reasons(calls, by="file").cells.rows == [("runs/audit.cassette.jsonl", "4", "3", "1")]
    with pytest.raises(ConfigError, match="label, model or file"):
        stop_reasons(calls, by="weather")  # type: ignore[arg-type]


def test_topology_tells_what_lies_below() -> None:
    drawing = topology(audit())
    assert drawing.cells.rows[0][:5] == ("audit-api", "1", "1.2 s", "completed", "2")
    assert "1.2 s · 2 below" in texts(drawing)


def test_timing_deltas_are_signed_and_say_both_durations() -> None:
    before = table(call(1, "slower", 0, 800), call(2, "quicker", 0, 1000), call(3, "same", 0, 500), call(4, "gone", 0, 1))
    after = table(call(1, "slower", 0, 1000), call(2, "quicker", 0, 400), call(3, "same", 0, 500))
    drawing = timing_deltas(before, after)
    assert [row[:5] for row in drawing.cells.rows] == [
        ("slower", "800 ms", "1.0 s", "+200 ms", "+25 %"),
        ("quicker", "1.0 s", "400 ms", "\N{MINUS SIGN}600 ms", "\N{MINUS SIGN}60 %"),
        ("same", "500 ms", "500 ms", "±0 ms", "±0 %"),
    ]
    assert drawing.notes == (
        "1 slower, 1 quicker, together \N{MINUS SIGN}400 ms",
        "1 call only in the expected recording, 0 only in the actual one",
    )
    assert [bar.get("fill") for bar in bars(drawing)] == ["#d55e00", "#0072b2", "#59636e"]
    lefts = [float(re.findall(r"M([-\d.]+),", bar.get("d") or "")[0]) for bar in bars(drawing)]
    assert lefts[1] < lefts[0] == lefts[2]


def test_timing_deltas_of_a_diff_and_of_many_calls() -> None:
    before, after = many(500), many(500, seed=7)
    times = pa.array([duration * (1.5 if row == 17 else 1) for row, duration in enumerate(after["duration_ms"].to_pylist())])
    after = after.set_column(after.schema.get_field_index("duration_ms"), "duration_ms", times)
    diff = SimpleNamespace(expected=SimpleNamespace(calls=before), actual=SimpleNamespace(calls=after))
    drawing = timing_deltas(diff)
    assert len(drawing.cells.rows) == 40
    assert drawing.cells.rows[0][4] == "+50 %"
    assert "the 40 largest differences" in drawing.notes[1]


def test_timing_deltas_need_one_file_on_each_side() -> None:
    two = pa.concat_tables([table(call(1, "a", 0, 1), source="a"), table(call(1, "a", 0, 1), source="b")])
    with pytest.raises(ConfigError, match="one with one, and here are 2"):
        timing_deltas(two, audit())
    with pytest.raises(ConfigError, match="two recordings, or one cassette diff"):
        timing_deltas(audit())


def test_a_picture_loads_nothing_and_runs_nothing() -> None:
    html = timeline(audit()).html()
    assert set(re.findall(r"https?://[^\"'\s<)]+", html)) == {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert not re.search(r"<script|<link|@import|\son\w+=", html)
    assert set(re.findall(r'(?:src|href)="([^",;]*)', html)) <= {"data:image/png"}


def test_a_notebook_gets_html_png_and_text() -> None:
    drawing = timeline(audit())
    bundle = drawing._repr_mimebundle_()
    assert set(bundle) == {"text/html", "image/png", "text/plain"}
    assert base64.b64decode(bundle["image/png"]).startswith(b"\x89PNG")
    assert bundle["text/plain"] == drawing.text() == str(drawing)
    html = bundle["text/html"]
    assert html.index("hidden") < html.index("<svg") < html.index("<img") < html.index("<details")
    assert "<table>" in html
    assert 'alt="Timeline · runs/audit.cassette.jsonl · 5 calls. ' in html


def test_the_png_is_packed_well_and_loses_nothing() -> None:
    import vl_convert

    drawing = timeline(every_outcome())
    plain, packed = vl_convert.svg_to_png(drawing.svg, scale=2.0), drawing.png()
    assert len(packed) < len(plain) / 2
    assert _pixels(packed) == _pixels(plain)


def test_pictures_on_one_page_share_no_ids() -> None:
    first, second = (set(re.findall(r'\bid="([^"]+)"', drawing.svg)) for drawing in (timeline(audit()), stop_reasons(audit())))
    assert first
    assert not first & second


def test_text_forms_fit_their_columns() -> None:
    for drawing in (
        timeline(every_outcome()),
        topology(audit()),
        stop_reasons(every_outcome()),
        timeline(many(200)),
        timing_deltas(audit(), audit()),
    ):
        for columns in (60, 88):
            assert all(len(line) <= columns for line in drawing.text(columns).splitlines())
    lines = timeline(audit()).text().splitlines()
    starts = [len(line) - len(line[17:].lstrip()) for line in lines[1:4]]
    assert lines[5].endswith("✕                            620 ms  TimeoutError")
    assert all(here <= there for here, there in pairwise(starts[1:]))


@pytest.mark.parametrize("suffix", [".svg", ".png", ".html", ".txt", ".json"])
def test_a_drawing_saves_itself_by_suffix(tmp_path: Path, suffix: str) -> None:
    saved = stop_reasons(audit()).save(tmp_path / f"chart{suffix}")
    starts = {".svg": b"<svg", ".png": b"\x89PNG", ".html": b"<!doctype html>", ".txt": b"Stop reasons", ".json": b"{"}
    assert saved.read_bytes().startswith(starts[suffix])


def test_a_suffix_that_means_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\.svg, \.png, \.html, \.txt or \.json, not as \.gif"):
        stop_reasons(audit()).save(tmp_path / "chart.gif")


def test_the_altair_chart_is_there_to_go_on_from() -> None:
    import altair as alt

    assert isinstance(timeline(audit()).chart, alt.LayerChart)


def test_charts_take_a_path_a_folder_a_lab_a_table_and_a_diff(tmp_path: Path) -> None:
    import asyncio

    from cassette_lab import diff, load, record, subagent

    @subagent("greet")
    async def greet(name: str) -> str:
        return f"hello {name}"

    async def run(file: Path) -> None:
        async with record(file):
            await greet("a")
            await greet("b")

    first, second = tmp_path / "first.cassette.jsonl", tmp_path / "second.cassette.jsonl"
    for file in (first, second):
        asyncio.run(run(file))
    lab = load(first)
    for draw in (timeline, stop_reasons, topology):
        drawn = [draw(data).cells.rows for data in (first, str(first), [first], lab, lab.calls)]
        assert all(rows == drawn[0] for rows in drawn)
        assert "4 calls" in draw(tmp_path).title
    assert timing_deltas(first, second).cells.rows == timing_deltas(diff(first, second)).cells.rows
    assert [row[0] for row in timing_deltas(load(first), second).cells.rows] == ["greet", "greet"]


def _pixels(png: bytes) -> bytes:
    data, at = b"", 8
    while at < len(png):
        (length,) = struct.unpack_from(">I", png, at)
        if png[at + 4 : at + 8] == b"IDAT":
            data += png[at + 8 : at + 8 + length]
        assert zlib.crc32(png[at + 4 : at + 8 + length]) == struct.unpack_from(">I", png, at + 8 + length)[0]
        at += length + 12
    return zlib.decompress(data)
