"""``sessions`` and ``session``: what session logs come to, without anything that was said."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Final

from cassette_lab.cli import session_words as words
from cassette_lab.cli.grammar import Call
from cassette_lab.cli.output import complain, print_chunks, print_json, say
from cassette_lab.progress import Bar

if TYPE_CHECKING:
    from cassette_lab.jsonio import JsonObject

SHOWN_PROBLEMS: Final = 20


def sessions(call: Call) -> int:
    """A line for each session below a folder, as it is read; 1 where there is none that can be read."""
    from cassette_lab.jsonio.text import pretty_chunks

    (path,) = call.operands
    listing = Listing(path, show_bar=not sys.stdout.isatty())  # where the lines are seen they are the bar
    if "json" in call.options:
        print_chunks(pretty_chunks(listing.document()))
    else:
        for number, row in enumerate(listing.rows()):
            if not number:
                say(words.HEADLINE)
            say(words.listed(row))
        if listing.count:
            say(words.totalled(listing.totals))
    for problem in listing.problems[:SHOWN_PROBLEMS]:
        complain(f"not read: {words.problem(problem)}")
    if len(listing.problems) > SHOWN_PROBLEMS:
        complain(f"not read: {len(listing.problems) - SHOWN_PROBLEMS:,} more; --json lists them")
    return 0 if listing.count else 1


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


class Listing:
    """The sessions below a path. ``count``, ``totals`` and ``problems`` are filled while ``rows`` goes on."""

    def __init__(self, path: str, *, show_bar: bool) -> None:
        self._path, self._show_bar = path, show_bar
        self.problems: list[JsonObject] = []
        self.totals: JsonObject = {}

    @property
    def count(self) -> int:
        """How many sessions were read."""
        count: int = self.totals.get("sessions", 0)
        return count

    def document(self) -> JsonObject:
        """The JSON document; its sessions are an iterator, and what stands behind them is ready when that has ended."""
        return {"path": self._path, "sessions": self.rows(), "totals": self.totals, "problems": self.problems}

    def rows(self) -> Iterator[JsonObject]:
        """The sessions in the order of their files, each once; what cannot be read goes to ``problems``."""
        from cassette_lab.session.finding import find_logs
        from cassette_lab.session.listing import told_of
        from cassette_lab.session.summary import totals

        self.totals.update(totals(self.totals, None))
        found = list(find_logs(self._path))
        with Bar("reading", unit="log", terminal=self._show_bar) as bar, closing(told_of(found)) as told:
            for number, kind, document in told:
                bar(number, len(found))
                if kind == "problem":
                    self.problems.append(document)
                    continue
                self.totals.update(totals(self.totals, document))
                yield document
