"""Where an interrupt may break in: into what people run, never into this package's own work."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from cassette_lab.cassette.reader import read_cassette
from cassette_lab.cassette.writer import CassetteWriter
from cassette_lab.notebook.interrupt import _is_breakable
from tests.unit.calls import Tape, ask


def breakable_steps(work: Callable[[], Any]) -> dict[str, set[bool]]:
    """For each module of the package, and the standard library below it: whether its steps could be broken into."""
    seen: dict[str, set[bool]] = {}

    def step(frame: FrameType, _event: str, _argument: Any) -> None:
        name = str(frame.f_globals.get("__name__"))
        if name.startswith(("cassette_lab.", "json.", "pathlib")):
            seen.setdefault(name, set()).add(_is_breakable(frame))

    sys.setprofile(step)
    try:
        work()
    finally:
        sys.setprofile(None)
    return seen


def test_a_writer_is_not_broken_into_whatever_it_calls(tmp_path: Path) -> None:
    tape, folder = Tape(), str(tmp_path)
    tape.add(ask())

    def work(path: str) -> None:
        with CassetteWriter.open(path, tape.header) as writer:
            writer.append(tape.calls[0])

    work(f"{folder}/first")  # whatever is imported late is imported now, through the hooks of the tests
    seen = breakable_steps(lambda: work(f"{folder}/second"))
    assert {"cassette_lab.cassette.writer", "cassette_lab.cassette.lock", "json.encoder"} <= seen.keys()
    assert any(name.partition(".")[0] == "pathlib" for name in seen)  # a package from 3.13 on
    assert [name for name, answers in seen.items() if True in answers] == []


def test_reading_is_broken_into(tmp_path: Path) -> None:
    with CassetteWriter.open(tmp_path / "c", Tape().header):
        pass
    seen = breakable_steps(lambda: read_cassette(tmp_path / "c"))
    assert seen["cassette_lab.cassette.reader"] == {True}


def test_code_that_this_package_calls_is_broken_into() -> None:
    answers = []

    class Text(str):
        __slots__ = ()

        def __str__(self) -> str:
            answers.append(_is_breakable(sys._getframe()))
            return "text"

    from cassette_lab.cassette.failures import error_facts

    error_facts(ValueError(Text("x")))
    assert answers == [True]


def test_the_event_loops_own_steps_are_not_broken_into() -> None:
    answers = []

    class Loop(asyncio.SelectorEventLoop):
        def call_soon(self, callback: Callable[..., Any], *args: Any, context: Any = None) -> asyncio.Handle:  # type: ignore[override]
            seen = sys._getframe().f_back
            if asyncio.current_task(self) is not None and seen is not None and seen.f_code is asyncio.Handle._run.__code__:
                answers.append(_is_breakable(seen))  # a task has ended, and those who wait for it are being told
            return super().call_soon(callback, *args, context=context)

    async def work() -> None:
        await asyncio.gather(*(asyncio.sleep(0.001) for _ in range(3)))

    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(work())
    assert len(answers) >= 3
    assert set(answers) == {False}
