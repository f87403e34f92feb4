"""Work on many files, shared with a second process where that pays; the results come in the order of the tasks all the same.

The first process takes tasks from the front, the second from the back, until they meet: so one that starts late or is slowed
down by others just does less. What the second one cannot finish, the first one does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from cassette_lab.session.helper import Helper

Result = TypeVar("Result")

_FILE_COST: Final = 30_000
"""What opening a file and closing its derivation takes, in bytes of text that are read meanwhile."""
_EXPANSION: Final = {".zstd": 8, ".db": 3, ".sqlite": 3, ".sqlite3": 3}
_PAYS_COLD: Final = 30_000_000
"""About 0.5 s of work: with less a second process has hardly begun when the first one is done."""
_PAYS_WARM: Final = 3_000_000
_RUN_COST: Final = 2_000_000
_RUN_FILES: Final = 32
"""The files of one task: enough that what it costs beside them does not count, few enough that two processes end together."""
_AHEAD: Final = 2
"""Tasks that the second process has at most, if they are small: with the second one it need not wait for the first process."""
_SMALL_COST: Final = 6_000_000
_WAIT_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Task(Generic[Result]):
    """``here(tell)`` does it in this process, ``function(*arguments, tell)`` in the other (None: only here may it be done).

    Both give the same; ``tell`` may be called with how far it is. ``cost`` is in bytes of text, as ``cost_of`` gives it.
    """

    cost: int
    here: Callable[[Callable[..., object]], Result]
    function: Callable[..., Result] | None = None
    arguments: tuple[Any, ...] = ()


def cost_of(path: Path, size_bytes: int) -> int:
    """What reading a log of this size costs, in bytes of text."""
    return _FILE_COST + size_bytes * _EXPANSION.get(path.suffix, 1)


def runs_of(costs: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Cuts a list of files, of which each costs so much, into runs that are worth a task: where each begins and ends."""
    start = cost = 0
    for number, each in enumerate(costs):
        if number > start and (cost + each > _RUN_COST or number - start == _RUN_FILES):
            yield start, number
            start, cost = number, 0
        cost += each
    if start < len(costs):
        yield start, len(costs)


def in_order(
    tasks: Sequence[Task[Result]],
    *,
    workers: int,
    tell: Callable[..., object],
    seen: Callable[[Result], object] = lambda _: None,
) -> Generator[Result]:
    """The results of all tasks in order, as they are there. Close it where not all are taken.

    ``tell`` gets what tasks tell, in whichever process; ``seen`` each result as soon as it is there.
    """
    # Alone, too, while another thread shares its work.
    if workers < 2 or not _pays(tasks) or not Helper.lock.acquire(blocking=False):
        yield from _Sharing(tasks, None, tell, seen).results()
        return
    try:
        with _used(Helper.current()) as helper:
            yield from _Sharing(tasks, helper, tell, seen).results()
    finally:
        Helper.lock.release()


def working_folder() -> str | None:
    """The folder that relative names in a task are from, if there is one; ``go_to`` it before the task."""
    try:
        return str(Path.cwd())
    except OSError:  # it was removed
        return None


def go_to(folder: str | None) -> None:
    """Make the names of a task mean in this process what they mean in the first one. Raises ``OSError``."""
    if folder is not None:
        os.chdir(folder)


def _pays(tasks: Sequence[Task[Any]]) -> bool:
    shareable = sum(task.cost for task in tasks[1:] if task.function is not None)
    return shareable > (_PAYS_WARM if Helper.is_there() else _PAYS_COLD)


@contextmanager
def _used(helper: Helper | None) -> Iterator[Helper | None]:
    """Whoever stops in the middle, by an interrupt perhaps, may have stopped in the middle of a message."""
    try:
        yield helper
    except BaseException:
        if helper is not None:
            helper.end()
        raise


class _Sharing(Generic[Result]):
    def __init__(
        self,
        tasks: Sequence[Task[Result]],
        helper: Helper | None,
        tell: Callable[..., object],
        seen: Callable[[Result], object],
    ) -> None:
        self._tasks, self._helper, self._tell, self._seen = tasks, helper, tell, seen
        self._left = dict.fromkeys(range(len(tasks)))  # nobody's yet, in order
        self._done: dict[int, Result] = {}
        self._tried: set[int] = set()

    def results(self) -> Iterator[Result]:
        for number in range(len(self._tasks)):
            while number not in self._done:
                self._feed(is_idle=True)
                own = next(iter(self._left), None)
                if own is None:
                    self._look(_WAIT_S)
                else:
                    del self._left[own]
                    self._note(own, self._tasks[own].here(self._tell_and_look))
                    self._look()
            yield self._done.pop(number)

    def _feed(self, *, is_idle: bool) -> None:
        """Give the other process what it can take from the back; the last one that is left is for this one if that is idle."""
        helper = self._helper
        while helper is not None and helper.process is not None and len(self._left) > is_idle:
            waiting = sum(self._tasks[each].cost for each in helper.tasks)
            if len(helper.tasks) >= _AHEAD or waiting > _SMALL_COST:
                return
            number = next(filter(self._can_be_given, reversed(self._left)), None)
            if number is None:
                return
            task = self._tasks[number]
            if task.function is not None:
                if not helper.is_ready_for(task.function):
                    return
                del self._left[number]
                self._tried.add(number)
                given = [*helper.tasks, number]
                helper.give(number, task.function, task.arguments)
                self._take_back(given)

    def _can_be_given(self, number: int) -> bool:
        return self._tasks[number].function is not None and number not in self._tried

    def _look(self, wait_s: float = 0) -> None:
        """Take what the other process has done."""
        helper = self._helper
        if helper is None or helper.process is None:
            return
        given = [*helper.tasks]
        for number, result in helper.take(self._tell, wait_s):
            self._note(number, result)
        self._take_back(given)

    def _note(self, number: int, result: Result) -> None:
        self._done[number] = result
        self._seen(result)

    def _take_back(self, given: Sequence[int]) -> None:
        """Of these the ones that the other process did not finish and has no longer are anybody's again."""
        kept = self._helper.tasks if self._helper is not None else ()
        lost = [each for each in given if each not in kept and each not in self._done]
        if lost:
            self._left = dict.fromkeys(sorted([*self._left, *lost]))

    def _tell_and_look(self, *words: Any) -> None:
        self._tell(*words)
        self._look()
        self._feed(is_idle=False)
