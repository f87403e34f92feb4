"""A call that one thread hands over to the event loop of another, and waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final, TypeVar

from cassette_lab.cassette.recorder import NotAdmittedError
from cassette_lab.errors import ClosedError

T = TypeVar("T")
_HAND_OVER_S: Final = 10.0


async def hand_over(
    call: Callable[[], Coroutine[Any, Any, T]],
    loop: asyncio.AbstractEventLoop | None,
    *,
    accepts: Callable[[], bool],
    path: Path,
) -> T:
    """Make ``call`` on ``loop``, which is that of the thread that opened the cassette of ``path``; its result.

    ``NotAdmittedError`` where the cassette does not accept it any more, ``ClosedError`` where the loop is gone or does not
    take it within a while.
    """
    __tracebackhide__ = True
    taken: Future[None] = Future()

    async def make() -> T:
        if taken.set_running_or_notify_cancel():
            taken.set_result(None)
        return await call()

    if loop is None or loop.is_closed():
        raise ClosedError("the event loop that opened the cassette is gone; make the call from its thread", path=path)
    answer = asyncio.run_coroutine_threadsafe(make(), loop)
    try:
        async with asyncio.timeout(_HAND_OVER_S):
            await asyncio.wrap_future(taken)
    except TimeoutError:
        answer.cancel()
        if not accepts():
            raise NotAdmittedError("the cassette was closed before the call could start", path=path) from None
        raise ClosedError(
            f"the thread that opened the cassette has not taken this call for {_HAND_OVER_S:g} s: its event loop is "
            "blocked or does not run; await the other threads there (asyncio.to_thread) instead of joining them",
            path=path,
        ) from None
    return await asyncio.wrap_future(answer)
