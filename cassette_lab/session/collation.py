"""The order in which a person expects ids: letters without regard to case or accents first, then accents, then case.

What JavaScript's ``localeCompare`` does by default (Unicode Collation, root order), exact for ASCII and close to it for
other scripts, which follow each other by code point.
"""

from __future__ import annotations

import unicodedata
from typing import Final, TypeAlias

_ASCII: Final = "\t\n\v\f\r _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$0123456789abcdefghijklmnopqrstuvwxyz"
_ORDER: Final = {char: place for place, char in enumerate(_ASCII)}
_SPACES, _MARKS, _SYMBOLS, _DIGITS = (_ORDER[char] for char in " %~9")
_OTHER_GROUPS: Final = {"Z": _SPACES, "P": _MARKS, "S": _SYMBOLS, "N": _DIGITS}

CollationKey: TypeAlias = tuple[tuple[tuple[int, int], ...], tuple[int, ...], tuple[int, ...]]


def collation_key(text: str) -> CollationKey:
    """A key that sorts as ``localeCompare`` does; texts that it takes for equal have equal keys."""
    bases: list[tuple[int, int]] = []
    accents: list[int] = []
    cases: list[int] = []
    for char in unicodedata.normalize("NFD", text):
        category = unicodedata.category(char)
        if category[0] == "M":
            accents.append(ord(char))
            continue
        if category[0] == "C" and char not in _ORDER:
            continue  # controls, format characters and halves of surrogate pairs weigh nothing
        for folded in char.casefold():
            place = _ORDER.get(folded)
            bases.append((place, 0) if place is not None else (_OTHER_GROUPS.get(category[0], len(_ASCII)), ord(folded)))
            accents.append(0)
            cases.append(char != folded)
    return tuple(bases), tuple(accents), tuple(cases)
