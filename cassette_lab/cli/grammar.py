"""The grammar of the command line: a command, its options anywhere behind it, its operands.

It is the cassette format's own tool's: options may repeat and stand between operands, nothing abbreviates, ``--`` ends
nothing, ``--help`` helps wherever it stands and ``-h`` only as the first word.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cassette_lab.errors import CassetteLabError


class UsageError(CassetteLabError):
    """The words do not make a command."""

    code = "USAGE"


@dataclass(frozen=True, slots=True)
class Option:
    """``flag`` sets ``name`` to True; with a ``metavar`` to the value that follows it (``--flag VALUE``, ``--flag=VALUE``).

    ``read`` makes the value of the text; it raises ``ValueError`` with what would be right.
    """

    flag: str
    name: str
    help: str
    metavar: str = ""
    read: Callable[[str], Any] = str


@dataclass(frozen=True, slots=True)
class Call:
    """A command to carry out: its operands, and the options that were given, by name."""

    operands: Sequence[str]
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Command:
    """``run`` carries a call out and returns the exit code. ``operands`` names them, for example ``FILE`` or ``[FOLDER]``.

    ``counts`` is how many operands there may be: at least, and at most (None: any number). ``needs_only_columns``: it does
    without pandas.
    """

    name: str
    operands: str
    counts: tuple[int, int | None]
    help: str
    run: Callable[[Call], int]
    options: Sequence[Option] = ()
    needs_only_columns: bool = False

    def parse(self, words: Sequence[str]) -> Call:
        """The call that these words make; ``UsageError``, one sentence, when they make none."""
        flags = {option.flag: option for option in self.options}
        operands: list[str] = []
        given: dict[str, Any] = {}
        rest = iter(words)
        for word in rest:
            option, value = flags.get(word), None
            if option is None and word.startswith("--") and "=" in word:
                flag, _, value = word.partition("=")
                option = flags.get(flag)
                if option is not None and not option.metavar:
                    option = None
            if option is None:
                if word.startswith("-"):
                    raise UsageError(f"{self.name} has no option {word}; `cassette-lab {self.name} --help` lists them")
                operands.append(word)
            elif not option.metavar:
                given[option.name] = True
            else:
                if value is None:
                    value = next(rest, None)
                if value is None:
                    raise UsageError(f"{option.flag} needs a value: {option.flag} {option.metavar}")
                given[option.name] = _read(option, value)
        least, most = self.counts
        if len(operands) < least or (most is not None and len(operands) > most):
            raise UsageError(
                f"{self.name} takes {self.operands}, not {len(operands)} of them; see `cassette-lab {self.name} --help`"
            )
        return Call(operands, given)

    def usage(self) -> str:
        """The command as the help shows it."""
        return "\n".join([f"  {' '.join(filter(None, (self.name, self.operands))):<24}{self.help}", *self._options()])

    def manual(self) -> str:
        """The help of this command alone."""
        words = " ".join(filter(None, ("usage: cassette-lab", self.name, self.operands, "[options]" * bool(self.options))))
        return "\n".join([words, "", f"  {self.help}", *self._options(), "", "`cassette-lab --help` shows every command"])

    def _options(self) -> list[str]:
        return [f"      {' '.join(filter(None, (option.flag, option.metavar))):<24}{option.help}" for option in self.options]


def one_of(*words: str) -> Callable[[str], str]:
    """A reader for one of these words."""

    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"one of {', '.join(words)}")
        return text

    return read


def count(text: str) -> int:
    """A reader for a whole number from 1."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise ValueError("a whole number from 1")
    return int(text)


def whole_number(largest: int) -> Callable[[str], int]:
    """A reader for a whole number from 0."""

    def read(text: str) -> int:
        if not text.isascii() or not text.isdigit() or len(text) > len(str(largest)) or int(text) > largest:
            raise ValueError(f"a whole number from 0 to {largest}")
        return int(text)

    return read


def _read(option: Option, value: str) -> Any:
    try:
        return option.read(value)
    except ValueError as error:
        raise UsageError(f"{option.flag} takes {error}, not {value!r}") from None
