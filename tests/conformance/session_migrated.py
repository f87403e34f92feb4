"""Vectors of ``migrated/``: the same sessions in every format, converted by the reference."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cassette_lab import jsonio
from tests.conformance.case import Case
from tests.conformance.session_facts import tree_cases


def cases(folder: Path) -> Iterator[Case]:
    """The cases of each format's tree and of each session in it."""
    for path in sorted(folder.glob("*/expected.json")):
        expected = jsonio.parse(path.read_bytes())
        for name, tree in sorted(expected.items()):
            if isinstance(tree, dict) and "sessions" in tree:
                yield from tree_cases(f"{path.parent.name}/{name}", path.parent / name, tree, whole=True)
