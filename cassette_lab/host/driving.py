"""One call from start to disposal, with whoever waits for it in charge: cancelling the waiter stops the run."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from cassette_lab.contracts import AbortController, AbortSignal, SubagentProvider, SubagentRequest, SubagentResult
from cassette_lab.errors import ConfigError
from cassette_lab.host.tasks import abort, wait_a_little


async def drive(
    provider: SubagentProvider, request: SubagentRequest, controllers: set[AbortController] | None = None
) -> SubagentResult:
    """Start ``request``, wait for its result, dispose the run.

    ``ConfigError`` (code ``SUBAGENT_UNSUPPORTED``) where the request asks for what the provider cannot do; nothing starts then.
    Cancelling the caller aborts the run, waits a little (``CLEAN_UP_S``) for it to end, and raises ``CancelledError`` again.
    A request without a signal gets one; while it runs its controller is in ``controllers``.
    """
    __tracebackhide__ = True  # of a function's own error people want to see their own lines
    _check_capabilities(provider, request)
    check_signal(request.signal)
    if request.signal is not None:
        return await _drive(provider, request, None)
    controller = AbortController()
    request = replace(request, signal=controller.signal)
    if controllers is None:
        return await _drive(provider, request, controller)
    controllers.add(controller)
    try:
        return await _drive(provider, request, controller)
    finally:
        controllers.discard(controller)


def check_signal(signal: object) -> None:
    """``ConfigError`` for what is given as a signal and is none."""
    if signal is not None and not isinstance(signal, AbortSignal):
        raise ConfigError(
            f"signal is an AbortSignal (the .signal of an AbortController), not {type(signal).__name__}", field="signal"
        )


def _check_capabilities(provider: SubagentProvider, request: SubagentRequest) -> None:
    able = provider.capabilities
    for wanted, can, field in (
        (request.output_schema, able.output_schema, "outputSchema"),
        (request.max_depth, able.depth_limit, "maxDepth"),
        (request.tool_filter, able.tool_filter, "toolFilter"),
        (request.persona, able.persona, "persona"),
    ):
        if wanted is not None and not can:
            raise ConfigError(
                f"the provider {provider.name!r} does not support {field}; leave it out, or take another provider",
                field=field,
                code="SUBAGENT_UNSUPPORTED",
            )


async def _drive(provider: SubagentProvider, request: SubagentRequest, controller: AbortController | None) -> SubagentResult:
    __tracebackhide__ = True
    run = await provider.start(request)
    try:
        result = await run.result()
    except asyncio.CancelledError as error:
        if controller is not None:
            abort(controller, error)
        await wait_a_little([asyncio.create_task(run.dispose())])
        raise
    except BaseException:
        await run.dispose()
        raise
    await run.dispose()
    return result
