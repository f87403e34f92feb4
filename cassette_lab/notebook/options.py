"""The words of ``%cassette``: verbs, options and what they mean, in one table.

Parsing, completion and the help of ``%cassette?`` all read it. Names and defaults are those of the cassette format's
configuration; ``Option.name`` is the keyword of ``record()``, ``replay()``, ``load()`` and so on that it sets.
"""

from __future__ import annotations

import argparse
import difflib
import os
import shlex
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from IPython.core import error as ipython_error
from IPython.utils.text import DollarFormatter


class UsageError(ipython_error.UsageError):
    """A mistake in a magic's line: one sentence, no traceback.

    IPython only prints its own ``UsageError``, so that whoever runs a notebook is told of the error before it instead.
    """

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


@dataclass(frozen=True, slots=True)
class Option:
    """One option. Without ``values`` and ``kind`` it is a switch that sets ``name`` to ``sets``.

    ``values`` are the words it takes, the default first; ``metavar`` stands for its value in the help.
    """

    flag: str
    name: str
    help: str
    values: tuple[str, ...] = ()
    kind: Callable[[str], Any] | None = None
    metavar: str = ""
    sets: Any = True
    repeatable: bool = False
    completes: str = ""

    @property
    def takes_value(self) -> bool:
        """Whether a value follows the flag."""
        return bool(self.values) or self.kind is not None

    @property
    def usage(self) -> str:
        """The flag with its value, as the help shows it."""
        if self.values:
            return f"{self.flag} {'|'.join(self.values)}"
        return f"{self.flag} {self.metavar}" if self.kind is not None else self.flag


@dataclass(frozen=True, slots=True)
class Verb:
    """What ``%cassette <name>`` does, the files it takes (at least, at most) and its options."""

    name: str
    help: str
    files: tuple[int, int | None]
    usage: str
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class Command:
    """A parsed line: the verb, its files, and the options that were given, by name."""

    verb: str
    files: tuple[str, ...] = ()
    given: Mapping[str, Any] = field(default_factory=dict)
    timed: bool = False


def _at_home(file: str) -> str:
    """A file's name with ``~`` as the home folder, as a shell has it."""
    return os.path.expanduser(file)  # noqa: PTH111 - a glob is no path


_WAIT = Option(
    "--max-wait", "max_wait_s", "seconds the end waits for calls that still run, before it stops them; default 60", kind=float,
    metavar="SECONDS",
)  # fmt: skip
_PROVIDER = Option("--provider", "provider", "the cassette's own provider name; default cassette", kind=str, metavar="NAME")

RECORDING: Final = (
    Option(
        "--write-mode", "write_mode", "what to do when FILE exists: refuse, write anew, continue, or replay it (once)",
        ("create", "truncate", "append", "once"),
    ),
    Option("--request-storage", "request_storage", "keep sizes and labels only, or whole prompts", ("metadata", "full")),
    Option("--no-redact", "redact_secrets", "do not replace secrets by [REDACTED]", sets=False),
    Option(
        "--pattern", "redaction_patterns", "a JavaScript regular expression to redact too; may be given again; taken as it "
        "stands ($ and {} are not expanded)", kind=str, metavar="REGEX", repeatable=True,
    ),
    Option("--redact-labels", "redact_labels", "redact labels and names of models too"),
    Option("--upstream", "upstream_provider", "the provider to record; default spawn", kind=str, metavar="NAME",
           completes="upstream"),
    Option("--fsync", "fsync", "sync the file when it closes, or after each call", ("close", "each")),
)  # fmt: skip

REPLAYING: Final = (
    Option("--timing", "timing", "answer at once, or after the recorded times", ("instant", "recorded")),
    Option("--speed", "speed", "with recorded times: 2 is twice as quick; at least 0.001; default 1", kind=float,
           metavar="FACTOR"),
    Option(
        "--duplicates", "duplicate_policy", "equal calls with different outcomes: refuse, or take them in their order",
        ("reject", "sequence"),
    ),
    Option("--allow-redacted", "allow_redacted_replay", "replay results that were redacted"),
    Option("--no-assert-consumed", "assert_consumed", "recorded calls may be left over at the end", sets=False),
    Option("--nested", "nested", "calls under a replayed call: need not be made, or must be", ("covered", "strict")),
)  # fmt: skip

HARNESS: Final = (
    Option("--harness", "harness", "record or replay a run of the DeepSeek Harness: FILE is a folder, and cl.harness() is what "
           "runs prompts in the cell; the tools work in a replay, too"),
    Option("--model", "model", "of the harness; default deepseek-v4-flash, in a replay the recorded one", kind=str,
           metavar="NAME"),
    Option("--cwd", "cwd", "where its tools work; default the working directory", kind=_at_home, metavar="FOLDER",
           completes="file"),
)  # fmt: skip
HARNESS_RECORDING: Final = (
    Option("--base-url", "base_url", "the Messages endpoint that the harness asks; default DeepSeek's", kind=str,
           metavar="URL"),
    Option("--api-key-env", "api_key_env", "the environment variable with the key; default DEEPSEEK_API_KEY", kind=str,
           metavar="NAME"),
    Option("--no-key", "api_key_env", "the endpoint needs no key: none is read, and none is sent", sets=None),
)  # fmt: skip
HARNESS_REPLAYING: Final = (Option("--strict", "strict", "an error where the run of the harness departs from its recording"),)

TIME: Final = Option("--time", "time", "show the time the body took, as %%time does")

VERBS: Final = {
    verb.name: verb
    for verb in (
        Verb("record", "record the subagent calls of a cell, or of all cells until %cassette stop", (0, 1), "record [FILE]",
             (*RECORDING, *REPLAYING, _PROVIDER, _WAIT, TIME, *HARNESS, *HARNESS_RECORDING)),
        Verb("replay", "answer the calls of a cell, or of all cells until %cassette stop, from a file", (1, 1), "replay FILE",
             (*REPLAYING, _PROVIDER, _WAIT, TIME, *HARNESS, *HARNESS_REPLAYING)),
        Verb("stop", "end what %cassette record or replay began", (0, 0), "stop", (_WAIT,)),
        Verb("status", "what is being recorded or replayed", (0, 0), "status"),
        Verb("verify", "check a file: format, hash chain, sequences; of a session log its format", (1, 1), "verify FILE"),
        Verb("inspect", "what a cassette or session log holds, without bodies", (1, 1), "inspect FILE",
             (Option("--show-calls", "show_calls", "one row a call"),)),
        Verb("diff", "compare two files call by call", (2, 2), "diff FILE FILE"),
        Verb("load", "verified tables of files, folders and globs", (1, None), "load PATH...",
             (Option("--bodies", "bodies", "prompts, outputs and error messages too"),
              Option("--on-error", "on_error", "list a broken file in problems (default), or stop there", ("collect", "raise")),
              Option("--workers", "workers", "processes that read; default 1", kind=int, metavar="N"))),
        Verb("rescue", "copy the longest verified part of a torn cassette or session log", (1, 1), "rescue FILE -o NEW",
             (Option("-o", "out", "the file to write", kind=_at_home, metavar="NEW", completes="file"),)),
    )
}  # fmt: skip


def parse(line: str, namespace: Mapping[str, Any] | None = None) -> Command:
    """The command that ``line`` says; ``UsageError``, one sentence, when it says none.

    Words are split as a shell does, quotes keep blanks together, a backslash is an ordinary character. ``{name}`` and
    ``$name`` are replaced from ``namespace`` where they have a value, except in ``--pattern``.
    """
    words = _expanded(split(line), namespace or {})
    if not words:
        raise UsageError(f"%cassette needs a verb: {', '.join(VERBS)}; %cassette? explains them")
    verb, values = parsed(words, VERBS, "cassette")
    files = tuple(map(_at_home, values.pop("files")))
    least, most = verb.files
    if len(files) < least or (most is not None and len(files) > most):
        raise UsageError(f"%cassette {verb.name} takes {_files(least, most)}, not {len(files)}: %cassette {verb.usage}")
    timed = bool(values.pop(TIME.name, False))
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    _check_harness(verb, files, given)
    if "--no-key" in words and any(word.partition("=")[0] == "--api-key-env" for word in words):
        raise UsageError("--no-key and --api-key-env exclude each other")
    if verb.name == "record" and given.get("write_mode") != "once":
        for option in REPLAYING:
            if option.name in given:
                raise UsageError(f"{option.flag} is for replay, or for record --write-mode once")
    return Command(verb.name, files, given, timed)


def parsed(words: Sequence[str], verbs: Mapping[str, Verb], magic: str) -> tuple[Verb, dict[str, Any]]:
    """The verb of a line's words, its ``files``, and the options that were given, by name; ``UsageError`` on a stranger."""
    verb = verbs.get(words[0])
    if verb is None:
        near = difflib.get_close_matches(words[0], verbs, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(verbs)}"
        raise UsageError(f"%{magic} does not know {words[0]!r}; {hint}")
    known, unknown = _parser_of(verb, magic).parse_known_args(words[1:])
    strangers = [word for word in unknown if word.startswith("-")]
    if strangers:
        raise UsageError(_stranger(strangers[0].partition("=")[0], verb, verbs, magic))
    return verb, vars(known)


def _check_harness(verb: Verb, files: Sequence[str], given: Mapping[str, Any]) -> None:
    """``UsageError`` where options of a cassette and of a run of the harness are mixed, or one is missing."""
    ours = {option.name for option in (*HARNESS, *HARNESS_RECORDING, *HARNESS_REPLAYING)}
    if not given.get("harness"):
        for option in verb.options:
            if option.name in ours and option.name in given:
                raise UsageError(f"{option.flag} is for a run of the harness: %%cassette {verb.name} FOLDER --harness")
        return
    if not files:
        raise UsageError(f"--harness needs a folder: %%cassette {verb.name} FOLDER --harness")
    for option in verb.options:
        if option.name in given and option.name not in ours | {"write_mode"}:
            raise UsageError(f"{option.flag} is for cassettes, and not for --harness")
    if given.get("write_mode") in ("append", "once"):
        raise UsageError("with --harness, --write-mode is create or truncate")


def split(line: str) -> list[str]:
    """The words of a line; ``UsageError`` on a quote that is never closed."""
    lexer = _lexer(line)
    try:
        return list(lexer)
    except ValueError:
        raise UsageError("a quote is opened and never closed; names with blanks need quotes at both ends") from None


def help_text() -> str:
    """What ``%cassette?`` shows."""
    lines = [
        "Record, replay, compare and read cassettes of subagent calls.",
        "",
        "    %%cassette record FILE      above a cell: record its calls; the body may use await and asyncio.gather",
        "    %%cassette replay FILE      above a cell: answer its calls from FILE, with no model and no network",
        "    %cassette record FILE       … several cells …   then  %cassette stop",
        "    %%cassette record FOLDER --harness",
        "                                above a cell: keep what the DeepSeek Harness does in it; replay runs it again",
        "",
        "Names with blanks go in quotes. {name} and $name stand for your variables, except in --pattern.",
        "A verb's own help: %cassette VERB --help",
    ]
    for verb in VERBS.values():
        lines += ["", verb_help(verb, known=VERBS["record"].options if verb.name == "replay" else ())]
    return "\n".join(lines)


def help_asked(
    line: str, verbs: Mapping[str, Verb] = VERBS, whole: Callable[[], str] = help_text, magic: str = "cassette"
) -> str | None:
    """The help that ``line`` asks for with ``--help`` or ``-h``, if it does: a verb's, or the ``whole`` one."""
    try:
        words = split(line)
    except UsageError:
        return None
    if "--help" not in words and "-h" not in words:
        return None
    verb = next((verbs[word] for word in words if word in verbs), None)
    return whole() if verb is None else verb_help(verb, magic=magic)


def verb_help(verb: Verb, *, known: Sequence[Option] = (), magic: str = "cassette") -> str:
    """One verb with its options; those that are ``known`` already are only named."""
    lines = [f"%{magic} {verb.usage}", f"    {verb.help}"]
    named = " ".join(option.flag for option in verb.options if option in known)
    if named:
        lines += textwrap.wrap(
            f"{named}: as above", 100, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False
        )
    for option in (option for option in verb.options if option not in known):
        head = f"      {option.usage}"
        if len(head) >= _HELP_COLUMN:
            lines.append(head)
            head = ""
        wrapped = textwrap.wrap(option.help, 100 - _HELP_COLUMN)
        lines += [f"{start:<{_HELP_COLUMN}}{text}" for start, text in zip([head, *[""] * len(wrapped)], wrapped, strict=False)]
    return "\n".join(lines)


_HELP_COLUMN = 34


class _Parser(argparse.ArgumentParser):
    """An argument parser that raises ``UsageError`` instead of leaving the program."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: {message}")


def _parser_of(verb: Verb, magic: str) -> argparse.ArgumentParser:
    """A parser of a verb's files and options, which refuses with ``UsageError``; only what was given is in its answer."""
    parser = _Parser(prog=f"%{magic} {verb.name}", add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS)
    parser.add_argument("files", nargs="*", default=[])
    for option in verb.options:
        if option.repeatable:
            parser.add_argument(option.flag, dest=option.name, action="append", metavar=option.metavar)
        elif option.takes_value:
            choices, metavar = option.values or None, option.metavar or None
            parser.add_argument(option.flag, dest=option.name, choices=choices, type=option.kind or str, metavar=metavar)
        else:
            parser.add_argument(option.flag, dest=option.name, action="store_const", const=option.sets)
    return parser


def _stranger(flag: str, verb: Verb, verbs: Mapping[str, Verb], magic: str) -> str:
    """The sentence about an option that ``verb`` does not have."""
    owners = [other.name for other in verbs.values() if flag in {option.flag for option in other.options}]
    if owners:
        return f"{flag} belongs to {' and '.join(owners)}, not to {verb.name}"
    near = difflib.get_close_matches(flag, [option.flag for option in verb.options], 1)
    hint = f"did you mean {near[0]}?" if near else f"%{magic} {verb.name} --help lists its options"
    return f"%{magic} {verb.name} does not know {flag}; {hint}"


def _files(least: int, most: int | None) -> str:
    if most is None:
        return "one file, folder or glob, or more"
    if least != most:
        return "at most one file"
    return {0: "no file", 1: "one file"}.get(least, f"{least} files")


def _lexer(line: str) -> shlex.shlex:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=False)
    lexer.whitespace_split = True
    lexer.commenters = ""
    lexer.escape = ""  # a backslash belongs to a regular expression or to a Windows path
    return lexer


def _expanded(words: Sequence[str], namespace: Mapping[str, Any]) -> list[str]:
    expanded: list[str] = []
    before = ""
    for word in words:
        if before == "--pattern" or word.startswith("--pattern="):
            expanded.append(word)
        else:
            expanded.append(_expand(word, namespace))
        before = word
    return expanded


def _expand(word: str, namespace: Mapping[str, Any]) -> str:
    """``word`` with the user's variables in it, as IPython does; left alone when one of them does not exist."""
    if "{" not in word and "$" not in word:
        return word
    try:
        return DollarFormatter().vformat(word, args=[], kwargs=dict(namespace))
    except Exception:  # noqa: BLE001 - any expression may stand between the braces
        return word
