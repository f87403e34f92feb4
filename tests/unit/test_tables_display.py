"""What a lab with sessions shows of itself, in a terminal and in a notebook: how many, when, tokens, problems."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cassette_lab.notebook import reports
from cassette_lab.notebook.options import parse
from cassette_lab.tables import Lab, load
from tests.unit.cassette_samples import siblings
from tests.unit.cassette_samples import write as write_cassette
from tests.unit.session_samples import START_MS, header, text, turn, write
from tests.unit.session_told import ev, finish, message


def _session(folder: Path, name: str, *, days: int = 0, torn: bool = False, **members: Any) -> None:
    usage = {"inputTokens": 1_000, "outputTokens": 20, "cacheReadTokens": 300}
    rows = [ev("turn/start", {"turn": 1}), finish(), message("hi", at=1, usage=usage)]
    rows += [] if torn else [ev("turn/end", {"turn": 1, "reason": {"kind": "completed"}}, 60_000)]
    lines = text(
        header(id=name, **members),
        *({**each, "seq": seq, "time": each["time"] + days * 86_400_000} for seq, each in enumerate(rows)),
    )
    write(folder / name[:8].strip("\x1b") / "session.jsonl", lines + (b'{"ty' if torn else b""))


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    _session(tmp_path, "a-root")
    _session(tmp_path, "b-child", days=1, torn=True, parentSession="a-root")
    write_cassette(tmp_path / "c.cassette.jsonl", siblings())
    return load(tmp_path)


def test_it_tells_count_span_tokens_and_problems(lab: Lab) -> None:
    shown = repr(lab)
    assert shown.startswith("✓ 1 cassette verified · 8 calls")
    assert "2 sessions · 2 turns" in shown
    span = "2027-01-15 08:00 to 2027-01-16 08:00 UTC"
    assert f"  {span} · 2,000 tokens in, 600 from caches, 40 out · 1 log with notes: lab.notes\n" in shown
    assert "  a-root · 2027-01-15 08:00 · 1 turn · 1 model call · completed\n" in shown
    assert "  b-child · of a-root · 2027-01-16 08:00 · 1 turn · 1 model call · open · 1 note\n" in shown
    html = lab._repr_mimebundle_()["text/html"]
    assert span in html
    for cell in ("a-root", "b-child", "2027-01-16 08:00", "1,000", "300", "20", "completed", "open", "c.cassette.jsonl"):
        assert f"<bdi>{cell}</bdi>" in html


def test_of_many_the_first_are_shown(tmp_path: Path) -> None:
    for number in range(13):
        _session(tmp_path, f"s{number:02}")
    lab = load(tmp_path)
    assert "s09 · " in repr(lab)
    assert "s10 · " not in repr(lab)
    assert "… and 3 more sessions: lab.to_pandas('sessions')" in repr(lab)
    assert "2027-01-15 08:00 to 08:01 UTC · 13,000 tokens in" in repr(lab)


def test_what_no_log_says_is_no_number(tmp_path: Path) -> None:
    write(tmp_path / "session.jsonl", text({"type": "session", "id": "bare"}))
    assert "\n  tokens unknown\n  bare · 0 turns · 0 model calls\n" in repr(load(tmp_path))
    assert "tokens unknown" not in repr(load(write_cassette(tmp_path / "c.cassette.jsonl", siblings())))


def test_names_are_shown_escaped(tmp_path: Path) -> None:
    _session(tmp_path, "\x1b<b>x", parentSession="y" * 100_000)
    lab = load(tmp_path)
    html = lab._repr_mimebundle_()["text/html"]
    assert r"\u{001b}&lt;b&gt;x" in html
    assert "<b>x" not in html
    assert "\x1b" not in html + repr(lab)
    assert len(html) < 10_000


def test_the_magic_shows_the_sessions_of_a_folder(tmp_path: Path) -> None:
    write(tmp_path / "s" / "session.jsonl", text(header(createdAt=START_MS), *turn()))
    lab = reports.load(parse(f"load {tmp_path}", {}))
    assert "1 session · 1 turn" in repr(lab)
    assert "sample · 2027-01-15 08:00 · 1 turn · 1 model call" in repr(lab)
