"""The flight recorder of this process: it watches the host of all agents from the moment it is first asked for."""

from __future__ import annotations

from typing import Final

from cassette_lab.errors import ConfigError
from cassette_lab.event_bus import Undo
from cassette_lab.flight.observer import attach
from cassette_lab.flight.recorder import DEFAULT_CAPACITY, FlightRecorder
from cassette_lab.host.context import HOST


def flight_recorder(*, capacity: int | None = None) -> FlightRecorder:
    """The recorder that sees every model request of this process' agents, made and attached when it is first asked for.

    Agents in a ``Context`` of their own have a host of their own: ``flight.observer.attach(context, recorder)``.
    ``capacity`` is how many requests it keeps (128). Raises ``ConfigError`` for one that cannot be, and for another one than
    the recorder has while it is on.
    """
    return FLIGHTS.on(capacity)


class HostFlights:
    """One recorder, and whether it sees the host. Turned off it keeps what it has seen."""

    def __init__(self) -> None:
        self._recorder: FlightRecorder | None = None
        self._detach: Undo | None = None

    @property
    def recorder(self) -> FlightRecorder | None:
        """The recorder, if there is one; asking does not make one."""
        return None if self._recorder is None or self._recorder.disposed else self._recorder

    @property
    def is_on(self) -> bool:
        """Whether it sees what agents send now."""
        return self.recorder is not None and self._detach is not None

    def on(self, capacity: int | None = None) -> FlightRecorder:
        """Let it see the host from now on; see ``flight_recorder``. Where it was off, another capacity begins anew."""
        recorder = self.recorder
        if recorder is not None and capacity in (None, recorder.capacity):
            if self._detach is None:
                self._detach = attach(HOST, recorder)
            return recorder
        if self.is_on and recorder is not None:
            raise ConfigError(
                f"the flight recorder keeps {recorder.capacity:,} records; turn it off before it keeps another number",
                field="capacity",
            )
        made = FlightRecorder(DEFAULT_CAPACITY if capacity is None else capacity)
        self.off()
        self._recorder = made
        self._detach = attach(HOST, made)
        return made

    def off(self) -> bool:
        """Let it see no more. False where it did not."""
        was_on = self.is_on
        detach, self._detach = self._detach, None
        if detach is not None:
            detach()
        return was_on


FLIGHTS: Final = HostFlights()
