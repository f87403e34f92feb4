"""What the command line does to its process, and must not do where it is called from a program."""

from __future__ import annotations

import io
import os
import sys


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


def start_without_grammars() -> None:
    """Spare this process a second: where charts are drawn, jsonschema would build a grammar of IRIs, which nothing here checks.

    It does without where that cannot be imported, and so does whoever asks for it later.
    """
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]  # Python's own mark of such a module
