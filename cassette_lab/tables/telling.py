"""How far a load is: told after each file to whoever asks for it, else a bar that counts bytes, also within large files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self, TypeAlias

from cassette_lab.progress import Bar

Progress: TypeAlias = Callable[[int, int, str], object]


class InBytes(ABC):
    """A ``progress`` of this class is called as a bar is: with bytes read of all, also within large files, and no source."""

    @abstractmethod
    def __call__(self, done_bytes: int, total_bytes: int) -> object:
        """So much is read."""


class Telling:
    """``sizes`` are those of the files in bytes, ``progress`` is what ``load`` takes. A context manager."""

    def __init__(self, sizes: Sequence[int], *, progress: Progress | InBytes | bool | None) -> None:
        self._sizes = sizes
        self._total = sum(sizes)
        self._before = 0
        self._files = 0
        self._open: dict[int, int] = {}
        self._progress = progress if callable(progress) and not isinstance(progress, InBytes) else None
        self._bar: Bar | InBytes | None = progress if isinstance(progress, InBytes) else None
        if self._bar is None and self._progress is None and progress is not False:
            self._bar = Bar("loading", unit="B", scale=True, terminal=progress is True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(self._bar, Bar):
            self._bar.__exit__(kind, error, trace)

    def within(self, number: int, done_bytes: int) -> None:
        """So many bytes of this file are read; another process may be reading another one."""
        if self._bar is not None:
            self._open[number] = min(done_bytes, self._sizes[number])
            self._bar(self._before + sum(self._open.values()), self._total)

    def after(self, number: int, source: str) -> None:
        """This file is done."""
        self._open.pop(number, None)
        self._before += self._sizes[number]
        self._files += 1
        if self._bar is not None:
            self._bar(self._before + sum(self._open.values()), self._total)
        if self._progress is not None:
            self._progress(self._files, len(self._sizes), source)
