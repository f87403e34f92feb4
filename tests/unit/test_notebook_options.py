"""The words of ``%cassette``: parsing, mistakes in one sentence, help, completion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from IPython.core.completer import CompletionContext

from cassette_lab.cassette.config import CassetteConfig
from cassette_lab.notebook.completion import candidates, cassette_matcher
from cassette_lab.notebook.options import RECORDING, REPLAYING, VERBS, Command, UsageError, help_text, parse, verb_help


def test_every_option_of_a_recording() -> None:
    line = (
        r"record 'my runs/a b.jsonl' --write-mode append --request-storage full --no-redact --pattern \d{4} --pattern '$x {y}'"
        " --redact-labels --upstream fork --fsync=each --max-wait 2.5 --time"
    )
    assert parse(line, {"x": 1, "y": 2}) == Command(
        "record",
        ("my runs/a b.jsonl",),
        {
            "write_mode": "append",
            "request_storage": "full",
            "redact_secrets": False,
            "redaction_patterns": (r"\d{4}", "$x {y}"),
            "redact_labels": True,
            "upstream_provider": "fork",
            "fsync": "each",
            "max_wait_s": 2.5,
        },
        timed=True,
    )


def test_every_option_of_a_replay() -> None:
    line = (
        "replay a --timing recorded --speed 0.5 --duplicates sequence --allow-redacted --no-assert-consumed --nested strict"
        " --provider tape"
    )
    assert parse(line).given == {
        "timing": "recorded",
        "speed": 0.5,
        "duplicate_policy": "sequence",
        "allow_redacted_replay": True,
        "assert_consumed": False,
        "nested": "strict",
        "provider": "tape",
    }


def test_the_table_knows_the_configuration() -> None:
    options = {option.name: option for option in (*RECORDING, *REPLAYING)}
    config = CassetteConfig()
    assert set(options) | {"mode", "file", "provider"} == set(CassetteConfig.__dataclass_fields__)
    for name, option in options.items():
        for value in option.values:
            given: dict[str, Any] = {name: value}
            CassetteConfig(**given)
        if option.values and name != "nested":  # nested: the magics count calls under a replayed one as made
            assert getattr(config, name) == option.values[0]


def test_a_tilde_is_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert parse("record ~/a.jsonl").files == ("/home/ada/a.jsonl",)
    assert parse("load ~/runs/*.jsonl b~c").files == ("/home/ada/runs/*.jsonl", "b~c")
    rescue = parse("rescue '~/torn.jsonl' -o ~/whole.jsonl")
    assert (rescue.files, rescue.given["out"]) == (("/home/ada/torn.jsonl",), "/home/ada/whole.jsonl")


@pytest.mark.parametrize(
    ("line", "files"),
    [
        ("load $folder/*.jsonl '{folder}/x y'", ("runs/*.jsonl", "runs/x y")),
        ("load {folder} {paths[1]}", ("runs", "b")),
        ("load $unknown {unknown}", ("$unknown", "{unknown}")),
        ("load $$folder", ("$folder",)),
        ("record", ()),
    ],
)
def test_variables_are_filled_in(line: str, files: tuple[str, ...]) -> None:
    assert parse(line, {"folder": "runs", "paths": ["a", "b"]}).files == files


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("", "needs a verb"),
        ("recrd a", "did you mean record?"),
        ("xyz a", "there are record, replay"),
        ("replay", "takes one file, not 0"),
        ("diff a", "takes 2 files, not 1"),
        ("load", "or more, not 0"),
        ("stop a", "takes no file, not 1"),
        ("record a b", "at most one file, not 2"),
        ("record 'a", "a quote is opened and never closed"),
        ("replay a --timng instant", "did you mean --timing?"),
        ("replay a --zzz", "%cassette replay --help lists its options"),
        ("verify a --timing=instant", "--timing belongs to record and replay, not to verify"),
        ("record a --timing instant", "--timing is for replay, or for record --write-mode once"),
        ("replay a --timing fast", "--timing"),
        ("replay a --speed quick", "--speed"),
        ("replay a --speed", "--speed"),
        ("record --harness", "--harness needs a folder: %%cassette record FOLDER --harness"),
        ("record a --model large", "--model is for a run of the harness: %%cassette record FOLDER --harness"),
        ("replay a --strict", "--strict is for a run of the harness"),
        ("record a --harness --fsync each", "--fsync is for cassettes, and not for --harness"),
        ("record a --harness --strict", "--strict belongs to replay, not to record"),
        ("replay a --harness --base-url http://x", "--base-url belongs to record, not to replay"),
        ("record a --harness --write-mode once", "with --harness, --write-mode is create or truncate"),
    ],
)
def test_a_mistake_is_one_sentence(line: str, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(line)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_record_once_takes_the_options_of_replay() -> None:
    assert parse("record a --write-mode once --timing recorded").given == {"write_mode": "once", "timing": "recorded"}


def test_every_option_of_a_run_of_the_harness(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    line = "record runs/a --harness --model large --base-url {url} --api-key-env KEY --cwd ~/work --write-mode truncate --time"
    given = {"harness": True, "model": "large", "base_url": "http://x", "api_key_env": "KEY", "cwd": "/home/ada/work"}
    assert parse(line, {"url": "http://x"}) == Command("record", ("runs/a",), {**given, "write_mode": "truncate"}, timed=True)
    assert parse("record a --harness --no-key").given == {"harness": True, "api_key_env": None}
    with pytest.raises(UsageError, match="--no-key and --api-key-env"):
        parse("record a --harness --no-key --api-key-env KEY")
    assert parse("replay a --harness --strict --cwd b").given == {"harness": True, "strict": True, "cwd": "b"}


def test_help_names_everything() -> None:
    text = help_text()
    for verb in VERBS.values():
        assert f"%cassette {verb.usage}" in text
        for option in verb.options:
            assert option.flag in text
            assert option.usage in verb_help(verb)
    assert max(map(len, text.splitlines())) <= 120


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("run one.jsonl", "run.jsonl", "notes.txt", ".hidden.jsonl", "deep/inner.jsonl"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    (tmp_path / "run.jsonl.writer.lock").mkdir()
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "fragment", "words"),
    [
        (" ", "", list(VERBS)),
        (" re", "re", ["record", "replay", "rescue"]),
        (" nothing x", "x", []),
        (" replay r", "r", ['"run one.jsonl"', "run.jsonl"]),
        (' replay "run ', '"run ', ['"run one.jsonl"']),
        (" replay 'r", "'r", ["'run one.jsonl'", "'run.jsonl'"]),
        (" replay deep/", "deep/", ["deep/inner.jsonl"]),
        (" replay .h", ".h", [".hidden.jsonl"]),
        (" replay missing/", "missing/", []),
        (" load d", "d", ["deep/"]),
        (" replay run.jsonl --ti", "--ti", ["--timing", "--time"]),
        (" replay run.jsonl --timing ", "", ["instant", "recorded"]),
        (" replay run.jsonl --timing=r", "--timing=r", ["--timing=recorded"]),
        (" replay a --timing instant --ti", "--ti", ["--time"]),
        (" record a --pattern x --pat", "--pat", ["--pattern"]),
        (" record a --upstream f", "f", ["fork"]),
        (" rescue run.jsonl -o ", "", ['"run one.jsonl"', "deep/", "run.jsonl"]),
        (" status ", "", []),
        (" stop ", "", ["--max-wait"]),
    ],
)
def test_completion(arguments: str, fragment: str, words: list[str]) -> None:
    found = candidates(arguments, lambda: ["spawn", "fork"])
    assert found[0] == fragment
    assert sorted(found[1]) == sorted(words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("%cassette ver", ["verify"]),
        ("%%cassette rep", ["replay"]),
        ("lab = %cassette loa", ["load"]),
        ("    %cassette sta", ["status"]),
        ("%cassettes ver", []),
        ("cassette.ver", []),
        ("x = 5 %cassette", []),
    ],
)
def test_only_lines_of_the_magic_are_completed(text: str, words: list[str]) -> None:
    cell = f"import os\n{text}\nx = 1"
    context = CompletionContext(token="", full_text=cell, cursor_position=len(text), cursor_line=1, limit=None)
    result = cassette_matcher(context)
    assert [completion.text for completion in result["completions"]] == words
    assert result.get("suppress", False) is bool(words)
