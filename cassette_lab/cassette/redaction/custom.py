"""Custom redaction patterns: ECMAScript regular expressions with the flags ``g`` and ``i``.

Source: cassette format, Redaction, rule 5; ECMA-262 ``String.prototype.replace`` (empty matches too).
"""

from __future__ import annotations

from typing import Final

from cassette_lab.cassette.model import REDACTED
from cassette_lab.errors import ConfigError
from cassette_lab.javascript import Pattern, PatternSyntaxError, replaced
from cassette_lab.jsonio.text import show

_SHOWN: Final = 100


class CustomPattern:
    """One compiled pattern. Raises ``ConfigError`` for text that is no ECMAScript pattern, or longer than 10,000 characters."""

    def __init__(self, pattern: str) -> None:
        try:
            self._pattern = Pattern(pattern, ignore_case=True)
        except PatternSyntaxError as error:
            shown = show(pattern if len(pattern) <= _SHOWN else f"{pattern[:_SHOWN]}…")
            raise ConfigError(
                f"the redaction pattern {shown} is not a JavaScript regular expression ({error}); correct or remove it"
            ) from None

    def redact(self, text: str) -> tuple[str, int]:
        """``text`` with every match replaced, and how many there were. A match may begin or end inside a surrogate pair."""
        spans = self._pattern.spans(text)
        return (replaced(text, spans, REDACTED) if spans else text), len(spans)
