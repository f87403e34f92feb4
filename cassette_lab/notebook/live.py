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
from typing import Final, Protocol

from IPython.core.interactiveshell import InteractiveShell

from cassette_lab.notebook.display import QuietLine, publish
from cassette_lab.views.theme import fit

FIRST_AFTER_S: Final = 0.5
EVERY_S: Final = 0.25
_ERASE: Final = "\r\x1b[K"
_NOTHING: Final = {"text/plain": "", "text/html": ""}
"""A display that takes no room."""


class LiveLine:
    """Shows ``line()`` again and again, between ``start()`` and ``stop()``, on the running event loop."""

    def __init__(self, shell: InteractiveShell, line: Callable[[], QuietLine]) -> None:
        self._line = line
        self._place = _place(shell)
        self._shown = ""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, if there is anywhere to show it."""
        if self._place is not None:
            self._task = asyncio.create_task(self._keep_showing(self._place))

    async def stop(self) -> None:
        """Show no more of it."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    def finish(self, line: QuietLine) -> None:
        """Take the live line away, and show the last one below whatever the cell has shown."""
        if self._place is None:
            publish(line.bundle())
        else:
            self._place.finish(line)

    async def _keep_showing(self, place: _Place) -> None:
        await asyncio.sleep(FIRST_AFTER_S)
        while True:
            line = self._line()
            if str(line) != self._shown:
                self._shown = str(line)
                place.show(line)
            await asyncio.sleep(EVERY_S)


class _Place(Protocol):
    """Where a line can be shown that changes."""

    def show(self, line: QuietLine) -> None: ...

    def finish(self, line: QuietLine) -> None: ...


class _Display:
    """Under the cell of a notebook: a display that is updated."""

    def __init__(self) -> None:
        self._display_id = ""

    def show(self, line: QuietLine) -> None:
        if self._display_id:
            publish(line.bundle(), display_id=self._display_id, update=True)
        else:
            self._display_id = f"cassette-{uuid.uuid4().hex}"
            publish(line.bundle(), display_id=self._display_id)

    def finish(self, line: QuietLine) -> None:
        if self._display_id:
            publish(_NOTHING, display_id=self._display_id, update=True)
        publish(line.bundle())


class _TerminalLine:
    """The last line of a terminal. It gives way to whatever else is written, and waits while that has not ended its line."""

    def __init__(self) -> None:
        self._stream = sys.stdout
        self._write: Callable[[str], int] = self._stream.write
        self._visible = False
        self._line_open = False
        self._watching = False

    def show(self, line: QuietLine) -> None:
        if not self._watching:
            self._watching = True
            setattr(self._stream, "write", self._give_way)  # noqa: B010 - a method is replaced, for a while
        if not self._line_open:
            self._write(_ERASE + fit(str(line), shutil.get_terminal_size().columns - 1))
            self._stream.flush()
            self._visible = True

    def finish(self, line: QuietLine) -> None:
        self._give_way("")
        if self._watching and vars(self._stream).get("write") == self._give_way:
            del self._stream.write
        publish(line.bundle())

    def _give_way(self, text: str) -> int:
        if self._visible:
            self._write(_ERASE)
            self._visible = False
        if text:
            self._line_open = not text.endswith("\n")
        return self._write(text)


def _place(shell: InteractiveShell) -> _Place | None:
    if hasattr(shell, "kernel"):
        return _Display()
    return _TerminalLine() if sys.stdout.isatty() else None
