"""``%flight`` without a kernel: its words, what completes them, how an answer shows itself, and the recorder behind it."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import cassette_lab as cl
from cassette_lab.errors import ConfigError
from cassette_lab.event_bus import ASSEMBLE, REQUEST, STREAM
from cassette_lab.flight.command import run_command
from cassette_lab.flight.messages import Locale
from cassette_lab.flight.model import Outcome, RecordExtra, RequestProjection, Snapshot, Usage
from cassette_lab.host.context import HOST
from cassette_lab.host.flights import HostFlights
from cassette_lab.notebook.flight_completion import candidates
from cassette_lab.notebook.flight_display import NOTES, FlightView, locale_now, shown_records
from cassette_lab.notebook.flight_options import SHOWING, VERBS, help_asked, help_text, parse
from cassette_lab.notebook.options import UsageError
from cassette_lab.views.flights import request_category
from tests.unit.flight_samples import record, shape

DONE = Outcome("finished", finish="stop", first_chunk_ms=40.0, total_ms=120.0, usage=Usage(1500, 20))
THREW = Outcome("threw", error="error", total_ms=30.0)
RECORDS = (
    record("bbbb2222-x", step=2, outcome=THREW, extra=RecordExtra(error_code="RATE_LIMIT")),
    record("aaaa1111-x", outcome=DONE),
    record("cccc3333-x", session_id="other", outcome=DONE),
)
SNAPSHOT = Snapshot(records=RECORDS)
ROOT = Path(__file__).resolve().parents[2]


def view(words: str = "list", locale: Locale = "en", snapshot: Snapshot = SNAPSHOT) -> FlightView:
    result = run_command(words, snapshot, "s", locale=locale)
    records = [each for each in snapshot.records if each.session_id == "s"]
    return FlightView(result, shown_records(result, records), "s", locale)


@pytest.mark.parametrize(
    ("line", "verb", "words", "given"),
    [
        ("", "latest", (), {}),
        ("--live", "latest", (), {"live": True}),
        ("--session s-1", "latest", (), {"session": "s-1"}),
        ("list failed 5 --locale zh", "list", ("failed", "5"), {"locale": "zh"}),
        ("show 3f2a", "show", ("3f2a",), {}),
        ("diff a b", "diff", ("a", "b"), {}),
        ("health", "health", (), {}),
        ("on --capacity 3 --slow-total 50", "on", (), {"capacity": 3, "slow_total_ms": 50}),
        ('save "my runs/now.flight.json" --overwrite', "save", ("my runs/now.flight.json",), {"overwrite": True}),
    ],
)
def test_a_line_is_a_command(line: str, verb: str, words: tuple[str, ...], given: dict[str, Any]) -> None:
    command = parse(line)
    assert (command.verb, command.files, dict(command.given)) == (verb, words, given)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("lst", "%flight does not know 'lst'; did you mean list?"),
        ("42", "%flight does not know '42'; there are latest, list, "),
        ("show a b", "%flight show is written so: %flight show [ID]"),
        ("off now", "%flight off is written so: %flight off"),
        ("on --capacity many", "%flight on: argument --capacity: invalid int value: 'many'"),
        ("list --capacity 3", "--capacity belongs to on, not to list"),
        ("health --sesion s", "%flight health does not know --sesion; did you mean --session?"),
        ("--locale de", "%flight latest: argument --locale: invalid choice: 'de'"),
        ('show "a', "a quote is opened and never closed"),
    ],
)
def test_a_mistake_is_one_sentence(line: str, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(line)
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


def test_the_help_has_every_word() -> None:
    text = help_text()
    for verb in VERBS.values():
        assert f"%flight {verb.usage}" in text
        for option in verb.options:
            assert option.usage in text
    assert help_asked("list --help") is not None
    assert "%flight list" in str(help_asked("list --help"))
    assert help_asked("list") is None
    assert SHOWING == ("latest", "list", "show", "explain", "diff", "health", "stats")


@pytest.mark.parametrize(
    ("typed", "fragment", "words"),
    [
        (" ", "", [*VERBS]),
        (" st", "st", ["stats", "stop"]),
        (" list f", "f", ["failed"]),
        (" list failed ", "", ["--session", "--locale", "--live"]),
        (" show ", "", ["bbbb2222", "aaaa1111", "cccc3333"]),
        (" diff aaaa1111 b", "b", ["bbbb2222"]),
        (" diff aaaa1111 bbbb2222 ", "", ["--session", "--locale", "--live"]),
        (" health --session ", "", ["s", "other", "all"]),
        (" --session=o", "--session=o", ["--session=other"]),
        (" --l", "--l", ["--locale", "--live"]),
        (" --live --l", "--l", ["--locale"]),
        (" --locale z", "z", ["zh"]),
        (" on --c", "--c", ["--capacity"]),
        (" on --capacity ", "", []),
        (" nothing x", "x", []),
    ],
)
def test_completion(typed: str, fragment: str, words: list[str]) -> None:
    assert candidates(typed, SNAPSHOT) == (fragment, words)


def test_ids_that_are_no_words_are_not_completed() -> None:
    hostile = Snapshot(records=(record("a b\x1b", session_id="x y"), record("fine", session_id="--live; rm")))
    assert candidates(" show ", hostile)[1] == ["fine"]
    assert candidates(" --session ", hostile)[1] == []


@pytest.mark.parametrize(
    ("environment", "locale"),
    [
        ({}, "en"),
        ({"LANG": "C.UTF-8"}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh_CN", "LC_ALL": "en_GB"}, "en"),
        ({"LANG": "de_DE", "LC_MESSAGES": "zh_TW"}, "zh"),
        ({"LANG": "de_DE", "LC_ALL": ""}, "en"),
    ],
)
def test_the_language_is_that_of_the_environment(environment: dict[str, str], locale: str) -> None:
    assert locale_now(environment) == locale


def test_an_answer_is_words_a_picture_and_a_table() -> None:
    shown = view()._repr_mimebundle_()
    plain, html = shown["text/plain"].splitlines(), shown["text/html"]
    assert plain[0] == "Requests, the newest first: 2"
    assert plain[-4].startswith("1.2.1 · bbbb2222  ")
    assert plain[-4].endswith("✕" + plain[-4].partition("✕")[2])
    assert "30 ms · failed (RATE_LIMIT)" in plain[-4]
    assert "40 ms / 120 ms" in plain[-3]
    assert plain[-2:] == ["1.2.1: turn 1, step 2, attempt 1", "pale: until the first chunk"]
    assert html.count("<svg") == 2
    assert html.count("bbbb2222</bdi>") == 1, "each request stands there once"
    assert "as a table" not in html
    for cell in ("bbbb2222", "1.2.1", "mock / m-1", "failed (RATE_LIMIT)", "40 ms", "120 ms", "1,500", "20"):
        assert f"<bdi>{cell}</bdi>" in html


def test_an_answer_is_there_at_once() -> None:
    program = (
        "import sys; from tests.unit.test_notebook_flight import view; view().bundle(); view('latest').bundle();"
        "sys.exit(any(name in sys.modules for name in ('altair', 'vl_convert', 'pandas')))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False, timeout=60)
    assert done.returncode == 0


def test_one_request_has_one_bar_and_no_table_of_requests() -> None:
    html = view("latest").bundle()["text/html"]
    assert html.count("<svg") == 1
    assert "<th" not in html
    assert "30 ms · failed (RATE_LIMIT)" in html


def test_texts_stand_at_the_left_and_numbers_at_the_right() -> None:
    html = view().bundle()["text/html"]
    assert re.search(r"text-align:left;[^>]*><bdi>failed", html)
    assert re.search(r"text-align:right;[^>]*><bdi>1,500", html)


def test_a_failure_shows_its_http_status() -> None:
    failed = record("r", outcome=THREW, extra=RecordExtra(error_code="SERVER", http_status=500))
    shown = view("latest", snapshot=Snapshot(records=(failed,)))._repr_mimebundle_()
    assert "30 ms · failed: HTTP 500 (SERVER)" in shown["text/plain"]


def test_an_answer_in_chinese() -> None:
    assert NOTES["en"].keys() == NOTES["zh"].keys()
    shown = view(locale="zh")._repr_mimebundle_()
    assert "失败 (RATE_LIMIT)" in shown["text/plain"]
    assert shown["text/plain"].splitlines()[-1] == "浅色：首块之前"  # noqa: RUF001 - Chinese has punctuation of its own
    assert ">tokens" not in shown["text/html"]
    assert ">输入令牌</th>" in shown["text/html"]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("latest", ["bbbb2222-x"]),
        ("show aaaa", ["aaaa1111-x"]),
        ("diff", ["aaaa1111-x", "bbbb2222-x"]),
        ("diff aaaa aaaa", ["aaaa1111-x"]),
        ("stats", ["bbbb2222-x", "aaaa1111-x"]),
        ("health", []),
    ],
)
def test_it_shows_the_requests_it_is_about(words: str, names: list[str]) -> None:
    answer = view(words)
    assert [each.id for each in answer.records] == names
    assert ("<svg" in answer.bundle()["text/html"]) == bool(names)


def test_names_in_an_answer_are_shown_escaped() -> None:
    request = RequestProjection("<img src=x>", "m\x1b[31m", shape().messages)
    shown = view("latest", snapshot=Snapshot(records=(record("i<d>", request=request, outcome=DONE),)))._repr_mimebundle_()
    assert "<img src=x>" not in shown["text/html"]
    assert "i<d>" not in shown["text/html"]
    assert "\x1b" not in shown["text/plain"] + shown["text/html"]


def test_a_request_has_the_look_of_its_outcome() -> None:
    def look(outcome: Outcome, **extra: Any) -> str | None:
        category = request_category(record(outcome=outcome, extra=RecordExtra(**extra)))
        return None if category is None else category.name

    assert look(Outcome("running")) is None
    assert look(DONE) == "completed"
    assert look(Outcome("finished", finish="tool-calls")) == "completed"
    assert look(Outcome("finished", finish="max-tokens")) == "max-tokens"
    assert look(THREW) == "error"
    assert look(Outcome("threw", error="abort-error")) == look(THREW, aborted="user") == "aborted"
    assert look(Outcome("incomplete", reason="consumer-returned")) == "other"


def test_a_request_that_runs_has_no_bar_and_says_so() -> None:
    line = view("latest", snapshot=Snapshot(records=(record("r1"),)))._repr_mimebundle_()["text/plain"].splitlines()[-2]
    assert line.split() == ["1.1.1", "·", "r1", "running"]


def test_the_recorder_of_the_host_is_made_when_it_is_asked_for() -> None:
    before = [HOST.listeners(name) for name in (ASSEMBLE, REQUEST, STREAM)]
    flights = HostFlights()
    assert flights.recorder is None
    assert not flights.off()
    recorder = flights.on(4)
    try:
        assert flights.on() is flights.on(4) is flights.recorder is recorder
        assert [HOST.listeners(name) for name in (ASSEMBLE, REQUEST, STREAM)] == [count + 1 for count in before]
        with pytest.raises(ConfigError, match="keeps 4 records"):
            flights.on(5)

        async def scenario() -> None:
            async with cl.Agent(cl.ScriptedModel("Hello.", "Hello again."), session_id="seen") as agent:
                await agent.run("Hi")
                assert flights.off()
                await agent.run("Hi again")

        asyncio.run(scenario())
        assert [(each.session_id, each.turn) for each in recorder.snapshot().records] == [("seen", 1)]
        assert flights.on() is recorder
        recorder.dispose()
        assert flights.recorder is None
        assert flights.on() is not recorder
        assert [HOST.listeners(name) for name in (ASSEMBLE, REQUEST, STREAM)] == [count + 1 for count in before]
    finally:
        flights.off()
    assert [HOST.listeners(name) for name in (ASSEMBLE, REQUEST, STREAM)] == before
    other = flights.on(9)
    assert other.capacity == 9
    flights.off()


def test_a_capacity_that_cannot_be_changes_nothing() -> None:
    flights = HostFlights()
    recorder = flights.on()
    flights.off()
    with pytest.raises(ConfigError, match="capacity"):
        flights.on(0)
    assert flights.recorder is recorder
    assert not flights.is_on
