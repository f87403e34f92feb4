"""Where the plugin in the runtime talks to: one JSON document a line, on this machine, behind a secret word."""

from __future__ import annotations

import hmac
import json
import secrets
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

from cassette_lab.jsonio import JsonObject

Handler: TypeAlias = Callable[[JsonObject], Sequence[JsonObject] | None]
"""Gets each document that comes, in order, in the channel's thread, and ``TICK`` now and then while none comes. What it
returns goes back."""

TICK: Final[JsonObject] = {"e": "tick"}
TICK_S: Final = 0.25

MAX_LINE_BYTES: Final = 64 << 20


class Channel:
    """Listens from its making until ``close``. ``port`` and ``token`` are what the plugin needs to know."""

    def __init__(self, handler: Handler) -> None:
        self.token = secrets.token_urlsafe(24)
        self._handler = handler
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._threads = [self._thread(self._accept)]

    def close(self) -> None:
        """End the connections and the threads. What has come by then has been handled."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._threads[0].join()
        with self._lock:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def drain(self, timeout_s: float = 2.0) -> None:
        """Wait until the plugin has closed its connections, so that all it said has been handled."""
        for thread in self._threads[1:]:
            thread.join(timeout_s)

    def _thread(self, work: Callable[..., None], *arguments: Any) -> threading.Thread:
        thread = threading.Thread(target=work, args=arguments, name="cassette_lab harness channel", daemon=True)
        thread.start()
        return thread

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with self._lock:
                self._open.add(connection)
            self._threads.append(self._thread(self._serve, connection))

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection:
                lines = _lines(connection)
                if not self._is_plugin(next(lines, None) or b""):
                    return
                for line in lines:
                    for answer in self._handler(TICK if line is None else json.loads(line)) or ():
                        connection.sendall(json.dumps(answer).encode("ascii") + b"\n")
        except (OSError, ValueError):  # a connection that is gone, or somebody who is no plugin
            return
        finally:
            with self._lock:
                self._open.discard(connection)

    def _is_plugin(self, line: bytes) -> bool:
        try:
            token = json.loads(line)["token"]
        except (ValueError, TypeError, KeyError):
            return False
        return isinstance(token, str) and hmac.compare_digest(token.encode(), self.token.encode())


def _lines(connection: socket.socket) -> Iterator[bytes | None]:
    """The lines that come; None for each while in which none came."""
    rest = bytearray()
    connection.settimeout(TICK_S)
    while len(rest) <= MAX_LINE_BYTES:
        try:
            piece = connection.recv(1 << 16)
        except TimeoutError:
            yield None
            continue
        if not piece:
            return
        *whole, last = piece.split(b"\n")
        for line in whole:
            yield bytes(rest + line)
            rest.clear()
        rest += last
