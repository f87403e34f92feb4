"""Which logs of a folder belong together: a session and its subagents, told by the parents that their headers name.

Ids are unique in one run and not in a folder of several: a child belongs to the parent whose file lies nearest.
Source: session logs, Parents and children.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path, PurePath
from typing import Final, NamedTuple

from cassette_lab.errors import FormatError
from cassette_lab.jsonio.text import show
from cassette_lab.looking import is_folder
from cassette_lab.session.finding import find_logs
from cassette_lab.session.places import locate, split_id
from cassette_lab.session.reader import read_header
from cassette_lab.session.sqlite import SqliteStore
from cassette_lab.words import and_more

_MOST_COPIES: Final = 100
"""Of one session, for its children to be told apart."""
_SHOWN: Final = 8


class Family(NamedTuple):
    """A session's log and those of the subagents below it, each named as ``open_session`` takes it."""

    primary: str
    children: list[str]


def nearest(path: str, candidates: Sequence[tuple[int, str]]) -> int | None:
    """The number of the candidate whose file lies nearest to ``path``; None where there is none, or not one alone."""
    if len(candidates) > _MOST_COPIES:
        return None
    likeness = [(_shared_start(path, other), number) for number, other in candidates]
    most = max(likeness, default=(0, 0))[0]
    found = [number for shared, number in likeness if shared == most]
    return found[0] if len(found) == 1 else None


def family_of(source: str | Path) -> Family:
    """The session that a name means, with the subagents that lie in the same folder: ``FOLDER``, ``FOLDER#ID``, ``STORE#ID``.

    Of a folder (or a store) without an id it is the one session that has no parent there. A log that is named by its file
    comes alone. Raises ``FormatError`` for a folder with several such sessions, or none, and as ``locate`` does.
    """
    place, asked = split_id(source)
    members = list(_members(place))
    if len(members) < 2:
        return Family(str(source), [])
    by_id: dict[str, list[tuple[int, str]]] = {}
    for number, member in enumerate(members):
        by_id.setdefault(member.session_id, []).append((number, member.name))
    parents: list[int | None] = []
    for number, member in enumerate(members):
        known = [each for each in by_id.get(member.parent or "", []) if each[0] != number]
        parents.append(nearest(member.name, known))
    roots = [number for number, member in enumerate(members) if parents[number] is None]
    if asked is not None:
        chosen = locate(source)  # which says what is wrong with the id
        wanted = f"{chosen.path}#{asked}"
        roots = [number for number, member in enumerate(members) if wanted in (member.name, f"{member.name}#{asked}")]
    if len(roots) != 1:
        names = and_more([show(members[number].session_id[:80]) for number in roots[:_SHOWN]], len(roots))
        message = f"{len(roots):,} sessions begin in this folder: {names}; name one of them (PATH#ID)"
        raise FormatError(message, path=place, field="id")
    return Family(members[roots[0]].name, [members[number].name for number in _below(roots[0], parents)])


class _Member(NamedTuple):
    name: str
    session_id: str
    parent: str | None


def _members(place: Path) -> Iterator[_Member]:
    """The sessions of a folder or store whose headers can be read; a file of its own has none."""
    for found in find_logs(place):
        if found.problem is not None:
            continue
        try:
            if found.kind == "store":
                with SqliteStore(found.path) as store:
                    headers = [store.header(each) for each in store.ids]
                yield from (_Member(f"{found.path}#{each.id}", each.id, each.parent_session) for each in headers)
            elif is_folder(place):
                header = read_header(found.path)
                yield _Member(str(found.path), header.id, header.parent_session)
        except FormatError:  # its reader says so when it is asked for
            continue


def _below(root: int, parents: Sequence[int | None]) -> Iterator[int]:
    """Everything below a session, parents first; parents that go in a circle are below nothing."""
    children: dict[int, list[int]] = {}
    for number, parent in enumerate(parents):
        if parent is not None:
            children.setdefault(parent, []).append(number)
    told, waiting = {root}, [root]
    while waiting:
        for number in children.get(waiting.pop(0), ()):
            if number not in told:
                told.add(number)
                waiting.append(number)
                yield number


def _shared_start(one: str, other: str) -> int:
    """How many parts of two paths are the same, from the left."""
    pairs = zip(PurePath(one).parts, PurePath(other).parts, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
