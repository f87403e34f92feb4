"""Which run of the harness is being recorded or replayed here: the one of this context, else the one that began last."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from cassette_lab.errors import ConfigError

if TYPE_CHECKING:
    from cassette_lab.host.harness.recording import HarnessTape


def harness() -> HarnessTape:
    """The harness that a cell under ``%%cassette record DIR --harness``, or a ``record_harness`` block, is about.

    >>> run = await cl.harness().run("Look around.")  # doctest: +SKIP

    Raises ``ConfigError`` outside of those.
    """
    found = current_harness()
    if found is None:
        raise ConfigError(
            "no run of the harness is being recorded or replayed here; begin one with %%cassette record DIR --harness, or "
            "with record_harness(DIR)"
        )
    return found


def current_harness() -> HarnessTape | None:
    """The same; None where there is none."""
    bound = _bound.get()
    if bound is not None and not bound.closed:
        return bound
    return _open[-1] if _open else None


def enter(tape: HarnessTape) -> None:
    """It is open from now on."""
    _open.append(tape)


def leave(tape: HarnessTape) -> None:
    """It is open no more."""
    with suppress(ValueError):
        _open.remove(tape)


def bind(tape: HarnessTape) -> Callable[[], None]:
    """Let this context, and what starts in it, find ``tape`` before others. Returns what undoes it."""
    token = _bound.set(tape)

    def unbind() -> None:
        with suppress(ValueError):  # in another context there is nothing to undo
            _bound.reset(token)

    return unbind


_bound: Final[ContextVar[HarnessTape | None]] = ContextVar("cassette_lab_harness", default=None)
_open: Final[list[HarnessTape]] = []
