"""Values that the format leaves open, judged one by one: cut out of a line, parsed, checked, and gone behind.

A value is accepted when it is canonical (writing the parsed value gives its bytes again, so it has sorted members, each
once) and passes the format's own schema. Where it ends is only guessed from what must follow it; a wrong guess leaves
bytes that are no JSON value, and the line then goes to the next tier.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import orjson

from cassette_lab.cassette.identity import request_metadata
from cassette_lab.cassette.model import RequestMetadata
from cassette_lab.cassette.scan.blocks import Positions
from cassette_lab.cassette.scan.cursor import Cursor, Rows
from cassette_lab.cassette.schema import check_content_blocks, check_request_value, check_tool_filter
from cassette_lab.jsonio import JsonObject, canonical, utf16_key

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FullRequest:
    """A stored request: its metadata, and its content blocks."""

    metadata: RequestMetadata
    prompt: list[Any]


def output(cursor: Cursor, rows: Positions, start: Positions) -> dict[int, list[Any]]:
    """Results' content blocks of any kind, from ``start``; the lines get their proof back where they pass."""
    cursor.good[rows] = True
    cursor.at[rows] = start
    return _judged(cursor, rows, b'],"stopReason":"', 1, _output)


def further_members(cursor: Cursor, rows: Rows) -> dict[int, JsonObject]:
    """Members of a result behind ``stopReason``, to the end of the outcome."""
    return _judged(cursor, rows, b'}},"parentContextFingerprint":"', 0, _further_members, behind=2)


def tool_filters(cursor: Cursor, rows: Rows) -> dict[int, JsonObject]:
    """Tool filters in a request's metadata."""
    return _judged(cursor, rows, b'}},"storage":"metadata"}', 1, _tool_filter)


def full_requests(cursor: Cursor) -> dict[int, FullRequest]:
    """The stored request of every line that is still good."""
    rows = np.flatnonzero(cursor.good)
    return _judged(cursor, rows, b'}},"requestFingerprint":"', 1, _full_request)


def canonical_value(text: bytes) -> Any:
    """The value of a text that is canonical JSON already; ``ValueError`` where that is not proven."""
    value = orjson.loads(text)
    if canonical(value) != text:
        raise ValueError("not canonical")
    return value


def _judged(
    cursor: Cursor, rows: Rows, follows: bytes, keep: int, judge: Callable[[bytes], T], *, behind: int | None = None
) -> dict[int, T]:
    """What ``judge`` makes of the value that begins here and ends ``keep`` bytes into ``follows``, by line.

    The lines go behind the value (``behind`` bytes into ``follows``); where it raises ``ValueError`` they are no longer good.
    """
    buffer = cursor.block.buffer
    numbers = np.arange(len(cursor.at))[rows]
    found: dict[int, T] = {}
    behind_value: list[int] = []
    starts, stops = cursor.at[numbers].tolist(), cursor.block.stops[numbers].tolist()
    for row, start, stop in zip(numbers.tolist(), starts, stops, strict=True):
        end = buffer.find(follows, start, stop)
        try:
            found[row] = judge(bytes(buffer[start : end + keep]) if end >= 0 else b"")
        except ValueError:
            cursor.good[row] = False
        else:
            behind_value.append(end + (keep if behind is None else behind))
    cursor.jump(np.fromiter(found, np.int64, len(found)), np.array(behind_value, np.int64))
    return found


def _output(text: bytes) -> list[Any]:
    blocks: list[Any] = canonical_value(text)
    check_content_blocks(blocks, "output")
    return blocks


def _further_members(text: bytes) -> JsonObject:
    if text[:1] != b",":
        raise ValueError("not a further member")
    members: JsonObject = canonical_value(b"{" + text[1:] + b"}")
    if not members or utf16_key(next(iter(members))) <= _STOP_REASON:
        raise ValueError("not sorted")
    return members


_STOP_REASON = utf16_key("stopReason")


def _tool_filter(text: bytes) -> JsonObject:
    members: JsonObject = canonical_value(text)
    check_tool_filter(members)
    return members


def _full_request(text: bytes) -> FullRequest:
    value: JsonObject = canonical_value(text)
    check_request_value(value)
    return FullRequest(request_metadata(value), value["prompt"])
