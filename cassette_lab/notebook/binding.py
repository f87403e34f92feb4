"""Cells keep to the cassette that is open when they start, also in what they leave behind.

A line form spans several cells. A task that one of them starts may still run after ``%cassette stop``: it has to know
that its cassette is over, so that a replay never goes live. The context variable that tells it is set as a cell starts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from cassette_lab.host.active import ActiveCassette
from cassette_lab.host.current import current_cassette


class CellBinding:
    """Binds each cell of a shell while it runs. Cells of several threads (subshells) and cells inside cells each for itself."""

    def __init__(self) -> None:
        self._thread = threading.local()

    def register(self, shell: InteractiveShell) -> None:
        """Take part in every cell of ``shell`` from now on."""
        shell.events.register("pre_run_cell", self._begin)
        shell.events.register("post_run_cell", self._end)

    def unregister(self, shell: InteractiveShell) -> None:
        """Undo ``register``, for the cell that runs too."""
        self._end(None)
        shell.events.unregister("pre_run_cell", self._begin)
        shell.events.unregister("post_run_cell", self._end)

    def keep_to(self, cassette: ActiveCassette) -> None:
        """Let the rest of the running cell keep to ``cassette``, which it has just opened."""
        if self._cells:
            self._cells[-1].append(cassette.bind())

    @property
    def _cells(self) -> list[list[Callable[[], None]]]:
        """What undoes the bindings of each cell that runs in this thread, the innermost last."""
        cells: list[list[Callable[[], None]]] = self._thread.__dict__.setdefault("cells", [])
        return cells

    def _begin(self, _info: Any) -> None:
        self._cells.append([])
        cassette = current_cassette()
        if cassette is not None:
            self.keep_to(cassette)

    def _end(self, _result: Any) -> None:
        for undo in reversed(self._cells.pop() if self._cells else []):
            undo()
