"""The llm service: models by the name of their provider, each call an ``llm/stream`` event that others may watch or answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from weakref import WeakSet

from cassette_lab.contracts import LlmAdapter, ModelRequest, ModelStream
from cassette_lab.errors import ConfigError
from cassette_lab.event_bus import STREAM, EventBus, Undo
from cassette_lab.host.context import Context
from cassette_lab.host.tasks import wait_a_little


class Llm:
    """The models of one host. Whoever calls ``stream`` reads the stream and closes it (``contextlib.aclosing``).

    What nobody has closed is closed with the context.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._adapters: dict[str, LlmAdapter] = {}
        self._streams: WeakSet[ModelStream] = WeakSet()
        context.effect(self._close_streams)

    def __repr__(self) -> str:
        return f"<models: {', '.join(self._adapters) or 'none'}>"

    @property
    def providers(self) -> tuple[str, ...]:
        """The names that requests may have as their ``provider``."""
        return tuple(self._adapters)

    def register(self, provider: str, adapter: LlmAdapter) -> Undo:
        """Let ``adapter`` answer the requests to ``provider``. ``ConfigError`` where another one does."""
        if self._adapters.setdefault(provider, adapter) is not adapter:
            raise ConfigError(
                f"a model is registered for the provider {provider!r} already; take another name", field="provider"
            )

        def unregister() -> None:
            if self._adapters.get(provider) is adapter:
                del self._adapters[provider]

        return unregister

    def stream(self, request: ModelRequest) -> ModelStream:
        """Begin the call. Raises what listeners raise; if none answers, ``ConfigError`` for a provider without a model."""
        stream = self._context.stream(STREAM, request, self._call)
        with suppress(TypeError):  # one that cannot be referred to weakly is its reader's alone
            self._streams.add(stream)
        return stream

    def _call(self, request: ModelRequest) -> ModelStream:
        adapter = self._adapters.get(request.provider or "")
        if adapter is None:
            known = ", ".join(self._adapters) or "none"
            raise ConfigError(f"no model answers for the provider {request.provider!r}; there is {known}", field="provider")
        stream = adapter.stream(request)
        if not hasattr(stream, "aclose"):
            kind = type(stream).__name__
            raise ConfigError(f"the model of {request.provider!r} streams nothing: its stream() gave {kind}", field="model")
        return stream

    async def _close_streams(self) -> None:
        closing = [asyncio.ensure_future(_close(stream)) for stream in list(self._streams)]
        await wait_a_little(closing)
        for task in closing:
            task.cancel()  # a model that does not end must not keep the context from ending


async def _close(stream: ModelStream) -> None:
    with suppress(Exception):  # its reader is busy with it, or has seen its failure
        await stream.aclose()


def answer_with(bus: EventBus, adapter: LlmAdapter) -> Undo:
    """From here on ``adapter`` (a ``ReplayModel``, say) answers every call of the host; no other model is asked."""

    def answer(request: ModelRequest, _: Callable[..., Any]) -> ModelStream:
        return adapter.stream(request)

    return bus.on(STREAM, answer)
