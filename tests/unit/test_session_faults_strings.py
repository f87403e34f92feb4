"""Hostile texts in every member of a log: control sequences, bidi marks, HTML, halves of surrogate pairs, endless names.
Whatever shows sessions shows them escaped, and no more of them than a screen can hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import cassette_lab as cl
from cassette_lab.cli import main
from tests.unit.session_files import asked, log_file
from tests.unit.session_told import AT, ev

HOSTILE = {
    "ansi": "\x1b[31m\x1b]0;title\x07\x9b31m",
    "bidi": "\u202eabc\u2066\u200f",
    "html": "<script>alert(1)</script>'\"&<img src=x onerror=y>",
    "lines": "a\r\nb\u2028c\x85d\x0b\0",
    "surrogate": "\ud83d!\udc00",
    "long": "x" * 200_000,
    "markup": "[bold]x[/bold] {x} %s `$y$`",
    "empty": "",
}
_LONGEST = 20_000


def rows(said: str) -> list[dict[str, Any]]:
    """Two turns in which every text is this one."""
    result = {"role": "tool", "toolCallId": said, "content": [{"type": "text", "text": said}], "isError": True}
    source = {"kind": "subagent-settled", "senderSessionId": said}
    ended = asked(1, end={"kind": said, "reason": {"kind": said}, "error": {"code": said, "message": said}})
    return [
        *asked(2),
        ev("request/header", {"header": {"config": {"provider": said, "model": said}}}, 40),
        ev("user/message", {"content": [{"type": "text", "text": said}], "source": source}, 41, surfaceOp=said),
        ev("subagent/catalog", {"childId": said, "mode": said, "label": said}, 42),
        ev("subagent/descriptor", {"mode": said, "provider": said, "label": said}, 43),
        ev("session/title", {"title": said}, 44),
        ev("tool/call", {**AT, "callId": said, "name": said, "arguments": said}, 45),
        ev("tool/result", {**AT, "message": result, "error": {"name": said, "code": said}}, 46, surfaceOp="append"),
        ev("llm/retry", {"retryId": said, "failure": {"code": said}}, 47),
        ev("compaction/summary", {"compactionId": said, "provider": said, "model": said}, 48),
        ev(said or "x", {said: said}, 49),
        ev("assistant/chunk", {**AT, "chunk": {"type": "finish", "reason": {"kind": said, "failure": {"code": said}}}}, 50),
        *ended,
    ]


@pytest.fixture(params=HOSTILE)
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    said = HOSTILE[request.param]
    members: dict[str, Any] = {"id": said or "e", "parentSession": said, "cwd": said, "origin": said, "agentPreset": said}
    return log_file(tmp_path / "log" / "session.jsonl", *rows(said), **members)


def check(shown: str, *, longest: int = _LONGEST) -> None:
    assert [character for character in set(shown) if not (character.isprintable() or character == "\n")] == []
    assert len(shown) <= longest


def test_the_lab_its_tree_and_its_answers_show_texts_escaped(log: Path) -> None:
    lab = cl.load(log, bodies=True)
    assert len(lab.events) == len(rows("")) == len(lab.build_events())
    answer = lab.sql("select * from tool_calls where not inherited")
    for shown in (lab, lab.tree(), answer):
        check(repr(shown))
        bundle = shown._repr_mimebundle_()
        check(bundle["text/html"])
        assert "<script" not in bundle["text/html"]
        assert "<img" not in bundle["text/html"]


def test_the_command_line_shows_texts_escaped(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["sessions", str(log.parent)], ["session", str(log)]):
        assert main(words) == 0
        told = capsys.readouterr()
        check(told.out + told.err)
        assert main([*words, "--json"]) == 0
        document = capsys.readouterr().out
        check(document, longest=100_000_000)
        assert json.loads(document)
    lines = len(told.out.splitlines())
    assert main(["session", str(log), "--id", "another"]) == 1
    refusal = capsys.readouterr().err
    check(refusal)
    assert (refusal.count("\n"), lines < 40) == (1, True)


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_wrong_with_a_log_is_told_escaped(name: str) -> None:
    said = HOSTILE[name] or "x"
    broken: list[tuple[Any, list[Any]]] = [
        ({"type": "session", "version": 4, "id": "a", "createdAt": 1, "isSeeded": True, "delegationDepth": 0, said: 1}, []),
        ({"type": "session", "id": "a", "cwd": [said]}, []),
        ({"type": "session", "id": "a"}, [{"type": said, "seq": 5}, ev("turn/end")]),
        ({"type": "session", "id": "a"}, [{"type": "text-chunks", "seq0": 0, "data": {said: 1}}, {"type": "turn/end"}]),
        ({"type": said, "id": said}, []),
    ]
    for header, events in broken:
        data = "".join(json.dumps(each) + "\n" for each in (header, *events)).encode()
        with pytest.raises(cl.FormatError) as caught:
            cl.open_session(data, path="a log")
        check(str(caught.value), longest=400)
        assert "\n" not in str(caught.value)
