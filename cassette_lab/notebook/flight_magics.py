"""``%flight``: the flight recorder of this kernel, asked with the words of its command. ``flight_options`` knows the words."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, line_magic, magics_class

from cassette_lab.flight.command import run_command
from cassette_lab.flight.messages import Locale
from cassette_lab.flight.model import SUFFIX, FlightRecord, Snapshot
from cassette_lab.flight.reader import save_snapshot
from cassette_lab.flight.recorder import FlightConfig, FlightRecorder
from cassette_lab.host.flights import FLIGHTS
from cassette_lab.looking import exists, from_home, os_reason
from cassette_lab.notebook.display import GREEN, QuietLine, short_path
from cassette_lab.notebook.flight_display import NOTES, FlightView, locale_now, shown_records
from cassette_lab.notebook.flight_live import LiveFlight
from cassette_lab.notebook.flight_options import NAME, SHOWING, help_asked, help_text, parse
from cassette_lab.notebook.options import Command, UsageError
from cassette_lab.notebook.transform import loop_is_running
from cassette_lab.words import plural

ALL: Final = "all"
"""Given as a session, it means every one of them, unless one has this name."""
_MARK: Final = ("✈", "#0072b2")


@magics_class
class FlightMagics(Magics):
    """The magic of one shell. The recorder belongs to the process, and outlives the magic."""

    shell: InteractiveShell

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self._live: LiveFlight | None = None

    @line_magic
    def flight(self, line: str) -> Any:
        """Replaced by the help of the option table, below."""
        asked = help_asked(line)
        if asked is not None:
            print(asked)  # noqa: T201 - an answer for a person
            return None
        command = parse(line)
        if command.verb in SHOWING:
            return self._show(command)
        return {"on": self._on, "off": self._off, "stop": self._stop, "save": self._save}[command.verb](command)

    flight.__doc__ = help_text()

    def leave(self) -> None:
        """Undo what the magic has done: nothing is shown live, nobody watched. What was seen stays for a magic to come."""
        self.end_live()
        if _KERNEL.watches and FLIGHTS.off():
            _KERNEL.paused = True

    def come(self) -> None:
        """Go on where an earlier magic had to leave."""
        if _KERNEL.paused:
            _KERNEL.paused = False
            FLIGHTS.on()

    def end_live(self) -> bool:
        """Stop what ``--live`` shows. False where nothing is shown."""
        live, self._live = self._live, None
        if live is None or live.stopped:
            return False
        live.stop()
        return True

    def _show(self, command: Command) -> FlightView | QuietLine | None:
        recorder = FLIGHTS.recorder or _watch(None)
        answer = _answer(command, recorder.snapshot())
        told = NOTES[_locale(command)]
        notes = [] if FLIGHTS.is_on else [told["off"]]
        if not command.given.get("live"):
            return _noted(answer, notes)
        if not (hasattr(self.shell, "kernel") and loop_is_running()):
            return _noted(answer, [*notes, told["once"]])
        self.end_live()
        self._live = LiveFlight(recorder, lambda: _answer(command, recorder.snapshot()))
        return None

    def _on(self, command: Command) -> QuietLine:
        before = FLIGHTS.recorder
        thresholds = replace(_KERNEL.thresholds, **{name: value for name, value in command.given.items() if name != "capacity"})
        recorder = _watch(command.given.get("capacity"))
        _KERNEL.thresholds = thresholds
        words = ["watching the agents of this kernel", f"keeps {plural(recorder.capacity, 'request')}"]
        words.append(
            f"slow from {thresholds.slow_first_chunk_ms:,} ms to the first chunk, {thresholds.slow_total_ms:,} ms in all"
        )
        if before is not None and before is not recorder:
            self.end_live()
            words.append(f"{plural(before.health().retained, 'earlier record')} forgotten")
        return QuietLine(_MARK[0], words, colour=_MARK[1])

    def _off(self, _: Command) -> QuietLine:
        self.end_live()
        _KERNEL.watches = False
        recorder = FLIGHTS.recorder
        if not FLIGHTS.off() or recorder is None:
            return QuietLine("○", [f"the agents of this kernel are not watched; %{NAME} on begins"], muted=True)
        kept = plural(recorder.health().retained, "request")
        return QuietLine("○", [f"not watching any more: {kept} kept; %{NAME} on goes on"], muted=True)

    def _stop(self, _: Command) -> QuietLine | None:
        if self.end_live():
            return None
        raise UsageError(f"nothing is shown live; %{NAME} --live begins")

    def _save(self, command: Command) -> QuietLine:
        recorder = FLIGHTS.recorder
        if recorder is None:
            raise UsageError(f"there is nothing to save; %{NAME} on begins to watch the agents of this kernel")
        path = from_home(command.files[0])
        if not path.suffix:
            path = path.with_name(path.name + SUFFIX)
        if path.suffix != ".json":
            raise UsageError(f"{short_path(path)}: a snapshot is named *{SUFFIX}, or *.json; give it such a name")
        if exists(path) and not command.given.get("overwrite"):
            raise UsageError(f"{short_path(path)} is there already; name another file, or replace it with --overwrite")
        return _saved(recorder.snapshot(), path)


@dataclass(slots=True)
class _Kernel:
    """What outlives a magic: from when on requests are slow, whether a magic turned the recorder on, and off as it left."""

    thresholds: FlightConfig = FlightConfig()  # noqa: RUF009 - frozen
    watches: bool = False
    paused: bool = False


_KERNEL: Final = _Kernel()


def _watch(capacity: int | None) -> FlightRecorder:
    """The recorder, turned on."""
    _KERNEL.watches = _KERNEL.watches or not FLIGHTS.is_on
    return FLIGHTS.on(capacity)


def sessions_of(snapshot: Snapshot) -> list[str]:
    """The sessions of the records, the one with the newest record first."""
    return list(dict.fromkeys(record.session_id for record in snapshot.records))


def _answer(command: Command, snapshot: Snapshot) -> FlightView | QuietLine:
    """What the command's words ask of a session, in the language of this moment."""
    asked = command.given.get("session")
    everyone = asked == ALL and not any(record.session_id == ALL for record in snapshot.records)
    session_id = None if everyone else _session(asked, snapshot)
    records = [record for record in snapshot.records if everyone or record.session_id == session_id]
    locale = _locale(command)
    words = command.verb, *command.files
    if words in (("show",), ("explain",)):
        words = (command.verb, records[0].id) if records else ("latest",)
    about = session_id or (None if everyone else "")
    result = run_command(" ".join(words), snapshot, about, locale=locale, thresholds=_KERNEL.thresholds)
    if result.error == "no-records":
        nothing = NOTES[locale]["nothing"] if not snapshot.records and FLIGHTS.is_on else result.text
        return QuietLine("○", [nothing], muted=True)
    if result.error is not None:
        raise UsageError(result.text)
    return FlightView(result, shown_records(result, records), session_id, locale)


def _locale(command: Command) -> Locale:
    """The language that was asked for, else that of the environment at this moment."""
    asked: Locale | None = command.given.get("locale")
    return asked or locale_now()


def _session(asked: str | None, snapshot: Snapshot) -> str | None:
    sessions = sessions_of(snapshot)
    if asked is None:
        return sessions[0] if sessions else None
    found = [asked] if asked in sessions else [name for name in sessions if name.startswith(asked)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"more than one session begins with {asked!r}; give more of the id")
    there = f"there are {', '.join(map(repr, sessions[:5]))}" if sessions else "there are none yet"
    raise UsageError(f"no session with a record begins with {asked!r}; {there}")


def _noted(answer: FlightView | QuietLine, notes: list[str]) -> FlightView | QuietLine:
    if isinstance(answer, FlightView):
        return replace(answer, notes=tuple(notes))
    return replace(answer, words=[*answer.words, *notes])


def _saved(snapshot: Snapshot, path: Path) -> QuietLine:
    try:
        save_snapshot(snapshot, path)
    except (OSError, ValueError) as error:
        raise UsageError(f"{short_path(path)}: the snapshot cannot be written ({os_reason(error)})") from None
    records: tuple[FlightRecord, ...] = (*snapshot.records, *snapshot.auxiliary)
    return QuietLine("✓", [f"saved {plural(len(records), 'request')}"], short_path(path), colour=GREEN)
