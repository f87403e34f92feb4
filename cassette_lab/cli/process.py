"""What the command line does to its process, and must not do where it is called from a program."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType


def settle_streams() -> None:
    """Make the standard streams of this process UTF-8 whatever the terminal says, and present even when it gives none."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 - lives as long as the process
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def do_without_pandas() -> None:
    """Keep pandas out of this process.

    Pyarrow looks for it at its first value, and importing it takes longer than verifying a common file.
    """
    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, _NoPandas())


def discard_output() -> None:
    """Nobody reads standard output any more: let what is left, and the interpreter's last flush, go nowhere."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


class _NoPandas:
    """Answers the first search for pandas, and leaves word for the following ones."""

    def find_spec(self, name: str, _path: Sequence[str] | None, _target: ModuleType | None = None) -> ModuleSpec | None:
        """Find nothing; what is not pandas may be found by others."""
        if name == "pandas":
            sys.meta_path.remove(self)
            sys.modules["pandas"] = None  # type: ignore[assignment]  # Python's own mark of a module that cannot be imported
            raise ModuleNotFoundError("this process does without pandas", name=name)
        return None
