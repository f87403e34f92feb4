"""Vectors of ``cli/``: exit codes of the command line, what its output escapes, and JavaScript's white space."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from cassette_lab import jsonio
from cassette_lab.cli import main
from cassette_lab.jsonio.text import is_blank, js_trim, pretty, show
from cassette_lab.jsonio.whitespace import JS_WHITESPACE
from tests.benchmarks.generate import cassette_file
from tests.conformance.case import Case


def cases(folder: Path) -> Iterator[Case]:
    """One case for each command line and each table of characters that is there."""
    for name, make in (
        ("exit-codes.json", _command_lines),
        ("escaped-codepoints.json", _escapes),
        ("js-whitespace.json", _white_space),
    ):
        if (folder / name).is_file():
            yield from make(jsonio.parse((folder / name).read_bytes()))


def _command_lines(vectors: list[dict[str, Any]]) -> Iterator[Case]:
    for vector in vectors:
        yield Case(vector["id"], partial(_check_command_line, vector))


def _check_command_line(vector: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stands_for = {
            "FILE": str(cassette_file(folder, 3, "mixed")),
            "MISSING": str(folder / "missing.cassette.jsonl"),
            "DIR": str(folder),
        }
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([stands_for.get(word, word) for word in vector["args"]])
    seen = {
        "exitCode": code,
        "stdout": bool(out.getvalue()),
        "stderr": bool(err.getvalue()),
        "stdoutIsJson": _is_json(out.getvalue()),
    }
    for member, value in seen.items():
        assert value == vector[member], f"{member} is {value}, not {vector[member]} ({err.getvalue().strip()})"


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _escapes(table: dict[str, Any]) -> Iterator[Case]:
    escaped = {code for first, last in table["ranges"] for code in range(first, last + 1)}
    yield Case("escaped-for-a-person", partial(_check_shown, escaped))
    yield Case("escaped-in-json", partial(_check_json, escaped))


def _check_shown(escaped: set[int]) -> None:
    for code in escaped:
        assert show(chr(code)) == f"\\u{{{code:04x}}}", f"U+{code:04X} is shown as {show(chr(code))!r}"
    for text in _plain_texts(escaped):
        assert show(text) == text, f"something from U+{ord(text[0]):04X} on is escaped"


def _check_json(escaped: set[int]) -> None:
    for code in escaped:
        text = pretty(chr(code))
        assert text.isascii(), f"U+{code:04X} stays as it is"
        assert json.loads(text) == chr(code), f"U+{code:04X} becomes {text!r}"
    for text in _plain_texts({*escaped, ord('"'), ord("\\")}):
        assert pretty(text) == f'"{text}"', f"something from U+{ord(text[0]):04X} on is escaped"


def _plain_texts(escaped: set[int]) -> Iterator[str]:
    """All characters but those and surrogates, some hundred at a time."""
    for first in range(0, sys.maxunicode + 1, 256):
        text = "".join(chr(code) for code in range(first, first + 256) if code not in escaped and not 0xD800 <= code < 0xE000)
        if text:
            yield text


def _white_space(table: dict[str, Any]) -> Iterator[Case]:
    yield Case("white-space-of-trim", partial(_check_trim, set(table["trim"])))
    yield Case("white-space-of-expressions", partial(_check_class, set(table["regexSpace"])))


def _check_trim(units: set[int]) -> None:
    for code in range(0x10000):
        text = f"{chr(code)}x{chr(code)}"
        assert is_blank(chr(code)) == (code in units), f"U+{code:04X}"
        assert js_trim(text) == ("x" if code in units else text), f"U+{code:04X}"


def _check_class(units: set[int]) -> None:
    assert {ord(character) for character in JS_WHITESPACE} == units, "the characters of \\s differ"
