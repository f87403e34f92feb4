"""Progress while a cell records or replays: one line that changes in place, and goes when the cell is done.

Nothing is shown for what is over at once. In a notebook the line is a display that is updated, in a terminal a line that
is written over; where neither can be (a pipe, a log) there is none.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sys
import uuid
from collections.abc import Callable
from typing import Final

from IPython.core.interactiveshell import InteractiveShell

from cassette_lab.notebook.display import QuietLine, publish
from cassette_lab.views.theme import fit

FIRST_AFTER_S: Final = 0.5
EVERY_S: Final = 0.25
_ERASE: Final = "\r\x1b[K"


class LiveLine:
    """Shows ``line()`` again and again, between ``start()`` and ``stop()``, on the running event loop."""

    def __init__(self, shell: InteractiveShell, line: Callable[[], QuietLine]) -> None:
        self._line = line
        self._in_place = _can_update(shell)
        self._on_a_terminal = not self._in_place and sys.stdout.isatty()
        self._display_id = ""
        self._shown = ""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, if there is anywhere to show it."""
        if self._in_place or self._on_a_terminal:
            self._task = asyncio.create_task(self._keep_showing())

    async def stop(self) -> None:
        """End, and take the line away."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        if self._on_a_terminal and self._shown:
            sys.stdout.write(_ERASE)
            sys.stdout.flush()

    def finish(self, line: QuietLine) -> None:
        """Show the last line: where the live one stood, if there was one."""
        if self._display_id:
            publish(line.bundle(), display_id=self._display_id, update=True)
        else:
            publish(line.bundle())

    async def _keep_showing(self) -> None:
        await asyncio.sleep(FIRST_AFTER_S)
        while True:
            line = self._line()
            if str(line) != self._shown:
                self._show(line)
            await asyncio.sleep(EVERY_S)

    def _show(self, line: QuietLine) -> None:
        self._shown = str(line)
        if self._on_a_terminal:
            sys.stdout.write(_ERASE + fit(self._shown, shutil.get_terminal_size().columns - 1))
            sys.stdout.flush()
        elif self._display_id:
            publish(line.bundle(), display_id=self._display_id, update=True)
        else:
            self._display_id = f"cassette-{uuid.uuid4().hex}"
            publish(line.bundle(), display_id=self._display_id)


def _can_update(shell: InteractiveShell) -> bool:
    """Whether displays under a cell can be changed later: in a kernel they can."""
    return hasattr(shell, "kernel")
