"""Custom redaction patterns: ECMAScript regular expressions with the flags ``g`` and ``i``.

Source: cassette format, Redaction, rule 5; ECMA-262 ``String.prototype.replace`` (empty matches too).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from cassette_lab.cassette.model import REDACTED
from cassette_lab.cassette.redaction.javascript import PatternSyntaxError, folded, translate, units
from cassette_lab.errors import ConfigError
from cassette_lab.jsonio.text import show

if TYPE_CHECKING:
    from regress import Match

_LONGEST: Final = 10_000
_SHOWN: Final = 100
_UTF_16: Final = "utf-16-le"


class CustomPattern:
    """One compiled pattern. Raises ``ConfigError`` for text that is no ECMAScript pattern, or longer than 10,000 characters."""

    def __init__(self, pattern: str) -> None:
        from regress import Regex, RegressError

        if len(pattern) > _LONGEST:
            raise ConfigError(f"a redaction pattern of {len(pattern)} characters is too long; {_LONGEST} are allowed")
        try:
            translation = translate(pattern)
            self._regex = Regex(translation.source)
        except (PatternSyntaxError, RegressError) as error:
            shown = show(pattern if len(pattern) <= _SHOWN else f"{pattern[:_SHOWN]}…")
            raise ConfigError(
                f"the redaction pattern {shown} is not a JavaScript regular expression ({error}); correct or remove it"
            ) from None
        self._prepared = folded if translation.folds else units

    def redact(self, text: str) -> tuple[str, int]:
        """``text`` with every match replaced, and how many there were. A match may begin or end inside a surrogate pair."""
        prepared = self._prepared(text)
        spans = list(_spans(prepared, self._regex.find_iter(prepared) or ()))
        if not spans:
            return text, 0
        if text.isascii():
            return _replaced(text, spans), len(spans)
        halves = text.encode(_UTF_16, "surrogatepass")
        mark = REDACTED.encode(_UTF_16)
        pieces: list[bytes] = []
        at = 0
        for start, end in spans:
            pieces += (halves[at * 2 : start * 2], mark)
            at = end
        pieces.append(halves[at * 2 :])
        return b"".join(pieces).decode(_UTF_16, "surrogatepass"), len(spans)


def _replaced(text: str, spans: list[tuple[int, int]]) -> str:
    pieces: list[str] = []
    at = 0
    for start, end in spans:
        pieces += (text[at:start], REDACTED)
        at = end
    return "".join(pieces) + text[at:]


def _spans(prepared: str, matches: Iterable[Match]) -> Iterator[tuple[int, int]]:
    """Where the matches are, in characters; the engine counts UTF-8 bytes."""
    if prepared.isascii():
        for match in matches:
            span = match.range()
            yield span.start, span.stop
        return
    encoded = prepared.encode()
    byte = character = 0
    for match in matches:
        span = match.range()
        character += len(encoded[byte : span.start].decode())
        start = character
        character += len(encoded[span.start : span.stop].decode())
        byte = span.stop
        yield start, character
