import json
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cassette_lab.cassette.reader import read_cassette
from cassette_lab.cli.demo import COLUMNS, run_demo
from cassette_lab.cli.demo_agent import MODEL
from cassette_lab.errors import FormatError


@dataclass
class Demo:
    """A folder in which the demo has run twice, and what it said each time."""

    folder: Path
    first_said: str
    second_said: str
    recorded: bytes


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    folder = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MODEL, "pace", 0.05)
        patch.setattr(socket, "getaddrinfo", _refuse)
        patch.setattr(socket, "create_connection", _refuse)
        patch.chdir(folder)
        said: list[str] = []
        recorded: list[bytes] = []
        for _ in range(2):
            lines: list[str] = []
            patch.setattr("cassette_lab.cli.demo.say", lambda *each, lines=lines: lines.extend(each))
            assert run_demo(Path("out")) == 0
            said.append("\n".join(lines))
            recorded.append((folder / "out" / "first.cassette.jsonl").read_bytes())
        yield Demo(folder / "out", said[0], said[1], recorded[0])
    assert not MODEL.repaired


def _refuse(*address: object, **_: object) -> None:
    raise AssertionError(f"the demo wanted to talk to {address}")


def test_the_demo_records_replays_explains_compares_and_reports(demo: Demo) -> None:
    lines = demo.first_said.splitlines()
    for line in (
        "   audit-tests  TimeoutError: the test runner gave no answer",
        "   audit-docs   The guide still names v1; the upgrade page … (cut off: max-tokens)",
        "   questions to the model: 0",
        "   3 of 3 answers are what the live run gave",
        "   why: nothing recorded for this request; a call with the same label was recorded",
        "   different: 1 outcome changed",
        "   cassette-lab diff out/first.cassette.jsonl out/second.cassette.jsonl",
    ):
        assert line in lines
    assert any(line.startswith("   3 of 5 calls asked for, 2 below them covered; ") for line in lines)
    assert [line[0] for line in lines if line[:1].isdigit()] == list("123456")
    assert max(len(line) for line in lines) <= COLUMNS
    assert all(line == line.rstrip() for line in lines)
    assert sorted(path.name for path in demo.folder.iterdir()) == [
        "demo-report.html", "first.cassette.jsonl", "second.cassette.jsonl",
    ]  # fmt: skip


def test_the_demo_records_the_agent_as_it_is(demo: Demo) -> None:
    first, second = (read_cassette(demo.folder / f"{name}.cassette.jsonl") for name in ("first", "second"))
    calls = {call.call_key.split("/")[-1].rsplit("-", 1)[0]: call for call in first.interactions}
    assert set(calls) == {"audit-api", "audit-docs", "audit-tests", "check-login", "check-limits"}
    assert calls["check-login"].parent_key == calls["check-limits"].parent_key == calls["audit-api"].call_key
    assert calls["audit-tests"].outcome.kind == "result-error"
    assert calls["audit-docs"].outcome.result == {
        "output": [{"type": "text", "text": "The guide still names v1; the upgrade page"}],
        "stopReason": "max-tokens",
    }
    assert {call.group for call in first.interactions} == {call.group for call in second.interactions}
    assert {call.outcome.kind for call in second.interactions} == {"result"}


def test_a_second_demo_keeps_the_first_recording(demo: Demo) -> None:
    assert (demo.folder / "first.cassette.jsonl").read_bytes() == demo.recorded
    assert "   out/first.cassette.jsonl is there already and is kept; delete it to record anew" in demo.second_said
    assert "different: 1 outcome changed" in demo.second_said


def test_the_report_of_the_demo_is_self_contained_and_says_nothing_private(demo: Demo) -> None:
    report = (demo.folder / "demo-report.html").read_text(encoding="utf-8")
    assert "Repository audit, two runs" in report
    assert "Timing · 5 calls in both recordings" in report
    assert "GET /orders" not in report
    assert str(demo.folder.parent) not in report
    assert re.findall(r"https?://(?!www\.w3\.org/)", report) == []
    assert "default-src 'none'" in report
    assert report.count("data-cassette-view=") == 2, "the explorer, and both runs side by side"


def test_a_broken_recording_is_named(tmp_path: Path) -> None:
    (tmp_path / "first.cassette.jsonl").write_text(json.dumps({"kind": "cassette/header"}) + "\n", encoding="utf-8")
    with pytest.raises(FormatError, match=r"first\.cassette\.jsonl, line 1"):
        run_demo(tmp_path)
    assert not (tmp_path / "second.cassette.jsonl").exists()
