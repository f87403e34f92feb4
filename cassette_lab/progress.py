"""A bar for work that takes long: in a notebook, and in a terminal where a command asks for one; never in a pipe or file.

It comes after two seconds and goes away when the work is done. ``tqdm`` is imported only then.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Final, Self

AFTER_S: Final = 2.0


class Bar:
    """Call it with how much is done and how much there is: it is a ``progress`` of ``load`` or ``session_facts``.

    ``what`` stands in front, ``unit`` behind the numbers; with ``scale`` large ones are shortened (3.1M). In a notebook it
    is shown, in a terminal only with ``terminal``. A context manager that takes it away at the end.
    """

    def __init__(
        self, what: str, *, unit: str = "file", scale: bool = False, terminal: bool = False, after_s: float | None = None
    ) -> None:
        self._options = {"desc": what, "unit": unit, "unit_scale": scale, "leave": False}
        self._is_wanted = in_notebook() or (terminal and _is_terminal(sys.stderr))
        self._begins_at = time.monotonic() + (AFTER_S if after_s is None else after_s)
        self._bar: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        del kind, error, trace
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.close()

    def __call__(self, done: int, total: int, source: str = "") -> None:
        """So much is done. ``source`` is not shown: anyone may have named a file."""
        del source
        if not self._is_wanted:
            return
        if self._bar is None:
            if time.monotonic() < self._begins_at or done >= total:
                return
            from tqdm.auto import tqdm

            self._bar = tqdm(total=total, initial=done, file=sys.stderr, **self._options)
        self._bar.update(done - self._bar.n)


def in_notebook() -> bool:
    """Whether this process is a Jupyter kernel."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream is not None and stream.isatty())
    except (OSError, ValueError):  # closed
        return False
