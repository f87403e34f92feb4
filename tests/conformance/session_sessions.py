"""Vectors of ``sessions/``: trees that runtimes wrote, and fixtures, with what is in them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cassette_lab import jsonio
from tests.conformance.case import Case
from tests.conformance.session_facts import tree_cases


def cases(folder: Path) -> Iterator[Case]:
    """The cases of each tree and of each session in it."""
    for path in sorted(folder.glob("*/*/expected.json")):
        expected = jsonio.parse(path.read_bytes())
        tree = path.parent / "sessions"
        name = path.parent.relative_to(folder).as_posix()
        is_tree = tree.is_dir()
        yield from tree_cases(name, tree if is_tree else path.parent, expected, whole=is_tree)
