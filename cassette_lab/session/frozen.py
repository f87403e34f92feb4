"""JSON that cannot be changed: what was logged stays as it was, whoever holds it.

Frozen objects and arrays are ``dict`` and ``list`` to everything that reads; a copy (``copy.deepcopy``, too) is a plain one.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn

from cassette_lab.jsonio import MAX_SAFE_INTEGER, CanonicalError, detach
from cassette_lab.jsonio.text import is_whole

MOST_LEVELS: Final = 200
"""Data may not be nested deeper: whoever reads it has a stack, too."""

_MOST: Final = MAX_SAFE_INTEGER


def freeze(value: Any) -> Any:
    """A frozen copy of plain JSON. Raises ``CanonicalError`` for anything else, also for what is nested too deep."""
    try:
        return _frozen(value, MOST_LEVELS)
    except RecursionError:  # the caller stands deep already
        raise CanonicalError("it is nested too deep for where it is logged") from None


def freeze_delta(key: tuple[Any, ...], text: str) -> FrozenDict | None:
    """The data of a delta, frozen: ``key`` and ``text`` are those of ``delta_key``. None for what ``freeze`` must look at."""
    kind, turn, step, index, call_id, name = key
    if not ((text.isascii() or is_whole(text)) and -_MOST <= turn <= _MOST and -_MOST <= step <= _MOST):
        return None
    if not -_MOST <= index <= _MOST:
        return None
    if kind == "text-delta":
        chunk = FrozenDict({"type": "text-delta", "index": index, "text": text})
    elif kind == "reasoning-delta":
        chunk = FrozenDict({"type": "reasoning-delta", "index": index, "text": text})
    elif not is_whole(call_id):
        return None
    elif name is None:
        chunk = FrozenDict({"type": "tool-call-delta", "index": index, "id": call_id, "argumentsDelta": text})
    elif is_whole(name):
        chunk = FrozenDict({"type": "tool-call-delta", "index": index, "id": call_id, "name": name, "argumentsDelta": text})
    else:
        return None
    return FrozenDict({"turn": turn, "step": step, "chunk": chunk})


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise TypeError("an event that was logged cannot be changed; change a copy (copy.deepcopy) and log that")


class FrozenDict(dict[str, Any]):
    """A JSON object that cannot be changed."""

    __slots__ = ()
    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


class FrozenList(list[Any]):
    """A JSON array that cannot be changed."""

    __slots__ = ()
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = extend = insert = remove = pop = clear = sort = reverse = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)


def _frozen(value: Any, levels: int) -> Any:
    """The usual kinds of values at once; ``detach`` knows about the others, or refuses them."""
    kind = type(value)
    if (kind is str and value.isascii()) or value is None or kind is bool or kind is FrozenDict or kind is FrozenList:
        return value
    if kind is int and -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER:
        return value
    if isinstance(value, (dict, list, tuple)):
        if not levels:
            raise CanonicalError(f"it is nested more than {MOST_LEVELS} levels deep")
        levels -= 1
        if not isinstance(value, dict):
            return FrozenList([_frozen(child, levels) for child in value])
        if not all([type(name) is str and name.isascii() for name in value]):  # noqa: C419 - a list is quicker here
            value = {name: value[other] for name, other in zip(detach(dict.fromkeys(value)), value, strict=True)}
        return FrozenDict({name: _frozen(child, levels) for name, child in value.items()})
    return detach(value)
