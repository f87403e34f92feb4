"""Surrogates in Python strings: ECMAScript reads two halves side by side as one character, Python does not."""

from __future__ import annotations

import re
from typing import Final

SPLIT_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def join_pairs(text: str) -> str:
    """``text`` with each high surrogate that a low one follows joined to one character; lone ones stay."""
    if text.isascii() or not SPLIT_PAIR.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
