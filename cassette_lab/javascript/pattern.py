"""A compiled pattern and where it matches, counted in UTF-16 units as JavaScript counts.

Source: ECMA-262 ``String.prototype.matchAll`` (empty matches too).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cassette_lab.javascript.translation import PatternSyntaxError, folded, translate, units

if TYPE_CHECKING:
    from regress import Match as EngineMatch

__all__ = ["Match", "Pattern", "PatternSyntaxError"]

LONGEST: Final = 10_000
"""Characters of a pattern. The engine goes down a level for each alternative, and ends the process where it goes too deep."""

_UTF_16: Final = "utf-16-le"


@dataclass(frozen=True, slots=True)
class Match:
    """The ``text`` of a match, and that of its first group: None if there is none or it took no part.

    A match may begin or end inside a surrogate pair; each half then stands alone.
    """

    text: str
    first_group: str | None


class Pattern:
    """An ECMAScript pattern with the flag ``g``, and ``i`` if it is to ``ignore_case``; never with ``u``.

    Raises ``PatternSyntaxError`` for text that is no such pattern, or too long. A search takes what the pattern's author
    made it take.
    """

    def __init__(self, source: str, *, ignore_case: bool = False) -> None:
        from regress import Regex, RegressError

        if len(source) > LONGEST:
            raise PatternSyntaxError(f"{len(source):,} characters are too long, {LONGEST:,} are allowed")
        translation = translate(source, ignore_case=ignore_case)
        try:
            self._regex = Regex(translation.source)
        except RegressError as error:
            raise PatternSyntaxError(str(error)) from None
        self._prepared = folded if translation.folds else units

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Begin and end of all matches in order, in UTF-16 units."""
        prepared = self._prepared(text)
        return list(_spans(prepared, (match.range() for match in self._regex.find_iter(prepared) or ())))

    def last_match(self, text: str) -> Match | None:
        """The last match, if there is one."""
        prepared = self._prepared(text)
        last: EngineMatch | None = None
        for last in self._regex.find_iter(prepared) or ():  # noqa: B007 - the last one counts
            pass
        if last is None:
            return None
        group = last.group(1)
        return Match(_part(text, prepared, last.range()), None if group is None else _part(text, prepared, group))


def replaced(text: str, spans: list[tuple[int, int]], mark: str) -> str:
    """``text`` with ``mark`` in place of each of the ``spans``, which are in order and in UTF-16 units."""
    halves, mark_halves = text.encode(_UTF_16, "surrogatepass"), mark.encode(_UTF_16)
    pieces: list[bytes] = []
    at = 0
    for start, end in spans:
        pieces += (halves[at * 2 : start * 2], mark_halves)
        at = end
    return (b"".join(pieces) + halves[at * 2 :]).decode(_UTF_16, "surrogatepass")


def _part(text: str, prepared: str, span: slice) -> str:
    ((start, end),) = _spans(prepared, [span])
    if text.isascii():
        return text[start:end]
    return text.encode(_UTF_16, "surrogatepass")[start * 2 : end * 2].decode(_UTF_16, "surrogatepass")


def _spans(prepared: str, found: Iterable[slice]) -> Iterator[tuple[int, int]]:
    """The engine's spans, which count UTF-8 bytes, in characters."""
    if prepared.isascii():
        for span in found:
            yield span.start, span.stop
        return
    encoded = prepared.encode()
    byte = character = 0
    for span in found:
        character += len(encoded[byte : span.start].decode())
        start = character
        character += len(encoded[span.start : span.stop].decode())
        byte = span.stop
        yield start, character
