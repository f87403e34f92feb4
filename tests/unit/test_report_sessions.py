"""Reports of labs with session logs: what is told of them, what is not claimed, and nothing that was said."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import cassette_lab as cl
from cassette_lab.errors import ConfigError
from tests.unit.cassette_samples import siblings
from tests.unit.cassette_samples import write as write_cassette
from tests.unit.test_report import Page, write

SAMPLES = Path(__file__).parents[2] / "notebooks" / "samples" / "sessions"
SECTIONS = [
    "Explorer", "Sessions", "What to know about the logs", "Where the time went", "What happened when", "Statistics",
]  # fmt: skip


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Page]:
    return write(tmp_path_factory.mktemp("report"), cl.load(SAMPLES))


def test_sessions_have_their_sections_and_no_empty_ones_of_calls(told: tuple[str, Page]) -> None:
    html, page = told
    assert page.headings == ["Agent sessions", *SECTIONS]
    assert "5 sessions · 8 turns · 16 model calls · 8 tool calls (3 errors) · 4,946 tokens in, 528 out" in page.text
    assert not re.search(r"(?<!\d)0 calls", page.text)
    for words in ("night-report", "\N{EM SPACE}run-tests", "TORN_TAIL", "11 min 02 s", "open", "limit", "6.2 s idle"):
        assert words in page.text, words
    before_statistics = html[: html.index('<section id="statistics"')]
    assert before_statistics.count("<figure") == 3, "where the time went, and a waterfall for each of two runs"
    assert len(page.rows("clab-explorer-sessions")) == 5
    assert len(page.rows("clab-explorer-model_calls")) == 20, "those taken over from a parent, too"


def test_it_claims_no_hash_chain_and_tells_what_is_torn(told: tuple[str, Page]) -> None:
    _, page = told
    assert "verified" not in page.text
    assert page.options("explorer")["trust"]["state"] == "partial"
    assert "read up to a torn tail of" in page.text
    assert (
        "5 session logs read: every row, and none is missing in between (a log has no hash chain); "
        "the end of 1 was torn and left out; 1 ended within a turn, or is still written"
    ) in page.text


def test_a_session_report_loads_nothing_and_says_nothing_of_what_was_said(told: tuple[str, Page]) -> None:
    html, page = told
    assert not {tag for tag, _ in page.tags} & {"link", "iframe", "img", "object"}
    assert "default-src 'none'" in html
    for said in (html, page.data):
        assert "login" not in said
        assert "rate limit" not in said.lower().replace("rate_limit", "")


def test_cassettes_and_sessions_stand_in_one_report(tmp_path: Path) -> None:
    write_cassette(tmp_path / "a.cassette.jsonl", siblings())
    lab = cl.load(tmp_path / "a.cassette.jsonl", SAMPLES / "--srv-orders--" / "check-limits", bodies=True)
    html, page = write(tmp_path, lab, bodies=True)
    assert page.headings[1:3] == ["Summary", "Explorer"]
    assert {"Sessions", "Where the time went", "Calls"} <= set(page.headings)
    assert "every cassette verified: schema, order, hash chain" in page.text
    assert "✓ 1 session log read: every row" in page.text
    assert "Which routes have no" not in html
    assert "Prompts, outputs and error messages of the calls are included." in page.text


def test_a_file_that_was_not_read_is_told_beside_the_sessions(tmp_path: Path) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "session.jsonl").write_text('{"type": "session", "version": 99}\n')
    _, page = write(tmp_path, cl.load(SAMPLES / "--srv-orders--" / "run-tests", tmp_path / "bad", on_error="collect"))
    assert "1 problem: what could not be verified is not in this report" in page.text
    assert page.headings[1:] == ["Problems", "Explorer", "Sessions", "Where the time went", "What happened when", "Statistics"]


def test_session_logs_are_not_compared_as_cassettes(tmp_path: Path) -> None:
    write_cassette(tmp_path / "a.cassette.jsonl", siblings())
    for data, other in ((SAMPLES, tmp_path / "a.cassette.jsonl"), (tmp_path / "a.cassette.jsonl", SAMPLES)):
        with pytest.raises(ConfigError, match="has no cassette"):
            cl.report(data, tmp_path / "report.html", compare=other)
    assert not (tmp_path / "report.html").exists()


def test_files_of_far_apart_folders_tell_no_folders_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = tmp_path / "home" / "someone" / "here", tmp_path / "data" / "secret" / "runs"
    for folder in (here, there):
        folder.mkdir(parents=True)
        write_cassette(folder / "a.cassette.jsonl", siblings())
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", str(here.parent))
    lab = cl.load("a.cassette.jsonl", there / "a.cassette.jsonl")
    assert lab.root == tmp_path
    assert set(lab.calls["source"].to_pylist()) == {"home/someone/here/a.cassette.jsonl", "data/secret/runs/a.cassette.jsonl"}
    html, page = write(tmp_path, lab)
    assert "someone" not in html + page.data
    assert "secret" not in html + page.data
    assert {"a.cassette.jsonl", "runs/a.cassette.jsonl"} <= set(page.words)
    assert len(page.rows("clab-explorer-calls")) == len(lab.calls)
