"""Starts the second process of a shared scan: an interpreter of its own that works for this one (``scan.worker``).

Apart from ``scan``, so that a program that knows it will need the process can start it while it imports the rest.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple


class SecondProcess(NamedTuple):
    """The process and the connection to it; it ends when the connection closes."""

    connection: socket.socket
    process: subprocess.Popen[bytes]


def start_early() -> None:
    """Start the process that ``second_process`` will give, where there can be one."""
    with contextlib.suppress(OSError):
        if not _early:
            _early.append(_start())


def second_process() -> SecondProcess:
    """The process that was started early and is still there, or a new one; ``OSError`` where there cannot be one."""
    while _early:
        started = _early.pop()
        if started.process.poll() is None:
            return started
        started.connection.close()
    return _start()


_early: list[SecondProcess] = []


def _start() -> SecondProcess:
    if not sys.executable or not hasattr(socket, "send_fds"):
        raise OSError("this Python cannot share files with a second process")
    connection, other = socket.socketpair()
    with other:
        home = str(Path(__file__).parents[2])
        command = [sys.executable, "-P", "-m", "cassette_lab.cassette.scan.worker", str(other.fileno())]
        try:
            process = subprocess.Popen(  # noqa: S603 - our own module
                command,
                pass_fds=[other.fileno()],
                env={**os.environ, "PYTHONPATH": os.pathsep.join([home, *filter(None, [os.environ.get("PYTHONPATH")])])},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # an interrupt from the keyboard is for the first process
            )
        except BaseException:
            connection.close()
            raise
    return SecondProcess(connection, process)
