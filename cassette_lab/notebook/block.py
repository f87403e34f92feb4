"""What stands around the body of a ``%%cassette`` cell: it opens the cassette, and closes it however the body ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from IPython.core.async_helpers import get_asyncio_loop
from IPython.core.interactiveshell import InteractiveShell

from cassette_lab.cassette.lock import break_lock, owner_is_dead
from cassette_lab.errors import CassetteLabError, ExistingFileError, FormatError, LockedError
from cassette_lab.host import record, replay
from cassette_lab.host.active import ActiveCassette
from cassette_lab.notebook.display import QuietLine, publish, short_path
from cassette_lab.notebook.interrupt import InterruptGuard
from cassette_lab.notebook.lines import last_line, live_line
from cassette_lab.notebook.live import LiveLine
from cassette_lab.notebook.options import Command
from cassette_lab.notebook.tracebacks import explain_nested
from cassette_lab.notebook.transform import loop_is_running
from cassette_lab.words import duration_text

DEFAULTS: Final[dict[str, Any]] = {"nested": "covered"}
"""Where the magics differ from the library: calls under a replayed call need not be made again."""


def opened(command: Command) -> ActiveCassette:
    """The cassette of a ``record`` or ``replay`` command, open.

    A lock that was left behind by a process that is gone is released, and said so. Raises what ``open_cassette`` does.
    """
    given = dict(command.given)
    if "max_wait_s" in given:
        given["settle_timeout_s"] = given.pop("max_wait_s")
    make: Callable[..., ActiveCassette] = {"record": record, "replay": replay}[command.verb]
    replays = command.verb == "replay" or given.get("write_mode") == "once"
    cassette = make(*command.files, **(DEFAULTS if replays else {}) | given)
    try:
        return cassette.open()
    except LockedError as error:
        if error.path is None or not error.owner or owner_is_dead(error.owner) is not True:
            raise
        _release(Path(error.path))
    except FormatError as error:
        raise _offered(error) from None
    try:
        return cassette.open()
    except FormatError as error:
        raise _offered(error) from None


def finish_now(ending: Coroutine[Any, Any, None]) -> None:
    """Run ``ending`` where no loop runs, on the loop that IPython runs its cells on."""
    get_asyncio_loop().run_until_complete(ending)


async def closed(cassette: ActiveCassette, error: BaseException | None, shell: InteractiveShell) -> None:
    """Close ``cassette``, showing what it waits for, then its line; an interrupt ends the wait. Raises what closing raises.

    For a task of its own.
    """
    with InterruptGuard() as guard:
        guard.close(cassette.interrupt)
        live = LiveLine(shell, lambda: live_line(cassette, ending=True))
        live.start()
        try:
            await cassette.close(error)
        finally:
            await live.stop()
            live.finish(last_line(cassette, error))
            explain_nested(error)


class CellBlock:
    """``async with`` it around a body that awaits, ``with`` around one that does not.

    The body's own exception is never replaced, but for a cancellation that an interrupt has caused: that is a
    ``KeyboardInterrupt`` again.
    """

    def __init__(self, command: Command, shell: InteractiveShell, on_open: Callable[[ActiveCassette], None]) -> None:
        self._command = command
        self._shell = shell
        self._on_open = on_open
        self._cassette: ActiveCassette | None = None
        self._unbind: Callable[[], None] | None = None
        self._guard = InterruptGuard()
        self._live: LiveLine | None = None
        self._started = (0.0, 0.0)

    async def __aenter__(self) -> Self:
        self._guard.__enter__()
        try:
            cassette = self._open()
        except BaseException:
            self._guard.__exit__()
            raise
        self._live = LiveLine(self._shell, lambda: live_line(cassette, ending=self._guard.closing))
        self._live.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._cassette is not None  # noqa: S101 - entered
        assert self._live is not None  # noqa: S101 - entered
        cassette, guard = self._cassette, self._guard
        interrupts = guard.interrupts
        interrupted = interrupts > 0 and (isinstance(error, asyncio.CancelledError) or (error is None and guard.pending))
        guard.close(cassette.interrupt)
        self._say_time()
        shown = KeyboardInterrupt() if interrupted else error
        self._leave()
        try:
            if error is None:
                await _let_tasks_begin()
            await cassette.close(shown)
        except CassetteLabError as failure:
            if error is None:
                raise
            error.add_note(str(failure))
        finally:
            await self._live.stop()
            self._live.finish(last_line(cassette, shown))
            guard.__exit__()
            explain_nested(error)
        if interrupted or (error is None and guard.interrupts > interrupts):
            raise KeyboardInterrupt from None

    def __enter__(self) -> Self:
        self._open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._cassette is not None  # noqa: S101 - entered
        self._say_time()
        self._leave()
        try:
            if loop_is_running():
                self._close_now(error)
            else:
                finish_now(closed(self._cassette, error, self._shell))
        except CassetteLabError as failure:
            if error is None:
                raise
            error.add_note(str(failure))

    def _close_now(self, error: BaseException | None) -> None:
        """Inside another cell: its loop cannot run before that cell ends."""
        assert self._cassette is not None  # noqa: S101 - entered
        try:
            self._cassette.close_now(error)
        finally:
            publish(last_line(self._cassette, error).bundle())
            explain_nested(error)

    def _open(self) -> ActiveCassette:
        self._cassette = opened(self._command)
        self._on_open(self._cassette)
        self._unbind = self._cassette.bind()
        self._started = (time.perf_counter(), time.process_time())
        return self._cassette

    def _leave(self) -> None:
        if self._unbind is not None:
            self._unbind()
            self._unbind = None

    def _say_time(self) -> None:
        if self._command.timed:
            wall, cpu = time.perf_counter() - self._started[0], time.process_time() - self._started[1]
            print(f"CPU time: {duration_text(cpu * 1000)}, wall time: {duration_text(wall * 1000)}")  # noqa: T201 - as %%time


async def _let_tasks_begin() -> None:
    """Let the tasks that a body has only just made get as far as their calls: those are the cell's."""
    for _ in range(3):
        await asyncio.sleep(0)


def _release(path: Path) -> None:
    """Break a dead owner's lock, and say so."""
    owner = break_lock(path)
    if owner is not None:
        words = [f"released the lock that process {owner.get('pid')} left behind; it is gone"]
        publish(QuietLine("⚿", words, short_path(path), muted=True).bundle())


def _offered(error: FormatError) -> FormatError:
    """A file that is there already: the sentence with the options that go on from there."""
    if not isinstance(error, ExistingFileError):
        return error
    offer = (
        "there is such a recording already; --write-mode truncate records it anew, append continues it, once replays it, "
        "or name another file"
    )
    return ExistingFileError(offer, path=error.path, field=error.field)
