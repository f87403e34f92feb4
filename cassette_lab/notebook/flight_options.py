"""The words of ``%flight``: those of the command, and those that only a notebook has, in one table.

Parsing, completion and the help of ``%flight?`` all read it.
"""

from __future__ import annotations

from typing import Final

from cassette_lab.flight.insight import FILTERS
from cassette_lab.notebook import options
from cassette_lab.notebook.options import Command, Option, UsageError, Verb, parsed, split, verb_help

NAME: Final = "flight"

_SHOWING: Final = (
    Option("--session", "session", "of which session: its id, or the beginning of it, or all; default the newest", kind=str,
           metavar="ID", completes="session"),
    Option("--locale", "locale", "language of the answer; default that of the environment (LC_ALL, LC_MESSAGES, LANG)",
           ("en", "zh")),
    Option("--live", "live", "go on showing it, in its place, until %flight stop"),
)  # fmt: skip
_ON: Final = (
    Option("--capacity", "capacity", "how many requests are kept; default 128", kind=int, metavar="N"),
    Option("--slow-first-chunk", "slow_first_chunk_ms", "from how many milliseconds a first chunk is slow; default 1000",
           kind=int, metavar="MS"),
    Option("--slow-total", "slow_total_ms", "from how many milliseconds a request is slow; default 2000", kind=int,
           metavar="MS"),
)  # fmt: skip
_OVERWRITE: Final = Option("--overwrite", "overwrite", "replace a file that is there")

VERBS: Final = {
    verb.name: verb
    for verb in (
        Verb("latest", "the newest request", (0, 0), "[latest]", _SHOWING),
        Verb("list", "requests, the newest first", (0, 2), f"list [{'|'.join(FILTERS)}] [1-20]", _SHOWING),
        Verb("show", "one request, by default the newest", (0, 1), "show [ID]", _SHOWING),
        Verb("explain", "what is worth a look about a request, by default the newest", (0, 1), "explain [ID]", _SHOWING),
        Verb("diff", "how a request differs from another; by default the newest from the one before", (0, 2), "diff [ID ID]",
             _SHOWING),
        Verb("health", "what was seen, and what could not be seen", (0, 0), "health", _SHOWING),
        Verb("stats", "figures of the requests that are kept", (0, 0), "stats", _SHOWING),
        Verb("on", "watch the agents of this kernel (so does any of the above)", (0, 0), "on", _ON),
        Verb("off", "watch no more; what was seen stays", (0, 0), "off"),
        Verb("stop", "end what --live shows", (0, 0), "stop"),
        Verb("save", "write a snapshot of all sessions, *.flight.json", (1, 1), "save FILE", (_OVERWRITE,)),
    )
}  # fmt: skip
SHOWING: Final = tuple(name for name, verb in VERBS.items() if verb.options is _SHOWING)
"""The verbs that show records, with the words of the command."""


def parse(line: str) -> Command:
    """The command that ``line`` says, without a verb the latest; ``UsageError``, one sentence, when it says none."""
    words = split(line)
    if not words or words[0].startswith("-"):
        words = ["latest", *words]
    verb, values = parsed(words, VERBS, NAME)
    given = tuple(values.pop("files"))
    least, most = verb.files
    if len(given) < least or len(given) > (most or 0):
        raise UsageError(f"%{NAME} {verb.name} is written so: %{NAME} {verb.usage}")
    return Command(verb.name, given, values)


def help_text() -> str:
    """What ``%flight?`` shows."""
    lines = [
        "What agents sent to models and how it went, without any text of it.",
        "",
        "The agents of this kernel are watched from the first %flight on. Of an ID its beginning is enough.",
        "A verb's own help: %flight VERB --help",
    ]
    for name, verb in VERBS.items():
        lines += ["", verb_help(verb, known=() if name == "latest" else _SHOWING, magic=NAME)]
    return "\n".join(lines)


def help_asked(line: str) -> str | None:
    """The help that ``line`` asks for with ``--help`` or ``-h``, if it does."""
    return options.help_asked(line, VERBS, help_text, NAME)
