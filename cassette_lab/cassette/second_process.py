"""Starts the second process of a shared scan: an interpreter of its own that works for this one (``scan.worker``).

Apart from ``scan``, so that a program that knows it will need the process can start it while it imports the rest.
"""

from __future__ import annotations

import contextlib
import socket

from cassette_lab.processes import Connected, start_connected

_early: list[Connected] = []


def start_early() -> None:
    """Start the process that ``second_process`` will give, where there can be one."""
    with contextlib.suppress(OSError):
        if not _early:
            _early.append(_start())


def second_process() -> Connected:
    """The process that was started early and is still there, or a new one; ``OSError`` where there cannot be one."""
    while _early:
        started = _early.pop()
        if started.process.poll() is None:
            return started
        started.connection.close()
    return _start()


def _start() -> Connected:
    if not hasattr(socket, "send_fds"):
        raise OSError("this Python cannot share files with a second process")
    return start_connected("cassette_lab.cassette.scan.worker")
