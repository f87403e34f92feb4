"""Errors as a cassette keeps them, and back: name, message and code of what was raised; what is raised again in replay."""

from __future__ import annotations

import builtins
from functools import cache
from typing import Any, Final

from cassette_lab.cassette.model import ErrorFacts
from cassette_lab.errors import AbortError, RecordedAbortError, RecordedError

_NEVER_RAISED_AGAIN: Final = frozenset(
    {
        Exception,  # says nothing
        StopIteration,  # these two steer coroutines and generators
        StopAsyncIteration,
        BaseExceptionGroup,  # these cannot exist without facts that no file holds
        ExceptionGroup,
        UnicodeDecodeError,
        UnicodeEncodeError,
        UnicodeTranslateError,
    }
)


def error_facts(error: BaseException) -> ErrorFacts:
    """What a cassette keeps of ``error``: its type's name (or ``recorded_name``), ``str(error)``, a string ``code``."""
    name = _text(error, "recorded_name") or type(error).__name__ or "Error"
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - a broken __str__ must not cost the record
        message = ""
    if isinstance(error, RecordedError):
        return ErrorFacts(name, message, _recorded_code(error))
    return ErrorFacts(name, message, _text(error, "code"))


def abort_facts(message: str) -> ErrorFacts:
    """What is kept of a start that was cancelled: the name and code that an aborted start has."""
    return ErrorFacts(AbortError.__name__, message, AbortError.code)


def recorded_error(facts: ErrorFacts) -> RecordedError:
    """The error to raise where a recorded one is replayed.

    Where the recorded name is a builtin exception's, the error is one of those too, so ``except ValueError`` still holds.
    """
    return _recorded_type(facts.name)(facts.message, recorded_name=facts.name, code=facts.code)


def _recorded_type(name: str) -> type[RecordedError]:
    if name == AbortError.__name__:
        return RecordedAbortError
    kind = getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        for base in kind.__mro__:
            if base not in _NEVER_RAISED_AGAIN and issubclass(base, Exception):
                return _both(base.__name__)
    return RecordedError


@cache
def _both(name: str) -> type[RecordedError]:
    """The type that is a ``RecordedError`` and the builtin exception ``name``."""
    members = {"__module__": "cassette_lab", "__doc__": f"A recorded {name}, replayed.", "__reduce__": _reduce}
    return type(f"Recorded{name}", (RecordedError, getattr(builtins, name)), members)


def _reduce(error: RecordedError) -> tuple[Any, ...]:
    return (recorded_error, (ErrorFacts(error.recorded_name, error.message, _recorded_code(error)),))


def _recorded_code(error: RecordedError) -> str | None:
    """The code that stands in the file; the class's own one is no recorded code."""
    code: str | None = vars(error).get("code")
    return code


def _text(error: BaseException, name: str) -> str | None:
    try:
        value = getattr(error, name, None)
    except Exception:  # noqa: BLE001 - as above
        return None
    return value if isinstance(value, str) else None
