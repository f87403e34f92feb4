"""Placeholders in scripts: ``{{fromRequest:REGEX}}`` stands for something that only the live request knows.

The pattern is a JavaScript regular expression without flags. It is looked for in all texts of the request's messages; the
last match counts, of it the first group, or the whole if there is none. The closing is the first ``}}``, moved right
over any further ``}``, so that a pattern may end with ``{4}``.

Source: session logs, Stream replay (placeholders); ECMA-262 ``String.prototype.matchAll``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

from cassette_lab.contracts import StreamChunk
from cassette_lab.errors import ConfigError, MismatchError
from cassette_lab.javascript import Pattern, PatternSyntaxError
from cassette_lab.jsonio import JsonObject
from cassette_lab.jsonio.surrogates import join_pairs
from cassette_lab.jsonio.text import show
from cassette_lab.session.entries import ChunksEntry, HangEntry, ReplayEntry, ThrowEntry

_OPEN: Final = "{{fromRequest:"
_CLOSE: Final = "}}"


def resolve_entry(entry: ReplayEntry, messages: Sequence[JsonObject]) -> ReplayEntry:
    """``entry`` with every placeholder in its texts filled in from ``messages``; itself where it has none.

    Member names are left alone. Raises ``ConfigError`` with the code ``PLACEHOLDER_UNTERMINATED`` or
    ``PLACEHOLDER_INVALID_PATTERN``, ``MismatchError`` (reason ``placeholder-no-match``) where the request has no match.
    """
    if not _has_placeholder(entry):
        return entry
    corpus = "\n".join(_texts(messages))
    if isinstance(entry, HangEntry):
        return HangEntry(_filled(entry.ready_file, corpus))
    chunks: list[StreamChunk] = [_filled(chunk, corpus) for chunk in entry.chunks]
    if isinstance(entry, ThrowEntry):
        return ThrowEntry(chunks, _filled(entry.message, corpus), _filled(entry.code, corpus))
    return ChunksEntry(chunks)


def _has_placeholder(entry: ReplayEntry) -> bool:
    if isinstance(entry, HangEntry):
        return _OPEN in (entry.ready_file or "")
    if isinstance(entry, ThrowEntry) and (_OPEN in entry.message or _OPEN in entry.code):
        return True
    return any(_OPEN in text for chunk in entry.chunks for text in _texts(chunk))


def _texts(value: Any) -> Iterator[str]:
    """Every string in a JSON value, member names left out, in the order in which JavaScript goes through it."""
    left = [value]
    while left:
        item = left.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, (list, tuple)):
            left.extend(reversed(item))
        elif isinstance(item, dict):
            left.extend(item[name] for name in reversed(_names(item)))


def _filled(value: Any, corpus: str) -> Any:
    """A copy of a JSON value with the placeholders in its strings filled in, in the same order."""
    root: list[Any] = [value]
    left: list[tuple[Any, Any]] = [(root, 0)]
    while left:
        container, place = left.pop()
        item = container[place]
        if isinstance(item, str):
            if _OPEN in item:
                container[place] = _filled_text(item, corpus)
        elif isinstance(item, (list, tuple)):
            container[place] = copy = list(item)
            left.extend((copy, index) for index in reversed(range(len(copy))))
        elif isinstance(item, dict):
            container[place] = members = dict(item)
            left.extend((members, name) for name in reversed(_names(members)))
    return root[0]


def _names(value: dict[str, Any]) -> list[str]:
    """The members' names; array indices come first, by number."""
    indices = [name for name in value if _INDEX.fullmatch(name) and int(name) < 2**32 - 1]
    if not indices:
        return list(value)
    first = dict.fromkeys(sorted(indices, key=int))
    return [*first, *(name for name in value if name not in first)]


_INDEX: Final = re.compile("0|[1-9][0-9]{0,9}", re.ASCII)


def _filled_text(text: str, corpus: str) -> str:
    pieces: list[str] = []
    at = 0
    while (begin := text.find(_OPEN, at)) >= 0:
        end = text.find(_CLOSE, begin + len(_OPEN))
        if end < 0:
            raise ConfigError(
                f"the placeholder in {_shown(text[begin:])} has no closing }}}}; add it", code="PLACEHOLDER_UNTERMINATED"
            )
        while text.startswith("}", end + len(_CLOSE)):
            end += 1
        pieces += (text[at:begin], _last_match(text[begin + len(_OPEN) : end], corpus))
        at = end + len(_CLOSE)
    return join_pairs("".join(pieces) + text[at:])


def _last_match(pattern: str, corpus: str) -> str:
    last = _compiled(pattern).last_match(corpus)
    if last is None:
        raise MismatchError(
            f"nothing in the request's messages matches the placeholder's pattern {_shown(pattern)}",
            diagnostic={"reason": "placeholder-no-match", "pattern": pattern},
        )
    return last.text if last.first_group is None else last.first_group


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> Pattern:
    try:
        return Pattern(pattern)
    except PatternSyntaxError as error:
        raise ConfigError(
            f"the placeholder's pattern {_shown(pattern)} is not a JavaScript regular expression ({error}); correct it",
            code="PLACEHOLDER_INVALID_PATTERN",
        ) from None


_SHOWN: Final = 100


def _shown(text: str) -> str:
    return show(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")
