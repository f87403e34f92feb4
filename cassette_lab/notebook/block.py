"""What stands around the body of a ``%%cassette`` cell: it opens what the cell is about, and closes it however the body ends.

``Block`` knows how cells end, interrupted ones, too. What is opened, and what is shown of it, ``cassette_cell`` and
``harness_cell`` know.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Protocol, Self

from IPython.core.async_helpers import get_asyncio_loop
from IPython.core.interactiveshell import InteractiveShell

from cassette_lab.errors import CassetteLabError
from cassette_lab.notebook.display import Bundle, QuietLine, publish
from cassette_lab.notebook.interrupt import InterruptGuard
from cassette_lab.notebook.live import LiveLine
from cassette_lab.notebook.options import Command, UsageError
from cassette_lab.notebook.tracebacks import explain_nested
from cassette_lab.notebook.transform import NAME, loop_is_running
from cassette_lab.words import duration_text


class Taping(Protocol):
    """A recording or replay that is open, and what is shown of it."""

    def bind(self) -> Callable[[], None]:
        """Let what starts in this context keep to it; returns what undoes that."""
        ...

    async def close(self, error: BaseException | None) -> None:
        """End it; ``error`` is what the body failed with."""
        ...

    def interrupt(self) -> None:
        """Let closing wait no longer."""
        ...

    def live_line(self, *, ending: bool = False) -> QuietLine:
        """What is going on."""
        ...

    def last_line(self, error: BaseException | None) -> QuietLine:
        """What it came to."""
        ...

    def below(self) -> Bundle | None:
        """What stands below the last line, if anything does."""
        ...


class Block:
    """``async with`` it around a body that awaits, ``with`` around one that does not. ``opening`` opens what it is about.

    The body's own exception is never replaced, but for a cancellation that an interrupt has caused: that is a
    ``KeyboardInterrupt`` again.
    """

    def __init__(self, command: Command, shell: InteractiveShell, opening: Callable[[], Taping]) -> None:
        self._command = command
        self._shell = shell
        self._opening = opening
        self._taping: Taping | None = None
        self._unbind: Callable[[], None] | None = None
        self._guard = InterruptGuard()
        self._live: LiveLine | None = None
        self._started = (0.0, 0.0)

    async def __aenter__(self) -> Self:
        self._guard.__enter__()
        try:
            taping = self._begin()
        except BaseException:
            self._guard.__exit__()
            raise
        self._live = LiveLine(self._shell, lambda: taping.live_line(ending=self._guard.closing))
        self._live.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._taping is not None  # noqa: S101 - entered
        assert self._live is not None  # noqa: S101 - entered
        taping, guard = self._taping, self._guard
        interrupts = guard.interrupts
        interrupted = interrupts > 0 and (isinstance(error, asyncio.CancelledError) or (error is None and guard.pending))
        guard.close(taping.interrupt)
        self._leave()
        shown = KeyboardInterrupt() if interrupted else error
        try:
            if error is None:
                await _let_tasks_begin()
            await taping.close(shown)
        except CassetteLabError as failure:
            if error is None:
                raise
            error.add_note(str(failure))
        finally:
            await _show_end(taping, self._live, shown)
            guard.__exit__()
            explain_nested(error)
        if interrupted or (error is None and guard.interrupts > interrupts):
            raise KeyboardInterrupt from None

    def __enter__(self) -> Self:
        if loop_is_running():
            raise UsageError(f"the end of this %%{NAME} {self._command.verb} has to be awaited; run it as a cell of its own")
        self._begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._taping is not None  # noqa: S101 - entered
        self._leave()
        try:
            finish_now(closed(self._taping, error, self._shell))
        except CassetteLabError as failure:
            if error is None:
                raise
            error.add_note(str(failure))

    def _begin(self) -> Taping:
        self._taping = self._opening()
        self._unbind = self._taping.bind()
        self._started = (time.perf_counter(), time.process_time())
        return self._taping

    def _leave(self) -> None:
        """The body is over; with ``--time`` say how long it took."""
        if self._command.timed:
            wall, cpu = time.perf_counter() - self._started[0], time.process_time() - self._started[1]
            print(f"CPU time: {duration_text(cpu * 1000)}, wall time: {duration_text(wall * 1000)}")  # noqa: T201 - as %%time
        if self._unbind is not None:
            self._unbind()
            self._unbind = None


def finish_now(ending: Coroutine[Any, Any, None]) -> None:
    """Run ``ending`` where no loop runs, on the loop that IPython runs its cells on."""
    get_asyncio_loop().run_until_complete(ending)


async def closed(taping: Taping, error: BaseException | None, shell: InteractiveShell) -> None:
    """Close ``taping``, showing what it waits for, then its line; an interrupt ends the wait. Raises what closing raises.

    For a task of its own.
    """
    with InterruptGuard() as guard:
        guard.close(taping.interrupt)
        live = LiveLine(shell, lambda: taping.live_line(ending=True))
        live.start()
        try:
            await taping.close(error)
        finally:
            await _show_end(taping, live, error)
            explain_nested(error)


async def _show_end(taping: Taping, live: LiveLine, error: BaseException | None) -> None:
    await live.stop()
    live.finish(taping.last_line(error))
    below = taping.below()
    if below is not None:
        publish(below)


async def _let_tasks_begin() -> None:
    """Let the tasks that a body has only just made get as far as their calls: those are the cell's."""
    for _ in range(3):
        await asyncio.sleep(0)
