"""What the command line prints: lines for a person with everything unseen escaped, and JSON for a program."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from cassette_lab.jsonio.text import pretty_chunks, show

_PIECE_CHARACTERS = 1 << 16


def say(*lines: str) -> None:
    """Lines for a person, on standard output."""
    sys.stdout.write("".join(f"{show(line)}\n" for line in lines))


def complain(sentence: str) -> None:
    """One line on standard error."""
    sys.stderr.write(f"cassette-lab: {show(sentence)}\n")


def print_json(document: Any) -> None:
    """A JSON document, indented, on standard output."""
    print_chunks(pretty_chunks(document))


def print_chunks(chunks: Iterable[str]) -> None:
    """The pieces of one text and a line feed, written as they come in larger pieces."""
    held: list[str] = []
    characters = 0
    for chunk in chunks:
        held.append(chunk)
        characters += len(chunk)
        if characters >= _PIECE_CHARACTERS:
            sys.stdout.write("".join(held))
            held, characters = [], 0
    held.append("\n")
    sys.stdout.write("".join(held))
