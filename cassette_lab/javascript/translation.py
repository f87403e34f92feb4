r"""ECMAScript patterns without the flag ``u``, over UTF-16 code units, run by an engine that reads code points.

The engine is PyPI ``regress``. Two things have to be taken off its hands, for which the pattern is rewritten (``translate``)
and the text prepared (``units``, ``folded``):

- Without the ``u`` flag ECMAScript matches code units. Every surrogate, in text and pattern alike, becomes one character
  of a private plane, so that half a pair can be matched, ``.`` takes one half, and ``[😀]`` is a class of two.
- Without the ``u`` flag ``i`` compares characters by their single upper-case letter, and never maps a character beyond
  U+007F to one of ASCII: ``s`` is not U+017F, ``k`` not the Kelvin sign. The engine folds more. So text and pattern are
  both written in these upper-case letters, and the engine compares exactly. Only a pattern that switches ``i`` on or off
  somewhere, by ``(?i:…)``, needs the text as it is: there each letter becomes a class of all that are compared alike.

Escapes are resolved as Annex B says, because some of them (``\u{3}``, ``\c``, octal ones) the engine reads as in ``u`` mode.

Source: ECMA-262, RegExp (Patterns), Canonicalize, Annex B Regular Expressions Patterns.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Final

_PRIVATE_PLANE: Final = 0x100000
_SURROGATES: Final = range(0xD800, 0xE000)
_BACKSLASH: Final = ord("\\")
_HYPHEN: Final = ord("-")


class PatternSyntaxError(ValueError):
    """Text that is no ECMAScript pattern."""


@dataclass(frozen=True, slots=True)
class Translation:
    """A pattern for the engine, to run without flags over ``folded`` text if it ``folds``, else over ``units``."""

    source: str
    folds: bool


def translate(pattern: str, *, ignore_case: bool = False) -> Translation:
    """The pattern as the engine needs it. Raises ``PatternSyntaxError`` for what can be seen here; the engine sees the rest."""
    units = pattern.encode("utf-16-le", "surrogatepass")
    split = "".join(chr(units[at] | units[at + 1] << 8) for at in range(0, len(units), 2))
    return _Translator(split, ignore_case=ignore_case).translate()


def units(text: str) -> str:
    """``text`` with every UTF-16 unit as one character, surrogates from the private plane."""
    return text if text.isascii() else text.translate(_UNITS)


def folded(text: str) -> str:
    """``units`` of ``text``, each in the upper-case letter that ``i`` without ``u`` compares it by."""
    return text.upper() if text.isascii() else text.translate(_FOLDED)


def _canonical(code: int) -> int:
    """ECMA-262 Canonicalize for a code unit under ``i`` without ``u``."""
    upper = chr(code).upper()
    if len(upper) != 1 or (code >= 0x80 and ord(upper) < 0x80):
        return code
    return ord(upper)


class _Table(dict[int, int]):
    """What ``str.translate`` puts for a code point, worked out when it is first met."""

    def __init__(self, *, fold: bool) -> None:
        super().__init__()
        self._fold = fold

    def __missing__(self, code: int) -> int | str:
        if code > 0xFFFF:  # too many to be kept
            high, low = divmod(code - 0x10000, 0x400)
            return chr(_PRIVATE_PLANE + high) + chr(_PRIVATE_PLANE + 0x400 + low)
        if code in _SURROGATES:
            self[code] = _PRIVATE_PLANE + code - _SURROGATES.start
        else:
            self[code] = _canonical(code) if self._fold else code
        return self[code]


_UNITS: Final = _Table(fold=False)
_FOLDED: Final = _Table(fold=True)


@functools.cache
def _alike() -> dict[int, tuple[int, ...]]:
    """The code units that are compared alike, by the letter that they are compared by, where they are more than one."""
    found: dict[int, list[int]] = {}
    for code in range(0x10000):
        if code not in _SURROGATES and (upper := _canonical(code)) != code:
            found.setdefault(upper, [upper]).append(code)
    return {upper: tuple(codes) for upper, codes in found.items()}


_GROUP: Final = re.compile(r"\(\?(?:[:=!]|<[=!]|([ims]*)(-?)([ims]*):)")
_NAMED_GROUP: Final = re.compile(r"\(\?(<[^>]*>)")
_GROUP_NAME: Final = re.compile(r"<[^>]*>")
_QUANTIFIER: Final = re.compile(r"\{[0-9]+(?:,[0-9]*)?\}")
_QUANTIFIED: Final = re.compile(rf"[*+?]|{_QUANTIFIER.pattern}")
_HEX: Final = {"x": re.compile("x([0-9a-fA-F]{2})"), "u": re.compile("u([0-9a-fA-F]{4})")}
_OCTAL: Final = re.compile("[0-3][0-7]{0,2}|[4-7][0-7]?")
_DIGITS: Final = re.compile("[1-9][0-9]*")
_CONTROLS: Final = {"f": 0x0C, "n": 0x0A, "r": 0x0D, "t": 0x09, "v": 0x0B}
_CLASS_ESCAPES: Final = frozenset("dDsSwW")


class _Translator:
    """Reads a pattern, given as a string of code units, once to know its groups and once to write it."""

    def __init__(self, units: str, *, ignore_case: bool) -> None:
        self.units = units
        self.at = 0
        self.groups = 0
        self.named: dict[str, list[int]] = {}
        self.folds = ignore_case  # unless a group switches it off
        self.ignores_case = [ignore_case]  # by open group

    def translate(self) -> Translation:
        self._survey()
        out: list[str] = []
        while self.at < len(self.units):
            char = self.units[self.at]
            if char == "\\":
                out.append(self._escape())
            elif char == "[":
                out.append(self._class())
            elif char == "(":
                out.append(self._group())
            elif char == "{" and (quantifier := _QUANTIFIER.match(self.units, self.at)):
                out.append(quantifier[0])
                self.at = quantifier.end()
            else:
                if char == ")" and len(self.ignores_case) > 1:
                    self.ignores_case.pop()
                out.append(char if char in "^$.|)*+?" else self._literal(ord(char)))
                self.at += 1
        return Translation("".join(out), self.folds)

    def _survey(self) -> None:
        """Count the groups that capture, know those with a name, see whether ``i`` is switched off anywhere."""
        in_class = False
        at = 0
        while at < len(self.units):
            char = self.units[at]
            if char == "\\":
                at += 1
            elif in_class:
                in_class = char != "]"
            elif char == "[":
                in_class = True
            elif char == "(":
                group = _GROUP.match(self.units, at)
                if group is not None:
                    self.folds &= "i" not in (group[3] or "")
                else:
                    self.groups += 1
                    if named := _NAMED_GROUP.match(self.units, at):
                        self.named.setdefault(named[1], []).append(self.groups)
            at += 1

    def _literal(self, code: int) -> str:
        if code in _SURROGATES:
            return chr(_PRIVATE_PLANE + code - _SURROGATES.start)
        if self.folds:
            code = _canonical(code)
        elif self.ignores_case[-1] and (alike := _alike().get(_canonical(code))):
            return f"[{''.join(map(_member, alike))}]"
        return chr(code) if chr(code).isascii() and chr(code).isalpha() else f"\\u{code:04x}"

    def _group(self) -> str:
        self.ignores_case.append(self.ignores_case[-1])
        group = _GROUP.match(self.units, self.at)
        if group is None:
            self.at += 1
            if not self.units.startswith("?", self.at):
                return "("
            self.at += 1
            return f"(?{_joined(self._name())}"
        self.at = group.end()
        added, minus, removed = group.groups()
        if added is None:
            return group[0]
        if len(set(added + removed)) != len(added + removed) or (minus and not added + removed):
            raise PatternSyntaxError("invalid modifiers of a group")
        if "i" in added + removed:
            self.ignores_case[-1] = "i" in added
        added, removed = added.replace("i", ""), removed.replace("i", "")
        return f"(?{added}{'-' if removed else ''}{removed}:"

    def _name(self) -> str:
        name = _GROUP_NAME.match(self.units, self.at)
        if name is None:
            raise PatternSyntaxError("invalid group")
        self.at = name.end()
        return name[0]

    def _escape(self) -> str:
        char = self.units[self.at + 1 : self.at + 2]
        if char in _CLASS_ESCAPES or char in ("b", "B"):
            self.at += 2
            if char in ("b", "B") and _QUANTIFIED.match(self.units, self.at):  # which the engine would let pass
                raise PatternSyntaxError("nothing to repeat")
            return f"\\{char}"
        if char == "k" and self.named:
            self.at += 2
            name = self._name()
            groups = self.named.get(name, ())
            if len(groups) > 1:  # of groups in different alternatives at most one has matched, and the others stand for nothing
                return self._reference("".join(f"\\{group}" for group in groups))
            return self._reference(f"\\k{_joined(name)}")
        if (digits := _DIGITS.match(self.units, self.at + 1)) and len(digits[0]) < 6 and int(digits[0]) <= self.groups:
            self.at = digits.end()
            return self._reference(f"\\{digits[0]}")
        return self._literal(self._character_escape())

    def _reference(self, reference: str) -> str:
        ignore_case = "i" if not self.folds and self.ignores_case[-1] else ""
        return f"(?{ignore_case}:{reference})"

    def _character_escape(self, *, in_class: bool = False) -> int:
        """The code of an escape that stands for one character; goes behind it."""
        char = self.units[self.at + 1 : self.at + 2]
        if not char:
            raise PatternSyntaxError("\\ at the end of the pattern")
        after = self.units[self.at + 2 : self.at + 3]
        if char in _HEX and (digits := _HEX[char].match(self.units, self.at + 1)):
            self.at = digits.end()
            return int(digits[1], 16)
        if octal := _OCTAL.match(self.units, self.at + 1):
            self.at = octal.end()
            return int(octal[0], 8)
        if char == "c":
            if after.isascii() and (after.isalpha() or (in_class and (after.isdigit() or after == "_"))):
                self.at += 3
                return ord(after) % 32
            self.at += 1  # the backslash is an ordinary character here, and so is what follows it
            return _BACKSLASH
        if char == "k" and self.named:
            raise PatternSyntaxError("invalid escape")
        self.at += 2
        return _CONTROLS.get(char, ord(char))

    def _class(self) -> str:
        begin = "[^" if self.units.startswith("^", self.at + 1) else "["
        self.at += len(begin)
        ranges: list[tuple[int, int]] = []
        escapes: list[str] = []
        while not self.units.startswith("]", self.at):
            atoms = [self._class_atom()]
            if self.units.startswith("-", self.at) and not self.units.startswith("]", self.at + 1):
                self.at += 1
                atoms.append(self._class_atom())
                if isinstance(atoms[0], int) and isinstance(atoms[1], int):
                    if atoms[0] > atoms[1]:
                        raise PatternSyntaxError("range out of order in a class")
                    ranges.append((atoms[0], atoms[1]))
                    continue
                atoms.append(_HYPHEN)  # with a class at one end it is no range, and the hyphen a member
            for atom in atoms:
                if isinstance(atom, int):
                    ranges.append((atom, atom))
                else:
                    escapes.append(atom)
        self.at += 1
        if self.folds or self.ignores_case[-1]:
            ranges += [(code, code) for upper in _upper_letters(ranges) for code in _alike()[upper]]
        return begin + "".join(escapes) + "".join(_range(first, last) for first, last in ranges) + "]"

    def _class_atom(self) -> int | str:
        char = self.units[self.at : self.at + 1]
        if not char:
            raise PatternSyntaxError("a class without its end")
        if char != "\\":
            self.at += 1
            return ord(char)
        escaped = self.units[self.at + 1 : self.at + 2]
        if escaped in _CLASS_ESCAPES:
            self.at += 2
            return f"\\{escaped}"
        if escaped == "b":
            self.at += 2
            return 0x08
        return self._character_escape(in_class=True)


def _upper_letters(ranges: list[tuple[int, int]]) -> set[int]:
    """The letters by which members of the ranges are compared, where others are compared alike."""
    found: set[int] = set()
    for first, last in ranges:
        if last - first < 0x100:
            found |= {upper for code in range(first, last + 1) if (upper := _canonical(code)) in _alike()}
        else:
            found |= {upper for upper, alike in _alike().items() if any(first <= code <= last for code in alike)}
    return found


def _joined(name: str) -> str:
    """A group's name with its surrogate pairs as characters again."""
    return name.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _range(first: int, last: int) -> str:
    """A range of code units in a class, its surrogates in their private places."""
    out = ""
    for low, high, offset in (
        (0, 0xD7FF, 0),
        (0xD800, 0xDFFF, _PRIVATE_PLANE - 0xD800),
        (0xE000, 0xFFFF, 0),
    ):
        begin, end = max(first, low), min(last, high)
        if begin <= end:
            out += _member(begin + offset) + (f"-{_member(end + offset)}" if end > begin else "")
    return out


def _member(code: int) -> str:
    return chr(code) if code >= _PRIVATE_PLANE else f"\\u{code:04x}"
