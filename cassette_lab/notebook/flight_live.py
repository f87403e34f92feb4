"""``%flight … --live``: an answer that is given anew, in its place, whenever the recorder has news."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Final

from cassette_lab.errors import CassetteLabError
from cassette_lab.flight.recorder import FlightRecorder
from cassette_lab.notebook.display import QuietLine, publish
from cassette_lab.notebook.flight_display import FlightView
from cassette_lab.notebook.options import UsageError

EVERY_S: Final = 0.25


class LiveFlight:
    """Shows what ``answer()`` gives, from now until ``stop()``. Needs a running event loop.

    The recorder tells of news between two turns of the loop, and of all that came meanwhile at once.
    """

    def __init__(self, recorder: FlightRecorder, answer: Callable[[], FlightView | QuietLine]) -> None:
        self._answer = answer
        self._display_id = f"flight-{uuid.uuid4().hex}"
        self._show(update=False)
        self._unsubscribe: Callable[[], None] | None = recorder.subscribe(self._changed)

    @property
    def stopped(self) -> bool:
        """Whether it is shown no more."""
        return self._unsubscribe is None

    def stop(self) -> None:
        """Show it for the last time. Twice is once."""
        unsubscribe, self._unsubscribe = self._unsubscribe, None
        if unsubscribe is not None:
            unsubscribe()
            self._show()

    async def _changed(self, _: dict[str, int]) -> None:
        self._show()
        await asyncio.sleep(EVERY_S)

    def _show(self, *, update: bool = True) -> None:
        try:
            answer = self._answer()
        except (UsageError, CassetteLabError) as error:  # what it is about has left the ring
            answer = QuietLine("○", [str(error)], muted=True)
        publish(answer.bundle(), display_id=self._display_id, update=update)
