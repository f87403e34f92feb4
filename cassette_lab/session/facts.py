"""What a session log tells when it is read as a whole: turns, steps, model calls, tool calls, compactions, relations.

Plain frozen facts; most are structs, for a log has many, and data classes are made ten times as slowly. None is what the
log does not say; nothing is guessed. Times (``*_at``) are in epoch ms as the log has them, durations in ms; a duration that
would be negative, because a clock stepped back, is unknown. ``inherited`` facts belong to the prefix that a fork took over
from its parent: shown, never counted. Source: session logs, Calls, and where chunks and times live; Parents and children.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, TypeVar

import msgspec

from cassette_lab.jsonio import JsonObject
from cassette_lab.session.model import Physical, Problem, SessionHeader
from cassette_lab.session.spans import Time, covered_ms, span_ms
from cassette_lab.session.usage import Usage, total

SettledAs: TypeAlias = Literal["message", "attempt", "none"]


class Turn(msgspec.Struct, frozen=True, gc=False):
    """One turn. ``end_kind`` is None while it is open; ``completed`` is the only success.

    ``end_cause`` says who aborted it, ``error_code`` and ``error_status`` why it failed. ``queued_at`` is when the message
    that began it was put into the agent's inbox. ``start_seq`` or ``end_seq`` is None where that event is not there.
    """

    turn: int | None
    start_seq: int | None = None
    started_at: Time | None = None
    end_seq: int | None = None
    ended_at: Time | None = None
    end_kind: str | None = None
    end_cause: str | None = None
    error_code: str | None = None
    error_status: int | None = None
    queued_at: Time | None = None
    inherited: bool = False

    @property
    def is_open(self) -> bool:
        """It began and did not end."""
        return self.end_seq is None

    @property
    def duration_ms(self) -> float | None:
        """From start to end."""
        return span_ms(self.started_at, self.ended_at)

    @property
    def queued_ms(self) -> float | None:
        """How long the message that began it waited in the inbox."""
        return span_ms(self.queued_at, self.started_at)


class Step(msgspec.Struct, frozen=True, gc=False):
    """One step of a turn: a model call with its retries, and the tools it called.

    ``queued_at`` is when the first of the messages that joined the turn at this step was put into the agent's inbox (what a
    person added meanwhile, a subagent's end); None where none did.
    """

    turn: int | None
    step: int | None
    start_seq: int | None = None
    started_at: Time | None = None
    end_seq: int | None = None
    ended_at: Time | None = None
    queued_at: Time | None = None
    inherited: bool = False

    @property
    def is_open(self) -> bool:
        """It began and did not end."""
        return self.end_seq is None

    @property
    def duration_ms(self) -> float | None:
        """From start to end."""
        return span_ms(self.started_at, self.ended_at)

    @property
    def queued_ms(self) -> float | None:
        """How long the first message that joined it waited in the inbox."""
        return span_ms(self.queued_at, self.started_at)


class ModelCall(msgspec.Struct, frozen=True, gc=False):
    """One call of a model, or one attempt at it: what streamed, how it ended, what it cost.

    ``attempt`` counts the calls of one step from 1. ``requested_at`` estimates when the request was sent, which no log
    says: the time of the last event that comes before every request, whose type is ``requested_by``. ``settled_as`` is
    the event that closed it: a message, an attempt (formats 2 and later), or none (formats 0 and 1, when it failed).
    ``finish`` is the finish chunk's reason; None where the stream was cut or cancelled. ``usage`` is the message's, without
    one the stream's last. ``text_chars``, ``reasoning_chars`` and ``argument_chars`` count code points of what streamed;
    ``text`` and ``reasoning`` are kept only when asked for.
    """

    turn: int | None
    step: int | None
    attempt: int
    settled_as: SettledAs
    interrupted: bool = False
    provider: str | None = None
    model: str | None = None
    requested_at: Time | None = None
    requested_by: str | None = None
    chunks: int = 0
    deltas: int = 0
    first_chunk_at: Time | None = None
    first_delta_at: Time | None = None
    last_delta_at: Time | None = None
    last_chunk_at: Time | None = None
    settled_at: Time | None = None
    finish: JsonObject | None = None
    finish_kind: str | None = None
    error_code: str | None = None
    usage: Usage | None = None
    text_chars: int = 0
    reasoning_chars: int = 0
    argument_chars: int = 0
    text: str | None = None
    reasoning: str | None = None
    inherited: bool = False

    @property
    def first_chunk_ms(self) -> float | None:
        """Time to the first chunk, from the estimated request on."""
        return span_ms(self.requested_at, self.first_chunk_at)

    @property
    def duration_ms(self) -> float | None:
        """From the estimated request to the last chunk; without a chunk, to the event that settled the call."""
        return span_ms(self.requested_at, self.settled_at if self.last_chunk_at is None else self.last_chunk_at)

    @property
    def tokens_per_second(self) -> float | None:
        """Output tokens per second between the first and the last delta; None where they are not apart."""
        streamed_ms = span_ms(self.first_delta_at, self.last_delta_at)
        output = None if self.usage is None else self.usage.output_tokens
        return None if output is None or not streamed_ms else output * 1_000 / streamed_ms


class Retry(msgspec.Struct, frozen=True, gc=False):
    """A model call that failed and was to be made again. ``delay_ms`` is the back-off as it was planned.

    ``started_at`` is when it was made again; None where it never was.
    """

    turn: int | None
    step: int | None
    retry: int | None
    max_retries: int | None = None
    delay_ms: float | None = None
    error_code: str | None = None
    error_status: int | None = None
    failed_at: Time | None = None
    started_at: Time | None = None
    inherited: bool = False


class Job(msgspec.Struct, frozen=True, gc=False):
    """A tool's work as the harness kept it (format 4): tighter than the call, and it may outlive the call's result."""

    job_id: str | None
    kind: str | None = None
    call_id: str | None = None
    root_call_id: str | None = None
    started_at: Time | None = None
    finished_at: Time | None = None
    status: str | None = None
    cause: str | None = None
    inherited: bool = False

    @property
    def duration_ms(self) -> float | None:
        """From start to finish."""
        return span_ms(self.started_at, self.finished_at)


class ToolCall(msgspec.Struct, frozen=True, gc=False):
    """One tool call, and the first result it got. ``is_error`` is None while there is none.

    ``argument_bytes`` and ``result_bytes`` are UTF-8 (of a result its text blocks); ``arguments`` and ``result`` are kept
    only when asked for. ``parent_call_id``: the call was made by code that another call ran. ``delegates``: its tool starts
    subagents; ``child_session_id`` is the one it started, as far as its result names it, ``delegation_label`` what the call
    named it.
    """

    turn: int | None
    step: int | None
    call_id: str | None
    name: str | None
    started_at: Time | None = None
    ended_at: Time | None = None
    is_error: bool | None = None
    error_name: str | None = None
    error_code: str | None = None
    argument_bytes: int | None = None
    result_bytes: int | None = None
    parent_call_id: str | None = None
    delegates: bool = False
    child_session_id: str | None = None
    delegation_label: str | None = None
    arguments: str | None = None
    result: str | None = None
    inherited: bool = False

    @property
    def has_result(self) -> bool:
        """Whether it was answered."""
        return self.is_error is not None

    @property
    def duration_ms(self) -> float | None:
        """From call to result."""
        return span_ms(self.started_at, self.ended_at)


class Compaction(msgspec.Struct, frozen=True, gc=False):
    """A span of the conversation that was summed up. ``turn`` is None outside a turn.

    One that failed has ``failed`` and no usage, though it called a model. ``ended_at`` None: it is still open.
    """

    compaction_id: str | None
    turn: int | None = None
    start_seq: int | None = None
    started_at: Time | None = None
    ended_at: Time | None = None
    summarised: bool = False
    failed: bool = False
    provider: str | None = None
    model: str | None = None
    shadowed_tokens: int | None = None
    usage: Usage | None = None
    inherited: bool = False

    @property
    def duration_ms(self) -> float | None:
        """From start to end; its stream is not logged."""
        return span_ms(self.started_at, self.ended_at)


class Prune(msgspec.Struct, frozen=True, gc=False):
    """Events that were cut out of what the model sees, without a summary and without a model call."""

    seq: int
    pruned_at: Time | None = None
    shadowed_tokens: int | None = None
    inherited: bool = False


class Child(msgspec.Struct, frozen=True, gc=False):
    """A subagent as its parent's catalog has it (formats 3 and later)."""

    session_id: str
    created_at: Time | None = None
    mode: str | None = None
    label: str | None = None
    noted_at: Time | None = None
    inherited: bool = False


class Descriptor(msgspec.Struct, frozen=True, gc=False):
    """What a subagent's own log says it was started as."""

    mode: str | None = None
    provider: str | None = None
    label: str | None = None
    agent_provider: str | None = None
    agent_model: str | None = None


class Settlement(msgspec.Struct, frozen=True, gc=False):
    """The message by which a background subagent's end reached its parent."""

    session_id: str
    settled_at: Time | None = None
    inherited: bool = False


class Surface(msgspec.Struct, frozen=True, gc=False):
    """What the session's model sees, its whole log folded: the seqs of the events, in order.

    ``problem`` is the rule that an event broke; ``nodes`` then are what was there before it.
    """

    nodes: tuple[int, ...] = ()
    replacements: int = 0
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """Everything derived from one log, in the order of the log.

    ``event_types``, ``first_at``, ``last_at`` (the earliest and the latest time), ``message_usage`` (of the assistant's
    messages), ``final_text`` (the text of the last of them) and ``title`` are of the session's own part. Messages in the shape
    of logs older than the first release have no final text.
    """

    header: SessionHeader
    path: str | None
    physical: Physical
    row_count: int
    event_count: int
    inherited_events: int
    torn_bytes: int
    problems: tuple[Problem, ...]
    has_times: bool
    missing_times: int
    event_types: Mapping[str, int]
    first_at: Time | None
    last_at: Time | None
    turns: tuple[Turn, ...]
    steps: tuple[Step, ...]
    model_calls: tuple[ModelCall, ...]
    retries: tuple[Retry, ...]
    tool_calls: tuple[ToolCall, ...]
    dispatches: tuple[ToolCall, ...]
    jobs: tuple[Job, ...]
    compactions: tuple[Compaction, ...]
    prunes: tuple[Prune, ...]
    surface: Surface
    children: tuple[Child, ...]
    settlements: tuple[Settlement, ...]
    descriptor: Descriptor | None
    message_usage: Usage
    final_text: str | None
    title: str | None = None
    first_prompt: str | None = None

    @property
    def id(self) -> str:
        """The session's id."""
        return self.header.id

    @property
    def is_open(self) -> bool:
        """The last own turn that began did not end."""
        started = [turn for turn in own(self.turns) if turn.start_seq is not None]
        return bool(started) and started[-1].is_open

    @property
    def end_kind(self) -> str | None:
        """How the last own turn ended; None where none did, or while one is open."""
        return None if self._last_turn is None else self._last_turn.end_kind

    @property
    def end_code(self) -> str | None:
        """The error code of the turn that ``end_kind`` is of, where it failed with one."""
        return None if self._last_turn is None else self._last_turn.error_code

    @property
    def _last_turn(self) -> Turn | None:
        """The own turn that ended last; None also while one is open."""
        ended = [turn for turn in own(self.turns) if turn.end_seq is not None]
        return ended[-1] if ended and not self.is_open else None

    @property
    def active_ms(self) -> float | None:
        """Time in own turns, each instant once; an open turn lasts until the latest own event. None without known times."""
        spans = []
        for turn in own(self.turns):
            end = self.last_at if turn.is_open and turn.start_seq is not None else turn.ended_at
            if span_ms(turn.started_at, end) is not None:
                spans.append((turn.started_at or 0, end or 0))
        return covered_ms(spans) if spans else None

    @property
    def failed_usage(self) -> Usage:
        """What own calls without a message cost, as far as their streams say; usually nothing is known."""
        return total(call.usage for call in own(self.model_calls) if call.settled_as != "message")

    @property
    def compaction_usage(self) -> Usage:
        """What own compactions cost; of failed ones nothing is known."""
        return total(compaction.usage for compaction in own(self.compactions))

    @property
    def usage(self) -> Usage:
        """Everything the session itself is known to have cost: messages, failed calls, compactions."""
        return total((self.message_usage, self.failed_usage, self.compaction_usage))


class _Inheritable(Protocol):
    @property
    def inherited(self) -> bool: ...


_Fact = TypeVar("_Fact", bound=_Inheritable)


def own(facts: Iterable[_Fact]) -> list[_Fact]:
    """Those that are the session's own, not its parent's."""
    return [fact for fact in facts if not fact.inherited]
