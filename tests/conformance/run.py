"""Runs the vectors of one directory, kind by kind: every folder there is a kind, and a module of that name knows how.

Vectors of session logs have a layout of their own, in which ``replay`` means something else: their modules are ``session_…``.
So have vectors of flight records (``diff`` is another one there): ``flight_…``.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cassette_lab.jsonio.text import show
from tests.conformance.case import Case

PROJECT = Path(__file__).resolve().parents[2]
GOLDEN = PROJECT.parent / "shared" / "golden" / "cassette"

_REASON_CHARACTERS = 300
_SESSION_FOLDERS = ("sessions", "migrated", "sqlite", "flight")
_FLIGHT_FOLDERS = ("projection", "insight", "command", "state", "snapshots")


@dataclass
class Outcome:
    """What became of one kind's vectors. ``failures`` are (id, reason), ``deviations`` count by reason."""

    kind: str
    passed: int = 0
    failures: list[tuple[str, str]] = field(default_factory=list)
    deviations: Counter[str] = field(default_factory=Counter)

    @property
    def executed(self) -> int:
        """How many vectors were looked at."""
        return self.passed + len(self.failures) + self.deviations.total()


def kinds(folder: Path) -> list[str]:
    """The kinds that ``folder`` holds, by name: its sub-folders, hidden ones left out."""
    return sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith((".", "_")))


def is_known(folder: Path, kind: str) -> bool:
    """Whether a module here can run this kind of ``folder``."""
    return _cases(folder, kind) is not None


def run(folder: Path, kind: str) -> Outcome:
    """Run every vector of ``folder/kind``. A vector that raises anything has failed; so has a kind that cannot be read."""
    outcome = Outcome(kind)
    cases = _cases(folder, kind)
    if cases is None:
        outcome.failures.append(("-", f"no module knows the kind {kind}"))
        return outcome
    vectors = iter(cases(folder / kind))
    while True:
        try:
            case = next(vectors, None)
        except Exception as error:  # noqa: BLE001 - what follows in this kind cannot be reached
            outcome.failures.append(("-", f"the vectors cannot be read: {_reason(error)}"))
            return outcome
        if case is None:
            return outcome
        try:
            deviation = case.check()
        except Exception as error:  # noqa: BLE001 - any error fails the vector, and only this one
            outcome.failures.append((case.id, _reason(error)))
            continue
        if deviation is None:
            outcome.passed += 1
        else:
            outcome.deviations[deviation] += 1


def _cases(folder: Path, kind: str) -> Callable[[Path], Iterator[Case]] | None:
    name = f"{_layout(folder)}{kind}"
    if not name.isidentifier() or importlib.util.find_spec(f"{__package__}.{name}") is None:
        return None
    cases: Callable[[Path], Iterator[Case]] | None = getattr(importlib.import_module(f"{__package__}.{name}"), "cases", None)
    return cases


def _layout(folder: Path) -> str:
    """How the names of the modules begin that know the vectors of ``folder``."""
    if any((folder / name).is_dir() for name in _SESSION_FOLDERS) or (folder / "replay" / "vectors.json").is_file():
        return "session_"
    if any((folder / name).is_dir() for name in _FLIGHT_FOLDERS) or (folder / "diff" / "vectors.json").is_file():
        return "flight_"
    return ""


def _reason(error: Exception) -> str:
    text = show(str(error).strip().partition("\n")[0])
    if len(text) > _REASON_CHARACTERS:
        text = f"{text[:_REASON_CHARACTERS]}…"
    name = type(error).__name__
    if isinstance(error, AssertionError) and text:
        return text
    return f"{name}: {text}" if text else name
