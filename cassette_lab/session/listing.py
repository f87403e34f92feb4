"""What the sessions below a path come to, in short, one after the other; many logs are shared with a second process."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Literal, TypeAlias

from cassette_lab.errors import CassetteLabError
from cassette_lab.jsonio import JsonObject
from cassette_lab.looking import size_of
from cassette_lab.session.finding import FoundLog
from cassette_lab.session.opening import each_facts
from cassette_lab.session.sharing import Task, cost_of, go_to, in_order, runs_of, working_folder
from cassette_lab.session.summary import row

Told: TypeAlias = tuple[int, Literal["session", "problem"], JsonObject]
"""The number of a file, and a session of it as ``summary.row`` has it, or what could not be read."""


def told_of(found: Sequence[FoundLog], *, workers: int = 2) -> Generator[Told]:
    """The sessions of these files in their order, each as soon as it is read, and in its place what cannot be.

    A second process helps (``workers`` of 2) where that pays. Close it where not all are taken.
    """
    folder = working_folder()
    numbered = list(enumerate(found))
    costs = [cost_of(each.path, size_of(each.path)) for each in found]
    tasks: list[Task[Iterable[Told]]] = []
    for start, end in runs_of(costs):
        logs = numbered[start:end]
        tasks.append(Task(sum(costs[start:end]), partial(_told, logs), _told_there, (folder, logs)))
    with closing(in_order(tasks, workers=workers, tell=_nobody)) as results:
        for told in results:
            yield from told


def _told(logs: Sequence[tuple[int, FoundLog]], tell: Callable[..., object]) -> Iterator[Told]:
    for number, found in logs:
        try:
            if found.problem is not None:
                raise found.problem
            for read in each_facts(found.path, found.session_id, progress=tell):
                try:
                    yield number, "session", row(read())
                except CassetteLabError as error:  # hides no other session of a store
                    yield number, "problem", _problem(error)
        except CassetteLabError as error:
            yield number, "problem", _problem(error)


def _told_there(folder: str | None, logs: Sequence[tuple[int, FoundLog]], tell: Callable[..., object]) -> list[Told]:
    go_to(folder)
    return list(_told(logs, tell))


def _problem(error: CassetteLabError) -> JsonObject:
    return {"file": error.path, "line": error.line, "code": error.code, "message": error.message}


def _nobody(*_: object) -> None:
    """Who is told how far a file is: sessions come one by one, and show it."""
