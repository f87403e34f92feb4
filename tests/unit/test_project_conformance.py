"""The conformance runner: what it prints and the exit code it ends with."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cassette_lab.cassette.diff import diff
from tests.conformance import run
from tests.conformance.__main__ import main
from tests.conformance.case import Case
from tests.unit.cassette_samples import DATA
from tests.unit.flight_samples import record

HELP = {"id": "help", "args": ["--help"], "exitCode": 0, "stdout": True, "stderr": False, "stdoutIsJson": False}


def vectors(folder: Path, *command_lines: dict[str, object]) -> str:
    (folder / "cli").mkdir(exist_ok=True)
    (folder / "cli" / "exit-codes.json").write_text(json.dumps(command_lines))
    return str(folder)


def test_a_directory_whose_vectors_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--golden", vectors(tmp_path, HELP, HELP)]) == 0
    assert capsys.readouterr().out == "cli: 2 passed, 0 failed\n2 passed, 0 failed\n"


def test_a_vector_that_fails_is_named_and_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = {**HELP, "id": "wrong", "exitCode": 2}
    broken: dict[str, object] = {"id": "broken"}
    assert main(["--golden", vectors(tmp_path, HELP, wrong, broken), "--kind", "cli"]) == 1
    captured = capsys.readouterr()
    assert captured.out == "cli: 1 passed, 2 failed\n1 passed, 2 failed\n"
    assert "cli wrong: exitCode is 0, not 2" in captured.err
    assert "cli broken: KeyError: 'args'" in captured.err


def test_vectors_that_cannot_be_read_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vectors(tmp_path)
    (tmp_path / "cli" / "exit-codes.json").write_text("[{")
    assert main(["--golden", str(tmp_path)]) == 1
    assert "the vectors cannot be read" in capsys.readouterr().err


def test_a_deviation_is_neither_passed_nor_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def cases(_folder: Path) -> Iterator[Case]:
        yield Case("one", lambda: None)
        yield Case("two", lambda: "by rule")
        yield Case("three", lambda: "by rule")

    monkeypatch.setattr(run, "_cases", lambda _folder, _kind: cases)
    assert main(["--golden", vectors(tmp_path)]) == 0
    assert capsys.readouterr().out == "cli: 1 passed, 0 failed\ndeviates: 2 (by rule)\n1 passed, 0 failed\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--golden", "{folder}/missing"],
        ["--golden", "{folder}/empty"],
        ["--golden", "{folder}/no-vectors"],
        ["--golden", "{folder}/unknown"],
        ["--golden", "{folder}/no-vectors", "--kind", "nothing"],
        ["--golden", "{folder}/no-vectors", "--kind", "case"],
    ],
)
def test_where_there_is_nothing_to_run_the_exit_code_is_2(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "no-vectors" / "cli").mkdir(parents=True)
    (tmp_path / "unknown" / "case").mkdir(parents=True)
    assert main([argument.format(folder=tmp_path) for argument in arguments]) == 2
    assert capsys.readouterr().err.startswith(("conformance: ", "  cli: "))


def test_an_unknown_kind_beside_known_ones_is_not_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "no-such-kind").mkdir()
    assert main(["--golden", vectors(tmp_path, HELP)]) == 2
    assert "no-such-kind" in capsys.readouterr().err


def test_files_of_a_kind_may_be_left_out_and_cassettes_may_be_packed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "identity").mkdir()
    script = {"id": "peek", "inheritsParentContext": False, "steps": [{"op": "peekParentKey", "parent": {"id": "a"}}]}
    script["steps"][0]["expect"] = {"parentKey": "root"}  # type: ignore[index]
    (tmp_path / "identity" / "topology.json").write_text(json.dumps([script]))
    (tmp_path / "diff" / "files").mkdir(parents=True)
    packed = gzip.compress((DATA / "full.cassette.jsonl").read_bytes())
    (tmp_path / "diff" / "files" / "a.cassette.jsonl.gz").write_bytes(packed)
    missing = {"id": "b", "expected": "a.cassette.jsonl", "actual": "b.cassette.jsonl", "error": "CASSETTE_FORMAT"}
    same: dict[str, object] = {
        "id": "a",
        "expected": "a.cassette.jsonl",
        "actual": "a.cassette.jsonl",
        "error": None,
        "exitCode": 0,
    }
    same["diff"] = diff(DATA / "full.cassette.jsonl", DATA / "full.cassette.jsonl").to_dict()
    (tmp_path / "diff" / "cases.json").write_text(json.dumps([same, missing]))
    assert main(["--golden", str(tmp_path)]) == 0
    assert capsys.readouterr().out.endswith("3 passed, 0 failed\n")


def test_replays_of_sessions_have_a_layout_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "replay").mkdir()
    (tmp_path / "sessions").mkdir()
    (tmp_path / "sessions" / "some.jsonl").write_text("{}\n")
    given = [
        {"id": "inline", "op": "parseSessionLog", "input": {"text": "{}"}, "expect": {"ok": []}},
        {"id": "file", "op": "deriveFile", "input": {"file": {"ref": "sessions/some.jsonl"}}, "expect": {"ok": []}},
        {"id": "wrong", "op": "parseSessionLog", "input": {"text": "{}\n["}, "expect": {"error": "something-else"}},
    ]
    (tmp_path / "replay" / "vectors.json").write_text(json.dumps({"vectors": given}))
    assert main(["--golden", str(tmp_path), "--kind", "replay"]) == 1
    captured = capsys.readouterr()
    assert captured.out == "replay: 2 passed, 1 failed\n2 passed, 1 failed\n"
    assert "replay wrong: parseSessionLog" in captured.err


def test_flight_records_have_a_layout_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "diff").mkdir()
    nothing = {"fromId": "r1", "toId": "r2", "changed": False, "changes": []}
    pair = {"from": record("r1").to_json(), "to": record("r2").to_json(), "tags": []}
    given = [{"id": "same", **pair, "expected": nothing}, {"id": "wrong", **pair, "expected": {**nothing, "changed": True}}]
    (tmp_path / "diff" / "vectors.json").write_text(json.dumps({"kind": "diff", "cases": given}))
    (tmp_path / "state").mkdir()
    steps = [{"op": "query", "query": {"limit": 0}, "expected": {"threw": "range-error", "revision": 1}}]
    scenarios: list[dict[str, object]] = [
        {"id": "refused", "capacity": 0, "steps": [], "expected": {"constructThrew": "range-error"}}
    ]
    scenarios.append({"id": "other", "capacity": 1, "steps": steps, "expected": {}})
    (tmp_path / "state" / "scenarios.json").write_text(json.dumps({"scenarios": scenarios}))
    assert main(["--golden", str(tmp_path)]) == 1
    captured = capsys.readouterr()
    assert captured.out == "diff: 1 passed, 1 failed\nstate: 1 passed, 1 failed\n2 passed, 2 failed\n"
    assert "diff wrong: diff" in captured.err
    assert "state other: step 1 (query)" in captured.err
