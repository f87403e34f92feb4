"""JSON text in, exactly as ``JSON.parse`` accepts it, at any depth.

Source: ECMA-404 as ECMA-262 ``JSON.parse`` reads it; cassette format, File (duplicate member names).
"""

from __future__ import annotations

import json
import re
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, Final

from cassette_lab.jsonio.numbers import MAX_SAFE_INTEGER


class JsonSyntaxError(ValueError):
    """Text that ``JSON.parse`` would refuse. ``position`` is the character offset, 0-based, where known."""

    def __init__(self, message: str, position: int | None = None) -> None:
        super().__init__(message)
        self.position = position


class DuplicateMemberError(ValueError):
    """An object with two members of one name (after escapes are decoded)."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the member {name!r} appears twice in one object")
        self.name = name


def parse(text: str | bytes, *, duplicates: bool = True) -> Any:
    """The value of a JSON text, with ECMAScript's grammar and any nesting depth.

    Integers up to 2**53 - 1 come as ``int``, every other number as ``float`` (``-0`` as ``-0.0``, overflow as ``inf``).
    Of members with the same name the last one counts; with ``duplicates=False`` they raise ``DuplicateMemberError``
    if the whole text parses. Bytes are UTF-8 with broken parts replaced. Raises ``JsonSyntaxError``.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    elif not text.isascii():
        text = _escape_raw_surrogates(text)
    if duplicates:
        return _parse(text, _LENIENT)
    try:
        return _parse(text, _STRICT)
    except DuplicateMemberError:
        _parse(text, _LENIENT)  # what is no JSON at all is told first
        raise


def _parse(text: str, decoder: json.JSONDecoder) -> Any:
    try:
        return decoder.decode(text)
    except RecursionError:
        return _parse_deep(text, decoder.object_pairs_hook)
    except json.JSONDecodeError as error:
        raise JsonSyntaxError(f"{error.msg.removesuffix(' at')} at character {error.pos + 1}", error.pos) from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise DuplicateMemberError(name)
            seen.add(name)
    return members


def _integer(text: str) -> float:
    if len(text) <= 15:
        return int(text) if text != "-0" else -0.0
    value = float(text)
    return int(text) if abs(value) <= MAX_SAFE_INTEGER else value


def _refuse(name: str) -> Any:
    raise JsonSyntaxError(f"{name} is not JSON")


_LENIENT: Final = json.JSONDecoder(parse_int=_integer, parse_float=float, parse_constant=_refuse)
_STRICT: Final = json.JSONDecoder(parse_int=_integer, parse_float=float, parse_constant=_refuse, object_pairs_hook=_unique)

_RAW_SURROGATE: Final = re.compile("\\\\.|[\ud800-\udfff]", re.DOTALL)


def _escape_raw_surrogates(text: str) -> str:
    r"""Surrogates of a Python string as ``\udxxx``, which means the same inside a string, so that halves find each other."""
    return _RAW_SURROGATE.sub(lambda match: match[0] if match[0][0] == "\\" else f"\\u{ord(match[0]):04x}", text)


_SPACE: Final = re.compile(r"[ \t\n\r]*")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_WORDS: Final = {"true": True, "false": False, "null": None}
_WORD: Final = re.compile("true|false|null")


def _parse_deep(text: str, unique: Any) -> Any:
    """The same grammar with an explicit stack, for nesting that exhausts the C scanner's."""
    finish = unique or dict
    # Open containers: what they hold so far, and the name that waits for its value (None: an array).
    stack: list[tuple[list[Any], str | None]] = []
    closings = text.count("]") + text.count("}")  # more open containers than these are never closed: they cost no memory
    at = _skip(text, 0)
    while True:
        if len(stack) > closings:
            raise JsonSyntaxError(f"Expecting ',' or a closing bracket at character {len(text) + 1}", len(text))
        # one value
        value: Any
        char = text[at : at + 1]
        if char == "[":
            at = _skip(text, at + 1)
            if text[at : at + 1] != "]":
                stack.append(([], None))
                continue
            value, at = [], at + 1
        elif char == "{":
            at = _skip(text, at + 1)
            if text[at : at + 1] != "}":
                name, at = _name(text, at)
                stack.append(([], name))
                continue
            value, at = {}, at + 1
        else:
            value, at = _scalar(text, at)
        # close what is finished
        while True:
            at = _skip(text, at)
            if not stack:
                if at != len(text):
                    raise JsonSyntaxError(f"Extra data at character {at + 1}", at)
                return value
            items, waiting = stack[-1]
            items.append(value if waiting is None else (waiting, value))
            char = text[at : at + 1]
            if char == ",":
                at = _skip(text, at + 1)
                if waiting is not None:
                    name, at = _name(text, at)
                    stack[-1] = (items, name)
                break
            if char != ("]" if waiting is None else "}"):
                raise JsonSyntaxError(f"Expecting ',' or a closing bracket at character {at + 1}", at)
            at += 1
            stack.pop()
            value = items if waiting is None else finish(items)


def _skip(text: str, at: int) -> int:
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]


def _name(text: str, at: int) -> tuple[str, int]:
    if text[at : at + 1] != '"':
        raise JsonSyntaxError(f"Expecting a member name in double quotes at character {at + 1}", at)
    name, at = _scalar(text, at)
    at = _skip(text, at)
    if text[at : at + 1] != ":":
        raise JsonSyntaxError(f"Expecting ':' at character {at + 1}", at)
    return name, _skip(text, at + 1)


def _scalar(text: str, at: int) -> tuple[Any, int]:
    if text[at : at + 1] == '"':
        try:
            string: tuple[str, int] = scanstring(text, at + 1, True)  # noqa: FBT003 - the C function takes no keyword
        except json.JSONDecodeError as error:
            raise JsonSyntaxError(f"{error.msg.removesuffix(' at')} at character {error.pos + 1}", error.pos) from None
        return string
    if match := _NUMBER.match(text, at):
        return float(match[0]) if match[1] or match[2] else _integer(match[0]), match.end()
    if match := _WORD.match(text, at):
        return _WORDS[match[0]], match.end()
    raise JsonSyntaxError(f"Expecting a value at character {at + 1}", at)
