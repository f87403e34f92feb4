"""Why an endpoint gives no answer, or no whole one: what a person needs to know to change that."""

from __future__ import annotations

import errno
import os
import socket
import ssl

from cassette_lab.host.models.failures import ModelFailure
from cassette_lab.words import plural


def no_connection(base_url: str, error: BaseException, *, is_local: bool) -> ModelFailure:
    """Why there is none. Where nobody listens on this machine, or a host is unknown, waiting changes nothing."""
    reason, is_final = "", False
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, socket.gaierror):
            reason, is_final = "unknown host, look at its name in base_url", cause.errno != socket.EAI_AGAIN
        elif isinstance(cause, ConnectionRefusedError) or getattr(cause, "errno", None) == errno.ECONNREFUSED:
            reason, is_final = "connection refused, nothing listens there", is_local
        elif isinstance(cause, ssl.SSLError):
            reason, is_final = f"TLS fails: {cause.reason or type(cause).__name__}", False
        elif isinstance(cause, OSError) and cause.errno and not reason:
            reason = os.strerror(cause.errno)
        cause = cause.__cause__ or cause.__context__
    shown = f" ({reason})" if reason else ""
    return ModelFailure(f"there is no connection to {base_url}{shown}", code="TRANSPORT", is_final=is_final)


def nothing_told(received: int, status: int) -> ModelFailure:
    """The answer has ended, and there was not one event in it."""
    what = f"what it sends is no events ({plural(received, 'byte')})" if received else "nothing came: the answer is empty"
    return ModelFailure(f"the endpoint begins an answer (HTTP {status}), and {what}", code="STREAM_CLOSED")


def cut_off(events: int) -> ModelFailure:
    """An answer that ended before its proper end, after so many events."""
    return ModelFailure(
        f"the answer was cut off after {plural(events, 'chunk')}, before its finish"
        if events
        else "the endpoint ends its answer before it says anything",
        code="STREAM_CLOSED",
    )
