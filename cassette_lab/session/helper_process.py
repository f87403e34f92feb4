"""The second process of shared reading: ``python -m cassette_lab.session.helper_process DESCRIPTOR``.

It is a plain interpreter with this module as its main one, so nothing of the user's program is imported again. Over the
socket ``DESCRIPTOR`` come tasks, each a function of this package and its arguments; without arguments it is to get ready for
such tasks. It ends when the socket closes, and so when the first process ends, however that happens.
"""

from __future__ import annotations

import os
import pickle
import socket
import struct
import sys
import time
from typing import Any, Final

READY: Final = "ready"
DONE: Final = "done"
FAILED: Final = "failed"
TOLD: Final = "told"
_LENGTH: Final = struct.Struct("<Q")
_TOLD_EVERY_S: Final = 0.1


def send_message(connection: socket.socket, message: bytes) -> None:
    """Bytes behind their length. Raises ``OSError``."""
    connection.sendall(_LENGTH.pack(len(message)))
    connection.sendall(message)


def receive_message(connection: socket.socket) -> bytes | None:
    """The next message; None when the other side has closed. Raises ``OSError``, also where its time is up."""
    length = _receive(connection, _LENGTH.size)
    return None if length is None else _receive(connection, _LENGTH.unpack(length)[0])


def _receive(connection: socket.socket, count: int) -> bytes | None:
    data = bytearray(count)
    left = memoryview(data)
    while left:
        received = connection.recv_into(left)
        if not received:
            return None
        left = left[received:]
    return bytes(data)


def main(descriptor: int) -> None:
    """Work on tasks until the socket closes."""
    with socket.socket(fileno=descriptor) as connection:
        try:
            while task := receive_message(connection):
                send_message(connection, _work(task, connection))
        except OSError:  # the first process is gone
            return


def _work(task: bytes, connection: socket.socket) -> bytes:
    """The answer to a task. Whatever goes wrong, the first process does the task itself, and meets it there."""
    last = time.monotonic()

    def tell(*words: Any) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _TOLD_EVERY_S:
            last = now
            send_message(connection, pickle.dumps((TOLD, words)))

    try:
        function, arguments = pickle.loads(task)  # noqa: S301 - from the process that started this one
        if arguments is None:  # all that is needed for such tasks is imported now
            return pickle.dumps((READY, function))
        return pickle.dumps((DONE, function(*arguments, tell)), protocol=5)
    except Exception:  # noqa: BLE001
        return pickle.dumps((FAILED, None))


if __name__ == "__main__":
    main(int(sys.argv[1]))
    os._exit(0)  # at once: the first process waits for this one before it ends
