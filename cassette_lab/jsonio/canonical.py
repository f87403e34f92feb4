"""Canonical JSON text and its digest.

Source: cassette format, Canonical JSON; ECMA-262 ``JSON.stringify`` (strings, numbers), object keys by UTF-16 code units.
"""

from __future__ import annotations

import hashlib
import math
import re
from json.encoder import encode_basestring
from typing import Any, Final

import orjson

from cassette_lab.jsonio.numbers import MAX_SAFE_INTEGER, NumberError, number_text
from cassette_lab.jsonio.surrogates import join_pairs

_QUICK_DEPTH: Final = 60
_ANY_WIDTH: Final = 2**62
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class CanonicalError(ValueError):
    """A value that has no canonical JSON: ``-0``, not finite, not plain JSON, or containing itself."""


def canonical(value: Any) -> bytes:
    """Canonical JSON of ``value`` as UTF-8: keys by UTF-16 code units, ECMAScript numbers and escapes, any depth.

    Tuples count as arrays; subclasses of ``str``, ``int`` and ``float`` as their value. Raises ``CanonicalError`` for
    ``-0``, numbers that are not finite, values that are not plain JSON and containers that contain themselves.
    Source: cassette format, Canonical JSON.
    """
    try:
        if orjson_agrees(value, _QUICK_DEPTH, _ANY_WIDTH):
            return orjson.dumps(value, None, orjson.OPT_SORT_KEYS)
        return orjson.dumps(_with_integers(value, _QUICK_DEPTH), None, orjson.OPT_SORT_KEYS)
    except (_DisagreementError, orjson.JSONEncodeError, RecursionError):  # … surrogates; a caller that stands deep already
        return _write(value).encode()


def digest(value: Any) -> str:
    """``sha256:`` and 64 lower-case hex digits over the canonical text of ``value``."""
    return "sha256:" + hashlib.sha256(canonical(value)).hexdigest()


def digest_bytes(data: bytes) -> str:
    """``sha256:`` and 64 lower-case hex digits over ``data``."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def utf16_key(text: str) -> bytes:
    """Sort key that orders strings by UTF-16 code units, as ECMAScript does."""
    return text.encode("utf-16-be", "surrogatepass")


def number_or_error(value: float) -> str:
    """The canonical spelling of a number; ``CanonicalError`` where there is none."""
    try:
        return number_text(value)
    except NumberError as error:
        raise CanonicalError(str(error)) from None


def orjson_agrees(value: Any, depth: int, width: int) -> bool:
    """Whether orjson spells ``value`` as ECMAScript does and sorts its keys alike.

    A cautious answer: it looks ``depth`` levels down and at containers of up to ``width`` members, and says no beyond.
    Surrogates are not looked for: orjson raises ``JSONEncodeError`` for them. Where the two differ: floats that are
    integral (``1.0``, ``1e16``), from 1e-6 to 1e-5 (``1e-6``) or not finite, integers beyond 2**53, and keys with
    characters beyond U+FFFF, which sort by code points there and by code units here.
    """
    kind = type(value)
    if kind is dict:
        if not depth or len(value) > width:
            return False
        depth -= 1
        for name, child in value.items():
            if type(name) is not str or not (name.isascii() or max(name) < "\ud800"):
                return False
            kind = type(child)
            if kind is str or kind is bool or child is None:
                continue
            if kind is int:
                if -MAX_SAFE_INTEGER <= child <= MAX_SAFE_INTEGER:
                    continue
                return False
            if not orjson_agrees(child, depth, width):
                return False
        return True
    if kind is list:
        if not depth or len(value) > width:
            return False
        depth -= 1
        for child in value:  # noqa: SIM110 - a generator would cost more than the rest
            if type(child) is not str and not orjson_agrees(child, depth, width):
                return False
        return True
    if kind is str or kind is bool or value is None:
        return True
    if kind is int:
        return bool(-MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER)
    if kind is float:
        number: float = value
        return (1e-4 <= number < 1e15 or -1e15 < number <= -1e-4) and not number.is_integer()
    return False


class _DisagreementError(Exception):
    """A value that orjson does not spell as ECMAScript does."""


def _with_integers(value: Any, depth: int) -> Any:
    """A copy of ``value`` with ``1.0`` as ``1``, which is often all that keeps orjson from spelling it."""
    if type(value) is float and value.is_integer() and abs(value) <= MAX_SAFE_INTEGER:
        if value == 0 and math.copysign(1, value) < 0:
            raise _DisagreementError
        return int(value)
    if type(value) is dict and depth:
        return {name: _with_integers(child, depth - 1) for name, child in value.items() if _sorts_alike(name)}
    if type(value) is list and depth:
        return [_with_integers(child, depth - 1) for child in value]
    if orjson_agrees(value, 0, 0):
        return value
    raise _DisagreementError


def _sorts_alike(name: Any) -> bool:
    if type(name) is str and (name.isascii() or max(name) < "\ud800"):
        return True
    raise _DisagreementError


def _write(value: Any) -> str:
    """The exact spelling, for whatever the quick one leaves; an explicit stack, so that any depth passes."""
    out: list[str] = []
    opened: set[int] = set()
    # Text to put out, a container's id to close, or a value in a one-element tuple.
    work: list[str | int | tuple[Any]] = [(value,)]
    while work:
        entry = work.pop()
        if isinstance(entry, str):
            out.append(entry)
            continue
        if isinstance(entry, int):
            opened.discard(entry)
            continue
        item = entry[0]
        if item is None:
            out.append("null")
        elif item is True:
            out.append("true")
        elif item is False:
            out.append("false")
        elif isinstance(item, str):
            out.append(_quoted(item))
        elif isinstance(item, (int, float)):
            out.append(number_or_error(item))
        elif isinstance(item, (list, tuple)):
            _enter(item, opened)
            work += (id(item), "]")
            for index in range(len(item) - 1, -1, -1):
                work.append((item[index],))
                if index:
                    work.append(",")
            out.append("[")
        elif isinstance(item, dict):
            _enter(item, opened)
            work += (id(item), "}")
            members = _sorted_members(item)
            for index in range(len(members) - 1, -1, -1):
                name, child = members[index]
                work.append((child,))
                work.append(f"{',' if index else ''}{_quoted(name)}:")
            out.append("{")
        else:
            raise CanonicalError(f"{type(item).__name__} is not plain JSON")
    return "".join(out)


def _enter(container: Any, opened: set[int]) -> None:
    if id(container) in opened:
        raise CanonicalError("a container contains itself")
    opened.add(id(container))


def _sorted_members(item: dict[Any, Any]) -> list[tuple[str, Any]]:
    members: dict[str, Any] = {}
    for name, child in item.items():
        if not isinstance(name, str):
            raise CanonicalError(f"a member name is {type(name).__name__}, not a string")
        members[join_pairs(name)] = child
    if len(members) != len(item):
        raise CanonicalError("two members of one object have the same name")
    return sorted(members.items(), key=lambda member: utf16_key(member[0]))


def _quoted(text: str) -> str:
    quoted: str = encode_basestring(text)
    if quoted.isascii():
        return quoted
    return _LONE_SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", join_pairs(quoted))
