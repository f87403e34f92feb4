"""The second process of a shared scan: ``python -m cassette_lab.cassette.scan.worker DESCRIPTOR``.

It is a plain interpreter with this module as its main one, so nothing of the user's program is imported again. Over the
socket ``DESCRIPTOR`` come tasks; each names a file, a range of it, and brings an open file for the table. It ends when
the socket closes, and so when the first process ends, however that happens.
"""

from __future__ import annotations

import io
import json
import os
import socket
import struct
import sys
from typing import Any, Final

import pyarrow as pa

from cassette_lab.cassette.scan.blocks import DoubtError
from cassette_lab.cassette.scan.part import scan_part
from cassette_lab.cassette.without_pandas import do_without_pandas

_LENGTH: Final = struct.Struct("<Q")


def send_message(connection: socket.socket, message: dict[str, Any], descriptors: tuple[int, ...] = ()) -> None:
    """One JSON message behind its length, with open files."""
    data = json.dumps(message).encode()
    data = _LENGTH.pack(len(data)) + data
    sent = socket.send_fds(connection, [data], list(descriptors)) if descriptors else 0
    connection.sendall(data[sent:])


def receive_message(connection: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """The next message and the files that came with it; None when the other side has closed."""
    data, descriptors, _, _ = socket.recv_fds(connection, _LENGTH.size, 1)
    while len(data) < _LENGTH.size:
        if not (more := connection.recv(_LENGTH.size - len(data))):
            return None
        data += more
    left = _LENGTH.unpack(data)[0]
    pieces = []
    while left:
        if not (piece := connection.recv(min(left, 1 << 20))):
            return None
        pieces.append(piece)
        left -= len(piece)
    message: dict[str, Any] = json.loads(b"".join(pieces))
    return message, descriptors


def main(descriptor: int) -> None:
    """Work on tasks until the socket closes."""
    with socket.socket(fileno=descriptor) as connection:
        while received := receive_message(connection):
            task, (output,) = received
            with os.fdopen(output, "wb") as table:
                reply = _work(task, table)
            send_message(connection, reply)


def _work(task: dict[str, Any], table: io.BufferedWriter) -> dict[str, Any]:
    """Scan one range and write its rows as an Arrow stream; the reply holds the rest of the ``Part``."""
    try:
        with io.FileIO(task["path"]) as file:
            facts = os.fstat(file.fileno())
            if [facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns] != task["facts"]:
                return {"failed": True}
            part = scan_part(file, task["start"], task["stop"], task["storage"], bodies=task["bodies"])
        if part.batches:
            with pa.ipc.new_stream(table, part.batches[0].schema) as stream:
                for batch in part.batches:
                    stream.write_batch(batch)
            table.flush()
    except DoubtError:
        return {"doubt": True}
    except (OSError, MemoryError, pa.ArrowException):
        return {"failed": True}
    return {
        "previous_hash": part.previous_hash,
        "last_hash": part.last_hash,
        "line_count": part.line_count,
        "row_count": part.row_count,
        "raw_texts": [[name, row, value] for name, values in part.raw_texts.items() for row, value in values.items()],
    }


if __name__ == "__main__":
    do_without_pandas()
    main(int(sys.argv[1]))
    os._exit(0)  # at once: the first process waits for this one before it ends
