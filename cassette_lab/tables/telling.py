"""How far a load is: told after each file to whoever asks for it, else a bar that counts bytes, also within large files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self, TypeAlias

from cassette_lab.progress import Bar
from cassette_lab.tables.finding import Found

Progress: TypeAlias = Callable[[int, int, str], object]


class Telling:
    """``progress`` is what ``load`` takes. A context manager."""

    def __init__(self, found: Sequence[Found], *, progress: Progress | bool | None) -> None:
        self._sizes = [_size_bytes(each) for each in found]
        self._total = sum(self._sizes)
        self._before = 0
        self._files = 0
        self._progress = progress if callable(progress) else None
        self._bar: Bar | None = None
        if self._progress is None and progress is not False:
            self._bar = Bar("loading", unit="B", scale=True, terminal=progress is True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.__exit__(kind, error, trace)

    def within(self, done_bytes: int, _total: int = 0) -> None:
        """So many bytes of the file at hand are read."""
        if self._bar is not None:
            self._bar(self._before + min(done_bytes, self._sizes[self._files]), self._total)

    def after(self, source: str) -> None:
        """The file at hand is done."""
        self._before += self._sizes[self._files]
        self._files += 1
        if self._bar is not None:
            self._bar(self._before, self._total)
        if self._progress is not None:
            self._progress(self._files, len(self._sizes), source)


def _size_bytes(found: Found) -> int:
    """0 where it is not known; the reader says why."""
    try:
        return 0 if found.kind is None else found.path.stat().st_size
    except OSError:
        return 0
