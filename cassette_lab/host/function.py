"""``@subagent`` and ``run_subagent``: the two ways to call a subagent, through the active cassette where there is one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, ParamSpec, TypeVar, cast, overload

from cassette_lab.contracts import SubagentRequest, SubagentResult
from cassette_lab.errors import ConfigError, NoUpstreamError
from cassette_lab.host.ambient import current_parent, enter_parent, new_child
from cassette_lab.host.current import cassette_for_call
from cassette_lab.host.driving import drive
from cassette_lab.host.handlers import Handler
from cassette_lab.host.registry import REGISTRY
from cassette_lab.host.spawn import FUNCTIONS

P = ParamSpec("P")
R = TypeVar("R")


@overload
def subagent(
    label: str | None = None, /
) -> Callable[[Callable[P, Coroutine[Any, Any, R]]], Callable[P, Coroutine[Any, Any, R]]]: ...


@overload
def subagent(function: Callable[P, Coroutine[Any, Any, R]], /) -> Callable[P, Coroutine[Any, Any, R]]: ...


def subagent(label: Any = None, /) -> Any:
    """Make an ``async def`` a subagent: ``@subagent``, or ``@subagent("audit")`` to give it another label than its name.

    While a cassette records, calls are recorded: the label, the bound arguments (defaults applied) as plain JSON, and
    the result or error. While one replays, the recorded result comes back as the type that the function's annotation
    promises, a recorded error as a ``RecordedError`` that is also the builtin of that name. Without a cassette the
    function is just called. Defining a label again replaces it.

    A call raises ``IdentityError`` for an argument that is not plain JSON, and what the cassette raises
    (``MismatchError``, ``ClosedError``, …). ``ConfigError`` for a function that is not an ``async def``.
    """
    if callable(label):
        return _subagent(label, None)
    if label is not None and (not isinstance(label, str) or not label):
        raise ConfigError(f"the label of a subagent is a text, not {label!r}", field="label")
    return functools.partial(_subagent, label=label)


async def run_subagent(request: SubagentRequest, *, provider: str | None = None) -> SubagentResult:
    """Run a full request, through the active cassette where there is one, and wait for its result.

    Without a cassette ``provider`` runs it (default ``spawn``: the ``@subagent`` whose label the request has). A request
    without a parent belongs to whoever calls. Cancelling the caller aborts the run. Raises what the provider raises,
    ``NoUpstreamError`` where there is none, ``ConfigError`` where a recording records from another one.
    """
    __tracebackhide__ = True
    if request.parent is None:
        request = replace(request, parent=current_parent())
    cassette = cassette_for_call(request.label or "agent")
    if cassette is not None:
        recorded = cassette.upstream_provider
        if provider not in (None, recorded):
            verb = "records" if cassette.mode == "record" else "was recorded"
            raise ConfigError(f"the cassette {verb} from {recorded!r}, not from {provider!r}; record with upstream_provider")
        answer = await cassette.call(request)
        if answer is not None:
            return answer
    name = "spawn" if provider is None else provider
    upstream = REGISTRY.get(name)
    if upstream is None:
        raise NoUpstreamError(f"no provider {name!r} is registered; there is {', '.join(REGISTRY.names)}")
    return await drive(upstream, request)


def registered_names() -> tuple[str, ...]:
    """The names of the providers that can be recorded from or called."""
    return REGISTRY.names


def _subagent(function: Callable[P, Coroutine[Any, Any, R]], label: str | None) -> Callable[P, Coroutine[Any, Any, R]]:
    handler = Handler(function, label)

    @functools.wraps(function)
    async def call(*args: P.args, **kwargs: P.kwargs) -> R:
        __tracebackhide__ = True
        cassette = cassette_for_call(handler.label)
        if cassette is not None:
            result = await cassette.call(handler.request(args, kwargs, current_parent()))
            if result is not None:
                return cast("R", handler.value(result, replayed=cassette.mode == "replay"))
        leave = enter_parent(new_child(current_parent()))
        try:
            return await function(*args, **kwargs)
        finally:
            leave()

    FUNCTIONS.define(handler)
    return call
