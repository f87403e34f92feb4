"""Members of an event's data, which may be anything: a value of the wanted type, or None."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from cassette_lab.jsonio import MAX_SAFE_INTEGER, JsonObject, as_integer
from cassette_lab.session.chunks import is_number
from cassette_lab.session.model import Event

_Number = TypeVar("_Number", int, float)


def text(data: JsonObject, name: str) -> str | None:
    """A string."""
    value = data.get(name)
    return value if type(value) is str else None


def whole(data: JsonObject, name: str) -> int | None:
    """A whole number, 0 or more."""
    value = data.get(name)
    if type(value) is not int:
        value = as_integer(value)
    return value if value is not None and 0 <= value <= MAX_SAFE_INTEGER else None


def number(data: JsonObject, name: str) -> float | None:
    """A number no larger than 2^53 - 1 in size."""
    value: Any = data.get(name)
    if type(value) is int or is_number(value):
        return value if -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER else None
    return None


def turn_and_step(data: JsonObject, read: Callable[[JsonObject, str], _Number | None]) -> tuple[_Number | None, _Number | None]:
    """Turn and step, by ``whole`` or ``number``."""
    turn, step = data.get("turn"), data.get("step")
    if type(turn) is int and type(step) is int and 0 <= turn <= MAX_SAFE_INTEGER and 0 <= step <= MAX_SAFE_INTEGER:
        return turn, step
    return read(data, "turn"), read(data, "step")


def inner(data: JsonObject, name: str) -> JsonObject:
    """An object; an empty one where there is none."""
    value = data.get(name)
    return value if type(value) is dict else {}


def items(data: JsonObject, name: str) -> list[Any]:
    """An array; an empty one where there is none."""
    value = data.get(name)
    return value if type(value) is list else []


def known(time: float) -> float | None:
    """A time in epoch ms; 0 stands for one that the log does not have, and beyond 2^53 - 1 there is none."""
    return time if 0 < time <= MAX_SAFE_INTEGER else None


def time_of(event: Event) -> float | None:
    """An event's time in epoch ms, if the log has it."""
    time = event.time
    return time if 0 < time <= MAX_SAFE_INTEGER else None


def text_blocks(content: Any) -> list[str]:
    """The texts of the text blocks of a message's content."""
    if type(content) is not list:
        return []
    return [
        block["text"]
        for block in content
        if type(block) is dict and block.get("type") == "text" and type(block.get("text")) is str
    ]


def result_body(data: JsonObject) -> JsonObject:
    """What holds a result's id, content and outcome.

    That is the message itself (format 4), the message's block of type tool-result (before), or the event's data (in logs
    older than the first release).
    """
    message = inner(data, "message")
    if not message or message.get("role") == "tool" or "toolCallId" in message:
        return message or data
    content = message.get("content")
    first = content[0] if type(content) is list and content else None
    return first if type(first) is dict else {}
