"""The entry: which command is meant, and how its end becomes an exit code.

Exit codes: 0 done (and equivalent, for ``diff``), 1 usage, read or format error, 2 different or not comparable.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from cassette_lab.cassette.without_pandas import do_without_pandas
from cassette_lab.cli.commands import COMMANDS
from cassette_lab.cli.grammar import UsageError
from cassette_lab.cli.output import complain, say
from cassette_lab.cli.process import discard_output, settle_streams, start_without_grammars
from cassette_lab.errors import CassetteLabError

INTERRUPTED: Final = 130

_INTRODUCTION = """\
cassette-lab: verify, compare, tabulate, report and rescue recorded agent runs (cassettes); list and sum up session logs

usage: cassette-lab COMMAND ...

commands:"""

_CONCLUSION = """
exit codes: 0 done, and for diff: equivalent; 1 usage, read or format error; 2 different or not comparable
reports hold metadata and fingerprints only: no prompt, no output, no error message, unless --bodies asks for them"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line ``arguments`` (those of this process without) and return the exit code.

    Raises nothing for a user's mistake, a broken file or an output that is closed early: one line on standard error
    says what is wrong, and nothing does for the last.
    """
    own_process = arguments is None
    if arguments is None:
        settle_streams()
        start_without_grammars()
        arguments = sys.argv[1:]
    try:
        code = _dispatch(arguments, own_process=own_process)
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()
        return 1
    except KeyboardInterrupt:
        complain("interrupted")
        return INTERRUPTED
    except CassetteLabError as error:
        complain(str(error))
        return 1
    except OSError as error:
        complain(": ".join(filter(None, (_text(error.filename), error.strerror or str(error)))))
        return 1
    except MemoryError:
        complain("not enough memory for this file")
        return 1
    return code


def _dispatch(arguments: Sequence[str], *, own_process: bool) -> int:
    if not arguments or "--help" in arguments or arguments[0] == "-h":
        asked = COMMANDS.get(arguments[0]) if arguments else None
        say(*(_usage() if asked is None else asked.manual()).split("\n"))
        return 0 if arguments else 1
    if arguments[0] == "--version":
        from importlib.metadata import version

        say(f"cassette-lab {version('cassette-lab')}")
        return 0
    command = COMMANDS.get(arguments[0])
    if command is None:
        raise UsageError(f"there is no command {arguments[0]!r}; there is: {', '.join(COMMANDS)}")
    call = command.parse(arguments[1:])
    if own_process and command.needs_only_columns:
        do_without_pandas()
    return command.run(call)


def _usage() -> str:
    return "\n".join([_INTRODUCTION, *(command.usage() for command in COMMANDS.values()), _CONCLUSION])


def _text(name: object) -> str:
    return "" if name is None else str(name)
