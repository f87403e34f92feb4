from __future__ import annotations

import builtins
import copy
import pickle
import traceback
from pathlib import Path
from typing import Any

import pytest

from cassette_lab.cassette.failures import error_facts, recorded_error
from cassette_lab.cassette.model import ErrorFacts
from cassette_lab.cassette.reader import read_cassette
from cassette_lab.errors import (
    CassetteLabError,
    ExistingFileError,
    FormatError,
    MismatchError,
    MissingFileError,
    RecordedAbortError,
)


def test_an_error_names_file_and_line_in_front_of_its_sentence() -> None:
    assert str(CassetteLabError("it broke")) == "it broke"
    assert str(FormatError("it broke", path=Path("runs/a b.jsonl"), line=3)) == "runs/a b.jsonl, line 3: it broke"
    assert str(FormatError("it broke", line=3)) == "line 3: it broke"
    assert str(FormatError("it broke", path="")) == '"": it broke'


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("\x1b[2J.jsonl", "\\u{001b}[2J.jsonl"),
        ("gpj.\u202elnosj", "gpj.\\u{202e}lnosj"),
        ("two\nlines", "two\\u{000a}lines"),
        ("\udcff", "\\u{dcff}"),
        ("nul\0", "nul\\u{0000}"),
        ("größe 😀", "größe 😀"),
    ],
)
def test_a_hostile_file_name_is_shown_escaped_and_kept_as_it_is(tmp_path: Path, name: str, shown: str) -> None:
    with pytest.raises(FormatError) as caught:
        read_cassette(tmp_path / name)
    assert str(caught.value).startswith(f"{tmp_path}/{shown}: ")
    assert caught.value.path == str(tmp_path / name)


def test_a_mismatch_says_why_before_where() -> None:
    assert str(MismatchError("nothing fits", path="runs/a.jsonl")) == "nothing fits (in runs/a.jsonl)"
    assert str(MismatchError("nothing fits")) == "nothing fits"
    assert str(MismatchError("nothing fits", path="\x1b")) == "nothing fits (in \\u{001b})"


def travelled(error: Any) -> Any:
    """``error`` as another process gets it."""
    return pickle.loads(pickle.dumps(error))  # noqa: S301 - our own


def raised_by_builtins() -> list[Exception]:
    """An instance of every builtin exception, made as its kind asks, with odd messages."""
    errors: list[Exception] = [
        KeyError("a"),
        KeyError("it's"),
        KeyError("a", "b"),
        OSError(2, "No such file", "name"),
        ConnectionResetError(104, "reset"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        UnicodeEncodeError("utf-8", "\ud800", 0, 1, "bad"),
        UnicodeTranslateError("x", 0, 1, "bad"),
        ExceptionGroup("several", [ValueError("one")]),
        SyntaxError("bad", ("file", 1, 1, "text", 1, 2)),
        ImportError("no", name="x", path="y"),
        AttributeError("no", name="x", obj=1),
        NameError("no", name="x"),
        StopIteration("value"),
        Exception(),
        ValueError("\ud800\x00"),
    ]
    for kind in vars(builtins).values():
        if isinstance(kind, type) and issubclass(kind, Exception):
            try:
                errors.append(kind("plain"))
            except TypeError:
                continue
    return errors


@pytest.mark.parametrize("error", raised_by_builtins(), ids=lambda error: type(error).__name__)
def test_a_replayed_error_says_what_was_recorded(error: Exception) -> None:
    facts = error_facts(error)
    replayed = recorded_error(facts)
    for each in (replayed, travelled(replayed), copy.copy(replayed)):
        assert str(each) == facts.message == str(error)
        assert each.recorded_name == type(error).__name__
        assert isinstance(repr(each), str)
        assert error_facts(each) == facts
    assert facts.message in "".join(traceback.format_exception(replayed)) or not facts.message.isascii()


@pytest.mark.parametrize("kind", [MissingFileError, ExistingFileError])
def test_errors_about_files_travel(kind: type[FormatError]) -> None:
    error = travelled(kind("no", path="a"))
    assert (type(error), str(error), error.path) == (kind, "a: no", "a")


def test_an_abort_at_the_start_is_one_in_replay() -> None:
    error = recorded_error(ErrorFacts("AbortError", "stopped", "ABORTED"))
    assert isinstance(error, RecordedAbortError)
    assert isinstance(error, TimeoutError)
    assert error_facts(travelled(error)) == ErrorFacts("AbortError", "stopped", "ABORTED")
