"""Completion of ``%cassette`` and ``%%cassette`` lines: verbs, options, their values, files.

An IPython matcher. It suppresses the others, which would add Python names to a line that is no Python.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher

from cassette_lab.notebook.options import VERBS, Option, Verb

SUFFIXES: Final = (".jsonl", ".flight.json")

_LINE: Final = re.compile(r"\s*(?:[\w.\[\]'\"]+\s*=\s*)?%{1,2}cassette(?P<arguments>\s.*)")
LAST_WORD: Final = re.compile(r"""(?P<word>(?:"[^"]*"?|'[^']*'?|[^\s"'])*)\Z""")
"""The unfinished word before the cursor."""


@context_matcher(identifier="cassette_lab.cassette", priority=200)
def cassette_matcher(context: CompletionContext) -> SimpleMatcherResult:
    """What may stand at the cursor of a ``%cassette`` line; nothing for any other line."""
    return completed(context, _LINE, candidates)


def completed(
    context: CompletionContext, magic_line: re.Pattern[str], words_of: Callable[[str], tuple[str, list[str]]]
) -> SimpleMatcherResult:
    """A matcher's answer: ``words_of`` the ``arguments`` where the cursor is on such a line, else nothing."""
    line = magic_line.fullmatch(context.text_until_cursor)
    if line is None:
        return {"completions": []}
    fragment, words = words_of(line["arguments"])
    return {
        "completions": [SimpleCompletion(word, type="magic") for word in words],
        "suppress": True,
        "matched_fragment": fragment,
    }


def candidates(arguments: str, upstreams: Callable[[], Iterable[str]] | None = None) -> tuple[str, list[str]]:
    """The unfinished last word of ``arguments``, and the words that it may become.

    ``upstreams`` names the registered providers; by default those of the notebook's registry.
    """
    found = LAST_WORD.search(arguments)
    fragment = found["word"] if found else ""
    before = arguments[: len(arguments) - len(fragment)].split()
    if not before:
        return fragment, [name for name in VERBS if name.startswith(fragment)]
    verb = VERBS.get(before[0])
    if verb is None:
        return fragment, []
    option = _option(verb, before[-1])
    if option is not None and option.takes_value:
        return fragment, _values(option, fragment, upstreams)
    flag, equals, value = fragment.partition("=")
    option = _option(verb, flag)
    if equals and option is not None:
        return fragment, [f"{flag}={word}" for word in _values(option, value, upstreams)]
    if fragment.startswith("-"):
        return fragment, _flags(verb, fragment, before)
    files = files_of(fragment) if verb.files[1] != 0 else []
    return fragment, files or (_flags(verb, fragment, before) if not fragment else [])


def _option(verb: Verb, flag: str) -> Option | None:
    return next((option for option in verb.options if option.flag == flag), None)


def _flags(verb: Verb, fragment: str, before: list[str]) -> list[str]:
    """The verb's options, without those that stand there already."""
    return [
        option.flag
        for option in verb.options
        if option.flag.startswith(fragment) and (option.repeatable or option.flag not in before)
    ]


def _values(option: Option, fragment: str, upstreams: Callable[[], Iterable[str]] | None) -> list[str]:
    if option.completes == "file":
        return files_of(fragment)
    if option.completes == "upstream":
        return sorted(name for name in (upstreams or _registered)() if name.startswith(fragment))
    return [word for word in option.values if word.startswith(fragment)]


def _registered() -> Iterable[str]:
    from cassette_lab.host import registered_names

    return registered_names()


def files_of(fragment: str) -> list[str]:
    """Our files and folders that begin with ``fragment``; those with blanks in their names come in quotes."""
    quote = fragment[:1] if fragment[:1] in ("'", '"') else ""
    written = fragment.strip("'\"") if quote else fragment
    folder, _, start = written.rpartition("/")
    folder = folder + "/" if "/" in written else ""
    try:
        entries = sorted(os.scandir(Path(folder or ".").expanduser()), key=lambda entry: entry.name)
    except OSError:
        return []
    words = []
    for entry in entries:
        if not entry.name.startswith(start) or (entry.name.startswith(".") and not start):
            continue
        is_folder = entry.is_dir() and not entry.name.endswith(".writer.lock")
        if not is_folder and not entry.name.endswith(SUFFIXES):
            continue
        name = f"{folder}{entry.name}{'/' if is_folder else ''}"
        mark = quote or ('"' if any(char.isspace() for char in name) else "")
        words.append(f"{mark}{name}{'' if is_folder else mark}")
    return words
