"""Token counts of a model call, and their sums. Source: session logs, Event types, usage."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Final, TypeAlias

import msgspec

from cassette_lab.jsonio import MAX_SAFE_INTEGER, JsonObject, as_integer

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MAX_SAFE_INTEGER)]
"""What a count can be."""


class Usage(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Tokens; None is a count that the log does not have, or has as something that no count can be (negative, a fraction).

    ``input_tokens`` are the ones that came from no cache. ``total_tokens`` is the provider's own sum of input, output and
    both caches; ``reasoning_tokens`` are part of the output.
    """

    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cache_read_tokens: Count | None = None
    cache_write_tokens: Count | None = None
    reasoning_tokens: Count | None = None
    total_tokens: Count | None = None

    def to_json(self) -> JsonObject:
        """The counts that are known, as the log names them."""
        counts = ((name, getattr(self, attribute)) for attribute, name in _NAMES.items())
        return {name: count for name, count in counts if count is not None}


_NAMES: Final = dict(zip(Usage.__struct_fields__, Usage.__struct_encode_fields__, strict=True))


def read_usage(value: Any) -> Usage | None:
    """The counts of a log's ``usage`` object, which may have been decoded as such; None for what is none."""
    if type(value) is Usage:
        return value
    if type(value) is not dict:
        return None
    return Usage(*[_count(value.get(name)) for name in _NAMES.values()])


def total(usages: Iterable[Usage | None]) -> Usage:
    """The sum, count by count; a count that nobody knows stays unknown."""
    sums: dict[str, int | None] = dict.fromkeys(_NAMES)
    for usage in usages:
        if usage is None:
            continue
        for attribute, before in sums.items():
            count = getattr(usage, attribute)
            if count is not None:
                sums[attribute] = count + (before or 0)
    return Usage(**sums)


def _count(value: Any) -> int | None:
    if value is None:
        return None
    count = as_integer(value)
    return count if count is not None and count >= 0 else None
