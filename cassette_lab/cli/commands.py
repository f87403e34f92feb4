"""What each command does. Heavy libraries are imported where a command needs them, so that the others start at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from cassette_lab.cli import session_commands, words
from cassette_lab.cli.grammar import Call, Command, Option, UsageError, count, one_of
from cassette_lab.cli.notebook_commands import NBHTML, STRIP
from cassette_lab.cli.output import complain, print_chunks, print_json, say
from cassette_lab.cli.serving import SERVE_REPLAY
from cassette_lab.errors import FormatError
from cassette_lab.words import plural

_LARGE_BYTES: Final = 1 << 26

DIFFERENT: Final = 2
"""Exit code of ``diff`` when the cassettes are different or cannot be compared."""


def verify(call: Call) -> int:
    """Read the whole file and check every rule; say what it holds, or what is wrong and where."""
    from cassette_lab.cassette.summary import summary

    (file,) = call.operands
    if _is_session(file):
        return session_commands.verify(call)
    document = {"file": file, **summary(_project(file))}
    if "json" in call.options:
        print_json(document)
    else:
        say(*words.verified(document))
    return 0


def inspect(call: Call) -> int:
    """What the file holds; with ``--show-calls`` call by call. Of a session log what ``session`` says."""
    from cassette_lab.cassette.summary import call_documents, summary

    (file,) = call.operands
    if _is_session(file):
        return session_commands.session(call)
    projection = _project(file)
    document = {"file": file, **summary(projection)}
    calls = call_documents(projection) if "show_calls" in call.options else None
    if "json" in call.options:
        print_json(document if calls is None else {**document, "calls": calls})
    else:
        say(*words.inspected(document, projection.header))
        for line in words.calls(calls or ()):
            say(line)
    return 0


def diff(call: Call) -> int:
    """Compare two files call by call."""
    from cassette_lab.cassette.diff import diff as compare

    expected, actual = call.operands
    for file in call.operands:
        if _is_session(file):
            message = (
                "this is a session log, and diff compares cassettes; `cassette-lab session` sums up each run, "
                "and `cassette-lab load` gives tables of both"
            )
            raise FormatError(message, path=file)
    difference = compare(_project(expected), _project(actual))
    if "json" in call.options:
        print_chunks(difference.json_chunks())
    else:
        say(*difference.human())
    return 0 if difference.equivalent else DIFFERENT


def load(call: Call) -> int:
    """Verified tables of files, folders and globs, written as Parquet or Arrow files."""
    from cassette_lab.tables import load as load_tables
    from cassette_lab.tables import write_tables

    folder = call.options.get("out")
    if folder is None:
        raise UsageError("load needs -o FOLDER, the folder to write the tables into")
    lab = load_tables(
        *call.operands,
        bodies="bodies" in call.options,
        on_error=call.options.get("on_error", "raise"),
        workers=call.options.get("workers", 1),
        progress=True,
    )
    written = write_tables(lab, folder, format=call.options.get("format", "parquet"))
    for line in words.not_loaded(lab.problems.to_pylist()):
        complain(line)
    say(*(f"{plural(rows, 'row')} in {path}" for _, rows, path in written))
    return 0


def report(call: Call) -> int:
    """One HTML file with the live views, charts and tables of files, folders and globs."""
    from cassette_lab.tables import load as load_tables
    from cassette_lab.views import report as write_report

    out = call.options.get("out")
    if out is None:
        raise UsageError("report needs -o FILE, the HTML file to write")
    bodies = "bodies" in call.options
    lab = load_tables(*call.operands, bodies=bodies, on_error=call.options.get("on_error", "raise"), progress=True)
    other = call.options.get("compare")
    before = None if other is None else load_tables(other, bodies=bodies, progress=True)
    path = write_report(lab, out, title=call.options.get("title"), compare=before, bodies=bodies)
    for line in words.not_loaded(lab.problems.to_pylist()):
        complain(line)
    counts = (("call", lab.calls), ("session", lab.sessions), ("model request", lab.flights))
    there = [plural(len(table), noun) for noun, table in counts if len(table)]
    say(f"{', '.join(there) or '0 calls'} in {path}")
    return 0


def rescue(call: Call) -> int:
    """After a crash: the longest verified part of a torn file, and the lock that was left behind."""
    from cassette_lab.cassette.lock import break_lock, explain, read_owner
    from cassette_lab.cassette.rescue import rescue as rescue_file

    (file,) = call.operands
    out = call.options.get("out")
    if out is None and "break_lock" not in call.options:
        raise UsageError("rescue needs -o NEW, the file to write, or --break-lock")
    if _is_session(file):
        return session_commands.rescue(call)
    owner = read_owner(file)
    if "break_lock" in call.options:
        broken = break_lock(file)
        if broken is None:
            say(f"{file}: there is no lock")
        else:
            say(f"{file}: removed the lock of process {broken['pid']}, which is gone")
    elif owner is not None:
        complain(f"{file}: {explain(file, owner)}")
    if out is not None:
        say(rescue_file(file, out).to_sentence())
    return 0


def demo(call: Call) -> int:
    """Record, replay, compare and chart a small agent."""
    from cassette_lab.cli.demo import run_demo

    folder = call.operands[0] if call.operands else "demo-output"
    return run_demo(Path(folder))


def _is_session(file: str) -> bool:
    """Whether a file is a session log; one that is named as a cassette is none, and needs no look."""
    if file.endswith(".cassette.jsonl"):
        return False
    from cassette_lab.session.places import is_session

    return is_session(file)


def _project(file: str) -> Any:
    """The verified columns of a file; a large one is shared by two processes."""
    large = Path(file).is_file() and Path(file).stat().st_size > _LARGE_BYTES
    if large:
        from cassette_lab.cassette.second_process import start_early

        start_early()  # while this process imports what it needs
    from cassette_lab.cassette.scan import project

    return project(file, workers=2 if large else 1)


_JSON = Option("--json", "json", "print a JSON document")
_SHOW_CALLS = Option("--show-calls", "show_calls", "one line a call")
_ACCEPTED = Option("--show-calls", "show_calls", "accepted, and without effect here")
_BODIES = Option("--bodies", "bodies", "prompts, outputs and error messages, too")
_ON_ERROR = Option(
    "--on-error",
    "on_error",
    "raise (default), or collect: list a broken file as a problem and go on",
    "WHAT",
    one_of("raise", "collect"),
)

COMMANDS: Final = {
    command.name: command
    for command in (
        Command(
            "verify",
            "FILE",
            (1, 1),
            "check every rule of the format, and of a cassette the hash chain",
            verify,
            (_JSON, _ACCEPTED),
            needs_only_columns=True,
        ),
        Command(
            "inspect",
            "FILE",
            (1, 1),
            "say what a cassette or session log holds",
            inspect,
            (_JSON, _SHOW_CALLS),
            needs_only_columns=True,
        ),
        Command(
            "diff",
            "EXPECTED ACTUAL",
            (2, 2),
            "compare two cassettes call by call",
            diff,
            (_JSON, _ACCEPTED),
            needs_only_columns=True,
        ),
        Command(
            "load",
            "PATH...",
            (1, None),
            "write verified tables of files, folders and globs",
            load,
            (
                Option("-o", "out", "the folder to write into", "FOLDER"),
                Option("--format", "format", "parquet (default) or arrow", "FORMAT", one_of("parquet", "arrow")),
                _BODIES,
                _ON_ERROR,
                Option("--workers", "workers", "processes that read; default 1", "N", count),
            ),
        ),
        Command(
            "report",
            "PATH...",
            (1, None),
            "write one HTML file with live views, charts and tables, that loads nothing",
            report,
            (
                Option("-o", "out", "the file to write", "FILE"),
                Option("--title", "title", "its heading", "TEXT"),
                Option("--compare", "compare", "the earlier recording to compare with, file or folder", "OTHER"),
                _BODIES,
                _ON_ERROR,
            ),
        ),
        Command(
            "rescue",
            "FILE",
            (1, 1),
            "after a crash: save what is whole of a cassette or session log, explain a leftover lock",
            rescue,
            (
                Option(
                    "-o",
                    "out",
                    "write the longest verified part here (a session log: .zstd compresses)",
                    "NEW",
                ),
                Option("--break-lock", "break_lock", "remove a lock whose process on this machine is gone"),
            ),
        ),
        Command(
            "sessions",
            "PATH...",
            (1, None),
            "list the session logs of files, folders and globs, and the sessions of stores",
            session_commands.sessions,
            (_JSON,),
        ),
        Command(
            "session",
            "LOG",
            (1, 1),
            "sum up one session log",
            session_commands.session,
            (_JSON, Option("--id", "id", "which session of a store of several", "ID")),
        ),
        SERVE_REPLAY,
        NBHTML,
        STRIP,
        Command("demo", "[FOLDER]", (0, 1), "record, replay, compare and chart a small agent, offline", demo),
    )
}
"""Every command, in the order of the help."""
