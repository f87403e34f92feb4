"""Completion of ``%flight`` lines: verbs, filters, ids of records and sessions, options, files."""

from __future__ import annotations

import re
from typing import Final

from IPython.core.completer import CompletionContext, SimpleMatcherResult, context_matcher

from cassette_lab.flight.command import SHORT_ID_CHARACTERS
from cassette_lab.flight.insight import FILTERS
from cassette_lab.flight.model import Snapshot
from cassette_lab.host.flights import FLIGHTS
from cassette_lab.notebook.completion import LAST_WORD, completed, files_of
from cassette_lab.notebook.flight_options import VERBS
from cassette_lab.notebook.options import Option

_LINE: Final = re.compile(r"\s*(?:[\w.\[\]'\"]+\s*=\s*)?%flight(?P<arguments>\s.*)")
_WORD: Final = re.compile(r"[\w.:-]+")


@context_matcher(identifier="cassette_lab.flight", priority=200)
def flight_matcher(context: CompletionContext) -> SimpleMatcherResult:
    """What may stand at the cursor of a ``%flight`` line; nothing for any other line."""
    recorder = FLIGHTS.recorder
    return completed(
        context, _LINE, lambda arguments: candidates(arguments, Snapshot() if recorder is None else recorder.snapshot())
    )


def candidates(arguments: str, snapshot: Snapshot) -> tuple[str, list[str]]:
    """The unfinished last word of ``arguments``, and the words that it may become."""
    found = LAST_WORD.search(arguments)
    fragment = found["word"] if found else ""
    before = arguments[: len(arguments) - len(fragment)].split()
    verb = VERBS.get(before[0] if before and not before[0].startswith("-") else "latest")
    if verb is None:
        return fragment, []
    option = _option(verb.options, before[-1]) if before else None
    if option is not None and option.takes_value:
        return fragment, _begun(_values(option, snapshot), fragment)
    flag, equals, value = fragment.partition("=")
    option = _option(verb.options, flag)
    if equals and option is not None:
        return fragment, [f"{flag}={word}" for word in _begun(_values(option, snapshot), value)]
    flags = [option.flag for option in verb.options if option.flag not in before]
    if fragment.startswith("-"):
        return fragment, _begun(flags, fragment)
    if not before:
        return fragment, _begun([*VERBS], fragment)
    if verb.name == "save":
        return fragment, files_of(fragment) or ([] if fragment else flags)
    words = _operands(verb.name, before[1:], snapshot)
    return fragment, _begun(words or flags, fragment)


def _operands(verb: str, before: list[str], snapshot: Snapshot) -> list[str]:
    """What may follow a verb: a filter, or the beginnings of the ids of records."""
    if verb == "list":
        return [] if any(word in FILTERS or word.isdigit() for word in before) else [*FILTERS]
    if verb in ("show", "explain", "diff"):
        wanted = 2 if verb == "diff" else 1
        given = len([word for word in before if not word.startswith("-")])
        return _plain([record.id[:SHORT_ID_CHARACTERS] for record in snapshot.records]) if given < wanted else []
    return []


def _values(option: Option, snapshot: Snapshot) -> list[str]:
    if option.completes == "session":
        sessions = _plain([record.session_id for record in snapshot.records])
        return [*sessions, *(["all"] if len(sessions) > 1 else [])]
    return [*option.values]


def _plain(names: list[str]) -> list[str]:
    """Each once, and only those that are one word of a line."""
    return [name for name in dict.fromkeys(names) if _WORD.fullmatch(name)]


def _option(options: tuple[Option, ...], flag: str) -> Option | None:
    return next((option for option in options if option.flag == flag), None)


def _begun(words: list[str], fragment: str) -> list[str]:
    return [word for word in words if word.startswith(fragment)]
