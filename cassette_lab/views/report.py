"""One HTML file about recorded calls, session logs and flight records: it opens anywhere, loads nothing, and is alive.

Where its script may run, it holds the explorer and the comparison; where not (and on paper) their pictures and tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cassette_lab.errors import ConfigError
from cassette_lab.looking import write_whole
from cassette_lab.views import session_report
from cassette_lab.views.drawing import Drawing
from cassette_lab.views.outcomes import stop_reasons_drawing
from cassette_lab.views.page import PAGE_STYLE, Section, Shows, contents, note
from cassette_lab.views.report_calls import SAID, calls_table
from cassette_lab.views.report_compared import Compared, compared, data_of
from cassette_lab.views.report_flights import flights_html
from cassette_lab.views.report_live import live, policy, script
from cassette_lab.views.report_summary import lead, problem_rows, summary
from cassette_lab.views.rows import calls_of, shown, source_text, sources_of
from cassette_lab.views.sending import is_diff, tables_of
from cassette_lab.views.statistics import statistics_of
from cassette_lab.views.theme import STYLE
from cassette_lab.views.timelines import timeline_drawing
from cassette_lab.views.topologies import topology_drawing
from cassette_lab.views.view import View
from cassette_lab.words import and_more

if TYPE_CHECKING:
    import pyarrow as pa

    from cassette_lab.tables import Lab

CALL_ROWS: Final = 400
EXPLORER_HEIGHT: Final = 820
_NO_BODIES: Final = "No prompt, output or error message is included."


def report(
    data: Compared,
    path: str | PathLike[str],
    *,
    title: str | None = None,
    compare: Compared | None = None,
    charts: Sequence[Drawing | View] = (),
    max_calls: int = CALL_ROWS,
    bodies: bool = False,
) -> Path:
    """Write a report of ``data`` (a lab, a ``calls`` table, paths or a cassette diff) to ``path``; returns the path.

    Summary, problems, the explorer, statistics, ``charts``, and tables: of at most ``max_calls`` calls the telling ones,
    sessions, flight records. Every table can be saved as CSV, live views also as PNG. ``compare``: the recording that
    ``data`` is compared with, the earlier one; slower then means slower than there. Where both are one cassette, they
    stand side by side, call by call; of several only the changes of times are told.

    The page loads nothing, and runs its own script alone; without it, and on paper, pictures stand for the live views.
    Nothing a call said is in it unless ``bodies`` is set, which needs a lab loaded with ``bodies=True`` (paths are loaded
    with them); nothing that was said in a session ever is. The same data give the same file, byte for byte. Folders are
    made. Raises ``ConfigError`` where bodies are missing, or cassettes to compare.
    """
    if is_diff(data) and compare is None:
        compare = data
    lab = data_of(data, bodies=bodies)
    table = calls_of(lab)
    if bodies and not set(SAID) <= set(table.column_names):
        raise ConfigError("a report with bodies needs a lab that has them: load(..., bodies=True)")
    target = Path(path)
    if target.resolve() in _files(lab):
        raise ConfigError(f"{target} is one of the recordings that the report is about; name another file")
    made = _Report(lab, table, title, max_calls, bodies=bodies)
    page = made.page(compare, charts)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, page.encode())
    return target


def _files(lab: Any) -> set[Path]:
    """The files that a lab was loaded from."""
    root = getattr(lab, "root", None)
    tables = [getattr(lab, name, None) for name in ("cassettes", "sessions", "flight_health", "problems")]
    if root is None:
        return set()
    sources = {each for table in tables if table is not None for each in table["source"].unique().to_pylist()}
    return {Path(root, name).resolve() for each in sources if each for name in (each, each.rpartition("#")[0] or each)}


class _Report:
    """A page in the making; ``blocks`` are the data of its live views."""

    def __init__(self, lab: Any, table: pa.Table, title: str | None, max_calls: int, *, bodies: bool) -> None:
        self.lab, self.table, self.bodies, self.max_calls = lab, table, bodies, max_calls
        self.heading = shown(title or _heading(lab, table))
        self.sessions = bool(len(getattr(lab, "sessions", ())))
        self.flights = bool(len(getattr(lab, "flight_health", ())))
        self.has_calls = bool(len(table)) or not (self.sessions or self.flights)
        self.blocks: list[str] = []

    def page(self, compare: Compared | None, charts: Sequence[Drawing | View]) -> str:
        sections = [each for each in self._sections(compare, charts) if each.content]
        style = STYLE + PAGE_STYLE
        said = " of the calls" if self.sessions else ""
        bodies_or_not = f"Prompts, outputs and error messages{said} are included." if self.bodies else _NO_BODIES
        marked = ' data-cassette-bodies="yes"' if self.bodies else ""
        return (
            f'<!doctype html><html lang="en"{marked}><head><meta charset="utf-8">'
            f'<meta http-equiv="Content-Security-Policy" content="{policy(style)}">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            '<meta name="color-scheme" content="light dark"><meta name="generator" content="cassette_lab">'
            f"<title>{escape(self.heading)}</title><style>{style}</style></head><body>"
            f"<header><h1>{escape(self.heading)}</h1>{lead(self.lab, self.table, bodies=self.bodies)}"
            f"{contents(sections)}</header><main>{''.join(each.html() for each in sections)}</main>"
            f"<footer><p>Written by cassette_lab. {bodies_or_not} Nothing is loaded from elsewhere.</p></footer>"
            f"{''.join(self.blocks)}{script()}</body></html>\n"
        )

    def _sections(self, compare: Compared | None, charts: Sequence[Drawing | View]) -> Iterator[Section]:
        lab, table = self.lab, self.table
        problems: pa.Table | None = getattr(lab, "problems", None)
        if self.has_calls:
            yield Section("summary", "Summary", "".join(summary(table, getattr(lab, "cassettes", None), problems)))
        if problems is not None and len(problems):
            yield Section("problems", "Problems", "".join(problem_rows(problems)))
        if any(len(each) for each in tables_of(lab).values()):
            yield Section("explorer", "Explorer", self._live("explorer", "explorer", lab), "live")
        if len(table):
            yield Section("timeline", "When the calls ran", _figure(timeline_drawing(table)), "still")
            yield Section("stop-reasons", "How they ended", _endings(table), "still")
            yield Section("topology", "Who called whom", _figure(topology_drawing(table)), "still")
        if compare is not None:
            yield from self._comparison(compare)
        if self.sessions:
            yield from _session_sections(lab)
        if self.flights:
            yield Section("flights", "Model requests", "".join(flights_html(lab)))
        yield Section("statistics", "Statistics", "".join(map(_figure, statistics_of(lab))))
        for number, drawing in enumerate(charts, 1):
            yield Section(f"chart-{number}", drawing.title, _figure(drawing))
        if self.has_calls:
            yield Section("calls", "Calls", "".join(calls_table(table, self.max_calls, bodies=self.bodies)))

    def _comparison(self, compare: Compared) -> Iterator[Section]:
        earlier = compare if is_diff(compare) else data_of(compare, bodies=self.bodies)
        view, changes = compared(earlier, self.lab, bodies=self.bodies)
        if view is not None:
            content = self._live("diff", "diff", view.lab, in_place_of=_figure(view))
            yield Section("comparison", "Compared with another run", content)
        sides = "" if is_diff(earlier) else note(_sides_named(calls_of(earlier), self.table))
        yield Section("changes", "How sure the changes are", sides + "".join(map(_figure, changes)) if changes else "")

    def _live(self, name: str, kind: str, data: Any, *, in_place_of: str = "") -> str:
        options = {"title": self.heading, "height": EXPLORER_HEIGHT} if kind == "explorer" else {}
        made = live(f"clab-{name}", kind, data, options, bodies=self.bodies)
        self.blocks.append(made.blocks)
        still = f'<div class="still">{in_place_of}</div>' if in_place_of else ""
        return f'<div class="live">{made.element}</div>{still}'


def _sides_named(before: pa.Table, after: pa.Table) -> str:
    names = []
    for table in (before, after):
        files = [source_text(each) for each in sources_of(table)]
        names.append(and_more(files[:3], len(files)) if any(files) else "a table of calls")
    return f"Before: {names[0]}. After: {names[1]}."


def _heading(lab: Any, table: pa.Table) -> str:
    """The name of the only file, or what there is."""
    given = [table, *(getattr(lab, name, None) for name in ("sessions", "flight_health"))]
    files = [source for each in given if each is not None for source in sources_of(each)]
    what = ("Recorded agent calls", "Agent sessions", "Model requests")
    kind = next((words for words, each in zip(what, given, strict=True) if each is not None and len(each)), what[0])
    return (source_text(files[0]) if len(files) == 1 else "") or kind


def _session_sections(lab: Lab) -> Iterator[Section]:
    for name, heading, content in session_report.sections(lab):
        shows: Shows = "still" if name == "waterfall" else "always"
        yield Section(name, heading, content if isinstance(content, str) else "".join(map(_figure, content)), shows)


def _endings(table: pa.Table) -> str:
    """Outcomes of all calls, and by label where labels come more than once."""
    by_label = _figure(stop_reasons_drawing(table, by="label")) if len(table["label"].unique()) < len(table) else ""
    return _figure(stop_reasons_drawing(table)) + by_label


def _figure(drawing: Drawing | View) -> str:
    return drawing.html(still=False, style=False)
