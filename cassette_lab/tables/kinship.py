"""Which row of ``sessions`` an id means, seen from another one: ids are unique in a store, not in a lab.

Monday's and Tuesday's run of one scenario may have equal ids, and so has a folder beside its backup. A session and its
relatives lie in one store: the same SQLite file, or the same project folder, or the same root of project folders. What is
not there is looked for in the whole lab, and is known only where one session has that id.
Source: session logs, Files and bytes; Parents and children.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

_LEVELS: Final = 5
Place: TypeAlias = tuple[int, str]
"""A level, 0 the nearest, and the file, folder or root that it is."""


class Kinship:
    """The sessions of a lab by id and place. ``sources`` and ``ids`` have one entry for each row of ``sessions``."""

    def __init__(self, sources: Sequence[str], ids: Sequence[str]) -> None:
        self._sources = sources
        self._rows: dict[str, list[int]] = defaultdict(list)
        self._by_place: dict[str, dict[Place, list[int]]] = {}
        for row, session_id in enumerate(ids):
            self._rows[session_id].append(row)

    def __contains__(self, session_id: str) -> bool:
        """Whether a session of this id is in the lab, wherever."""
        return session_id in self._rows

    def find(self, session_id: str, beside: int) -> int | None:
        """The row of that session, seen from the row ``beside``; None where there is none, or nothing tells which."""
        rows = self._rows.get(session_id, [])
        if len(rows) < 2:
            return rows[0] if rows else None
        by_place = self._by_place.get(session_id)
        if by_place is None:
            by_place = self._by_place[session_id] = defaultdict(list)
            for row in rows:
                for place in _places(self._sources[row]):
                    by_place[place].append(row)
        there = next(by_place[place] for place in _places(self._sources[beside]) if place in by_place)  # the lab has all
        return there[0] if len(there) == 1 else None

    def parents(self, parent_ids: Sequence[str | None]) -> tuple[dict[int, int], set[int]]:
        """The parent's row for each row that has one here, and the rows of which nothing tells which it is."""
        found: dict[int, int] = {}
        ambiguous: set[int] = set()
        for row, parent_id in enumerate(parent_ids):
            if parent_id is None or parent_id not in self._rows:
                continue
            parent = self.find(parent_id, row)
            if parent is None:
                ambiguous.add(row)
            else:
                found[row] = parent
        return found, ambiguous


def _places(source: str) -> Iterator[Place]:
    """The file, its folder (logs that lie flat), the project's folder, the root; and the lab, which is everybody's."""
    yield 0, source
    folder = source
    for level in range(1, _LEVELS - 1):
        folder = folder.rpartition("/")[0]
        yield level, folder
    yield _LEVELS - 1, ""
