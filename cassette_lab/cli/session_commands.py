"""``sessions`` and ``session``: what session logs come to, without anything that was said."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Final

from cassette_lab.cli import session_words as words
from cassette_lab.cli.grammar import Call, UsageError
from cassette_lab.cli.output import complain, print_chunks, print_json, say
from cassette_lab.progress import Bar

if TYPE_CHECKING:
    from cassette_lab.jsonio import JsonObject

SHOWN_PROBLEMS: Final = 20


def sessions(call: Call) -> int:
    """A line for each session, subagents below their parents; 1 where there is none, or something could not be read."""
    from cassette_lab.jsonio.text import pretty_chunks
    from cassette_lab.session.finding import PASSED_BY
    from cassette_lab.session.reader import JUST_BEGUN

    as_json = "json" in call.options
    listing = Listing(call.operands, show_bar=not (as_json and sys.stdout.isatty()))
    if as_json:
        print_chunks(pretty_chunks(listing.document()))
    else:
        rows = list(listing.rows())
        below = _common_folder(rows)
        if rows:
            say(words.HEADLINE)
            for depth, row in words.arranged(rows):
                say(words.listed(row, depth, below=below))
            say(words.totalled(listing.totals))
    for problem in listing.problems[:SHOWN_PROBLEMS]:
        complain(f"not read: {words.problem(problem)}")
    if len(listing.problems) > SHOWN_PROBLEMS:
        complain(f"not read: {len(listing.problems) - SHOWN_PROBLEMS:,} more; --json lists them")
    # Nothing is missing of what was passed by, for another log has it, nor of what is about to be written.
    harmless = all(problem["code"] in (PASSED_BY, JUST_BEGUN) for problem in listing.problems)
    return 0 if listing.count and harmless else 1


def session(call: Call) -> int:
    """One session in full; of a store with several the one that ``--id`` names."""
    from cassette_lab.session.opening import session_facts
    from cassette_lab.session.summary import summary

    (path,) = call.operands
    with Bar("reading", unit="B", scale=True, terminal=True) as bar:
        document = summary(session_facts(path, call.options.get("id"), progress=bar))
    if "json" in call.options:
        print_json(document)
    else:
        say(*words.summarised(document))
    return 0


def verify(call: Call) -> int:
    """Read a whole log and check what its format has rules for; 1 where its end is not whole."""
    from cassette_lab.session.opening import session_facts
    from cassette_lab.session.summary import verified

    (path,) = call.operands
    with Bar("reading", unit="B", scale=True, terminal=True) as bar:
        document = verified(session_facts(path, progress=bar))
    if "json" in call.options:
        print_json(document)
    else:
        say(*words.verified(document))
    return 0 if document["whole"] else 1


def rescue(call: Call) -> int:
    """The longest whole part of a damaged or torn log, as a new file."""
    from cassette_lab.session.rescue import rescue_session

    (path,) = call.operands
    if "break_lock" in call.options:
        raise UsageError(
            "a session's lock is the system's, and gone with its process: there is none to break; leave out --break-lock"
        )
    say(rescue_session(path, call.options["out"]).to_sentence())
    return 0


def _common_folder(rows: Sequence[JsonObject]) -> str:
    """The folder that the files are named from, with its slash; empty where they have none in common."""
    folders = {os.path.dirname(row["file"]) for row in rows if row["file"] is not None}  # noqa: PTH120 - a text is wanted
    try:
        common = os.path.commonpath(folders) if folders else ""
    except ValueError:  # on different drives, or some from the root and some not
        common = ""
    return os.path.join(common, "") if common else ""  # noqa: PTH118 - with a slash at its end, as no Path has


class Listing:
    """The sessions that paths mean. ``count``, ``totals`` and ``problems`` are filled while ``rows`` goes on."""

    def __init__(self, paths: Sequence[str], *, show_bar: bool) -> None:
        self._paths, self._show_bar = paths, show_bar
        self.problems: list[JsonObject] = []
        self.totals: JsonObject = {}

    @property
    def count(self) -> int:
        """How many sessions were read."""
        count: int = self.totals.get("sessions", 0)
        return count

    def document(self) -> JsonObject:
        """The JSON document; its sessions are an iterator, and what stands behind them is ready when that has ended."""
        paths = {"path": self._paths[0]} if len(self._paths) == 1 else {"paths": list(self._paths)}
        return {**paths, "sessions": self.rows(), "totals": self.totals, "problems": self.problems}

    def rows(self) -> Iterator[JsonObject]:
        """The sessions in the order of their files, each once; what cannot be read goes to ``problems``."""
        from cassette_lab.session.listing import told_of
        from cassette_lab.session.places import find_named
        from cassette_lab.session.summary import totals

        self.totals.update(totals(self.totals, None))
        found = list(find_named(self._paths))
        with Bar("reading", unit="log", terminal=self._show_bar) as bar, closing(told_of(found)) as told:
            for number, kind, document in told:
                bar(number, len(found))
                if kind == "problem":
                    self.problems.append(document)
                    continue
                self.totals.update(totals(self.totals, document))
                yield document
