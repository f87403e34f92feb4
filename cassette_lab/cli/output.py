"""What the command line prints: lines for a person with everything unseen escaped, and JSON for a program."""

from __future__ import annotations

import io
import os
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


def settle_streams() -> None:
    """Make the standard streams of this process UTF-8 whatever the terminal says, and present even when it gives none."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 - lives as long as the process
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def discard_output() -> None:
    """Nobody reads standard output any more: let what is left, and the interpreter's last flush, go nowhere."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
