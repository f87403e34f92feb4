"""Threads beside the event loop: functions that would block it, and calls that other threads hand over to it."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from cassette_lab.cassette.recorder import NotAdmittedError
from cassette_lab.errors import ClosedError

T = TypeVar("T")
_HAND_OVER_S: Final = 10.0


async def in_thread(call: Callable[[], T], *, name: str) -> T:
    """What ``call`` gives, made in a thread of its own, with the context variables of here.

    Nothing can end a thread: where the waiting is cancelled it works on until it returns, and nobody waits for it, neither
    other work nor the event loop's end. (The pool of ``asyncio.to_thread`` would be full of such threads before long.)
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if answer.done():
            return
        if error is None:
            answer.set_result(cast("T", result))
        else:
            answer.set_exception(error)

    def work() -> None:
        result: T | None = None
        failure: BaseException | None = None
        try:
            result = call()
        except StopIteration as error:  # no future takes it
            failure = RuntimeError("StopIteration was raised")
            failure.__cause__ = error
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            failure = error
        with contextlib.suppress(RuntimeError):  # the event loop is gone
            loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=contextvars.copy_context().run, args=(work,), name=name, daemon=True).start()
    return await answer


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
