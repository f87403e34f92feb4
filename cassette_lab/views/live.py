"""Widgets that a kernel keeps for its front end, and their end: a cell that runs again closes what it showed before.

ipywidgets keeps every widget until it is closed, because somebody may look at it. What a cell showed is out of sight as soon
as that cell runs again, so then it is closed, unless another cell shows it, too.
"""

from __future__ import annotations

from typing import Any, Protocol

from cassette_lab.views.naming import kernel_shell


class Closable(Protocol):
    """Something with a widget; ``is_given_away``: somebody has asked for that, and may show it by other ways."""

    is_given_away: bool

    def close(self) -> None:
        """Give the widget up."""
        ...


_shown: dict[str, list[Closable]] = {}
"""What each cell shows, by the cell's id."""
_watched: set[int] = set()


def shown(view: Closable) -> None:
    """Keep that the cell that runs shows this view. A front end that does not name its cells keeps all it was shown."""
    shell = kernel_shell()
    cell = _cell_that_runs(shell)
    if cell is None:
        return
    if id(shell) not in _watched:
        _watched.add(id(shell))
        shell.events.register("pre_run_cell", _close_before)
    views = _shown.setdefault(cell, [])
    if not any(each is view for each in views):
        views.append(view)


def _close_before(info: Any) -> None:
    for view in _shown.pop(getattr(info, "cell_id", None) or "", []):
        if not view.is_given_away and not any(each is view for views in _shown.values() for each in views):
            view.close()


def _cell_that_runs(shell: Any) -> str | None:
    if shell is None:
        return None
    header = shell.get_parent() if hasattr(shell, "get_parent") else {}
    cell = (header.get("metadata") or {}).get("cellId")
    return cell if isinstance(cell, str) else None
