"""Text at the edges: ECMAScript's white space, lines of a file, escapes for what cannot be seen, indented JSON.

Source: ECMA-262 WhiteSpace and LineTerminator, ``String.prototype.trim``, ``JSON.stringify``; the Unicode general
categories Cc, Cf, Zl and Zp.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from json.encoder import encode_basestring
from typing import Any, Final

import orjson

from cassette_lab.jsonio.canonical import CanonicalError, orjson_agrees
from cassette_lab.jsonio.numbers import number_text
from cassette_lab.jsonio.surrogates import join_pairs
from cassette_lab.jsonio.whitespace import JS_WHITESPACE

_UNSEEN: Final = (
    # Cc
    "\x00-\x1f\x7f-\x9f"
    # Cf of Unicode 17; written out so that every Python agrees
    "\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff"
    "\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001"
    "\U000e0020-\U000e007f"
    # Zl, Zp
    "\u2028\u2029"
    # lone surrogates
    "\ud800-\udfff"
)
_UNSEEN_CHARACTER = re.compile(f"[{_UNSEEN}]")
_UNSEEN_BESIDE_LAYOUT = re.compile(f"(?!\n)[{_UNSEEN}]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def js_trim(text: str) -> str:
    """``text`` without leading and trailing white space, as ECMAScript's ``trim()`` leaves it."""
    return text.strip(JS_WHITESPACE)


def is_blank(text: str) -> bool:
    """Whether ``trim()`` would leave nothing."""
    return not text.strip(JS_WHITESPACE)


def split_lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    r"""The lines of a file with their numbers from 1, split at ``\r?\n`` only, also what follows the last break."""
    number, start = 1, 0
    while (end := data.find(b"\n", start)) >= 0:
        yield number, data[start : end - 1 if end > start and data[end - 1] == 0x0D else end]
        number, start = number + 1, end + 1
    yield number, data[start:]


def decode_utf8(data: bytes) -> str:
    """``data`` as UTF-8, one U+FFFD for each maximal broken part; a byte order mark stays."""
    return data.decode("utf-8", "replace")


def show(text: str) -> str:
    r"""``text`` for a person: control, format and separator characters (Cc, Cf, Zl, Zp) and lone surrogates as ``\u{xxxx}``."""
    return _UNSEEN_CHARACTER.sub(lambda match: f"\\u{{{ord(match[0]):04x}}}", join_pairs(text))


def clip(text: str, width: int) -> str:
    """``text`` as ``show`` has it, in at most so many characters: of a longer one the start, and an ellipsis."""
    shown = show(text)
    return shown if len(shown) <= width else f"{shown[: width - 1]}…"


def is_whole(text: str) -> bool:
    """Whether UTF-8 can say ``text``: no surrogates are in it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def arrow_text(text: str) -> str:
    r"""``text`` as a column can hold it: lone surrogates as the six characters ``\udxxx``, everything else as it is."""
    if text.isascii():
        return text
    return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", join_pairs(text))


def pretty(value: Any, indent: int = 2) -> str:
    r"""What ``JSON.stringify(value, null, indent)`` gives, with unseen characters in strings as ``\uXXXX`` units.

    Members stay in their order. Unseen are the categories Cc, Cf, Zl, Zp and lone surrogates. An iterator counts as an
    array. Raises ``CanonicalError`` for what is not JSON.
    """
    return "".join(pretty_chunks(value, indent))


def pretty_chunks(value: Any, indent: int = 2) -> Iterator[str]:
    """``pretty`` in pieces: of a long array or object (or an iterator) only one element is held as text at a time."""
    step = " " * indent
    # Open containers: what is still to come, the bracket that closes it, whether it has written a member.
    stack: list[_Open] = [_Open(iter((value,)), "", is_object=False)]
    while stack:
        top = stack[-1]
        pad = "\n" + step * (len(stack) - 1)
        for item in top.rest:
            lead = ("," + pad if top.begun else pad) if top.close else ""
            top.begun = True
            if top.is_object:
                name, child = item
                lead += f"{_quoted(name)}: "
            else:
                child = item
            if indent == 2 and orjson_agrees(child, _QUICK_DEPTH, _QUICK_WIDTH):
                try:
                    text = orjson.dumps(child, None, orjson.OPT_INDENT_2).decode()
                except orjson.JSONEncodeError:  # lone surrogates
                    pass
                else:
                    yield lead + _escape_layout(text).replace("\n", pad)
                    continue
            opened = _open(child)
            if opened is None:
                yield lead + _scalar(child)
                continue
            yield lead + ("{" if opened.is_object else "[")
            stack.append(opened)
            break
        else:
            stack.pop()
            if top.begun and stack:
                yield "\n" + step * (len(stack) - 1)
            yield top.close


_QUICK_DEPTH: Final = 3
_QUICK_WIDTH: Final = 64


class _Open:
    __slots__ = ("begun", "close", "is_object", "rest")

    def __init__(self, rest: Iterator[Any], close: str, *, is_object: bool) -> None:
        self.rest = rest
        self.close = close
        self.is_object = is_object
        self.begun = False


def _open(value: Any) -> _Open | None:
    if isinstance(value, dict):
        return _Open(iter(value.items()), "}", is_object=True)
    if isinstance(value, (list, tuple)):
        return _Open(iter(value), "]", is_object=False)
    return _Open(value, "]", is_object=False) if isinstance(value, Iterator) else None


def _scalar(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        try:
            finite = math.isfinite(value)
        except OverflowError:
            finite = False
        return number_text(value or 0) if finite else "null"
    raise CanonicalError(f"{type(value).__name__} is not plain JSON")


def _quoted(text: Any) -> str:
    if not isinstance(text, str):
        raise CanonicalError(f"a member name is {type(text).__name__}, not a string")
    return _UNSEEN_CHARACTER.sub(_units, encode_basestring(join_pairs(text)))


def _escape_layout(text: str) -> str:
    """Escapes in a whole JSON text, whose line feeds are layout: inside strings they are escaped already."""
    if text.isascii() and "\x7f" not in text:  # the other ASCII controls are escaped in any JSON
        return text
    return _UNSEEN_BESIDE_LAYOUT.sub(_units, text)


def _units(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
