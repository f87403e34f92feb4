"""Turns and steps: when they began, how they ended, and how long the message that began or joined them had waited.

Source: session logs, Event types, turn/end; Calls, and where chunks and times live.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from cassette_lab.jsonio import JsonObject
from cassette_lab.session.facts import Step, Turn
from cassette_lab.session.members import inner, items, text, time_of, turn_and_step, whole
from cassette_lab.session.model import Event
from cassette_lab.session.spans import Time

_NEXT_TURN: Final = "next-turn"
_NEXT_STEP: Final = "next-step"


class TurnsTracker:
    """Reads turns and steps off the events of one log; ``cut`` ends what a fork inherited."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.steps: list[Step] = []
        self._open_turns: dict[int | None, int] = {}
        self._open_steps: dict[tuple[int | None, int | None], int] = {}
        self._inboxes: dict[str, list[Time | None]] = {_NEXT_TURN: [], _NEXT_STEP: []}
        self._is_waiting = False
        self._joining_since: Time | None = None

    def handlers(self) -> Mapping[str, Callable[[Event], None]]:
        """What to call for which type of event."""
        return {
            "turn/start": self._start_turn,
            "turn/end": self._end_turn,
            "step/start": self._start_step,
            "step/end": self._end_step,
            "agent/inbox/spliced": self._splice_inbox,
        }

    def cut(self) -> None:
        """Everything so far is inherited, and nothing of it goes on."""
        self.turns = [replace(turn, inherited=True) for turn in self.turns]
        self.steps = [replace(step, inherited=True) for step in self.steps]
        self._open_turns, self._open_steps, self._is_waiting, self._joining_since = {}, {}, False, None
        self._inboxes = {_NEXT_TURN: [], _NEXT_STEP: []}

    def _start_turn(self, event: Event) -> None:
        number = whole(event.data, "turn")
        self._open_turns[number] = len(self.turns)
        self._is_waiting, self._joining_since = True, None
        self.turns.append(Turn(number, start_seq=event.seq, started_at=time_of(event)))

    def _end_turn(self, event: Event) -> None:
        number = whole(event.data, "turn")
        self._is_waiting = False
        place = self._open_turns.pop(number, None)
        if place is None:
            place = len(self.turns)
            self.turns.append(Turn(number))
        kind, cause, code, status = _reason(event.data.get("reason"))
        self.turns[place] = replace(
            self.turns[place],
            end_seq=event.seq,
            ended_at=time_of(event),
            end_kind=kind,
            end_cause=cause,
            error_code=code,
            error_status=status,
        )

    def _start_step(self, event: Event) -> None:
        key = turn_and_step(event.data, whole)
        self._is_waiting = False
        self._open_steps[key] = len(self.steps)
        self.steps.append(Step(*key, start_seq=event.seq, started_at=time_of(event), queued_at=self._joining_since))
        self._joining_since = None

    def _end_step(self, event: Event) -> None:
        key = turn_and_step(event.data, whole)
        place = self._open_steps.pop(key, None)
        if place is None:
            place = len(self.steps)
            self.steps.append(Step(*key))
        step = self.steps[place]
        self.steps[place] = Step(*key, step.start_seq, step.started_at, event.seq, time_of(event), step.queued_at)

    def _splice_inbox(self, event: Event) -> None:
        """Messages go into an inbox and out of it.

        What a turn takes out before its first step is what began it; what it takes from the other inbox joins its next step.
        """
        data = event.data
        target = data.get("target")
        inbox = self._inboxes.get(target) if type(target) is str else None
        if inbox is None:
            return
        start, count = min(whole(data, "start") or 0, len(inbox)), whole(data, "removedCount") or 0
        taken = inbox[start : start + count]
        inbox[start : start + count] = [time_of(event)] * len(items(data, "inserted"))
        known = [time for time in taken if time is not None]
        if not taken or "outcome" in data:
            return
        if target == _NEXT_STEP:
            self._joining_since = min((*known, *filter(None, [self._joining_since])), default=None)
        elif self._is_waiting:
            self._is_waiting = False
            if known:
                self.turns[-1] = replace(self.turns[-1], queued_at=min(known))


def _reason(reason: Any) -> tuple[str | None, str | None, str | None, int | None]:
    """Kind, cause, error code and HTTP status of a turn's end, in the newer spelling or one of the older ones."""
    if type(reason) is str:
        return reason, None, None, None
    if type(reason) is not dict:
        return None, None, None, None
    cause = text(inner(reason, "reason"), "kind")
    failure: JsonObject = inner(reason, "error") or inner(reason, "failure") or reason
    return text(reason, "kind"), cause, text(failure, "code"), whole(failure, "status")
