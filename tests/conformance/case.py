"""One vector, as every kind of conformance module yields it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """A vector and how to check it.

    ``check()`` raises (``AssertionError`` or anything else) where the vector is not met. It returns None where it is,
    or the reason of a *deviation by rule*: a sentence about the input, never about this one case.
    """

    id: str
    check: Callable[[], str | None]
