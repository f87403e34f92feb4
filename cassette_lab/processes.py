"""Starts another interpreter that runs a module of this package: it imports nothing of the user's program."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple


class Connected(NamedTuple):
    """A process and the connection to it; it ends when the connection closes."""

    connection: socket.socket
    process: subprocess.Popen[bytes]


def start_module(module: str, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    """``python -m MODULE ARGUMENTS``, without standard streams unless ``options`` of ``Popen`` name some.

    An interrupt from the keyboard does not reach it: that is for the process that started it. Raises ``OSError``.
    """
    if not sys.executable:
        raise OSError("this Python does not know where it is, and cannot start another one")
    home = str(Path(__file__).parents[1])
    path = os.pathsep.join([home, *filter(None, [os.environ.get("PYTHONPATH")])])
    silent = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    return subprocess.Popen(  # noqa: S603 - our own module
        [sys.executable, "-P", "-m", module, *arguments],
        **{**silent, **options},
        env={**os.environ, "PYTHONPATH": path},
        start_new_session=True,
    )


def start_connected(module: str) -> Connected:
    """``python -m MODULE DESCRIPTOR``, with a socket between the two. Raises ``OSError`` where that is not possible."""
    if os.name != "posix":
        raise OSError("this system cannot share work with a second process")
    connection, other = socket.socketpair()
    with other:
        try:
            process = start_module(module, str(other.fileno()), pass_fds=[other.fileno()])
        except BaseException:
            connection.close()
            raise
    return Connected(connection, process)
