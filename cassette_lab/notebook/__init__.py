"""The notebook extension: ``%load_ext cassette_lab`` puts ``%cassette`` and ``%flight`` into a shell, ``%unload_ext`` out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

OLDEST_IPYTHON: Final = (8, 24)


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Put the magics into ``shell``. ``UsageError`` in an IPython that is too old; loading twice does nothing."""
    import IPython
    from IPython.core.error import UsageError

    if IPython.version_info[:2] < OLDEST_IPYTHON:
        oldest = ".".join(map(str, OLDEST_IPYTHON))
        raise UsageError(f"cassette_lab needs IPython {oldest} or newer, this is {IPython.__version__}; pip install -U ipython")
    from cassette_lab.notebook.extension import load

    load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Take the magics out of ``shell``. ``UsageError`` while a line form holds a cassette open."""
    from cassette_lab.notebook.extension import unload

    unload(shell)
