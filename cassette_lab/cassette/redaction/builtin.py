"""The built-in secret shapes: bearer tokens, service keys, AWS key ids and ``name = value`` pairs, in linear time.

Source: cassette format, Redaction, rules 1 to 4. The originals are ECMAScript patterns without the ``u`` flag, of which
some take quadratic time or worse. Each is rewritten here to what it decides:

- All run over a copy with ASCII letters lowered, because the ``i`` flag without ``u`` folds nothing else onto ASCII.
- A literal beginning comes first and its word boundary is looked up behind it, so that the search can skip ahead.
- White space, names and values share no character with what must follow them, so that giving back never helps.
- In rule 4 any run of name characters may stand in front of ``api key``, ``… token`` and ``client secret``, and such a
  run holds a word boundary in every case: only the ending has to be found. The text before the value stays anyway.
- The value of rule 4 has 4 or more UTF-16 units: a character beyond U+FFFF counts two.
"""

from __future__ import annotations

import re
from typing import Final

from cassette_lab.cassette.model import REDACTED
from cassette_lab.jsonio.whitespace import JS_WHITESPACE

SHORTEST: Final = 8
"""Characters of the shortest text that any rule matches: ``token=`` and two characters beyond U+FFFF."""

_SPACE: Final = f"[{JS_WHITESPACE}]"

_BEARER: Final = re.compile(rf"bearer(?<![0-9a-z_]bearer){_SPACE}++[a-z0-9._~+/=-]{{8,}}+")
_SERVICE_KEY: Final = re.compile(
    r"[sg](?<![0-9a-z_].)(?:(?<=s)k[-_]|(?<=g)h[opusr]_)[a-z0-9_-]{11,}[a-z0-9_]"  # the last word character ends it
)
_AWS_KEY_ID: Final = re.compile(r"AKIA(?<![0-9A-Za-z_]AKIA)[0-9A-Z]{16}(?![0-9A-Za-z_])")
_VALUE: Final = f"[^\"',}}{JS_WHITESPACE}]"
_ASSIGNMENT: Final = re.compile(
    # The rarest letter of each name comes first: the search stops at few places.
    r"(?:k(?:(?<=apik)ey|(?<=api[_-]k)ey|(?<=tok)en(?:"
    r"(?<=accesstoken)|(?<=access[_-]token)|(?<=refreshtoken)|(?<=refresh[_-]token)|(?<=idtoken)|(?<=id[_-]token)"
    r"|(?<![0-9a-z_]token)))"
    r"|c(?<=sec)ret(?:(?<=clientsecret)|(?<=client[_-]secret)|(?<![0-9a-z_]secret))"
    r"|w(?<=passw)ord(?<![0-9a-z_]password)"
    r"|z(?<=authoriz)ation(?<![0-9a-z_]authorization))"
    rf"{_SPACE}*+(?:[\"']{_SPACE}*+)?+[:=]{_SPACE}*+[\"']?+"
    rf"({_VALUE}{{4,}}+|(?={_VALUE}{{0,2}}[\U00010000-\U0010ffff]){_VALUE}{{3}}|[\U00010000-\U0010ffff]{{2}})"
)

# What every match of a rule contains, again by its rarest letter; with "bearer", "secret", "password" and "authorization".
_WORD_WITH_K: Final = re.compile(r"k(?:(?<=sk)[-_]|(?<=tok)en|(?<=ak)ia|(?<=apik)ey|(?<=api[-_]k)ey)")
_GITHUB: Final = re.compile(r"_(?<=gh[oprsu]_)")


def redact(text: str) -> tuple[str, int]:
    """``text`` after rules 1 to 4, each over the result of the one before, and the number of substitutions."""
    if len(text) < SHORTEST:
        return text, 0
    low = _ascii_lower(text)
    if not _is_suspicious(low):
        return text, 0
    text, low, total = _substitute(_BEARER, low, text, low)
    text, low, count = _substitute(_SERVICE_KEY, low, text, low)
    total += count
    text, low, count = _substitute(_AWS_KEY_ID, text, text, low)
    total += count
    text, low, count = _substitute(_ASSIGNMENT, low, text, low)
    return text, total + count


def is_clean(texts: list[str]) -> bool:
    """Whether no rule matches in any of ``texts``. A no may be wrong, a yes never is."""
    low = _ascii_lower(",".join(texts))  # no match goes over a comma
    return not _is_suspicious(low) or not (
        _BEARER.search(low) or _SERVICE_KEY.search(low) or "akia" in low or _ASSIGNMENT.search(low)
    )


def _ascii_lower(text: str) -> str:
    """``text`` with A to Z lowered and every other character in its place."""
    if text.isascii():
        return text.lower()
    return text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")


def _is_suspicious(low: str) -> bool:
    """Whether ``low`` has any of the words that all matches have."""
    return bool(
        _WORD_WITH_K.search(low)
        or "bearer" in low
        or ("_" in low and _GITHUB.search(low))
        or ((":" in low or "=" in low) and ("secret" in low or "password" in low or ("z" in low and "authorization" in low)))
    )


def _substitute(pattern: re.Pattern[str], searched: str, text: str, low: str) -> tuple[str, str, int]:
    """``text`` and its lowered copy with each match (or its group, if there is one) replaced, and how many."""
    pieces: list[str] = []
    low_pieces: list[str] = []
    at = 0
    for match in pattern.finditer(searched):
        start, end = match.span(pattern.groups)
        pieces += (text[at:start], REDACTED)
        low_pieces += (low[at:start], _REDACTED_LOW)
        at = end
    if not pieces:
        return text, low, 0
    return "".join(pieces) + text[at:], "".join(low_pieces) + low[at:], len(pieces) // 2


_REDACTED_LOW: Final = REDACTED.lower()
