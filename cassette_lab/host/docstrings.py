"""What a docstring says of a function and of its parameters, in the Google, NumPy or Sphinx style."""

from __future__ import annotations

import re
from typing import Final


def read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """The text up to the first section, and what the parameters' section says of each name. ``text`` is without indentation."""
    about: list[str] = []
    told: dict[str, str] = {}
    section = name = ""
    indent = 0
    lines = text.splitlines()
    for line, below in zip(lines, [*lines[1:], ""], strict=False):
        field, heading = _FIELD.match(line), _heading(line, below)
        if field is not None:
            section, name = "fields", field["name"]
            told[name] = field["text"].strip()
        elif heading is not None:
            section, name = heading, ""
        elif not section:
            about.append(line)
        elif section == "google" or section == "numpy":  # noqa: PLR1714 - reads as the two cases it is
            entry = _ENTRY.match(line)
            if set(line.strip()) == {"-"}:  # the rule below the heading
                continue
            if entry is not None and (not name or _indent(line) <= indent):
                name, indent = entry["name"], _indent(line)
                told[name] = (entry["text"] or "").strip() if section == "google" else ""  # there it is the type
            elif name and line.strip():
                told[name] = f"{told[name]} {line.strip()}".strip()
        elif section == "fields" and name and line.strip():
            told[name] = f"{told[name]} {line.strip()}".strip()
    return "\n".join(about).strip(), {name: words for name, words in told.items() if words}


_PARAMETERS: Final = frozenset({"args", "arguments", "parameters", "params"})
_OTHERS: Final = frozenset({"returns", "return", "raises", "yields", "examples", "example", "notes", "note", "see also"})
_FIELD: Final = re.compile(r"\s*:param\s+(?:[^:]*\s)?\*{0,2}(?P<name>\w+)\s*:(?P<text>.*)")
_OTHER_FIELD: Final = re.compile(r"\s*:(returns?|raises?|rtype|type)\b")
_ENTRY: Final = re.compile(r"\s*\*{0,2}(?P<name>\w+)\s*(?:\([^)]*\))?\s*(?::(?P<text>.*))?$")


def _heading(line: str, below: str) -> str | None:
    """The section that begins here, if one does."""
    word = line.strip().lower()
    name = word.removesuffix(":")
    if name in _PARAMETERS and word != name:
        return "google"
    if name in _PARAMETERS | _OTHERS and (word != name or (below.strip() and set(below.strip()) == {"-"})):
        return "numpy" if name in _PARAMETERS else "other"
    return "other" if _OTHER_FIELD.match(line) else None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
