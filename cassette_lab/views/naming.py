"""What the tables of a view are called in the notebook that shows it, so that a copied selection runs there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_OWN: Final = ("In", "Out", "get_ipython", "exit", "quit", "open")


def shell() -> Any:
    """The IPython that runs this, or None; IPython is not imported for it."""
    import sys

    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()


def kernel_shell() -> Any:
    """The same where it is a kernel, which has a front end to talk to."""
    found = shell()
    return found if getattr(found, "kernel", None) is not None else None


def name_of(lab: Any, view: Any) -> str:
    """An expression for ``lab``: its variable, else the view's, else the output of the cell that shows it."""
    found = shell()
    if found is None:
        return "lab"
    names: Mapping[str, Any] = found.user_ns
    own = [name for name in names if name.isidentifier() and not name.startswith("_") and name not in _OWN]
    for wanted, words in ((lab, "{}"), (view, "{}.lab")):
        name = next((name for name in own if names[name] is wanted), None)
        if name is not None:
            return words.format(name)
    return f"Out[{found.displayhook.prompt_count}].lab"
