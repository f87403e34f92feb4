"""How one request differs from another: what was asked of the model, of what it was made, how it went.

Source: flight records, Diff. ``extended`` adds at the end what the original does not compare; the changes before stay the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from cassette_lab.flight.model import FlightRecord, PromptAssembly
from cassette_lab.jsonio import JsonObject, utf16_key

Scalar: TypeAlias = "str | float | None"
Sizes: TypeAlias = "dict[str, int | None]"


@dataclass(frozen=True, slots=True)
class ValueChange:
    """A setting that is another one; ``None``: not set."""

    field: str
    before: Scalar
    after: Scalar

    def to_json(self) -> JsonObject:
        """As it is written."""
        return {"kind": "value", "field": self.field, "before": self.before, "after": self.after}


@dataclass(frozen=True, slots=True)
class CounterChange:
    """A number that is another one; ``key`` where there are several of the name; ``None`` where it is not known."""

    field: str
    key: str | None
    before: float | None
    after: float | None

    @property
    def delta(self) -> float | None:
        """How much more it is."""
        return None if self.before is None or self.after is None else self.after - self.before

    def to_json(self) -> JsonObject:
        """As it is written."""
        counts = {"before": self.before, "after": self.after, "delta": self.delta}
        return {"kind": "counter", "field": self.field, "key": self.key, **counts}


@dataclass(frozen=True, slots=True)
class NamedChange:
    """A named part that came, went or has another size."""

    field: str
    name: str
    change: Literal["added", "removed", "changed"]
    before_size: int | None
    after_size: int | None

    def to_json(self) -> JsonObject:
        """As it is written."""
        sizes = {"beforeSize": self.before_size, "afterSize": self.after_size}
        return {"kind": "named", "field": self.field, "name": self.name, "change": self.change, **sizes}


Change: TypeAlias = ValueChange | CounterChange | NamedChange


@dataclass(frozen=True, slots=True)
class RecordDiff:
    """All changes from one record to another, in a fixed order."""

    from_id: str
    to_id: str
    changes: tuple[Change, ...]

    @property
    def changed(self) -> bool:
        """Whether there are any."""
        return bool(self.changes)

    def to_json(self) -> JsonObject:
        """As it is written."""
        changes = [change.to_json() for change in self.changes]
        return {"fromId": self.from_id, "toId": self.to_id, "changed": self.changed, "changes": changes}


def diff_records(before: FlightRecord, after: FlightRecord, *, extended: bool = False) -> RecordDiff:
    """What changed. Coordinates, times of day, omissions and kinds of errors are not compared.

    ``extended``: a retry's prompt assembly is known, too, and at the end come the number of stop sequences, cache and
    reasoning tokens, failure codes and who aborted.
    """
    changes = [*_values(before, after), *_counters(before, after), *_named(before, after, extended=extended)]
    if extended:
        changes += _further(before, after)
    return RecordDiff(before.id, after.id, tuple(changes))


def _values(before: FlightRecord, after: FlightRecord) -> Iterator[Change]:
    for field, value in _SETTINGS.items():
        yield from _value(field, getattr(before.request, value), getattr(after.request, value))
    yield from _value("outcome.kind", before.outcome.kind, after.outcome.kind)
    yield from _value("outcome.finish", before.outcome.finish, after.outcome.finish)


def _counters(before: FlightRecord, after: FlightRecord) -> Iterator[Change]:
    old, new = before.request, after.request
    yield from _counter("request.systemCharacters", old.system_characters, new.system_characters)
    yield from _counter("messages.total", old.messages.total, new.messages.total)
    yield from _keyed("messages.byRole", old.messages.by_role, new.messages.by_role)
    yield from _keyed("messages.bySource", old.messages.by_source, new.messages.by_source)
    yield from _keyed("messages.byBlockType", old.messages.by_block_type, new.messages.by_block_type)
    yield from _counter("timing.firstChunkMs", before.outcome.first_chunk_ms, after.outcome.first_chunk_ms)
    yield from _counter("timing.totalMs", before.outcome.total_ms, after.outcome.total_ms)
    yield from _usage(before, after, _TOKENS)


def _named(before: FlightRecord, after: FlightRecord, *, extended: bool) -> Iterator[Change]:
    yield from _parts("tools", _sizes(before.request.tools), _sizes(after.request.tools))
    old = (before.known_assembly if extended else before.prompt_assembly) or _NO_PROMPT
    new = (after.known_assembly if extended else after.prompt_assembly) or _NO_PROMPT
    yield from _parts("prompt.sections", _sizes(old.sections), _sizes(new.sections))
    yield from _parts("prompt.contexts", _sizes(old.contexts), _sizes(new.contexts))
    yield from _parts("prompt.variables", dict.fromkeys(old.variables), dict.fromkeys(new.variables))


def _further(before: FlightRecord, after: FlightRecord) -> Iterator[Change]:
    yield from _counter("request.stopCount", before.request.stop_count, after.request.stop_count)
    yield from _usage(before, after, _FURTHER_TOKENS)
    yield from _value("extra.errorCode", before.extra.error_code, after.extra.error_code)
    yield from _value("extra.httpStatus", before.extra.http_status, after.extra.http_status)
    yield from _value("extra.aborted", before.extra.aborted, after.extra.aborted)


_SETTINGS: Final = {
    "request.provider": "provider",
    "request.model": "model",
    "request.reasoningEffort": "reasoning_effort",
    "request.temperature": "temperature",
    "request.maxTokens": "max_tokens",
}
_TOKENS: Final = {"usage.inputTokens": "input_tokens", "usage.outputTokens": "output_tokens"}
_FURTHER_TOKENS: Final = {
    "usage.cacheReadTokens": "cache_read_tokens",
    "usage.cacheWriteTokens": "cache_write_tokens",
    "usage.reasoningTokens": "reasoning_tokens",
}
_NO_PROMPT: Final = PromptAssembly()


def _value(field: str, before: Scalar, after: Scalar) -> Iterator[Change]:
    if before != after:
        yield ValueChange(field, before, after)


def _counter(field: str, before: float | None, after: float | None, key: str | None = None) -> Iterator[Change]:
    if before != after:
        yield CounterChange(field, key, before, after)


def _keyed(field: str, before: Mapping[str, int], after: Mapping[str, int]) -> Iterator[Change]:
    for key in sorted(before.keys() | after.keys(), key=utf16_key):
        yield from _counter(field, before.get(key, 0), after.get(key, 0), key)


def _usage(before: FlightRecord, after: FlightRecord, names: Mapping[str, str]) -> Iterator[Change]:
    for field, name in names.items():
        yield from _counter(field, getattr(before.outcome.usage, name, None), getattr(after.outcome.usage, name, None))


def _sizes(parts: Sequence[tuple[str, int]]) -> Sizes:
    """Sizes by name; of parts with one name the last counts."""
    return dict(parts)


def _parts(field: str, before: Sizes, after: Sizes) -> Iterator[Change]:
    for name in sorted(before.keys() | after.keys(), key=utf16_key):
        old, new = before.get(name), after.get(name)
        if name not in after:
            yield NamedChange(field, name, "removed", old, None)
        elif name not in before:
            yield NamedChange(field, name, "added", None, new)
        elif old != new:
            yield NamedChange(field, name, "changed", old, new)
