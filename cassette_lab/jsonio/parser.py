"""JSON text in, exactly as ``JSON.parse`` accepts it, at any depth."""

from __future__ import annotations

import json
import re
from typing import Any

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
    once the whole text has parsed. Bytes are UTF-8 with broken parts replaced. Raises ``JsonSyntaxError``.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    repeated: list[str] = []
    try:
        value = _scanner(repeated).decode(text)
    except RecursionError:
        repeated.clear()
        value = _parse_deep(text, repeated)
    except json.JSONDecodeError as error:
        raise JsonSyntaxError(f"{error.msg} at character {error.pos + 1}", error.pos) from None
    if repeated and not duplicates:
        raise DuplicateMemberError(repeated[0])
    return value


def _scanner(repeated: list[str]) -> json.JSONDecoder:
    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return _object(pairs, repeated)

    return json.JSONDecoder(object_pairs_hook=members, parse_int=_integer, parse_float=float, parse_constant=_refuse)


def _object(pairs: list[tuple[str, Any]], repeated: list[str]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        repeated.extend(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
    return found


def _integer(text: str) -> float:
    if len(text) <= 15:
        return int(text) if text != "-0" else -0.0
    value = float(text)
    return int(text) if abs(value) <= MAX_SAFE_INTEGER else value


def _refuse(name: str) -> Any:
    raise JsonSyntaxError(f"{name} is not JSON")


_SPACE = re.compile(r"[ \t\n\r]*")
_STRING = re.compile(r'"((?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*)"')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_WORDS = {"true": True, "false": False, "null": None}
_WORD = re.compile("true|false|null")


def _parse_deep(text: str, repeated: list[str]) -> Any:
    """The same grammar with an explicit stack, for nesting that exhausts the C scanner's."""
    stack: list[tuple[list[Any] | list[tuple[str, Any]], str | None]] = []
    at = _skip(text, 0)
    while True:
        # one value
        char = text[at : at + 1]
        value: Any
        if char == "[":
            at = _skip(text, at + 1)
            if text[at : at + 1] == "]":
                value, at = [], at + 1
            else:
                stack.append(([], None))
                continue
        elif char == "{":
            at = _skip(text, at + 1)
            if text[at : at + 1] == "}":
                value, at = {}, at + 1
            else:
                name, at = _name(text, at)
                stack.append(([], name))
                continue
        else:
            value, at = _scalar(text, at)
        # close what is finished
        while True:
            at = _skip(text, at)
            if not stack:
                if at != len(text):
                    raise JsonSyntaxError(f"extra data at character {at + 1}", at)
                return value
            items, name_or_none = stack[-1]
            items.append(value if name_or_none is None else (name_or_none, value))
            char = text[at : at + 1]
            if char == ",":
                at = _skip(text, at + 1)
                if name_or_none is not None:
                    name, at = _name(text, at)
                    stack[-1] = (items, name)
                break
            if char == ("]" if name_or_none is None else "}"):
                at += 1
                stack.pop()
                value = items if name_or_none is None else _object(items, repeated)
                continue
            raise JsonSyntaxError(f"expected ',' or a closing bracket at character {at + 1}", at)


def _skip(text: str, at: int) -> int:
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]


def _name(text: str, at: int) -> tuple[str, int]:
    name, at = _scalar(text, at)
    if not isinstance(name, str):
        raise JsonSyntaxError(f"expected a member name at character {at + 1}", at)
    at = _skip(text, at)
    if text[at : at + 1] != ":":
        raise JsonSyntaxError(f"expected ':' at character {at + 1}", at)
    return name, _skip(text, at + 1)


def _scalar(text: str, at: int) -> tuple[Any, int]:
    if match := _STRING.match(text, at):
        return (json.loads(match[0], strict=True) if "\\" in match[0] else match[1]), match.end()
    if match := _NUMBER.match(text, at):
        number = float(match[0]) if match[1] or match[2] else _integer(match[0])
        return number, match.end()
    if match := _WORD.match(text, at):
        return _WORDS[match[0]], match.end()
    raise JsonSyntaxError(f"expected a value at character {at + 1}", at)
