"""What the sessions of a lab are called where a person reads or writes it: the id, with a folder where several have that id.

Every recording of a run has its ``session-1``; ``FOLDER#ID`` tells them apart, as in ``open_session``.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from cassette_lab.looking import from_home
from cassette_lab.session.places import MARK


def session_names(sources: Sequence[str], ids: Sequence[str]) -> list[str]:
    """A name for each session: its id, else ``FOLDER#ID`` with the outermost folder (or file) that has that one alone."""
    shared = {each for each, count in Counter(ids).items() if count > 1}
    if not shared:
        return list(ids)
    places = Counter(
        (folder, each) for source, each in zip(sources, ids, strict=True) if each in shared for folder in _folders(source)
    )
    return [
        f"{_outermost(source, each, places)}{MARK}{each}" if each in shared else each
        for source, each in zip(sources, ids, strict=True)
    ]


def sessions_named(sources: Sequence[str], ids: Sequence[str], name: str, root: Path | None = None) -> list[int]:
    """The places of those that ``name`` means: an id, ``SOURCE#ID``, or else ``FOLDER#ID`` of a folder above the source.

    The folder is one of the lab's ``root``, which sources are named from, or of the working directory.
    """
    exact = [place for place, each in enumerate(ids) if name in (each, f"{sources[place]}{MARK}{each}")]
    head, mark, asked = name.rpartition(MARK)
    if exact or not (mark and head):
        return exact
    alike = [place for place, each in enumerate(ids) if each == asked]
    folder = head.rstrip("/")
    inside = [place for place in alike if folder in _folders(sources[place])]
    if inside or root is None or not alike:
        return inside
    there = _absolute(from_home(head))
    return [place for place in alike if there in _folders(_absolute(root / sources[place]))]


def _absolute(path: Path) -> str:
    return os.path.abspath(path).replace(os.sep, "/")  # noqa: PTH100 - resolve() raises for names that no file can have


def _folders(source: str) -> Iterator[str]:
    """The folders above a source, the outermost first, and the source itself."""
    place = source.find("/", 1)
    while place > 0:
        yield source[:place]
        place = source.find("/", place + 1)
    yield source


def _outermost(source: str, each: str, places: Counter[tuple[str, str]]) -> str:
    return next((folder for folder in _folders(source) if places[folder, each] == 1), source)
