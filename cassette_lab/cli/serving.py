"""``serve-replay``: recorded models for agents in other processes."""

from __future__ import annotations

import sys
from pathlib import Path

from cassette_lab.cli.grammar import Call, Command, Option, one_of, whole_number
from cassette_lab.cli.output import complain, say
from cassette_lab.errors import MismatchError, MissingFileError
from cassette_lab.words import plural


def serve_replay(call: Call) -> int:
    """Answer chat completions from session logs until interrupted, a line each; then say what was not asked for."""
    from cassette_lab.server.run import LOOPBACK, address_of, listen, make_server
    from cassette_lab.session.families import family_of
    from cassette_lab.session.replay_model import ReplayModel
    from cassette_lab.session.scripts import load_session_scripts

    options = call.options
    override = options.get("override")
    if override is not None and not Path(override).is_file():
        raise MissingFileError("there is no such override file", path=override)
    unfinished = options.get("unfinished", "raise")
    primary, children = call.operands[0], list(call.operands[1:])
    if not children:
        primary, children = family_of(primary)
    scripts = load_session_scripts(primary, children, override, unfinished=unfinished)
    binding, pace_ms = options.get("binding", "first-call"), options.get("pace_ms", 0)
    model = ReplayModel(scripts, binding=binding, pace_ms=pace_ms, tell=_tell)
    server = make_server(model)
    with listen(options.get("host", LOOPBACK), options.get("port", 0)) as listening:
        calls = sum(len(script.entries) for script in scripts)
        say(
            f"{plural(len(scripts), 'recorded session')} with {plural(calls, 'call')} at {address_of(listening)}",
            "Ctrl-C stops",
        )
        sys.stdout.flush()
        try:
            server.run(sockets=[listening])
        except KeyboardInterrupt:  # the usual end
            say("stopped")
    try:
        model.assert_consumed()
    except MismatchError as error:
        complain(str(error))
    return 0


def _tell(sentence: str) -> None:
    say(sentence)
    sys.stdout.flush()


SERVE_REPLAY = Command(
    "serve-replay",
    "LOG...",
    (1, None),
    "answer an agent's model calls from session logs: a session's, then its subagents'; or a folder with all",
    serve_replay,
    (
        Option("--port", "port", "of this machine; default: a free one, which is printed", "N", whole_number(65535)),
        Option("--host", "host", "a loopback address; default 127.0.0.1", "ADDRESS"),
        Option(
            "--binding",
            "binding",
            "sessions take scripts in the order of their first-call (default), or by content: what their first message says",
            "HOW",
            one_of("first-call", "content"),
        ),
        Option("--pace-ms", "pace_ms", "wait before each piece; default 0", "N", whole_number(86_400_000)),
        Option(
            "--unfinished",
            "unfinished",
            "a call without an end in its log: throw after what it said, hang, skip it, or raise: do not serve (default)",
            "HOW",
            one_of("raise", "throw", "hang", "skip"),
        ),
        Option("--override", "override", "a document that replaces or patches the first session's calls", "FILE"),
    ),
)
