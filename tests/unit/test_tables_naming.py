"""What a person may name for ``load``, and what stops a folder or does not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import cassette_lab as cl
from cassette_lab.session.frames import compress_frame
from cassette_lab.session.helper import Helper
from cassette_lab.tables import write_tables
from tests.benchmarks.generate import cassette_file
from tests.unit.session_files import asked, log_file
from tests.unit.session_samples import START_MS, write
from tests.unit.test_session_sqlite import make_store, row


@pytest.fixture(autouse=True, scope="module")
def no_process_afterwards() -> Iterator[None]:
    yield
    Helper.end_current()


def test_one_session_is_named_as_everywhere(tmp_path: Path) -> None:
    second = ("two", 0, "turn/start", START_MS, '{"turn":1}', None, None, None)
    store = make_store(tmp_path / "s.db", 17, [row(0, "turn/start", {"turn": 1}), second])
    log_file(tmp_path / "runs" / "a" / "session.jsonl", *asked(1), id="a")
    log_file(tmp_path / "runs" / "b" / "session.jsonl", *asked(1), id="b")
    lab = cl.load(f"{store}#two", f"{tmp_path / 'runs'}#b")
    assert lab.sessions["session_id"].to_pylist() == ["two", "b"]
    assert set(lab.events["session_id"].to_pylist()) == {"two", "b"}
    assert cl.load(f"{store}#two", f"{store}#one", f"{store}#two").sessions["session_id"].to_pylist() == ["two", "one"]
    assert cl.load(store, f"{store}#two").sessions.num_rows == 2
    for name, sentence in ((f"{store}#three", "no session 'three'"), (f"{tmp_path / 'runs'}#c", "is of the session c")):
        with pytest.raises(cl.FormatError, match=sentence):
            cl.load(name)


@pytest.mark.parametrize("workers", [1, 2])
def test_the_first_bad_log_names_the_way_out(tmp_path: Path, workers: int) -> None:
    for number in range(3):
        log_file(tmp_path / f"s{number}" / "session.jsonl", *asked(1), id=f"s{number}")
    bad = write(tmp_path / "s1" / "session.jsonl", b"nothing\n")
    with pytest.raises(cl.FormatError, match=r'is this a session log\? \(on_error="collect", .* goes on to 2 more files\)$'):
        cl.load(tmp_path, workers=workers)
    with pytest.raises(cl.FormatError, match=r"is this a session log\?$"):
        cl.load(bad)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_log_that_has_just_begun_stops_no_folder(tmp_path: Path, workers: int) -> None:
    log_file(tmp_path / "a" / "session.jsonl", *asked(1), id="a")
    for data in (b"", b'{"type":"sess', compress_frame(b'{"type":"session"}\n')[:9]):
        begun = write(tmp_path / "b" / ("session.jsonl.zstd" if data[:1] == b"\x28" else "session.jsonl"), data)
        lab = cl.load(tmp_path, workers=workers)
        assert lab.sessions["session_id"].to_pylist() == ["a"]
        (problem,) = lab.problems.to_pylist()
        assert (problem["code"], "has just begun" in problem["message"]) == ("JUST_BEGUN", True)
        with pytest.raises(cl.FormatError, match="has just begun"):
            cl.load(begun)
        begun.unlink()


def test_a_folder_holds_the_tables_of_one_load_and_keeps_what_is_not_ours(tmp_path: Path) -> None:
    log = log_file(tmp_path / "a" / "session.jsonl", *asked(1), id="a")
    cassettes = tmp_path / "runs"
    cassettes.mkdir()
    cassette_file(cassettes, 3, "plain")
    out = tmp_path / "out"
    cl.load(log).to_pandas("sessions").to_parquet(write(out / "flights.parquet", b""))  # somebody else's
    write(out / "flight_health.arrow", b"mine")
    write_tables(cl.load(log), out)
    write_tables(cl.load(log), out, format="arrow")
    assert {path.suffix for path in out.glob("sessions.*")} == {".arrow"}
    write_tables(cl.load(cassettes), out)
    assert sorted(path.name for path in out.iterdir()) == [
        "calls.parquet",
        "cassettes.parquet",
        "flight_health.arrow",
        "flights.parquet",
        "problems.parquet",
    ]
    assert (out / "flight_health.arrow").read_bytes() == b"mine"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("select arguments from tool_calls", "arguments is there after load(..., bodies=True)"),
        ("select t.result from tool_calls t", "result is there after load(..., bodies=True)"),
        ("select * from sesions", 'Did you mean "sessions"?'),
        ("select nam from tool_calls", 'Candidate bindings: "name"'),
    ],
)
def test_sql_that_misses_a_name_says_what_may_be_meant(tmp_path: Path, text: str, sentence: str) -> None:
    log = log_file(tmp_path / "session.jsonl", *asked(1), id="a")
    with pytest.raises(cl.ConfigError) as caught:
        cl.load(log).sql(text)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
    if "bodies" in sentence:
        assert cl.load(log, bodies=True).sql(text).num_rows == 1
