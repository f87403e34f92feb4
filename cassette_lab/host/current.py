"""Which cassette a call goes through: the one that its context keeps to, else the one that is open in this process.

Tasks inherit the context variable of whoever starts them; later cells, other threads and callbacks find the slot.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Final

from cassette_lab.contracts import ROOT_PARENT, ParentAgent
from cassette_lab.host.ambient import enter_parent

if TYPE_CHECKING:
    from cassette_lab.host.active import ActiveCassette


def current_cassette() -> ActiveCassette | None:
    """The cassette that is open in this process, if any."""
    return SLOT.current()


def cassette_for_call(label: str) -> ActiveCassette | None:
    """Where a call labelled ``label`` goes from here; None where it goes live.

    ``ClosedError`` where it belongs to a replay that is over. A recording that is over lets it go live, with a warning.
    """
    cassette = _bound.get()
    if cassette is None:
        cassette = SLOT.cassette
    if cassette is None or cassette.accepts_calls:
        return cassette
    cassette.late_call(label)
    return None


def bind(cassette: ActiveCassette, *, parent: ParentAgent | None = ROOT_PARENT) -> Callable[[], None]:
    """Let what starts in this context from here on keep to ``cassette``, below ``parent``. Returns what undoes it."""
    if parent is None and _bound.get() is cassette:
        return _nothing
    token = _bound.set(cassette)
    leave_parent = _nothing if parent is None else enter_parent(parent)

    def unbind() -> None:
        with contextlib.suppress(ValueError):  # in another context there is nothing to undo
            leave_parent()
        with contextlib.suppress(ValueError):
            _bound.reset(token)

    return unbind


def release(cassette: ActiveCassette) -> None:
    """Let what starts in this context from here on no longer keep to ``cassette``."""
    if _bound.get() is cassette:
        _bound.set(None)


class Slot:
    """The one place of a process where an open cassette stands. Held as a lock while that changes."""

    def __init__(self) -> None:
        self.cassette: ActiveCassette | None = None
        self._lock = threading.RLock()

    def current(self) -> ActiveCassette | None:
        """The cassette in it, if that takes calls."""
        return self.cassette if self.cassette is not None and self.cassette.accepts_calls else None

    def take(self, cassette: ActiveCassette) -> None:
        """Put ``cassette`` into it."""
        self.cassette = cassette

    def leave(self, cassette: ActiveCassette) -> None:
        """Take ``cassette`` out, if it is there."""
        if self.cassette is cassette:
            self.cassette = None

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._lock.release()


def _nothing() -> None:
    pass


_bound: Final[ContextVar[ActiveCassette | None]] = ContextVar("cassette_lab_cassette", default=None)
SLOT: Final = Slot()
