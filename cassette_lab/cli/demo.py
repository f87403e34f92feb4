"""The demo: the main job from a shell. Records an agent run, replays it, explains a change, compares two runs, reports."""

from __future__ import annotations

import asyncio
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Final

from cassette_lab.cli.demo_agent import AREAS, MODEL, Answer, audit_api, audit_repository, told
from cassette_lab.cli.output import say
from cassette_lab.errors import MismatchError
from cassette_lab.host import record, replay
from cassette_lab.views.theme import pad
from cassette_lab.words import duration_text, plural

if TYPE_CHECKING:
    import pyarrow as pa

    from cassette_lab.views import View

COLUMNS: Final = 88
FIRST: Final = "first.cassette.jsonl"
SECOND: Final = "second.cassette.jsonl"
REPORT: Final = "demo-report.html"
OTHER_PATH: Final = "orders/admin/api.py"


def run_demo(folder: Path) -> int:
    """Run the demo in ``folder`` and say what each step shows; returns 0. Raises what a broken cassette there raises.

    ``first.cassette.jsonl`` is recorded only where it is not there yet; ``second.cassette.jsonl`` and
    ``demo-report.html`` are written anew.
    """
    folder.mkdir(parents=True, exist_ok=True)
    first, second, page = (_short(folder / name) for name in (FIRST, SECOND, REPORT))
    say(
        "An agent audits a repository: three subagents at once, two more below the first of them.",
        "Its model is a script, so this needs no key and no network.",
    )
    _step(1, "Record", f"every subagent call of one run goes into {first.name}")
    kept = first.exists()
    if kept:
        say(*_wrapped(f"{first} is there already and is kept; delete it to record anew"))
    asyncio.run(_runs(first, second, kept=kept))
    _compare(first, second)
    _look(first)
    _report(first, second, page)
    command = "python3 dev.py run cassette-lab" if Path("dev.py").is_file() else "cassette-lab"
    say(
        "",
        "Next",
        f"   {command} inspect {first} --show-calls",
        f"   {command} diff {first} {second}",
        "   the same in a notebook: notebooks/01-quickstart.ipynb",
    )
    return 0


async def _runs(first: Path, second: Path, *, kept: bool) -> None:
    recorded = None if kept else await _record(first)
    replayed = await _replay(first)
    if recorded is not None:
        same = sum(told(recorded[area]) == told(replayed[area]) for area in AREAS)
        say(f"   {same} of {len(AREAS)} answers are what the live run gave")
    await _change(first)
    await _record_again(second)


async def _record(first: Path) -> dict[str, Answer]:
    async with record(first) as recording:
        answers = await audit_repository()
    _say_answers(answers)
    status = recording.status()
    say(f"   recorded {plural(status.started, 'call')} in {duration_text(status.elapsed_s * 1000)}")
    return answers


async def _replay(first: Path) -> dict[str, Answer]:
    _step(2, "Replay", "the same audits in another order; no subagent runs, no model is asked")
    MODEL.asked.clear()
    async with replay(first, nested="covered") as replaying:
        answers = await audit_repository(AREAS[::-1])
    _say_answers(answers)
    status = replaying.status()
    say(
        f"   {status.consumed} of {plural(status.total, 'call')} asked for, {status.covered} below them covered; "
        f"{duration_text(status.recorded_ms)} of work in {duration_text(status.elapsed_s * 1000)}",
        f"   questions to the model: {len(MODEL.asked)}",
    )
    return answers


async def _change(first: Path) -> None:
    _step(3, "Change a prompt", f"{OTHER_PATH} was never audited, and the replay says so")
    async with replay(first, assert_consumed=False):
        try:
            await audit_api(OTHER_PATH)
        except MismatchError as error:
            for line in error.diagnostic.explain():
                say(*_wrapped(line))


async def _record_again(second: Path) -> None:
    _step(4, "Run again and compare", "the test runner has been repaired since")
    MODEL.repaired = True
    try:
        async with record(second, write_mode="truncate") as recording:
            await audit_repository()
    finally:
        MODEL.repaired = False
    status = recording.status()
    say(f"   recorded {plural(status.started, 'call')} in {duration_text(status.elapsed_s * 1000)} into {second.name}")


def _compare(first: Path, second: Path) -> None:
    from cassette_lab.cassette.diff import diff
    from cassette_lab.views import timing_deltas

    difference = diff(first, second)
    for line in difference.human():
        if not line.startswith("timing"):  # the chart says it
            say(*_wrapped(line))
    say("", *_indented(timing_deltas(difference)))


def _look(first: Path) -> None:
    from cassette_lab.tables import load
    from cassette_lab.views import stop_reasons, timeline

    _step(5, "Look at it", "the calls table and charts of the verified file")
    lab = load(first)
    say(*_calls(lab.calls), "", *_indented(timeline(lab)), "", *_indented(stop_reasons(lab)))


def _report(first: Path, second: Path, page: Path) -> None:
    from cassette_lab.views import report

    _step(6, "Report", "one HTML file to explore; it loads nothing and holds no prompt or answer")
    report(second, page, title="Repository audit, two runs", compare=first)
    say(f"   {page} ({page.stat().st_size // 1024:,} KB): open it in a browser")


def _say_answers(answers: dict[str, Answer]) -> None:
    say(*(f"   {pad('audit-' + area, 13)}{told(answer)}" for area, answer in answers.items()))


def _calls(table: pa.Table) -> list[str]:
    """The calls table, a line a call."""
    from cassette_lab.views.rows import tree_rows

    lines = [f"   {'call':<18}{'outcome':<15}{'latency':>9}{'duration':>11}  call key"]
    for row in tree_rows(table):
        name = pad("  " * row.depth + row.label, 18)
        times = f"{duration_text(row.latency_ms):>9}{duration_text(row.duration_ms):>11}"
        lines.append(f"   {name}{pad(row.outcome, 15)}{times}  {pad(row.key, COLUMNS - 58).rstrip()}")
    return lines


def _step(number: int, name: str, what: str) -> None:
    say("", *_wrapped(f"{number}  {name}: {what}", indent=0, hang=3))


def _wrapped(line: str, *, indent: int = 3, hang: int = 6) -> list[str]:
    first, later = " " * indent, " " * hang
    return wrap(line, COLUMNS, initial_indent=first, subsequent_indent=later, break_long_words=False, break_on_hyphens=False)


def _indented(view: View) -> list[str]:
    return [f"   {line}".rstrip() for line in view.text(COLUMNS - 3).splitlines()]


def _short(path: Path) -> Path:
    """The path as one would type it here."""
    path = path.absolute()
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
