"""The comparison in a report: this run beside another one, call by call, and how sure it is that times changed."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeAlias

from cassette_lab.errors import ConfigError
from cassette_lab.views.deltas import HasSides
from cassette_lab.views.report_names import without_folders
from cassette_lab.views.rows import Calls, calls_of, loaded, sources_of
from cassette_lab.views.sending import is_diff
from cassette_lab.views.showing import side_by_side
from cassette_lab.views.statistics import paired_deltas

if TYPE_CHECKING:
    from cassette_lab.views.drawing import Drawing
    from cassette_lab.views.view import View

Compared: TypeAlias = "Calls | HasSides"


def data_of(data: Any, *, bodies: bool) -> Any:
    """What a report is about: a lab or a table as it is, of a comparison the later side; paths are loaded."""
    if is_diff(data):
        return data.actual if hasattr(data.actual, "schema") else SimpleNamespace(calls=_named(data.actual))
    if not bodies or hasattr(data, "schema") or hasattr(data, "calls"):
        return without_folders(loaded(data))
    from cassette_lab.tables import load

    return without_folders(load(*([data] if isinstance(data, (str, PathLike)) else data), bodies=True))


def compared(before: Compared, after: Any, *, bodies: bool) -> tuple[View | None, Sequence[Drawing]]:
    """The view of two recordings (None where a side has several), and charts of the changes.

    ``before``: the recording that ``after`` is compared with, or a cassette diff, which has both sides. Raises
    ``ConfigError`` where a side has no cassette.
    """
    if is_diff(before):
        view = side_by_side(before, bodies=bodies)
        return view, _changes(view.lab.expected.calls, view.lab.actual.calls)
    earlier = data_of(before, bodies=bodies)
    for side, name in ((earlier, "the recording to compare with"), (after, "the recording")):
        if not len(getattr(side, "cassettes", calls_of(side).column_names)):
            raise ConfigError(f"{name} has no cassette; runs are compared call by call, and session logs have no such calls")
    sides = calls_of(earlier), calls_of(after)
    if any(len(sources_of(side)) > 1 for side in sides):
        return None, [paired_deltas(*sides)]
    both = _with_policies(earlier, after)
    view = side_by_side(earlier, after, bodies=bodies) if both is None else side_by_side(both, bodies=bodies)
    return view, _changes(*sides)


def _changes(before: Any, after: Any) -> list[Drawing]:
    drawing = paired_deltas(before, after)
    return [drawing] if drawing.cells.rows else []


def _with_policies(before: Any, after: Any) -> Any | None:
    """Both sides with what only their headers tell, where each is one cassette that is still there."""
    paths = [_cassette(side) for side in (before, after)]
    if None in paths:
        return None
    from cassette_lab.cassette.diff import diff

    found = diff(*(path for path in paths if path is not None))
    sides = [
        SimpleNamespace(calls=calls_of(side), header=known.header, path=known.path)
        for side, known in ((before, found.expected), (after, found.actual))
    ]
    return SimpleNamespace(
        expected=sides[0],
        actual=sides[1],
        verdict=found.verdict,
        comparable=found.comparable,
        issue_sentences=found.issue_sentences,
        policy_changes=found.policy_changes,
    )


def _cassette(lab: Any) -> Path | None:
    root, cassettes = getattr(lab, "root", None), getattr(lab, "cassettes", None)
    if root is None or cassettes is None or len(cassettes) != 1:
        return None
    path = Path(root, cassettes["source"][0].as_py())
    return path if path.is_file() else None


def _named(side: Any) -> Any:
    """The calls of one side, with its file as the lab's tables have it."""
    import pyarrow as pa

    calls, path = side.calls, getattr(side, "path", None)
    if path is None or "source" in calls.column_names:
        return calls
    return calls.add_column(0, "source", pa.array([str(path)] * len(calls), pa.string()))
