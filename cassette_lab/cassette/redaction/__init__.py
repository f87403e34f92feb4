"""Keeps secrets out of the file: built-in shapes, secret members, custom patterns.

Source: cassette format, Redaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cassette_lab.cassette.model import REDACTED, ErrorFacts
from cassette_lab.cassette.redaction import builtin
from cassette_lab.cassette.redaction.custom import CustomPattern
from cassette_lab.errors import ConfigError
from cassette_lab.jsonio import JsonObject

__all__ = ["Redactor", "is_secret_name"]

_QUICK_DEPTH: Final = 30
_SECRET_NAMES: Final = frozenset({"apikey", "authorization", "cookie", "password", "secret", "token"})
_SECRET_ENDINGS: Final = ("apikey", "accesstoken", "refreshtoken", "idtoken", "clientsecret")
_REDACTABLE: Final = (str, dict, list, tuple)
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz0123456789"


class Redactor:
    """Replaces secrets in what is stored by ``[REDACTED]``; with ``enabled=False`` it leaves everything as it is.

    ``patterns`` are ECMAScript regular expressions, applied with the flags ``g`` and ``i`` after the built-in rules.
    Raises ``ConfigError`` for one that cannot be used (not when disabled: then they are not looked at).

    Built-in rules take time linear in the text; a custom pattern takes what its author made it take.
    """

    def __init__(self, enabled: bool = True, patterns: Sequence[str] = ()) -> None:  # noqa: FBT001, FBT002 - as the header
        self.enabled = enabled
        self._custom = tuple(CustomPattern(pattern) for pattern in patterns) if enabled else ()

    def text(self, text: str) -> tuple[str, int]:
        """``text`` after all rules in their order, and the number of substitutions."""
        if not self.enabled:
            return text, 0
        text, total = builtin.redact(text)
        for pattern in self._custom:
            text, count = pattern.redact(text)
            total += count
        return text, total

    def json(self, value: Any) -> tuple[Any, int]:
        """``value``, plain JSON of any depth, after redaction of its strings and secret members, and the substitutions.

        Where there is nothing to redact it is ``value`` itself, else a new value that shares no array or object with it.
        """
        return self._redact(value, None)

    def request(self, request: JsonObject) -> tuple[Any, int]:
        """``json`` of a normalized request. ``ConfigError`` where a rule matches a protected member of its prompt."""
        return self._redact(request, "prompt")

    def result(self, result: JsonObject) -> tuple[Any, int]:
        """``json`` of a result. ``ConfigError`` where a rule matches a protected member of its output."""
        return self._redact(result, "output")

    def error(self, facts: ErrorFacts) -> ErrorFacts:
        """The facts of an error with name, message and code redacted."""
        if not self.enabled:
            return facts
        code = None if facts.code is None else self.text(facts.code)[0]
        return ErrorFacts(self.text(facts.name)[0], self.text(facts.message)[0], code)

    def _redact(self, value: Any, blocks: str | None) -> tuple[Any, int]:
        if not self.enabled:
            return value, 0
        if not self._custom:
            texts: list[str] = []
            if _gather(value, texts, _QUICK_DEPTH) and builtin.is_clean(texts):
                return value, 0
        protected = set()
        if blocks is not None and isinstance(value, dict):
            for member in _protected(value.get(blocks)):
                if self.text(member.text)[1]:
                    raise ConfigError(
                        f"a redaction pattern matches the {member.name} of a content block in {blocks}, which must stay as it"
                        " is; make the pattern narrower"
                    )
                protected.add((id(member.owner), member.name))
        redacted, count = self._redact_tree(value, protected)
        return (redacted, count) if count else (value, 0)

    def _redact_tree(self, value: Any, protected: set[tuple[int, str]]) -> tuple[Any, int]:
        total = 0
        root: list[Any] = [None]
        # What to redact and where its redacted copy goes.
        work: list[tuple[Any, Any, Any]] = [(root, 0, value)]
        while work:
            into, key, item = work.pop()
            if isinstance(item, str):
                into[key], count = self.text(item)
                total += count
            elif isinstance(item, dict):
                members: dict[str, Any] = {}
                into[key] = members
                for name, child in item.items():
                    members[name] = child
                    if is_secret_name(name):
                        members[name] = REDACTED
                        total += 1
                    elif isinstance(child, _REDACTABLE) and (id(item), name) not in protected:
                        work.append((members, name, child))
            elif isinstance(item, (list, tuple)):
                copy = list(item)
                into[key] = copy
                work.extend((copy, index, child) for index, child in enumerate(item) if isinstance(child, _REDACTABLE))
            else:
                into[key] = item
        return root[0], total


def is_secret_name(name: str) -> bool:
    """Whether a member of this name is secret as a whole, whatever its value."""
    letters = "".join(char for char in name.lower() if char in _LETTERS)
    return letters in _SECRET_NAMES or letters.endswith(_SECRET_ENDINGS)


# Names that were looked at and are not secret: few names make up most documents.
_plain_names: set[str] = set()
_MOST_PLAIN_NAMES: Final = 4096
_LONGEST_PLAIN_NAME: Final = 64


def _has_secret_name(members: dict[str, Any]) -> bool:
    if _plain_names.issuperset(members):
        return False
    for name in members:
        if name not in _plain_names:
            if is_secret_name(name):
                return True
            if len(name) <= _LONGEST_PLAIN_NAME and len(_plain_names) < _MOST_PLAIN_NAMES:
                _plain_names.add(name)
    return False


_SCALARS: Final = frozenset({int, float, bool, type(None)})


def _gather(value: Any, texts: list[str], depth: int) -> bool:
    """Collect the strings of ``value``; False where a member is secret or the nesting too deep for this way."""
    kind = type(value)
    if kind is dict:
        if not depth or _has_secret_name(value):
            return False
        children = value.values()
    elif kind is list:
        if not depth:
            return False
        children = value
    elif kind is str:
        texts.append(value)
        return True
    else:
        return kind in _SCALARS
    for child in children:
        if type(child) is str:
            texts.append(child)
        elif not _gather(child, texts, depth - 1):
            return False
    return True


@dataclass(frozen=True, slots=True)
class _Protected:
    owner: dict[str, Any]
    name: str
    text: str


def _protected(blocks: Any) -> Iterator[_Protected]:
    """The members of content blocks, nested ones too, that the format depends on."""
    work = [blocks]
    while work:
        items = work.pop()
        if not isinstance(items, list):
            continue
        for block in items:
            if not isinstance(block, dict):
                continue
            kind = block.get("type")
            if isinstance(kind, str):
                yield _Protected(block, "type", kind)
            if kind == "tool-result":
                work.append(block.get("content"))
            attachment = block.get("attachment")
            if kind == "image" and isinstance(attachment, dict) and isinstance(attachment.get("mediaType"), str):
                yield _Protected(attachment, "mediaType", attachment["mediaType"])
