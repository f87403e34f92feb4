"""The views by name: what each shows of a lab, a calls table or paths. Each is live in a notebook and a picture elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from cassette_lab.errors import ConfigError
from cassette_lab.views.bounding import ROW
from cassette_lab.views.deltas import DELTA_ROWS, HasSides, timing_deltas_drawing
from cassette_lab.views.layout import MAX_ROWS
from cassette_lab.views.outcomes import GROUPS, Grouping, stop_reasons_drawing
from cassette_lab.views.rows import Calls, loaded
from cassette_lab.views.sending import is_diff, tables_of
from cassette_lab.views.session_rows import chosen_root, family, names_in
from cassette_lab.views.sides import side_by_side_drawing
from cassette_lab.views.timelines import timeline_drawing
from cassette_lab.views.topologies import topology_drawing
from cassette_lab.views.view import View
from cassette_lab.views.waterfalls import MAX_CALL_ROWS, waterfall_drawing

if TYPE_CHECKING:
    import pyarrow as pa

    from cassette_lab.tables import Lab


def topology(data: Calls, *, max_rows: int = MAX_ROWS, bodies: bool = False) -> View:
    """Who called whom, and how long each took: calls under the calls whose agents made them, sessions with what they did.

    ``data``: a lab, its ``calls`` table, or paths. The picture joins more than ``max_rows`` rows by label and place; the
    live view has them all. ``bodies=True`` also shows what was said, of data that were loaded with it.
    """
    lab = loaded(data)
    return View("topology", lab, lambda: topology_drawing(lab, max_rows=max_rows), bodies=bodies)


def timeline(data: Calls, *, max_rows: int = MAX_ROWS, bodies: bool = False) -> View:
    """When each call ran and how it ended, and of sessions turns, model calls and tools, with how many ran at once.

    Each file has its own zero: the moment its first call was admitted. In the picture more than ``max_rows`` calls are
    drawn in time slices, a row per label. Otherwise as ``topology``.
    """
    lab = loaded(data)
    return View("timeline", lab, lambda: timeline_drawing(lab, max_rows=max_rows), bodies=bodies)


def waterfall(
    data: Lab | str | PathLike[str] | Sequence[str | PathLike[str]],
    session_id: str | None = None,
    *,
    max_rows: int = MAX_CALL_ROWS,
) -> View:
    """Where the time of a session and of its subagents went: model calls with their retries, tools, subagents.

    ``data``: a lab with session logs, or paths. ``session_id`` (or ``FOLDER#ID``, where several have it) is the session on
    top; without it that is the one whose family was longest in turns. With more than ``max_rows`` calls the picture has one
    row for each session. Nothing that was said is shown. Raises ``ConfigError`` for a session that is not there.
    """
    lab = cast("Lab", loaded(data) if not hasattr(data, "sessions") else data)
    root, _ = chosen_root(lab, session_id)
    tables, heading = (None, None) if root is None else _of_family(lab, root)
    drawn = waterfall_drawing(lab, session_id, max_rows=max_rows)
    return View("timeline", lab, lambda: drawn, tables=tables, heading=heading)


def stop_reasons(data: Calls, *, by: Grouping | None = None, bodies: bool = False) -> View:
    """How many calls ended how, and how the last turns of sessions did; the live view counts over labels, models or files.

    The picture has a bar for each outcome category, errors with their codes; ``by="label"``, ``"model"`` or ``"file"``: one
    for each of the 20 with the most calls. Otherwise as ``topology``.
    """
    if by is not None and by not in GROUPS:
        raise ConfigError(f"stop reasons are counted by label, model or file, not by {by!r}")
    lab = loaded(data)
    return View("stop_reasons", lab, lambda: stop_reasons_drawing(lab, by=by), bodies=bodies)


def explore(data: Calls, *, bodies: bool = False) -> View:
    """Topology, timeline, stop reasons and the table, with one selection. Otherwise as ``timeline``."""
    lab = loaded(data)
    return View("explorer", lab, lambda: timeline_drawing(lab), bodies=bodies)


def timing_deltas(expected: Calls | HasSides, actual: Calls | None = None, *, max_rows: int = DELTA_ROWS) -> View:
    """For every call that both recordings have: how much longer (bar to the right) or shorter (left) it took.

    Either a cassette diff, or two recordings (a lab, a ``calls`` table or a path each, of one file). Calls are aligned
    as the diff does: by parent, parent context, request and occurrence. The picture has the ``max_rows`` largest
    differences; the live view is ``side_by_side``.
    """
    sides = _sides(expected, actual)
    drawn = timing_deltas_drawing(sides, max_rows=max_rows)  # two files on one side are told now
    return View("diff", sides, lambda: drawn)


def side_by_side(
    expected: Calls | HasSides, actual: Calls | None = None, *, max_rows: int = DELTA_ROWS, bodies: bool = False
) -> View:
    """Two runs, aligned call by call: what was added and removed, other outcomes, and how much longer or shorter each took.

    Arguments as for ``timing_deltas``. With ``bodies=True``, of recordings that were loaded with bodies, the live view shows
    the texts of a call side by side when it is asked to.
    """
    sides = _sides(expected, actual)
    drawn = side_by_side_drawing(sides, max_rows=max_rows)
    return View("diff", sides, lambda: drawn, bodies=bodies)


def _sides(expected: Calls | HasSides, actual: Calls | None) -> Any:
    """The two recordings; of two paths the cassette diff, which also knows policies."""
    if actual is None:
        if is_diff(expected):
            return expected
        raise ConfigError("a comparison needs two recordings, or one cassette diff")
    if isinstance(expected, (str, PathLike)) and isinstance(actual, (str, PathLike)):
        from cassette_lab.cassette.diff import diff

        before, after = Path(expected), Path(actual)
        if not before.is_dir() and not after.is_dir():
            return diff(before, after)
    return _plain_sides(loaded(cast("Calls", expected)), loaded(actual))


def _plain_sides(*sides: Any) -> Any:
    expected, actual = (
        SimpleNamespace(calls=getattr(side, "calls", side), sessions=getattr(side, "sessions", ())) for side in sides
    )
    for side in (expected, actual):
        if "source" in side.calls.column_names and len(side.calls):
            side.path = side.calls["source"][0].as_py()
    return SimpleNamespace(expected=expected, actual=actual)


def _of_family(lab: Lab, root: str) -> tuple[dict[str, pa.Table], str]:
    """The tables of a session and of those below it, with each row's place in the lab; and the session's name."""
    import pyarrow as pa
    import pyarrow.compute as pc

    sessions = family(lab, root)
    names = pa.array([f"{each.source}\n{each.session_id}" for each in sessions])
    chosen = {}
    for name, table in tables_of(lab).items():
        if "session_id" in table.column_names and name != "flights":
            numbered = table.append_column(ROW, pa.array(range(len(table)), pa.int32()))
            own = pc.binary_join_element_wise(table["source"].cast(pa.string()), table["session_id"], "\n")
            chosen[name] = numbered.filter(pc.is_in(own, value_set=names))
    return chosen, names_in(lab)[sessions[0].source, sessions[0].session_id]
