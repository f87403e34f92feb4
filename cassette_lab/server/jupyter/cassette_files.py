"""Cassettes as events: told range by range while they are verified. Two of them may be compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from cassette_lab.cassette.columns import Projection
from cassette_lab.cassette.scan.steps import Steps
from cassette_lab.errors import CassetteLabError
from cassette_lab.jsonio.text import show
from cassette_lab.looking import size_of
from cassette_lab.server.jupyter.frames import Event, Tell
from cassette_lab.server.jupyter.pages import Pages
from cassette_lab.server.jupyter.tasks import Task
from cassette_lab.server.jupyter.telling import CHANGED, broken_words, is_change, problem, state
from cassette_lab.server.jupyter.watching import Facts, Progress
from cassette_lab.tables import cassettes
from cassette_lab.tables.schemas import CASSETTES


def tell_cassettes(task: Task, tell: Tell, pages: Pages, progress: Progress) -> None:
    """The rows and states of a task's cassettes, one after the other, and what two that are compared differ in."""
    sizes = [size_of(task.file(each.path)) for each in task.places]
    projections = []
    for number, place in enumerate(task.places):
        before = sum(sizes[:number])

        def told(done: int, words: str, before: int = before) -> None:
            progress(before + done, max(sum(sizes), before + done), words)

        projections.append(_cassette(task, number, place.path, tell, pages, told))
    expected, actual = projections if task.compare else (None, None)
    if expected is not None and actual is not None:
        tell(_diff(expected, actual, [each.path for each in task.places]), b"")


def _cassette(
    task: Task, number: int, source: str, tell: Tell, pages: Pages, progress: Callable[[int, str], object]
) -> Projection | None:
    path = task.file(source)
    facts = Facts([path])
    steps = None
    try:
        steps = Steps(path, bodies=task.bodies)
        tell(state(source, "cassette", "verifying", "verifying", rows=0, line=steps.line), b"")
        for step in steps:
            pages.add("calls", number, step.calls)
            progress(step.done_bytes, f"verified up to line {steps.line:,}")
    except CassetteLabError as error:
        tell(_refused(source, steps, error, changed=facts.have_changed or is_change(error)), b"")
        pages.add_problem(number, error)
        return None
    projection = steps.projection
    assert projection is not None, "whoever comes to the end has verified all"  # noqa: S101
    pages.add("cassettes", number, pa.Table.from_pylist([cassettes.row_of(projection)], schema=pa.schema(CASSETTES)))
    if facts.have_changed:
        words = f"chain verified, but {CHANGED}"
        tell(state(source, "cassette", "partial", words, rows=steps.rows, line=steps.line, changed=True), b"")
    else:
        tell(state(source, "cassette", "verified", "chain verified", rows=steps.rows, line=steps.line), b"")
    return projection


def _refused(source: str, steps: Steps | None, error: CassetteLabError, *, changed: bool) -> Event:
    facts: Event = {"changed": changed, "problem": problem(error, source)}
    if steps is None:
        return state(source, "cassette", "broken", broken_words(error), rows=0, **facts)
    facts |= {"rows": steps.rows, "line": steps.line}
    if changed:
        return state(source, "cassette", "unverified", f"not verified: {CHANGED}", **facts)
    if not steps.rows:
        return state(source, "cassette", "broken", broken_words(error), **facts)
    words = f"verified up to line {steps.line:,}, {broken_words(error)}"
    return state(source, "cassette", "partial", words, **facts)


def _diff(expected: Projection, actual: Projection, sources: Sequence[str]) -> Event:
    from cassette_lab.cassette.diff import diff

    found = diff(expected, actual)
    lines = found.human()
    return {
        "event": "diff",
        "verdict": lines[0],
        "comparable": found.comparable,
        "equivalent": found.equivalent,
        "issues": found.issues,
        "policy_changes": found.policy_changes,
        "expected": show(sources[0]),
        "actual": show(sources[1]),
    }
