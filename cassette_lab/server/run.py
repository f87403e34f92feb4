"""A replay server on an address of this machine, from the first request to Ctrl-C."""

from __future__ import annotations

import ipaddress
import os
import socket
from typing import TYPE_CHECKING, Final

from cassette_lab.contracts import LlmAdapter
from cassette_lab.errors import ConfigError

if TYPE_CHECKING:
    import uvicorn

LOOPBACK: Final = "127.0.0.1"


def listen(host: str = LOOPBACK, port: int = 0) -> socket.socket:
    """A socket that listens; connections wait in it until the server runs. Port 0 takes a free one.

    Raises ``ConfigError`` for an address that others could reach, and for one that cannot be used.
    """
    name = LOOPBACK if host == "localhost" else host
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        address = None
    if address is None or not address.is_loopback:
        raise ConfigError(f"recordings are served on this machine only: the host is {LOOPBACK}, ::1 or localhost, not {host!r}")
    listening = socket.socket(socket.AF_INET6 if address.version == 6 else socket.AF_INET)
    try:
        if os.name == "posix":  # elsewhere it would let another process take the port
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((name, port))
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise ConfigError(f"port {port} of {name} cannot be used ({error.strerror or error}); name another") from None
    return listening


def address_of(listening: socket.socket) -> str:
    """The base URL for a client of this server."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}/v1" if ":" in host else f"http://{host}:{port}/v1"


def make_server(model: LlmAdapter) -> uvicorn.Server:
    """A server whose ``run(sockets=[...])`` answers until it is interrupted, or ``should_exit`` is set.

    Raises ``ConfigError`` where the extra ``serve`` is not installed.
    """
    try:
        import uvicorn

        from cassette_lab.server.app import replay_app
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("uvicorn", "starlette"):
            raise
        raise ConfigError(
            "serving needs Starlette and uvicorn: install cassette-lab with its extra `serve`, "
            "or run `pip install starlette uvicorn`",
            code="EXTRA_MISSING",
        ) from None
    config = uvicorn.Config(
        replay_app(model),
        loop="asyncio",
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",  # a trace might show what a request or an answer holds
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=1,  # a call that hangs is no reason to stay
    )
    return uvicorn.Server(config)
