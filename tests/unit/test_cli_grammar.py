"""Commands, options and operands of the command line."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from cassette_lab import __version__
from cassette_lab.cli import main
from cassette_lab.cli.grammar import Call, Command, Option, UsageError, count, one_of

COMMAND = Command(
    "frob",
    "FILE...",
    (1, 2),
    "does it",
    lambda call: len(call.operands),
    (
        Option("--json", "json", "as JSON"),
        Option("-o", "out", "where to", "FOLDER"),
        Option("--format", "format", "how", "FORMAT", one_of("a", "b")),
        Option("--workers", "workers", "how many", "N", count),
    ),
)


@pytest.mark.parametrize(
    ("words", "operands", "options"),
    [
        (["x"], ["x"], {}),
        (["--json", "x", "--json", "y"], ["x", "y"], {"json": True}),
        (["x", "-o", "there", "--workers=3"], ["x"], {"out": "there", "workers": 3}),
        (["x", "--format", "a", "--format=b"], ["x"], {"format": "b"}),
        (["-o", "--json", "x"], ["x"], {"out": "--json"}),
    ],
)
def test_options_stand_anywhere_and_may_repeat(
    words: Sequence[str], operands: Sequence[str], options: dict[str, object]
) -> None:
    assert COMMAND.parse(words) == Call(operands, options)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "takes FILE..., not 0"),
        (["x", "y", "z"], "takes FILE..., not 3"),
        (["x", "--nope"], "no option --nope"),
        (["x", "--jso"], "no option --jso"),
        (["x", "--json=true"], "no option --json=true"),
        (["--", "x"], "no option --"),
        (["x", "-h"], "no option -h"),
        (["x", "-"], "no option -"),
        (["x", "-o"], "-o needs a value: -o FOLDER"),
        (["x", "--format", "c"], "--format takes one of a, b, not 'c'"),
        (["x", "--workers", "0"], "--workers takes a whole number from 1, not '0'"),
        (["x", "--workers", "²"], "--workers takes a whole number from 1"),
    ],
)
def test_what_makes_no_command_is_one_sentence(words: Sequence[str], sentence: str) -> None:
    with pytest.raises(UsageError) as error:
        COMMAND.parse(words)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_help_names_every_command_and_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    for word in ("verify FILE", "inspect FILE", "diff EXPECTED ACTUAL", "load PATH...", "rescue FILE", "demo", "--break-lock"):
        assert word in shown


def test_help_of_a_command_is_of_that_one_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["load", "runs", "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("usage: cassette-lab load PATH... [options]\n\n  write verified tables")
    assert "--on-error WHAT" in shown
    assert "rescue" not in shown


def test_help_wins_wherever_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["frob", "--nope", "--help"]) == 0
    assert capsys.readouterr().err == ""


def test_an_unknown_command_names_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["insp\x1b[2Ject"]) == 1
    error = capsys.readouterr().err
    assert "verify, inspect, diff, load, report, rescue, sessions, session, serve-replay, nbhtml, strip, demo" in error
    assert "\x1b" not in error


def test_the_version_is_the_package_s(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"cassette-lab {__version__}\n"
