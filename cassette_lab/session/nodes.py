"""The surface of a session's whole log, of any format: which events its model sees.

Formats differ in what may stand there and in how a replacement names its span; ranges of cited seqs are expanded. The
harness would refuse a log that breaks a rule; here the surface ends before that event, and the rule is told.
Source: session logs, Surface.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from cassette_lab.errors import SurfaceError
from cassette_lab.jsonio import as_integer
from cassette_lab.session import facts
from cassette_lab.session.kinds import is_known
from cassette_lab.session.model import Event
from cassette_lab.surface import ELIGIBLE_TYPES, Surface

_ADDED: Final = ("system/message", "developer/message")
_RENAMED_SINCE: Final = 3
_BOUNDS: Final = {False: ("start", "end"), True: ("startSeq", "endSeq")}


class SurfaceTracker:
    """Folds the events of one log."""

    def __init__(self, version: int) -> None:
        self._types = {*ELIGIBLE_TYPES, *(kind for kind in _ADDED if is_known(kind, version))}
        self._bounds = _BOUNDS[version >= _RENAMED_SINCE]
        self._nodes = Surface()
        self._replacements = 0
        self._problem: str | None = None

    def handlers(self) -> Mapping[str, Callable[[Event], None]]:
        """What to call for which type of event."""
        return dict.fromkeys(self._types, self._fold)

    def surface(self) -> facts.Surface:
        """What was folded so far."""
        return facts.Surface(tuple(self._nodes.seqs()), self._replacements, self._problem)

    def _fold(self, event: Event) -> None:
        if self._problem is not None:
            return
        if event.surface_op == "append":
            self._nodes.append(event.seq)
            return
        try:
            start, end = self._span(event)
            sources = set(event.sources())
            shadowed = self._nodes.span(event.seq, start, end)
        except (SurfaceError, ValueError) as error:
            self._problem = getattr(error, "message", str(error))
            return
        missing = [node for node in shadowed if node not in sources]
        if missing:
            self._problem = f"event {event.seq} replaces event {missing[0]} without citing it in sourceEventSeqs"
            return
        self._nodes.replace(event.seq, shadowed)
        self._replacements += 1

    def _span(self, event: Event) -> tuple[int, int]:
        operation: Any = event.surface_op
        first, last = self._bounds
        if type(operation) is dict and operation.keys() == {"op", first, last} and operation["op"] == "replace":
            start, end = as_integer(operation[first]), as_integer(operation[last])
            if start is not None and end is not None:
                return start, end
        raise ValueError(f'event {event.seq} needs a surfaceOp: "append", or exactly op "replace", {first} and {last}')
