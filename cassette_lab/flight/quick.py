"""Records from JSON that is as it should be, in a fraction of the time: what is not certainly right is left to ``members``.

Lists that many records have in common (tools, sections of a prompt) are kept once.
"""

from __future__ import annotations

from collections.abc import Hashable
from math import isfinite
from types import MappingProxyType
from typing import Any, Final, TypeVar

from cassette_lab.flight.model import (
    ERROR_KINDS,
    EVIDENCE_KINDS,
    INCOMPLETE_REASONS,
    NO_EXTRA,
    NOTHING_OMITTED,
    OMISSION_NAMES,
    RECORD_SCHEMA_VERSION,
    RUNNING,
    USAGE_NAMES,
    FlightRecord,
    MessageCounts,
    NamedSize,
    Omissions,
    Outcome,
    PromptAssembly,
    RequestProjection,
    ToolShape,
    Usage,
)
from cassette_lab.jsonio import MAX_SAFE_INTEGER, JsonObject

H = TypeVar("H", bound=Hashable)
Common = dict[Any, Any]
"""What was read before, by itself."""


def quick_record(value: Any, common: Common) -> FlightRecord | None:
    """The record, without anything beside it; None where that takes a closer look."""
    try:
        if _whole(value["schemaVersion"]) != RECORD_SCHEMA_VERSION:
            return None
        for each in _array(value["evidence"]):
            if each["kind"] not in EVIDENCE_KINDS or type(each["source"]) is not str:
                return None
        prompt = value.get("promptAssembly", _MISSING)
        return FlightRecord(
            _text(value["id"]),
            _text(value["sessionId"]),
            _whole(value["turn"]),
            _whole(value["step"]),
            _count(value["attempt"]),
            _whole(value["startedAt"]),
            _request(value["request"], common),
            None if prompt is _MISSING else _prompt(prompt, common),
            _omissions(value["omissions"]),
            _outcome(value["outcome"]),
            NO_EXTRA,
        )
    except (_UnusualError, KeyError, TypeError, AttributeError):
        return None


class _UnusualError(Exception):
    """Something to look at more closely."""


_MISSING: Final = object()
_ZEROS: Final = dict.fromkeys(OMISSION_NAMES, 0)


def _once(value: H, common: Common) -> H:
    known: H = common.setdefault(value, value)
    return known


def _request(value: JsonObject, common: Common) -> RequestProjection:
    messages = value["messages"]
    tools = tuple([ToolShape(_text(each["name"]), _count(each["parameterNodes"])) for each in _array(value["tools"])])
    return RequestProjection(
        _once(_text(value["provider"]), common),
        _once(_text(value["model"]), common),
        MessageCounts(
            _count(messages["total"]),
            _counts(messages["byRole"]),
            _counts(messages["bySource"]),
            _counts(messages["byBlockType"]),
        ),
        _count(value["systemCharacters"]),
        _once(tools, common),
        _text(value["reasoningEffort"]) if "reasoningEffort" in value else None,
        _number(value["temperature"]) if "temperature" in value else None,
        _number(value["maxTokens"]) if "maxTokens" in value else None,
        _count(value["stopCount"]) if "stopCount" in value else None,
    )


def _prompt(value: JsonObject, common: Common) -> PromptAssembly:
    return _once(
        PromptAssembly(
            tuple([NamedSize(_text(each["name"]), _count(each["characters"])) for each in _array(value["sections"])]),
            tuple([NamedSize(_text(each["name"]), _count(each["characters"])) for each in _array(value["contexts"])]),
            tuple(map(_text, _array(value["tools"]))),
            tuple(map(_text, _array(value["variables"]))),
        ),
        common,
    )


def _omissions(value: JsonObject) -> Omissions:
    if value == _ZEROS and not any(type(count) is not int for count in value.values()):
        return NOTHING_OMITTED
    return Omissions(*[_count(value[name]) for name in OMISSION_NAMES])


def _outcome(value: JsonObject) -> Outcome:
    kind = value["kind"]
    if kind == "running":
        return RUNNING
    usage = None
    if "usage" in value:
        counts = value["usage"]
        if type(counts) is not dict:
            raise _UnusualError
        usage = Usage(*[_amount(counts[name]) if name in counts else None for name in USAGE_NAMES])
    total_ms = _amount(value["totalMs"])
    first_ms = _amount(value["firstChunkMs"]) if "firstChunkMs" in value else None
    if kind == "finished":
        return Outcome(kind, _text(value["finish"]["kind"]), None, None, total_ms, first_ms, usage)
    if kind == "threw" and (error := value["error"]["kind"]) in ERROR_KINDS:
        return Outcome(kind, None, error, None, total_ms, first_ms, usage)
    if kind == "incomplete" and (reason := value["reason"]) in INCOMPLETE_REASONS:
        return Outcome(kind, None, None, reason, total_ms, first_ms, usage)
    raise _UnusualError


def _counts(value: JsonObject) -> MappingProxyType[str, int]:
    for count in value.values():
        _count(count)
    return MappingProxyType(value)


def _array(value: Any) -> list[Any]:
    if type(value) is not list:
        raise _UnusualError
    return value


def _text(value: Any) -> str:
    if type(value) is not str:
        raise _UnusualError
    return value


def _whole(value: Any) -> int:
    if type(value) is not int or not -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER:
        raise _UnusualError
    return value


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= MAX_SAFE_INTEGER:
        raise _UnusualError
    return value


def _number(value: Any) -> float:
    kind = type(value)
    if kind is not int and (kind is not float or not isfinite(value)):
        raise _UnusualError
    return value  # type: ignore[no-any-return]


def _amount(value: Any) -> float:
    if _number(value) < 0:
        raise _UnusualError
    return value  # type: ignore[no-any-return]
