"""Which files the paths given to ``load`` mean, in a fixed order, each once."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Final, TypeAlias

from cassette_lab.errors import CassetteLabError, ConfigError, FormatError
from cassette_lab.looking import exists, is_file, is_folder, os_reason
from cassette_lab.session.finding import is_passed_by, is_subfolder, logs_among, may_be_log
from cassette_lab.session.places import find_by_id
from cassette_lab.tables.kinds import KINDS, Kind, kind_of

PathLikes: TypeAlias = "str | PathLike[str] | Iterable[str | PathLike[str]]"

_RECORDINGS: Final = ".dsh-cassettes"
"""Where cassettes are recorded unless another file is named."""


@dataclass(frozen=True, slots=True)
class Found:
    """A file to load (of a store of sessions only ``session_id``, where one is named), or what is wrong with a path.

    ``in_folder``: nobody named it, it lies in a folder.
    """

    path: Path
    kind: Kind | None = None
    problem: CassetteLabError | None = None
    session_id: str | None = None
    in_folder: bool = False


def find(paths: Iterable[PathLikes]) -> tuple[list[Found], Path]:
    """The files of paths (files, folders, globs, ``PATH#ID``, lists of those), and the folder that they are named from.

    Files come in the order of the paths; those of a folder or glob sorted by name, part by part. A file that is reached
    twice, also by a link, counts once. What a pattern matches counts as named, unless it ends in ``*`` or ``**``: then, as
    from a folder, only what looks like an artefact is taken. A path that gives no file is a problem. Raises ``ConfigError``
    without any path.
    """
    given = list(_each(paths))
    if not all(given) or not given:
        raise ConfigError("load needs a path: a cassette file, a folder, or a pattern as runs/**/*.cassette.jsonl")
    found: list[Found] = []
    bases: list[Path] = []
    seen: set[tuple[tuple[int, int], str | None]] = set()
    for path in given:
        base, some = _files(path)
        bases.append(base)
        for each in some:
            identity = _identity(each.path) if each.problem is None else None
            if identity is None:
                found.append(each)
                continue
            if not seen.intersection(((identity, None), (identity, each.session_id))):
                found.append(each)
            seen.add((identity, each.session_id))
    return found, _root(bases)


def name_from(path: Path, root: Path) -> str:
    """``path`` as tables name it: from ``root``, with slashes."""
    absolute = os.path.abspath(path)  # noqa: PTH100 - a link keeps the name that was given
    start = os.path.join(root, "")  # noqa: PTH118 - with a slash at its end, as no Path has
    if absolute.startswith(start):  # thousands of files: their parts need not be looked at
        return absolute[len(start) :].replace(os.sep, "/")
    plain = Path(absolute)
    return plain.relative_to(root).as_posix() if plain.is_relative_to(root) else plain.as_posix()


def _each(paths: Iterable[PathLikes]) -> Iterator[str]:
    for path in paths:
        if isinstance(path, (str, PathLike)):
            yield os.path.expanduser(os.fspath(path))  # noqa: PTH111 - patterns are text
        else:
            yield from _each(path)


def _files(path: str) -> tuple[Path, list[Found]]:
    """The folder a path names its files from, and these."""
    plain = Path(path)
    if is_folder(plain):
        return plain, _folder(plain)
    chosen = find_by_id(plain)
    if chosen is not None:
        kind = KINDS["session"] if chosen.problem is None else None
        return chosen.path.parent, [Found(chosen.path, kind, chosen.problem, chosen.session_id)]
    if exists(plain) or not glob.has_magic(path):
        return plain.parent, [Found(plain, _named(plain))]
    base = Path(path)
    while glob.has_magic(str(base)):
        base = base.parent
    try:
        matches = sorted(base.glob(str(plain.relative_to(base))), key=lambda each: each.parts)
    except ValueError as error:
        raise ConfigError(f"this pattern cannot be used ({error})", path=path) from None
    found: list[Found] = []
    anything = plain.name in ("*", "**")
    beside: dict[Path, dict[Path, Found]] = {}
    for match in matches:
        if any(map(_passed_by, match.relative_to(base).parent.parts)):
            continue
        if is_folder(match):
            if not (_passed_by(match.name) or match.is_symlink()):
                found += _folder(match, empty_is_problem=False)
        elif anything:
            if match.parent not in beside:  # which of several generations counts, the others beside it say
                beside[match.parent] = {each.path: each for each in _in_folder(match.parent, _files_of(match.parent))}
            found += [each for each in (beside[match.parent].get(match),) if each is not None]
        elif is_file(match):
            found.append(Found(match, _named(match)))
    if not found:
        message = "no file matches this pattern; check the folder, or use ** to look into folders below it"
        found = [Found(plain, problem=FormatError(message, path=path))]
    return base, found


def _folder(folder: Path, *, empty_is_problem: bool = True) -> list[Found]:
    """The artefacts in a folder and those below it."""
    found: list[Found] = []

    waiting = [folder]
    while waiting:  # not os.walk, which Python 3.11 nests as deep as the folders are
        where = waiting.pop()
        try:
            entries = list(os.scandir(where))
        except OSError as error:
            problem = FormatError(f"the folder cannot be read ({os_reason(error)})", path=where)
            found.append(Found(where, problem=problem))
            continue
        waiting += [where / entry.name for entry in entries if is_subfolder(entry) and not _passed_by(entry.name)]
        names = [entry.name for entry in entries if _is_file(entry)]
        odd = [entry.name for entry in entries if may_be_log(entry)] if len(names) < len(entries) else []
        found += _in_folder(where, names, odd)
    if not found and empty_is_problem:
        message = (
            "there is no cassette or session log in this folder or below it, and no flight record; a cassette is named "
            "*.cassette.jsonl, a log session.jsonl, session.v4.jsonl.zstd or alike, flight records *.flight.json"
        )
        return [Found(folder, problem=FormatError(message, path=folder))]
    return sorted(found, key=lambda each: each.path.parts)


def _is_file(entry: os.DirEntry[str]) -> bool:
    """Whether it is a file, or a link to one."""
    try:
        return entry.is_file()
    except OSError:
        return False


def _files_of(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in os.scandir(folder) if _is_file(entry)]
    except OSError:
        return []


def _in_folder(folder: Path, names: list[str], odd: Iterable[str] = ()) -> list[Found]:
    """The artefacts among the files of a folder: session logs as folders of sessions have them, all else by its looks.

    ``odd`` are named as logs and may be none (a link that leads nowhere): their reader says so.
    """
    session = KINDS["session"]
    others = [kind for kind in KINDS.values() if kind is not session]
    told = [Found(path, kind) for path in map(folder.joinpath, names) for kind in others if kind.found_in_folder(path)]
    logs = logs_among(folder, {*names, *odd}.difference(each.path.name for each in told))
    return told + [
        Found(each.path, None if each.problem is not None else session, each.problem, in_folder=True) for each in logs
    ]


def _passed_by(folder: str) -> bool:
    """Whether a folder of this name is not looked into, unless it was named."""
    return is_passed_by(folder) and folder not in (_RECORDINGS, "..", ".")


def _named(path: Path) -> Kind:
    """The kind of a file that was named: where it looks like none, the cassette reader says what it is."""
    return (kind_of(path) if is_file(path) else None) or KINDS["cassette"]


def _identity(path: Path) -> tuple[int, int] | None:
    """The same for two names of one file."""
    try:
        facts = path.stat()
    except (OSError, ValueError):
        return None
    return (facts.st_dev, facts.st_ino) if facts.st_ino else None


def _root(bases: list[Path]) -> Path:
    """The folder that files are named from: the working directory where it holds all, else the nearest one that does."""
    absolute = [os.path.abspath(base) for base in bases]  # noqa: PTH100 - links keep the names that were given
    here = Path.cwd()
    if all(Path(base).is_relative_to(here) for base in absolute):
        return here
    try:
        return Path(os.path.commonpath(absolute))
    except ValueError:  # on different drives
        return here
