"""Canonical JSON text, its digest, and detached copies of plain JSON values."""

from __future__ import annotations

import hashlib
import re
from json.encoder import encode_basestring  # type: ignore[attr-defined]
from typing import Any, TypeAlias

import orjson

from cassette_lab.jsonio.numbers import MAX_SAFE_INTEGER, NumberError, number_text

JsonValue: TypeAlias = "None | bool | int | float | str | list[Any] | dict[str, Any]"
JsonObject: TypeAlias = dict[str, Any]

_FAST_DEPTH = 100
_SURROGATE = re.compile("[\ud800-\udfff]")


class CanonicalError(ValueError):
    """A value that has no canonical JSON: ``-0``, not finite, not plain JSON, or containing itself."""


def canonical(value: Any) -> bytes:
    """Canonical JSON of ``value`` as UTF-8: keys by UTF-16 code units, ECMAScript numbers and escapes, any depth.

    Raises ``CanonicalError`` for ``-0``, numbers that are not finite, and values that are not plain JSON.
    Source: cassette format, Canonical JSON.
    """
    if _orjson_agrees(value, _FAST_DEPTH):
        try:
            return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
        except orjson.JSONEncodeError:  # lone surrogates
            pass
    return _write(value).encode()


def digest(value: Any) -> str:
    """``sha256:`` and 64 lower-case hex digits over the canonical text of ``value``."""
    return digest_bytes(canonical(value))


def digest_bytes(data: bytes) -> str:
    """``sha256:`` and 64 lower-case hex digits over ``data``."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def utf16_key(text: str) -> bytes:
    """Sort key that orders strings by UTF-16 code units, as ECMAScript does."""
    return text.encode("utf-16-be", "surrogatepass")


def as_integer(value: Any) -> int | None:
    """``value`` as an integer if it is a number with an integral value of at most 2**53 - 1 in size, else None."""
    if type(value) is int:
        return value if -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER else None
    if type(value) is float and value.is_integer() and -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER:
        return int(value)
    return None


def detach(value: Any) -> Any:
    """A deep copy of a plain JSON value that shares nothing with it (tuples become lists).

    Raises ``CanonicalError`` where ``canonical`` would.
    """
    root: list[Any] = [None]
    work: list[tuple[Any, Any, Any]] = [(root, 0, value)]
    within: set[int] = set()  # containers being copied: one that comes again contains itself
    while work:
        into, key, item = work.pop()
        kind = type(item)
        if into is None:
            within.discard(id(item))
        elif kind is str or kind is bool or item is None:
            into[key] = item
        elif kind is int or kind is float:
            number_or_error(item)
            into[key] = item
        elif isinstance(item, (list, tuple)):
            _enter(item, within)
            copy: list[Any] = [None] * len(item)
            into[key] = copy
            work.append((None, None, item))
            work.extend((copy, index, child) for index, child in enumerate(item))
        elif isinstance(item, dict):
            _enter(item, within)
            members: dict[str, Any] = dict.fromkeys(item)
            into[key] = members
            work.append((None, None, item))
            for name, child in item.items():
                if not isinstance(name, str):
                    raise CanonicalError(f"a member name is {type(name).__name__}, not a string")
                work.append((members, name, child))
        elif isinstance(item, str):
            into[key] = str(item)
        else:
            raise CanonicalError(f"{kind.__name__} is not plain JSON")
    return root[0]


def number_or_error(value: float) -> str:
    """The canonical spelling of a number; ``CanonicalError`` where there is none."""
    try:
        return number_text(value)
    except NumberError as error:
        raise CanonicalError(str(error)) from None


def _orjson_agrees(value: Any, depth: int) -> bool:
    """Whether orjson's sorted spelling of ``value`` is the canonical one (lone surrogates make it raise)."""
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return True
    if kind is int:
        return -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER
    if kind is float:
        return 1e-4 <= abs(value) < 1e15 and not value.is_integer()
    if depth == 0:
        return False
    if kind is list:
        return all(_orjson_agrees(child, depth - 1) for child in value)
    if kind is dict:
        return all(
            type(name) is str and (name.isascii() or max(name) < "\ud800") and _orjson_agrees(child, depth - 1)
            for name, child in value.items()
        )
    return False


def _write(value: Any) -> str:
    out: list[str] = []
    work: list[Any] = [value]
    within: set[int] = set()  # containers being written: one that comes again contains itself
    while work:
        item = work.pop()
        kind = type(item)
        if kind is _Raw:
            out.append(item.text)
            if item.container is not None:
                within.discard(id(item.container))
        elif item is None:
            out.append("null")
        elif kind is bool:
            out.append("true" if item else "false")
        elif isinstance(item, str):
            out.append(_quote(item))
        elif kind is int or kind is float:
            out.append(number_or_error(item))
        elif isinstance(item, (list, tuple)):
            _enter(item, within)
            work.append(_Raw("]", item))
            for index in range(len(item) - 1, -1, -1):
                work.append(item[index])
                if index:
                    work.append(_COMMA)
            out.append("[")
        elif isinstance(item, dict):
            _enter(item, within)
            members = []
            for name, child in item.items():
                if not isinstance(name, str):
                    raise CanonicalError(f"a member name is {type(name).__name__}, not a string")
                members.append((name, child))
            members.sort(key=lambda member: utf16_key(member[0]))
            work.append(_Raw("}", item))
            for index in range(len(members) - 1, -1, -1):
                name, child = members[index]
                work.append(child)
                work.append(_Raw(f"{',' if index else ''}{_quote(name)}:"))
            out.append("{")
        else:
            raise CanonicalError(f"{kind.__name__} is not plain JSON")
    return "".join(out)


class _Raw:
    """Text to write as it is; at the end of an array or object also which one ends."""

    __slots__ = ("container", "text")

    def __init__(self, text: str, container: Any = None) -> None:
        self.text = text
        self.container = container


_COMMA = _Raw(",")


def _enter(container: Any, within: set[int]) -> None:
    if id(container) in within:
        raise CanonicalError("an array or object contains itself")
    within.add(id(container))


def _quote(text: str) -> str:
    quoted: str = encode_basestring(text)
    if _SURROGATE.search(quoted):
        joined = quoted.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        quoted = _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", joined)
    return quoted
