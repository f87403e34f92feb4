"""What a flight recorder keeps of a model request: its shape, its times and how it ended. No text of it.

Names in JSON (``to_json``) are the original's. Counts of characters are UTF-16 code units, durations are milliseconds of a
monotonic clock. Source: flight records, protocol 1, record schema 1; ``RecordExtra`` goes beyond it and stands beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

from cassette_lab.contracts import FailureCode
from cassette_lab.jsonio import JsonObject, camel_case
from cassette_lab.jsonio.text import show
from cassette_lab.words import duration_text

PROTOCOL_VERSION: Final = 1
RECORD_SCHEMA_VERSION: Final = 1
CAPABILITIES: Final = ("diff", "health", "query", "snapshot", "subscribe")
SUFFIX: Final = ".flight.json"
"""How the name of a saved snapshot ends."""

OutcomeKind: TypeAlias = Literal["running", "finished", "threw", "incomplete"]
OUTCOME_KINDS: Final[tuple[OutcomeKind, ...]] = get_args(OutcomeKind)
ErrorKind: TypeAlias = Literal[
    "error", "type-error", "range-error", "syntax-error", "reference-error", "uri-error", "eval-error", "aggregate-error",
    "abort-error", "timeout-error", "non-error-thrown",
]  # fmt: skip
ERROR_KINDS: Final[tuple[ErrorKind, ...]] = get_args(ErrorKind)
IncompleteReason: TypeAlias = Literal["stream-ended-without-finish", "consumer-returned", "consumer-threw"]
INCOMPLETE_REASONS: Final[tuple[IncompleteReason, ...]] = get_args(IncompleteReason)
MissReason: TypeAlias = Literal["missing-signal", "missing-pending", "agent-mismatch", "session-mismatch"]
MISS_REASONS: Final[tuple[MissReason, ...]] = get_args(MissReason)
AbortCause: TypeAlias = Literal["user", "timeout", "dispose"]
ABORT_CAUSES: Final[tuple[AbortCause, ...]] = get_args(AbortCause)

ERROR_CODES: Final[frozenset[str]] = frozenset({"ABORTED", *get_args(FailureCode)})
"""Codes of failures that are kept: those a model's adapter gives, and that of an abort."""
OTHER_CODE: Final = "OTHER"
"""Stands for a failure code that is not one of ``ERROR_CODES``: whoever made it up, it is not kept."""


class ToolShape(NamedTuple):
    """A tool that was offered: its name, and of how many values its schema consists."""

    name: str
    parameter_nodes: int


class NamedSize(NamedTuple):
    """A part of a prompt: its name and length."""

    name: str
    characters: int


class MessageCounts(NamedTuple):
    """How many messages, by role and by source, and how many blocks of content by type."""

    total: int
    by_role: Mapping[str, int]
    by_source: Mapping[str, int]
    by_block_type: Mapping[str, int]

    def to_json(self) -> JsonObject:
        """As it is written."""
        return {
            "total": self.total,
            "byRole": dict(self.by_role),
            "bySource": dict(self.by_source),
            "byBlockType": dict(self.by_block_type),
        }


class RequestProjection(NamedTuple):
    """What was sent, without its texts. ``None``: not set."""

    provider: str
    model: str
    messages: MessageCounts
    system_characters: int = 0
    tools: tuple[ToolShape, ...] = ()
    reasoning_effort: str | None = None
    temperature: float | None = None
    max_tokens: float | None = None
    stop_count: int | None = None

    def to_json(self) -> JsonObject:
        """As it is written."""
        return {
            "provider": self.provider,
            "model": self.model,
            **_known(
                reasoningEffort=self.reasoning_effort,
                temperature=self.temperature,
                maxTokens=self.max_tokens,
                stopCount=self.stop_count,
            ),
            "messages": self.messages.to_json(),
            "systemCharacters": self.system_characters,
            "tools": [{"name": tool.name, "parameterNodes": tool.parameter_nodes} for tool in self.tools],
        }


class PromptAssembly(NamedTuple):
    """Of what the system prompt was put together, in its order, duplicates kept."""

    sections: tuple[NamedSize, ...] = ()
    contexts: tuple[NamedSize, ...] = ()
    tools: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()

    def to_json(self) -> JsonObject:
        """As it is written."""
        return {
            "sections": [{"name": part.name, "characters": part.characters} for part in self.sections],
            "contexts": [{"name": part.name, "characters": part.characters} for part in self.contexts],
            "tools": list(self.tools),
            "variables": list(self.variables),
        }


@dataclass(frozen=True, slots=True)
class Omissions:
    """How much was left out of a record, or shortened, because of its limits."""

    request_tools: int = 0
    prompt_tools: int = 0
    prompt_sections: int = 0
    prompt_contexts: int = 0
    prompt_variables: int = 0
    message_roles: int = 0
    message_sources: int = 0
    message_block_types: int = 0
    oversized_names: int = 0
    truncated_tool_schemas: int = 0

    def __add__(self, other: Omissions) -> Omissions:
        return Omissions(*(getattr(self, name) + getattr(other, name) for name in OMISSION_NAMES.values()))

    def __bool__(self) -> bool:
        return self is not NOTHING_OMITTED and self != NOTHING_OMITTED

    @property
    def request_count(self) -> int:
        """What is missing of the request."""
        messages = self.message_roles + self.message_sources + self.message_block_types
        return self.request_tools + messages + self.oversized_names + self.truncated_tool_schemas

    @property
    def prompt_count(self) -> int:
        """What is missing of the assembly of the prompt."""
        return self.prompt_tools + self.prompt_sections + self.prompt_contexts + self.prompt_variables

    def to_json(self) -> JsonObject:
        """As it is written."""
        return {name: getattr(self, attribute) for name, attribute in OMISSION_NAMES.items()}


NOTHING_OMITTED: Final = Omissions()


def _known(**members: Any) -> JsonObject:
    """The members that are set."""
    return {name: value for name, value in members.items() if value is not None}


OMISSION_NAMES: Final = {camel_case(each.name): each.name for each in fields(Omissions)}
"""Member names of ``Omissions`` and its attributes."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, as the model counted them. The counts are disjoint: billed input is input and both cache counts together."""

    input_tokens: float | None = None
    output_tokens: float | None = None
    cache_read_tokens: float | None = None
    cache_write_tokens: float | None = None
    reasoning_tokens: float | None = None

    def to_json(self) -> JsonObject:
        """As it is written; a count that was not given is missing."""
        return _known(**{name: getattr(self, attribute) for name, attribute in USAGE_NAMES.items()})


USAGE_NAMES: Final = {camel_case(each.name): each.name for each in fields(Usage)}
"""Member names of ``Usage`` and its attributes."""


class Outcome(NamedTuple):
    """How a request ended, or that it has not yet. Exactly one of ``finish``, ``error`` and ``reason`` tells more."""

    kind: OutcomeKind
    finish: str | None = None
    error: ErrorKind | None = None
    reason: IncompleteReason | None = None
    total_ms: float | None = None
    first_chunk_ms: float | None = None
    usage: Usage | None = None

    def __repr__(self) -> str:
        return f"<outcome: {self.summary}>"

    @property
    def summary(self) -> str:
        """In words, ``finished (stop), first chunk 120 ms, total 1.4 s, tokens in 10, out 3``, without what is not known."""
        words = [self.kind if self.detail is None else f"{self.kind} ({show(self.detail)})"]
        timed = (("first chunk", self.first_chunk_ms), ("total", self.total_ms))
        words += [f"{name} {duration_text(duration_ms)}" for name, duration_ms in timed if duration_ms is not None]
        if self.usage is not None:
            counted = (("tokens in", self.usage.input_tokens), ("out", self.usage.output_tokens))
            words += [f"{name} {count:,g}" for name, count in counted if count is not None]
        return ", ".join(words)

    @property
    def detail(self) -> str | None:
        """The kind of finish, the kind of error or the reason."""
        return self.finish or self.error or self.reason

    def to_json(self) -> JsonObject:
        """As it is written."""
        return {
            "kind": self.kind,
            **_known(
                finish=None if self.finish is None else {"kind": self.finish},
                error=None if self.error is None else {"kind": self.error},
                reason=self.reason,
                totalMs=self.total_ms,
                firstChunkMs=self.first_chunk_ms,
                usage=None if self.usage is None else self.usage.to_json(),
            ),
        }


RUNNING: Final = Outcome("running")


@dataclass(frozen=True, slots=True)
class RecordExtra:
    """What record schema 1 has no place for.

    ``prompt_assembly``: a retry's, which is that of its step's first attempt. ``error_code``: one of ``ERROR_CODES``, or
    ``OTHER_CODE``. ``aborted``: who stopped it. ``auxiliary``: no step of an agent loop (a title, a compaction).
    ``ended_by``: ``"run-end"`` where the run ended and nobody read the stream to its end. ``http_status``: of a failure that
    an endpoint answered with.
    """

    prompt_assembly: PromptAssembly | None = None
    error_code: str | None = None
    aborted: AbortCause | None = None
    auxiliary: bool = False
    ended_by: Literal["run-end"] | None = None
    http_status: int | None = None

    def __bool__(self) -> bool:
        return self is not NO_EXTRA and self != NO_EXTRA

    def to_json(self) -> JsonObject:
        """As it is written; what there is not is missing."""
        return _known(
            promptAssembly=None if self.prompt_assembly is None else self.prompt_assembly.to_json(),
            errorCode=self.error_code,
            httpStatus=self.http_status,
            aborted=self.aborted,
            endedBy=self.ended_by,
            auxiliary=self.auxiliary or None,
        )


NO_EXTRA: Final = RecordExtra()

EVIDENCE_KINDS: Final = ("exact", "derived", "inferred")
_EVIDENCE: Final = (("exact", "llm/stream"), ("exact", "agent/request"))
_PROMPT_EVIDENCE: Final = (*_EVIDENCE, ("derived", "system-prompt/assemble"))


class FlightRecord(NamedTuple):
    """One model request. ``started_at_ms`` is in milliseconds since 1970; ``attempt`` counts from 1 within a step."""

    id: str
    session_id: str
    turn: int
    step: int
    attempt: int
    started_at_ms: int
    request: RequestProjection
    prompt_assembly: PromptAssembly | None = None
    omissions: Omissions = NOTHING_OMITTED
    outcome: Outcome = RUNNING
    extra: RecordExtra = NO_EXTRA

    def __repr__(self) -> str:
        place = f"turn {self.turn}, step {self.step}, attempt {self.attempt}"
        model = show(f"{self.request.provider} / {self.request.model}")
        failed = "" if self.extra.http_status is None else f", HTTP {self.extra.http_status}"
        code = "" if self.extra.error_code is None else f", {self.extra.error_code}"
        session = show(self.session_id)
        return f"<flight record {show(self.id[:8])} of {session}: {place}, {model}, {self.outcome.summary}{failed}{code}>"

    @property
    def evidence(self) -> tuple[tuple[str, str], ...]:
        """What the record rests on: kind and source of each."""
        return _EVIDENCE if self.prompt_assembly is None else _PROMPT_EVIDENCE

    @property
    def known_assembly(self) -> PromptAssembly | None:
        """The assembly of its prompt, a retry's, too."""
        return self.extra.prompt_assembly if self.prompt_assembly is None else self.prompt_assembly

    def settled(self, outcome: Outcome, extra: RecordExtra) -> FlightRecord:
        """The same record with its end."""
        return tuple.__new__(FlightRecord, (*self[:-2], outcome, extra))

    def to_json(self) -> JsonObject:
        """As record schema 1 has it: without ``extra``."""
        members: JsonObject = {
            "schemaVersion": RECORD_SCHEMA_VERSION,
            "id": self.id,
            "sessionId": self.session_id,
            "turn": self.turn,
            "step": self.step,
            "attempt": self.attempt,
            "startedAt": self.started_at_ms,
            "request": self.request.to_json(),
        }
        if self.prompt_assembly is not None:
            members["promptAssembly"] = self.prompt_assembly.to_json()
        members["evidence"] = [{"kind": kind, "source": source} for kind, source in self.evidence]
        members["omissions"] = self.omissions.to_json()
        members["outcome"] = self.outcome.to_json()
        return members


def _no_misses() -> Mapping[MissReason, int]:
    return MappingProxyType(dict.fromkeys(MISS_REASONS, 0))


@dataclass(frozen=True, slots=True)
class Health:
    """Counters of a recorder since it began: what it saw, and what it could not see."""

    captured: int = 0
    completed: int = 0
    active: int = 0
    retained: int = 0
    evicted: int = 0
    truncated_records: int = 0
    correlation_misses: int = 0
    correlation_misses_by_reason: Mapping[MissReason, int] = field(default_factory=_no_misses)
    projection_failures: int = 0
    subscriber_failures: int = 0

    def to_json(self) -> JsonObject:
        """As it is written."""
        members: JsonObject = {name: getattr(self, attribute) for name, attribute in HEALTH_NAMES.items()}
        members["correlationMissesByReason"] = dict(self.correlation_misses_by_reason)
        return members


HEALTH_NAMES: Final = {camel_case(each.name): each.name for each in fields(Health)}
"""Member names of ``Health`` and its attributes."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A recorder at one moment. ``records`` are the newest first; ``auxiliary`` are those of no agent loop's step."""

    revision: int = 0
    health: Health = field(default_factory=Health)
    records: tuple[FlightRecord, ...] = ()
    auxiliary: tuple[FlightRecord, ...] = ()

    def to_json(self, *, extended: bool = False) -> JsonObject:
        """As protocol 1 has it; ``extended`` adds the member ``extensions``, where there is anything to tell."""
        members: JsonObject = {
            "info": {
                "protocolVersion": PROTOCOL_VERSION,
                "recordSchemaVersion": RECORD_SCHEMA_VERSION,
                "capabilities": list(CAPABILITIES),
            },
            "revision": self.revision,
            "health": self.health.to_json(),
            "records": [record.to_json() for record in self.records],
        }
        extras = {record.id: record.extra.to_json() for record in (*self.records, *self.auxiliary) if record.extra}
        if extended and (extras or self.auxiliary):
            ours = {"extras": extras, "auxiliary": [record.to_json() for record in self.auxiliary]}
            members["extensions"] = {"cassette_lab": ours}
        return members
