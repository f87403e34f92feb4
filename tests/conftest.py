"""No test of this process leaves the machine; in CI, property tests try the same examples at every run."""

from __future__ import annotations

import os
import sys
from typing import Any

from hypothesis import settings

_HERE = {"127.0.0.1", "::1", "localhost", "", None}


def _stay_here(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        host = arguments[1][0]
    elif event == "socket.getaddrinfo":
        host = arguments[0].decode() if isinstance(arguments[0], bytes) else arguments[0]
    else:
        return
    if host not in _HERE:
        raise RuntimeError(f"a test wants to reach {host}; tests are offline")


sys.addaudithook(_stay_here)

settings.register_profile("ci", derandomize=True, deadline=None)
if os.environ.get("CI"):
    settings.load_profile("ci")
