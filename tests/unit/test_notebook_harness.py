"""What a cell shows of a run of the harness; without a runtime."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cassette_lab.host.harness import recording
from cassette_lab.host.harness.recording import HarnessRecording
from cassette_lab.host.harness.runtime import Harness, HarnessRun
from cassette_lab.host.harness.script import Departure
from cassette_lab.notebook.harness_cell import HarnessTaping, departures_shown, failures, live_harness_line, shown_harness


def departure(number: int, cause: str = "message 2 is another") -> Departure:
    return Departure("changed-request", "s", number, f"call {number} of session s: {cause}")


def test_departures_are_escaped() -> None:
    bundle = departures_shown([departure(1, "<b>\u202eit</b>")])
    assert bundle["text/plain"] == r"  another request: call 1 of session s: <b>\u{202e}it</b>"
    assert "<b>" not in bundle["text/html"]
    assert r"&lt;b&gt;\u{202e}it" in bundle["text/html"]


def test_departures_with_one_cause_are_one_line() -> None:
    missing = Departure("missing-calls", "s", 9, "session s ended 1 call before the recorded one, after call 8")
    other = departure(3, "message 5 is another")
    shown = departures_shown([departure(1), departure(2), other, departure(4), missing])["text/plain"]
    assert shown.splitlines() == [
        "  another request: calls 1, 2, 4 of session s: message 2 is another",
        "  another request: call 3 of session s: message 5 is another",
        "  calls too few: session s ended 1 call before the recorded one, after call 8",
    ]
    assert "calls 1 to 40 of session s" in departures_shown([departure(number) for number in range(1, 41)])["text/plain"]


def test_of_very_many_departures_the_first_are_shown() -> None:
    many = [departure(number, f"message {number} is another") for number in range(1, 24)]
    lines = departures_shown(many)["text/plain"].splitlines()
    assert len(lines) == 21
    assert lines[-1] == "  … and 3 more; cl.harness().departures has them all"


class Runtime(Harness):
    """A runtime whose prompts end when they are told to."""

    def __init__(self) -> None:
        super().__init__()
        self.told = asyncio.Event()

    async def run(self, prompt: object, *, session_id: str | None = None) -> HarnessRun:
        del prompt
        await self.told.wait()
        return HarnessRun(session_id or "s", "Done.", "completed")


class Recording(HarnessRecording):
    """A recording of such a runtime."""

    def _begin(self) -> Harness:
        self.runtime = Runtime()
        return self.runtime


def test_the_end_waits_for_prompts_that_are_out(tmp_path: Path) -> None:
    async def play() -> None:
        tape = Recording(tmp_path / "run").open()
        taping = HarnessTaping(tape)
        task = asyncio.create_task(tape.run("work"))
        await asyncio.sleep(0)
        assert str(live_harness_line(tape)).startswith("● recording · 0 sessions · 0 model calls · 0 s · ")
        ending = asyncio.create_task(taping.close(None))
        await asyncio.sleep(0.02)
        assert not ending.done()
        assert "waiting for 1 prompt" in str(taping.live_line(ending=True))
        tape.runtime.told.set()
        await ending
        assert task.done()
        assert tape.closed
        assert shown_harness(tape)["text/plain"].startswith("● recorded nothing: no prompt was run · ")

    asyncio.run(play())


def test_what_sessions_ended_with_is_counted() -> None:
    refused = HarnessRun("a", "", "error", error_code="AUTH", error_status=401)
    lost = HarnessRun("b", "", "error", error_code="TRANSPORT")
    again = HarnessRun("b", "Said.", "completed")
    unknown = HarnessRun("c", "", "error")
    assert failures([refused, HarnessRun("d", "", "error", error_code="AUTH", error_status=401), unknown]) == [
        "2 sessions ended with AUTH (401)",
        "1 session ended with an error",
    ]
    assert failures([lost]) == ["1 session ended with TRANSPORT"]
    assert failures([lost, again, HarnessRun("e", "", "max-tokens")]) == [], "what was tried again, and well, is no failure"


def test_the_line_says_that_the_runtime_starts(tmp_path: Path) -> None:
    async def play() -> None:
        tape = Recording(tmp_path / "run").open()
        tape.runtime._is_starting = True
        assert str(live_harness_line(tape)).startswith("● recording · starting the runtime… · 0 s · ")
        await tape.close()
        assert "starting" not in str(live_harness_line(tape))

    asyncio.run(play())


@pytest.mark.parametrize("how", ["interrupt", "error", "time"])
def test_an_interrupt_an_error_or_time_ends_the_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    monkeypatch.setattr(recording, "SETTLE_TIMEOUT_S", 0.05 if how == "time" else 60.0)

    async def play() -> None:
        tape = Recording(tmp_path / "run").open()
        task = asyncio.create_task(tape.run("work"))
        await asyncio.sleep(0)
        ending = asyncio.create_task(tape.close(ValueError("nope") if how == "error" else None))
        await asyncio.sleep(0.01)
        if how == "interrupt":
            tape.interrupt()
        async with asyncio.timeout(5):
            await ending
        assert tape.closed
        task.cancel()

    asyncio.run(play())
