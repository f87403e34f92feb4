"""Plain JSON values in Python: what counts as one, detached copies, integers."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from cassette_lab.jsonio.canonical import CanonicalError, number_or_error
from cassette_lab.jsonio.numbers import MAX_SAFE_INTEGER
from cassette_lab.jsonio.surrogates import join_pairs

JsonValue: TypeAlias = "bool | int | float | str | list[Any] | dict[str, Any] | None"
JsonObject: TypeAlias = dict[str, Any]

_QUICK_DEPTH: Final = 50


def detach(value: Any) -> Any:
    """A deep copy of a plain JSON value that shares nothing with it.

    Tuples become lists, subclasses of ``str``, ``int`` and ``float`` their value, split surrogate pairs characters; any
    depth. Raises ``CanonicalError`` where ``canonical`` would.
    """
    try:
        return _copy(value, _QUICK_DEPTH)
    except (_TooDeepError, RecursionError):  # a deep value, or a caller that stands deep already
        return _copy_deep(value)


def as_integer(value: Any) -> int | None:
    """``value`` as an integer if it is a number with an integral value of at most 2**53 - 1 in size, else None."""
    if type(value) is int:
        return value if -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER else None
    if type(value) is float and value.is_integer() and -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER:
        return int(value)
    return None


def camel_case(name: str) -> str:
    """The member that stands for a field, ``first_chunk_ms`` as ``firstChunkMs``."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


class _TooDeepError(Exception):
    """Nesting beyond what is copied by recursion."""


def _copy(value: Any, depth: int) -> Any:
    kind = type(value)
    if kind is dict:
        if not depth:
            raise _TooDeepError
        members: dict[str, Any] = {}
        for name, child in value.items():
            if type(name) is not str or not name.isascii():
                name = _name(name, members)  # noqa: PLW2901
            members[name] = child if type(child) is str and child.isascii() else _copy(child, depth - 1)
        return members
    if kind is list:
        if not depth:
            raise _TooDeepError
        return [_copy(child, depth - 1) for child in value]
    if isinstance(value, (dict, list, tuple)):
        if not depth:
            raise _TooDeepError
        return _copy(dict(value) if isinstance(value, dict) else list(value), depth)
    return _scalar(value)


def _copy_deep(value: Any) -> Any:
    root: list[Any] = [None]
    opened: set[int] = set()
    # A value to copy and where to, or the id of a container whose contents are done.
    work: list[tuple[Any, Any, Any] | int] = [(root, 0, value)]
    while work:
        entry = work.pop()
        if isinstance(entry, int):
            opened.discard(entry)
            continue
        into, key, item = entry
        if not isinstance(item, (dict, list, tuple)):
            into[key] = _scalar(item)
            continue
        if id(item) in opened:
            raise CanonicalError("a container contains itself")
        opened.add(id(item))
        work.append(id(item))
        if isinstance(item, dict):
            members: dict[str, Any] = {}
            into[key] = members
            for name, child in item.items():
                plain = _name(name, members)
                members[plain] = None
                work.append((members, plain, child))
        else:
            copy: list[Any] = [None] * len(item)
            into[key] = copy
            work.extend((copy, index, child) for index, child in enumerate(item))
    return root[0]


def _name(name: Any, members: dict[str, Any]) -> str:
    if not isinstance(name, str):
        raise CanonicalError(f"a member name is {type(name).__name__}, not a string")
    plain = join_pairs(str.__str__(name))
    if plain in members:
        raise CanonicalError("two members of one object have the same name")
    return plain


def _scalar(value: Any) -> Any:
    kind = type(value)
    if kind is str:
        return join_pairs(value)
    if value is None or kind is bool:
        return value
    if kind is int or kind is float:
        number_or_error(value)
        return value
    if isinstance(value, str):
        return join_pairs(str.__str__(value))
    if isinstance(value, int):
        return _scalar(int(value))
    if isinstance(value, float):
        return _scalar(float(value))
    raise CanonicalError(f"{kind.__name__} is not plain JSON")
