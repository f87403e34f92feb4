"""Flight records from their JSON, every member checked: what a record may be, in one place.

Members that nobody here knows are passed over: a later writer of the same schema may have some. Source: flight records,
Shapes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from cassette_lab.flight.model import (
    ABORT_CAUSES,
    ERROR_CODES,
    ERROR_KINDS,
    EVIDENCE_KINDS,
    HEALTH_NAMES,
    INCOMPLETE_REASONS,
    MISS_REASONS,
    NO_EXTRA,
    OMISSION_NAMES,
    OTHER_CODE,
    OUTCOME_KINDS,
    PROTOCOL_VERSION,
    RECORD_SCHEMA_VERSION,
    USAGE_NAMES,
    FlightRecord,
    Health,
    MessageCounts,
    NamedSize,
    Omissions,
    Outcome,
    PromptAssembly,
    RecordExtra,
    RequestProjection,
    Snapshot,
    ToolShape,
    Usage,
)
from cassette_lab.flight.quick import Common, quick_record
from cassette_lab.jsonio import as_integer

T = TypeVar("T")
_ABSENT: Any = object()


class MemberError(Exception):
    """A member that cannot be: its dotted name, and what it would have to be."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field or 'it'} {message}")
        self.field = field


def snapshot_from_json(value: Any) -> Snapshot:
    """A snapshot, with what ``extensions`` tells beside it. Raises ``MemberError``."""
    root = _Node(value, "")
    info = root.at("info")
    info.at("protocolVersion").exactly(PROTOCOL_VERSION)
    info.at("recordSchemaVersion").exactly(RECORD_SCHEMA_VERSION)
    extras: Mapping[str, RecordExtra] = {}
    auxiliary: list[FlightRecord] = []
    ours = root.at("extensions", default={}).at("cassette_lab", default=None)
    if ours.value is not None:
        extras = {name: _extra(node) for name, node in ours.at("extras", default={}).items()}
        auxiliary = _records(ours.at("auxiliary", default=[]), extras)
    records = _records(root.at("records"), extras)
    seen: set[str] = set()
    for number, record in enumerate(records):
        if record.id in seen:
            raise MemberError(f"records[{number}].id", "is the id of an earlier record, too")
        seen.add(record.id)
    return Snapshot(root.at("revision").count(), _health(root.at("health")), tuple(records), tuple(auxiliary))


def record_from_json(value: Any, extra: Any = None, *, field: str = "", common: Common | None = None) -> FlightRecord:
    """One record, with what a line has beside it. Raises ``MemberError``.

    ``common`` is for many calls: lists that records have in common are kept once. Of ``value`` nothing may change afterwards.
    """
    record = quick_record(value, {} if common is None else common)
    if record is not None:
        return record if extra is None else record._replace(extra=extra_from_json(extra))
    node = _Node(value, field)
    return _record(node, {} if extra is None else {node.at("id").text(): extra_from_json(extra)})


def outcome_from_json(value: Any, *, field: str = "outcome") -> Outcome:
    """An outcome. Raises ``MemberError``."""
    return _outcome(_Node(value, field))


def extra_from_json(value: Any, *, field: str = "extra") -> RecordExtra:
    """What stands beside a record. Raises ``MemberError``."""
    return _extra(_Node(value, field))


class _Node:
    """A value and where it is."""

    __slots__ = ("field", "value")

    def __init__(self, value: Any, field: str) -> None:
        self.value = value
        self.field = field

    def wrong(self, message: str) -> MemberError:
        return MemberError(self.field, message)

    def at(self, name: str, default: Any = _ABSENT) -> _Node:
        if not isinstance(self.value, dict):
            raise self.wrong("must be an object")
        field = f"{self.field}.{name}" if self.field else name
        value = self.value.get(name, default)
        if value is _ABSENT:
            raise MemberError(field, "is missing")
        return _Node(value, field)

    def optional(self, name: str, read: Callable[[_Node], T]) -> T | None:
        node = self.at(name, None)
        return None if node.value is None and name not in self.value else read(node)

    def items(self) -> list[tuple[str, _Node]]:
        if not isinstance(self.value, dict):
            raise self.wrong("must be an object")
        return [(name, _Node(value, f"{self.field}.{name}")) for name, value in self.value.items()]

    def elements(self) -> list[_Node]:
        if not isinstance(self.value, list):
            raise self.wrong("must be an array")
        return [_Node(value, f"{self.field}[{number}]") for number, value in enumerate(self.value)]

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self.wrong("must be a string")
        return self.value

    def one_of(self, words: Collection[Any]) -> Any:
        if self.value not in words:
            raise self.wrong(f"must be one of {', '.join(sorted(words))}")
        return self.value

    def exactly(self, value: Any) -> None:
        if self.value != value or isinstance(self.value, bool):
            raise self.wrong(f"must be {value}; a later version writes files that this one does not know")

    def integer(self) -> int:
        whole = as_integer(self.value)
        if whole is None:
            raise self.wrong("must be a whole number")
        return whole

    def count(self) -> int:
        whole = self.integer()
        if whole < 0:
            raise self.wrong("must not be negative")
        return whole

    def number(self) -> float:
        if isinstance(self.value, bool) or not isinstance(self.value, (int, float)) or not math.isfinite(self.value):
            raise self.wrong("must be a number")
        return self.value

    def amount(self) -> float:
        if self.number() < 0:
            raise self.wrong("must not be negative")
        return self.value  # type: ignore[no-any-return]


def _records(node: _Node, extras: Mapping[str, RecordExtra]) -> list[FlightRecord]:
    common: Common = {}
    records = []
    for each in node.elements():
        record = quick_record(each.value, common) or _record(each, {})
        records.append(record._replace(extra=extras[record.id]) if record.id in extras else record)
    return records


def _record(node: _Node, extras: Mapping[str, RecordExtra]) -> FlightRecord:
    node.at("schemaVersion").exactly(RECORD_SCHEMA_VERSION)
    name = node.at("id").text()
    record = FlightRecord(
        id=name,
        session_id=node.at("sessionId").text(),
        turn=node.at("turn").integer(),
        step=node.at("step").integer(),
        attempt=node.at("attempt").count(),
        started_at_ms=node.at("startedAt").integer(),
        request=_request(node.at("request")),
        prompt_assembly=node.optional("promptAssembly", _assembly),
        omissions=Omissions(**{attribute: node.at("omissions").at(name).count() for name, attribute in OMISSION_NAMES.items()}),
        outcome=_outcome(node.at("outcome")),
        extra=extras.get(name, NO_EXTRA),
    )
    for each in node.at("evidence").elements():  # it follows from the other members, and is told by them
        each.at("kind").one_of(EVIDENCE_KINDS)
        each.at("source").text()
    return record


def _request(node: _Node) -> RequestProjection:
    messages = node.at("messages")
    return RequestProjection(
        provider=node.at("provider").text(),
        model=node.at("model").text(),
        messages=MessageCounts(
            messages.at("total").count(),
            _counts(messages.at("byRole")),
            _counts(messages.at("bySource")),
            _counts(messages.at("byBlockType")),
        ),
        system_characters=node.at("systemCharacters").count(),
        tools=tuple(
            ToolShape(tool.at("name").text(), tool.at("parameterNodes").count()) for tool in node.at("tools").elements()
        ),
        reasoning_effort=node.optional("reasoningEffort", _Node.text),
        temperature=node.optional("temperature", _Node.number),
        max_tokens=node.optional("maxTokens", _Node.number),
        stop_count=node.optional("stopCount", _Node.count),
    )


def _counts(node: _Node) -> Mapping[str, int]:
    return MappingProxyType({name: each.count() for name, each in node.items()})


def _assembly(node: _Node) -> PromptAssembly:
    return PromptAssembly(
        _sizes(node.at("sections")),
        _sizes(node.at("contexts")),
        tuple(each.text() for each in node.at("tools").elements()),
        tuple(each.text() for each in node.at("variables").elements()),
    )


def _sizes(node: _Node) -> tuple[NamedSize, ...]:
    return tuple(NamedSize(each.at("name").text(), each.at("characters").count()) for each in node.elements())


def _outcome(node: _Node) -> Outcome:
    kind = node.at("kind").one_of(OUTCOME_KINDS)
    if kind == "running":
        return Outcome("running")
    return Outcome(
        kind,
        finish=node.at("finish").at("kind").text() if kind == "finished" else None,
        error=node.at("error").at("kind").one_of(ERROR_KINDS) if kind == "threw" else None,
        reason=node.at("reason").one_of(INCOMPLETE_REASONS) if kind == "incomplete" else None,
        total_ms=node.at("totalMs").amount(),
        first_chunk_ms=node.optional("firstChunkMs", _Node.amount),
        usage=node.optional("usage", _usage),
    )


def _usage(node: _Node) -> Usage:
    return Usage(**{attribute: node.optional(name, _Node.amount) for name, attribute in USAGE_NAMES.items()})


def _extra(node: _Node) -> RecordExtra:
    return RecordExtra(
        prompt_assembly=node.optional("promptAssembly", _assembly),
        error_code=node.optional("errorCode", lambda each: each.one_of(ERROR_CODES | {OTHER_CODE})),
        aborted=node.optional("aborted", lambda each: each.one_of(ABORT_CAUSES)),
        auxiliary=node.at("auxiliary", default=False).one_of((True, False)) if "auxiliary" in node.value else False,
        ended_by=node.optional("endedBy", lambda each: each.one_of(("run-end",))),
        http_status=node.optional("httpStatus", _Node.count),
    )


def _health(node: _Node) -> Health:
    by_reason = node.at("correlationMissesByReason")
    misses = {reason: by_reason.at(reason).count() for reason in MISS_REASONS}
    counters: dict[str, Any] = {
        attribute: node.at(name).count() for name, attribute in HEALTH_NAMES.items() if name != "correlationMissesByReason"
    }
    return Health(**counters | {"correlation_misses_by_reason": MappingProxyType(misses)})
