"""Python values as plain JSON, and back again by their annotations: the arguments and results of an ``@subagent``."""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime as dt
import decimal
import enum
import math
import os
import pathlib
import sys
import types
import typing
import uuid
from collections.abc import Mapping
from typing import Any, Final, Literal, Union, get_args, get_origin

from cassette_lab.errors import CassetteLabError, IdentityError
from cassette_lab.jsonio import MAX_SAFE_INTEGER, CanonicalError, JsonValue, canonical, detach

_TEXTS: Final = (dt.datetime, dt.date, dt.time)


def to_plain(value: Any, name: str) -> JsonValue:
    """``value`` as plain JSON that shares nothing with it; ``name`` is what an error calls it.

    Dataclasses and pydantic models become objects, enums their values, tuples and sets arrays (sets sorted), paths,
    dates, UUIDs and decimals strings, NumPy scalars and arrays numbers and arrays. Anything else, and what JSON cannot
    hold without loss, is an ``IdentityError`` that names the place.
    """
    try:
        plain: JsonValue = _plain(value, name, set())
    except RecursionError:
        try:
            plain = detach(value)  # plain JSON may be as deep as it likes
        except CanonicalError:
            raise IdentityError(f"{name} is nested too deeply for anything but plain JSON", field=name) from None
    return plain


def from_plain(annotation: Any, value: JsonValue, name: str) -> Any:
    """The value of type ``annotation`` that ``to_plain`` has turned into ``value``; the inverse as far as there is one.

    An annotation that says nothing, or other than what is there (``-> str`` and ``null``), gives the JSON value itself.
    A dataclass, model, enum or date that cannot be made of it is a ``CassetteLabError`` (``RESULT_TYPE``).
    """
    try:
        return _typed(annotation, value)
    except _MisfitError as misfit:
        raise CassetteLabError(
            f"{name} does not fit its annotation {_shown(annotation)}: {misfit}; record again, or mend the annotation",
            code="RESULT_TYPE",
        ) from misfit.__cause__
    except RecursionError:
        raise CassetteLabError(f"{name} is nested too deeply for its annotation", code="RESULT_TYPE") from None


class _MisfitError(Exception):
    """Why a value is not of a type."""


def _plain(value: Any, place: str, within: set[int]) -> Any:
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return value
    if kind is int:
        if abs(value) > MAX_SAFE_INTEGER:
            raise IdentityError(f"{place} is too large for a JSON number to hold exactly; pass it as text", field=place)
        return value
    if kind is float:
        if not math.isfinite(value) or (value == 0 and math.copysign(1, value) < 0):
            raise IdentityError(f"{place} is {value}, which JSON cannot hold without loss", field=place)
        return value
    if isinstance(value, enum.Enum):
        return _plain(value.value, place, within)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return _plain(int(value), place, within)
    if isinstance(value, os.PathLike):
        return value.as_posix() if isinstance(value, pathlib.PurePath) else _plain(os.fspath(value), place, within)
    if isinstance(value, _TEXTS):
        return value.isoformat()
    if isinstance(value, (uuid.UUID, decimal.Decimal)):
        return str(value)
    if kind.__module__ == "numpy" and hasattr(value, "tolist"):
        return _plain(value.tolist(), place, within)
    if isinstance(value, float):
        return _plain(float(value), place, within)
    if id(value) in within:
        raise IdentityError(f"{place} contains itself, which JSON cannot", field=place)
    within.add(id(value))
    try:
        return _plain_container(value, place, within)
    finally:
        within.discard(id(value))


def _plain_container(value: Any, place: str, within: set[int]) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(item, f"{place}[{index}]", within) for index, item in enumerate(value)]
    if isinstance(value, Mapping):
        return {_member(key, place): _plain(item, f"{place}.{key}", within) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: _plain(getattr(value, field.name), f"{place}.{field.name}", within)
            for field in dataclasses.fields(value)
        }
    if _is_model(type(value)):
        return _plain(value.model_dump(mode="json"), place, within)
    if isinstance(value, (set, frozenset)):
        return sorted((_plain(item, place, within) for item in value), key=_place_in_a_set)
    raise IdentityError(
        f"{place} is {_article(type(value).__name__)}, which is not plain JSON; "
        "pass text, numbers, lists, dicts, a dataclass or a pydantic model",
        field=place,
    )


def _place_in_a_set(item: Any) -> tuple[str, Any]:
    """Sort key of a set's items: the same order for equal sets, in every process."""
    if isinstance(item, (int, float)):
        return ("", item)
    return (type(item).__name__, item if isinstance(item, str) else canonical(item))


def _member(key: Any, place: str) -> str:
    if isinstance(key, enum.Enum):
        key = key.value
    if not isinstance(key, str):
        raise IdentityError(f"{place} has the key {key!r}, and a member name of JSON is a string", field=place)
    return str.__str__(key)


def _typed(annotation: Any, value: Any) -> Any:
    annotation = _resolved(annotation)
    origin = get_origin(annotation)
    if origin is not None:
        return _generic(origin, get_args(annotation), value)
    if not isinstance(annotation, type):
        return value
    if annotation is float and type(value) is int:
        return float(value)
    if issubclass(annotation, enum.Enum):
        return _made(annotation, value)
    if dataclasses.is_dataclass(annotation):
        return _dataclass(annotation, value)
    if _is_model(annotation):
        return _made(annotation.model_validate, value)  # type: ignore[attr-defined]
    if typing.is_typeddict(annotation) and isinstance(value, dict):
        hints = _hints(annotation)
        return {name: _typed(hints.get(name, Any), item) for name, item in value.items()}
    if isinstance(value, str):
        if annotation in _TEXTS:
            return _made(annotation.fromisoformat, value)
        if issubclass(annotation, (uuid.UUID, decimal.Decimal, pathlib.PurePath)):
            return _made(annotation, value)
    if isinstance(value, list):
        if annotation in (tuple, set, frozenset):
            return annotation(value)
        if issubclass(annotation, tuple) and hasattr(annotation, "_fields"):
            return _named_tuple(annotation, value)
    return value


def _generic(origin: Any, arguments: tuple[Any, ...], value: Any) -> Any:
    if origin is Union or origin is types.UnionType:
        return _union(arguments, value)
    if origin is Literal:
        return next((choice for choice in arguments if isinstance(choice, enum.Enum) and choice.value == value), value)
    if not isinstance(origin, type):
        return value
    if isinstance(value, dict) and issubclass(origin, collections.abc.Mapping) and len(arguments) == 2:
        return {_typed(arguments[0], key): _typed(arguments[1], item) for key, item in value.items()}
    if isinstance(value, list):
        if origin is tuple and not (len(arguments) == 2 and arguments[1] is Ellipsis):
            if len(arguments) != len(value):
                raise _MisfitError(f"there are {len(value)} items, not {len(arguments)}")
            return tuple(_typed(argument, item) for argument, item in zip(arguments, value, strict=True))
        if issubclass(origin, (collections.abc.Sequence, collections.abc.Set)):
            items = [_typed(arguments[0], item) for item in value]
            return origin(items) if origin in (tuple, set, frozenset) else items
    return _dataclass(origin, value, arguments) if isinstance(origin, type) and dataclasses.is_dataclass(origin) else value


def _union(arms: tuple[Any, ...], value: Any) -> Any:
    """The first arm that ``value`` is of as it stands, else the first that can be made of it."""
    if value is None and type(None) in arms:
        return None
    misfit = None
    for exact in (True, False):
        for arm in arms:
            if _is_plainly(_resolved(arm), value) is exact:
                try:
                    made = _typed(arm, value)
                except _MisfitError as error:
                    misfit = error
                else:
                    if exact or made is not value:
                        return made
    if misfit is not None:
        raise misfit
    return value


def _is_plainly(arm: Any, value: Any) -> bool:
    """Whether ``value`` is already what ``arm`` asks for, so that nothing needs to be made of it."""
    origin = get_origin(arm)
    if origin is Literal:
        return any(type(choice) is type(value) and choice == value for choice in get_args(arm))
    if isinstance(value, dict) and (dataclasses.is_dataclass(arm) or _is_model(arm)):
        return True
    plain = arm if origin is None else origin
    return isinstance(plain, type) and not issubclass(plain, enum.Enum) and type(value) is plain


def _dataclass(kind: type, value: Any, arguments: tuple[Any, ...] = ()) -> Any:
    """``value`` as a ``kind``, or as ``kind[arguments]`` where that is generic."""
    if not isinstance(value, dict):
        raise _MisfitError(f"{_article(type(value).__name__)} is no {kind.__name__}")
    hints = _hints(kind)
    fields = {field.name: field for field in dataclasses.fields(kind)}
    unknown = [name for name in value if name not in fields]
    if unknown:
        raise _MisfitError(f"{kind.__name__} has no field {unknown[0]!r}")
    chosen = dict(zip(getattr(kind, "__parameters__", ()), arguments, strict=False))
    typed = {name: _typed(_filled_in(hints.get(name, Any), chosen), item) for name, item in value.items()}
    made = _made(lambda _: kind(**{name: item for name, item in typed.items() if fields[name].init}), value)
    for name, item in typed.items():
        if not fields[name].init:
            object.__setattr__(made, name, item)
    return made


def _filled_in(annotation: Any, chosen: dict[Any, Any]) -> Any:
    """The annotation of a generic class's field, with what was chosen for its type variables."""
    variables = getattr(annotation, "__parameters__", ())
    if variables and not isinstance(annotation, type):
        return annotation[tuple(chosen.get(variable, Any) for variable in variables)]
    return chosen.get(annotation, annotation) if isinstance(annotation, typing.TypeVar) else annotation


def _named_tuple(kind: Any, value: list[Any]) -> Any:
    if len(value) != len(kind._fields):
        raise _MisfitError(f"there are {len(value)} items, not {len(kind._fields)}")
    hints = _hints(kind)
    return kind(*(_typed(hints.get(name, Any), item) for name, item in zip(kind._fields, value, strict=True)))


def _hints(kind: type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(kind)
    except Exception:  # noqa: BLE001 - an annotation that cannot be resolved says nothing
        return {}


def _made(make: Any, value: Any) -> Any:
    try:
        return make(value)
    except Exception as error:
        raise _MisfitError(str(error).partition("\n")[0]) from error


def _resolved(annotation: Any) -> Any:
    """Without the wrappers that say nothing about the JSON: ``Annotated``, ``type X = …``, ``NewType``, ``Final``."""
    while True:
        origin = get_origin(annotation)
        if origin is typing.Annotated or origin in (typing.Final, typing.ClassVar, typing.Required, typing.NotRequired):
            annotation = get_args(annotation)[0]
        elif hasattr(annotation, "__supertype__"):
            annotation = annotation.__supertype__
        elif type(annotation).__name__ == "TypeAliasType":
            annotation = annotation.__value__
        else:
            return _latest(annotation) if isinstance(annotation, type) else annotation


def _latest(kind: type) -> type:
    """The class that has this one's name now: a re-run cell or a reload defines it again."""
    named = getattr(sys.modules.get(kind.__module__), kind.__qualname__, kind)
    return named if isinstance(named, type) and named.__module__ == kind.__module__ else kind


def _is_model(kind: Any) -> bool:
    """Whether ``kind`` is a pydantic model, without importing pydantic."""
    return isinstance(kind, type) and hasattr(kind, "model_validate") and hasattr(kind, "model_dump")


def _article(name: str) -> str:
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _shown(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)
