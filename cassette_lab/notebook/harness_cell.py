"""Cells that record or replay a run of the real harness: what is opened, what is shown of it, and where a replay departed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import Any, Final

from cassette_lab.flight.model import FlightRecord
from cassette_lab.host.harness.recording import HarnessRecording, HarnessReplay, HarnessTape
from cassette_lab.host.harness.runtime import HarnessRun
from cassette_lab.host.harness.script import Departure, DepartureKind
from cassette_lab.jsonio.text import show
from cassette_lab.notebook.display import RED, Bundle, QuietLine, short_path, table
from cassette_lab.notebook.lines import MARKS
from cassette_lab.notebook.options import Command
from cassette_lab.notebook.strip import Bar, picture
from cassette_lab.views.flights import request_category
from cassette_lab.words import duration_text, plural

SHOWN_DEPARTURES: Final = 20


def opened_harness(command: Command) -> HarnessTaping:
    """The run of a ``record`` or ``replay`` command with ``--harness``, open. Raises what opening it raises."""
    given: dict[str, Any] = {name: value for name, value in command.given.items() if name != "harness"}
    (folder,) = command.files
    make: Callable[..., HarnessTape] = HarnessRecording if command.verb == "record" else HarnessReplay
    return HarnessTaping(make(folder, **given).open())


class HarnessTaping:
    """A run that is recorded or replayed, and what is shown of it."""

    def __init__(self, tape: HarnessTape) -> None:
        self._tape = tape
        self.bind = tape.bind
        self.close = tape.close
        self.interrupt = tape.interrupt

    def live_line(self, *, ending: bool = False) -> QuietLine:
        """How far it is."""
        return live_harness_line(self._tape, ending=ending)

    def last_line(self, error: BaseException | None) -> QuietLine:
        """What was run, with a picture of the model calls; whether a replay was as recorded."""
        tape, status = self._tape, self._tape.status()
        mark, colour = MARKS[status.mode]
        flights: Sequence[FlightRecord] = ()
        if isinstance(tape, HarnessReplay):
            words = [f"replayed {status.calls:,} of {plural(status.total_calls, 'model call')}"]
            departures = tape.departures
            words.append(f"{plural(len(departures), 'departure')} from the recording" if departures else "as recorded")
            colour = RED if departures else colour
        elif isinstance(tape, HarnessRecording) and tape.flights is not None:
            words = [f"recorded {plural(status.calls, 'model call')}", plural(status.sessions, "session")]
            flights = tape.flights.records
        else:
            words = ["recorded nothing: no prompt was run"]
        # Of a replay that departed the departures tell why; one that fails as its recording did is as recorded.
        failed = [] if isinstance(tape, HarnessReplay) and tape.departures else failures(tape.runs)
        if failed and status.mode == "record":
            mark, colour = "✕", RED
        words += failed
        words.append(duration_text(status.elapsed_s * 1000))
        if error is not None:
            words.append(f"stopped by {type(error).__name__}")
            colour = RED
        return QuietLine(mark, words, short_path(status.folder), picture(_bars(flights)), colour=colour)

    def below(self) -> Bundle | None:
        """Where a replay departed, one line each."""
        departures = self._tape.departures if isinstance(self._tape, HarnessReplay) else []
        return departures_shown(departures) if departures else None


def shown_harness(tape: HarnessTape) -> Bundle:
    """What a cell shows of a run, for one that was begun in Python: its line, and where a replay departed."""
    if not tape.closed:
        return live_harness_line(tape).bundle()
    taping = HarnessTaping(tape)
    line, below = taping.last_line(None).bundle(), taping.below() or {}
    return {
        "text/plain": "\n".join(filter(None, [line["text/plain"], below.get("text/plain")])),
        "text/html": line["text/html"] + below.get("text/html", ""),
    }


def failures(runs: Sequence[HarnessRun]) -> list[str]:
    """``1 session ended with AUTH (401)``: what the last prompt of each session ended with, where that is an error."""
    last = {run.session_id: run for run in runs}
    causes = Counter(
        (run.error_code or "an error") + (f" ({run.error_status})" if run.error_status is not None else "")
        for run in last.values()
        if run.end_kind == "error"
    )
    return [f"{plural(count, 'session')} ended with {show(cause)}" for cause, count in causes.most_common()]


def live_harness_line(tape: HarnessTape, *, ending: bool = False) -> QuietLine:
    """What is going on: ``● recording · 3 sessions · 7 model calls · 4 s · runs/audit``."""
    status = tape.status()
    mark, colour = MARKS[status.mode]
    doing = {"record": "recording", "replay": "replaying"}[status.mode]
    calls = plural(status.calls, "model call")
    if status.mode == "replay":
        calls = f"{status.calls:,} of {plural(status.total_calls, 'model call')}"
    words = [doing, plural(status.sessions, "session"), calls]
    if not tape.closed and tape.harness.is_starting:
        words = [doing, "starting the runtime…"]
    if ending:
        words.append(f"waiting for {plural(status.running, 'prompt')}" if status.running else "the runtime ends")
    return QuietLine(mark, [*words, f"{int(status.elapsed_s)} s"], short_path(status.folder), colour=colour, muted=True)


def departures_shown(departures: Sequence[Departure]) -> Bundle:
    """Departures, a line for each cause; of very many the first."""
    told = list(_by_cause(departures))
    first, more = told[:SHOWN_DEPARTURES], len(told) - SHOWN_DEPARTURES
    rows = [[kind, f"<bdi>{escape(show(message))}</bdi>"] for kind, message in first]
    lines = [f"  {kind}: {show(message)}" for kind, message in first]
    if more > 0:
        note = f"… and {more:,} more; cl.harness().departures has them all"
        rows.append(["", escape(note)])
        lines.append(f"  {note}")
    return {"text/plain": "\n".join(lines), "text/html": table([], rows)}


def _by_cause(departures: Sequence[Departure]) -> Iterator[tuple[str, str]]:
    """Kinds and sentences. A message that is another one is so in every call after it, which makes one sentence of them."""
    calls: dict[tuple[DepartureKind, str], list[Departure]] = {}
    for each in departures:
        _, mark, cause = each.message.partition(f"call {each.call} of session {each.session_id}: ")
        calls.setdefault((each.kind, f"of session {each.session_id}: {cause}" if mark else each.message), []).append(each)
    for (kind, cause), alike in calls.items():
        numbers = [each.call for each in alike]
        which = (
            f"{numbers[0]} to {numbers[-1]}" if numbers[-1] - numbers[0] == len(numbers) - 1 else ", ".join(map(str, numbers))
        )
        yield _KINDS[kind], alike[0].message if len(alike) == 1 else f"calls {which} {cause}"


_KINDS: Final[dict[DepartureKind, str]] = {
    "changed-request": "another request",
    "extra-call": "a call too many",
    "extra-session": "a session too many",
    "missing-calls": "calls too few",
    "missing-session": "a session too few",
}


def _bars(flights: Sequence[FlightRecord]) -> list[Bar]:
    """The bars of model calls, pale until the first chunk."""
    first = min((record.started_at_ms for record in flights), default=0)
    bars = []
    for record in flights:
        outcome, category = record.outcome, request_category(record)
        if category is not None and outcome.total_ms is not None:
            latency_ms = min(outcome.first_chunk_ms or 0.0, outcome.total_ms)
            bars.append(Bar(record.started_at_ms - first, latency_ms, outcome.total_ms, category))
    return bars
