"""The seams between agents, subagent providers and whoever records or replays them.

Python attributes are snake_case; ``to_json`` / ``from_json`` give the host's camelCase members, in this one place.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Literal, Protocol, Self, TypeAlias, get_args, overload, runtime_checkable

from cassette_lab.jsonio import JsonObject, detach


class Absent:
    """Type of ``ABSENT``: a fact that the host does not give at all (``None`` would be JSON null)."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "ABSENT"

    def __bool__(self) -> bool:
        return False


ABSENT: Final = Absent()


class AbortSignal:
    """Tells a run that its caller wants it to stop. One per agent run; weakly referencable; aborts once.

    Belongs to one event loop; ``AbortController.abort`` is called on that loop.
    """

    __slots__ = ("__weakref__", "_aborted", "_listeners", "_reason")

    def __init__(self) -> None:
        self._aborted = False
        self._reason: BaseException | str | None = None
        self._listeners: dict[int, Callable[[], None]] = {}

    @property
    def aborted(self) -> bool:
        """Whether ``abort`` has been called."""
        return self._aborted

    @property
    def reason(self) -> BaseException | str | None:
        """What ``abort`` was given."""
        return self._reason

    def on_abort(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call ``listener`` once, at the abort (at once if it has happened); returns a function that takes it back."""
        if self._aborted:
            listener()
            return lambda: None
        key = id(listener)
        while key in self._listeners:
            key += 1
        self._listeners[key] = listener

        def remove() -> None:
            self._listeners.pop(key, None)

        return remove

    async def wait(self) -> None:
        """Return once aborted."""
        done = asyncio.get_running_loop().create_future()
        remove = self.on_abort(lambda: None if done.done() else done.set_result(None))
        try:
            await done
        finally:
            remove()

    def _abort(self, reason: BaseException | str | None) -> None:
        if self._aborted:
            return
        self._aborted = True
        self._reason = reason
        listeners, self._listeners = list(self._listeners.values()), {}
        errors = []
        for listener in listeners:
            try:
                listener()
            except Exception as error:  # noqa: BLE001 - all listeners first
                errors.append(error)
        if errors:
            raise errors[0]


class AbortController:
    """Owns one ``signal`` and aborts it."""

    __slots__ = ("signal",)

    def __init__(self) -> None:
        self.signal = AbortSignal()

    def abort(self, reason: BaseException | str | None = None) -> None:
        """Abort the signal; later calls do nothing. Every listener runs, also when one of them raises."""
        self.signal._abort(reason)  # noqa: SLF001 - the signal's other half


@dataclass(frozen=True, slots=True)
class ParentAgent:
    """All that identity may look at of the agent that starts a subagent.

    ``header`` is the session header (``cwd``, ``origin``, ``delegationDepth``, ``agentPreset`` count), ``events`` the
    session's events so far (``None``: it has none). ``composed_preset``, ``sandbox_override`` and
    ``approval_present`` are live facts of its host. The default of everything is the empty root: no cwd, no host.
    """

    id: str | int = "root"
    options: Mapping[str, Any] = field(default_factory=dict)
    header: Mapping[str, Any] = field(default_factory=dict)
    events: Sequence[Mapping[str, Any]] | None = None
    composed_preset: Any = ABSENT
    sandbox_override: Any = ABSENT
    approval_present: bool = False


ROOT_PARENT: Final = ParentAgent()
"""The parent of a request that names none."""


@dataclass(frozen=True, slots=True)
class SubagentRequest:
    """One delegated task. ``None`` means that the member is absent.

    ``prompt`` is an array of content blocks; ``parent`` and ``signal`` take no part in the request's identity.
    ``extra`` keeps the members that the typed ones cannot hold (a JSON null, say): they count in the identity
    where their names do.
    """

    prompt: Sequence[JsonObject]
    label: str | None = None
    agent_options: JsonObject | None = None
    output_schema: JsonObject | None = None
    max_depth: int | None = None
    tool_filter: JsonObject | None = None
    persona: str | None = None
    parent: ParentAgent | None = None
    signal: AbortSignal | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> JsonObject:
        """The request's members as the host names them; absent ones left out."""
        members: JsonObject = dict(self.extra)
        members["prompt"] = self.prompt
        for name, attribute in _REQUEST_NAMES.items():
            value = getattr(self, attribute)
            if value is not None:
                members[name] = value
        return members

    @classmethod
    def from_json(
        cls, members: Mapping[str, Any], *, parent: ParentAgent | None = None, signal: AbortSignal | None = None
    ) -> Self:
        """The request with these members; nothing is checked here, that is identity's work."""
        known = {_REQUEST_NAMES[name]: value for name, value in members.items() if name in _REQUEST_NAMES and value is not None}
        extra = {
            name: value for name, value in members.items() if name != "prompt" and (name not in _REQUEST_NAMES or value is None)
        }
        return cls(prompt=members.get("prompt"), parent=parent, signal=signal, extra=extra, **known)  # type: ignore[arg-type]


_RESULT_NAMES = frozenset({"output", "stopReason", "structured"})
_REQUEST_NAMES = {
    "label": "label",
    "agentOptions": "agent_options",
    "outputSchema": "output_schema",
    "maxDepth": "max_depth",
    "toolFilter": "tool_filter",
    "persona": "persona",
}


@dataclass(frozen=True, slots=True)
class SubagentResult:
    """How a run ended: content blocks, a stop reason, perhaps a structured value; ``extra`` keeps other members."""

    output: Sequence[JsonObject]
    stop_reason: str
    structured: Any = ABSENT
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        rest = [f"structured={self.structured!r}"] if self.structured is not ABSENT else []
        rest += [f"extra={dict(self.extra)!r}"] if self.extra else []
        return f"SubagentResult({', '.join([f'output={self.output!r}', f'stop_reason={self.stop_reason!r}', *rest])})"

    def to_json(self) -> JsonObject:
        """The result as the host writes it."""
        members: JsonObject = {"output": self.output, "stopReason": self.stop_reason}
        if self.structured is not ABSENT:
            members["structured"] = self.structured
        members.update(self.extra)
        return members

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> Self:
        """The result with these members; nothing is checked here."""
        extra = {} if members.keys() <= _RESULT_NAMES else {k: v for k, v in members.items() if k not in _RESULT_NAMES}
        return cls(
            output=members.get("output"),  # type: ignore[arg-type]
            stop_reason=members.get("stopReason"),  # type: ignore[arg-type]
            structured=members.get("structured", ABSENT),
            extra=extra,
        )


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Which members of a request a provider honours."""

    output_schema: bool = True
    depth_limit: bool = True
    tool_filter: bool = True
    persona: bool = True

    def to_json(self) -> JsonObject:
        """As the cassette header writes them."""
        return {
            "outputSchema": self.output_schema,
            "depthLimit": self.depth_limit,
            "toolFilter": self.tool_filter,
            "persona": self.persona,
        }

    @classmethod
    def from_json(cls, members: Mapping[str, bool]) -> Self:
        """From a header's (validated) members."""
        return cls(members["outputSchema"], members["depthLimit"], members["toolFilter"], members["persona"])


@runtime_checkable
class SubagentRun(Protocol):
    """A published run, owned by whoever called ``start``: await its result, then dispose it."""

    @property
    def id(self) -> str:
        """Unique in this process."""
        ...

    @property
    def local_agent(self) -> ParentAgent | None:
        """The child as a parent of further calls, when it runs in this process."""
        ...

    async def result(self) -> SubagentResult:
        """The terminal result. Many may wait; cancelling one waiter does not stop the run."""
        ...

    async def dispose(self) -> None:
        """Stop the run if it is still going and free what it holds. Idempotent."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


@runtime_checkable
class SubagentProvider(Protocol):
    """Starts runs. It owns what ``start`` has begun until ``start`` returns; the caller owns the run afterwards."""

    @property
    def name(self) -> str:
        """What it is registered under."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """Which members of a request it honours."""
        ...

    @property
    def inherits_parent_context(self) -> bool:
        """Whether a child sees its parent's history, which then counts in a call's identity."""
        ...

    async def start(self, request: SubagentRequest) -> SubagentRun:
        """Start the run that ``request`` asks for."""
        ...


class SubagentProviders(Protocol):
    """A registry of providers by name (the host's room implements it)."""

    def get(self, name: str) -> SubagentProvider | None:
        """The provider registered under ``name``, if any."""
        ...

    def register(self, provider: SubagentProvider) -> Callable[[], None]:
        """Register under ``provider.name``; ``ConfigError`` if the name is taken. Returns the function that undoes it."""
        ...


StreamChunk: TypeAlias = JsonObject
"""One piece of a model's answer as it arrives: a plain JSON object whose ``type`` is a ``ChunkType``.

``block-start`` {index, blockType}; ``text-delta`` and ``reasoning-delta`` {index, text}; ``tool-call-delta`` {index, id,
name?, argumentsDelta}; ``block-end`` {index, block}; ``usage`` {usage}; ``finish`` {reason, replayState?}, the last one.
"""

ChunkType: TypeAlias = Literal[
    "block-start", "text-delta", "reasoning-delta", "tool-call-delta", "block-end", "usage", "finish"
]
CHUNK_TYPES: Final[frozenset[str]] = frozenset(get_args(ChunkType))

FailureCode: TypeAlias = Literal[
    "AUTH", "CONTENT_FILTER", "CONTEXT_WINDOW_EXCEEDED", "EMPTY_RESPONSE", "INVALID_CREDENTIAL", "INVALID_REQUEST",
    "MALFORMED_RESPONSE", "MISSING_CREDENTIAL", "QUOTA", "RATE_LIMIT", "SERVER", "STREAM_CLOSED", "TIMEOUT", "TRANSPORT",
]  # fmt: skip
"""How a model call fails. ``TRANSPORT``: no connection, or one that broke; ``STREAM_CLOSED``: an answer that ended, in good
order, before its end; ``MALFORMED_RESPONSE``: not the protocol that was asked for; the rest is what the words say."""


class FrozenTools(Sequence[JsonObject]):
    """The tools of an agent loop, made once and offered at every step: a copy, never changed afterwards.

    Whoever meets the same object again may rely on it: what was computed of it holds. A plain list says nothing of the kind.
    """

    __slots__ = ("__weakref__", "_tools")

    def __init__(self, tools: Iterable[Mapping[str, Any]]) -> None:
        self._tools: tuple[JsonObject, ...] = tuple(detach(tool) for tool in tools)

    @overload
    def __getitem__(self, index: int) -> JsonObject: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[JsonObject, ...]: ...
    def __getitem__(self, index: int | slice) -> JsonObject | tuple[JsonObject, ...]:
        return self._tools[index]

    def __len__(self) -> int:
        return len(self._tools)

    def __iter__(self) -> Iterator[JsonObject]:
        return iter(self._tools)

    def __repr__(self) -> str:
        return f"FrozenTools({list(self._tools)!r})"


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class ModelRequest:
    """One call of a model. It is known by identity: two calls with the same content are two calls.

    ``messages`` are the conversation as plain JSON, each with ``role``, ``source`` and ``content``; ``tools`` the tools
    offered, each with ``name`` and, as a JSON schema, ``parameters``; ``options`` what else the call sets (``maxTokens``,
    ``temperature``, ``stop``, ``reasoningEffort``, …); ``system`` a system text that is not among the messages.
    ``session_id`` says whose call it is (``None``: nobody's), ``signal`` cancels it.
    """

    messages: Sequence[JsonObject]
    tools: Sequence[JsonObject] = ()
    provider: str | None = None
    model: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    session_id: str | None = None
    signal: AbortSignal | None = None
    system: str | None = None


@runtime_checkable
class ModelStream(Protocol):
    """The chunks of one answer. Whoever reads it closes it (``contextlib.aclosing``)."""

    def __aiter__(self) -> AsyncIterator[StreamChunk]: ...

    def __anext__(self) -> Awaitable[StreamChunk]:
        """The next chunk. Raises ``AbortError`` once the request's signal is aborted, and what the model fails with."""
        ...

    def athrow(self, error: BaseException, /) -> Awaitable[StreamChunk]:
        """Raise ``error`` where the stream stands."""
        ...

    def aclose(self) -> Awaitable[None]:
        """End the stream and free what it holds. Idempotent."""
        ...


@runtime_checkable
class LlmAdapter(Protocol):
    """A model that streams."""

    def stream(self, request: ModelRequest) -> ModelStream:
        """Begin the call. Returns at once; the call counts from here on, not from its first chunk."""
        ...
