"""Where the time of a run went, call by call: an agent's turns, its model's answers, tools, and subagents below their calls.

Waits between turns are cut out of the axis, and each cut says how long it was: a night between two messages would leave
nothing to see of either. Too many calls for a row each are drawn as one row per session.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Final

from cassette_lab.views.bars import Bar, Segment, bars_chart, bars_text
from cassette_lab.views.drawing import Cells, Drawing
from cassette_lab.views.layout import PLOT_WIDTH, Label, empty, time_axis, time_unit
from cassette_lab.views.rows import shown
from cassette_lab.views.session_rows import Call, Shown, Try, chosen_root, family, names_in, session_name
from cassette_lab.views.theme import CATEGORIES, QUICKER, TIMES, Category
from cassette_lab.words import duration_text, plural

if TYPE_CHECKING:
    import altair as alt

    from cassette_lab.tables import Lab

MAX_CALL_ROWS: Final = 80
_NUMERIC: Final = frozenset({"begins", "duration"})
_CUT_SHARE: Final = 0.04
"""A wait is cut out where it is longer than this share of the time in turns, and than a second."""
_CUT_MS: Final = 1_000.0
_SHOWN_WAITS: Final = 6
_MOST_PIECES: Final = 3_000
_FEWEST_SLOTS: Final = 50
"""Of a row that joins calls: enough to see something, few enough that the picture stays small."""
_NOTHING: Final = "There is no session log in this lab."
_NO_TIMES: Final = "This log has no times."

_GREEN: Final = CATEGORIES["completed"].colour
_KINDS: Final = {
    "turn": Category("turn", "#9aa4ae", "─", ""),
    "model": Category("model", QUICKER, "█", ""),
    "compaction": Category("compaction", QUICKER, "█", ""),
    "tool": Category("tool", _GREEN, "▓", ""),
    "subagent": Category("subagent", _GREEN, "▢", "", fill="hollow"),
}
_FAILED: Final = CATEGORIES["error"]
_OUTCOMES: Final = {"max-tokens": CATEGORIES["max-tokens"], "aborted": CATEGORIES["aborted"], "error": _FAILED}
_SUBAGENT: Final = {
    "max-tokens": Category("subagent", CATEGORIES["max-tokens"].colour, "▢", "limit", fill="hollow", end="cap"),
    "aborted": CATEGORIES["aborted"],
    "error": Category("subagent", _FAILED.colour, "▢", None, fill="hollow", end="cross"),
}


def waterfall_drawing(
    data: Lab | str | PathLike[str] | Sequence[str | PathLike[str]],
    session_id: str | None = None,
    *,
    max_rows: int = MAX_CALL_ROWS,
) -> Drawing:
    """Where the time of a session and of its subagents went: a row for each model call with its retries, tool and subagent.

    ``data``: a lab with session logs, or paths to load. ``session_id`` (or ``FOLDER#ID``, where several have it) is the
    session on top; without it that is the one whose family was longest in turns. With more than ``max_rows`` calls each
    session has one row. Nothing that was said is in the picture. Raises ``ConfigError`` for a session that is not there.
    """
    lab = _lab(data)
    root, others = chosen_root(lab, session_id)
    if root is None:
        title = "Waterfall"
        return Drawing(title, (_NOTHING,), Cells(("session",), []), lambda: empty(title, _NOTHING), lambda _: [_NOTHING])
    sessions = family(lab, root)
    title = " · ".join(
        [
            "Waterfall",
            shown(names_in(lab)[sessions[0].source, sessions[0].session_id]),
            *([plural(len(sessions) - 1, "subagent")] if len(sessions) > 1 else []),
        ]
    )
    axis = _Axis(sessions)
    notes = _notes(sessions, axis, others)
    if axis.length <= 0:
        return Drawing(title, (_NO_TIMES,), Cells(("session",), []), lambda: empty(title, _NO_TIMES), lambda _: [_NO_TIMES])
    rows = sum(len(each.calls) for each in sessions) + len(sessions)
    detailed = rows <= max_rows
    bars = _bars(sessions, axis) if detailed else _joined_bars(sessions[:max_rows], axis)
    if not detailed:
        left = f", {plural(len(sessions) - max_rows, 'session')} left out" if len(sessions) > max_rows else ""
        calls = plural(rows - len(sessions), "call")
        notes.insert(1, f"{calls}: a row for each session{left}; cl.waterfall(lab, id) shows one alone")
    unit = time_unit(axis.length)

    def build() -> alt.TopLevelMixin:
        what = "time since the first turn, waits cut out" if axis.cuts else "time since the first turn"
        return bars_chart(bars, axis.length, unit.ms, time_axis(what, unit), title, notes, axis.cuts)

    cells = _cells(sessions) if detailed else _joined_cells(sessions[:max_rows])
    return Drawing(title, tuple(notes), cells, build, lambda columns: bars_text(bars, axis.length, columns))


def _lab(data: Any) -> Lab:
    if hasattr(data, "sessions"):
        lab: Lab = data
        return lab
    from cassette_lab.tables import load

    return load(*([data] if isinstance(data, (str, PathLike)) else data))


class _Axis:
    """The time that is shown: ``waits`` of everybody are cut out; ``cuts`` are their places and words, where they have room."""

    def __init__(self, sessions: Sequence[Shown]) -> None:
        spans = sorted((tried.start, tried.end) for each in sessions for tried in _tries(each))
        busy = _joined(spans)
        active = sum(end - start for start, end in busy)
        self._pieces: list[tuple[float, float, float]] = []
        self.cuts: list[tuple[float, str]] = []
        self.waits: list[float] = []
        at = 0.0
        for number, (start, end) in enumerate(busy):
            wait = start - busy[number - 1][1] if number else 0.0
            if wait > max(_CUT_MS, _CUT_SHARE * active):
                self.waits.append(wait)
                self.cuts.append((at, f"{duration_text(wait)} idle"))
            else:
                at += wait
            self._pieces.append((start, end, at))
            at += end - start
        self._starts = [start for start, _, _ in self._pieces]
        self.length = at
        self.cuts = _apart(self.cuts, at)

    def place(self, time: float) -> float:
        """Where a time stands on the axis."""
        number = bisect_right(self._starts, time) - 1
        if number < 0:
            return 0.0
        start, end, at = self._pieces[number]
        return at + min(time, end) - start


def _joined(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    joined: list[tuple[float, float]] = []
    for start, end in spans:
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined


def _apart(cuts: list[tuple[float, str]], length: float) -> list[tuple[float, str]]:
    """Words only where they have room: of cuts that are close together the first has them."""
    told: list[tuple[float, str]] = []
    last = -length
    for at, text in cuts:
        has_room = (at - last) * PLOT_WIDTH > 70 * length
        told.append((at, text if has_room else ""))
        last = at if has_room else last
    return told


def _bars(sessions: Sequence[Shown], axis: _Axis) -> list[Bar]:
    """A row for each session and call; a subagent stands below the call that started it, else below its parent's calls."""
    by_row = {each.row: each for each in sessions}
    called = {call.child for each in sessions for call in each.calls if call.child in by_row}
    below: dict[int, list[Shown]] = {}
    stack: list[Shown] = []
    for each in sessions:
        del stack[each.depth :]
        if stack and each.row not in called:
            below.setdefault(stack[-1].row, []).append(each)
        stack.append(each)
    bars: list[Bar] = []

    def add(session: Shown, depth: int, parent: int | None) -> None:
        place = len(bars)
        bars.append(_session_bar(session, Label(session_name(session.session_id), depth, parent, heading=True), axis))
        for call in session.calls:
            bars.append(_call_bar(call, Label(call.name, depth + 1, place), axis))
            child = by_row.get(call.child) if call.child is not None else None
            if child is not None and child.depth > session.depth:
                waiting.append((child, depth + 2, len(bars) - 1))
                drain()
        for child in below.get(session.row, ()):
            waiting.append((child, depth + 1, place))
            drain()

    waiting: list[tuple[Shown, int, int | None]] = []

    def drain() -> None:
        while waiting:
            add(*waiting.pop())

    add(sessions[0], 0, None)
    return bars


def _session_bar(session: Shown, label: Label, axis: _Axis) -> Bar:
    segments = [_segment(turn, turn.start, _KINDS["turn"], axis, f"{label.text} · {turn.about}") for turn in session.turns]
    stops = tuple((axis.place(turn.end), _OUTCOMES[turn.outcome]) for turn in session.turns if turn.outcome in _OUTCOMES)
    words = [turn.word for turn in session.turns if turn.word]
    note = " · ".join([duration_text(_active(session)), *dict.fromkeys(words)])
    return Bar(label, tuple(segments), note=note if session.turns else "no turn", stops=stops)


def _call_bar(call: Call, label: Label, axis: _Axis) -> Bar:
    segments: list[Segment] = []
    for tried in call.tries:
        look = _look(call, tried)
        if call.kind == "model" and tried.first > tried.start:
            segments.append(_segment(tried, tried.start, look, axis, f"{label.text} · waiting", until=tried.first, pale=True))
        segments.append(_segment(tried, tried.first if call.kind == "model" else tried.start, look, axis, label.text))
    *before, last = call.tries
    look = _look(call, last)
    stops = tuple((axis.place(tried.end), _look(call, tried)) for tried in before)
    gaps = tuple((axis.place(one.end), axis.place(two.start)) for one, two in zip(call.tries, call.tries[1:], strict=False))
    failed: dict[str, int] = {}
    for tried in before:
        failed[tried.word] = failed.get(tried.word, 0) + 1
    retried = "after " + ", ".join(f"{count} {TIMES} {word}" for word, count in failed.items()) if failed else ""
    note = " · ".join(part for part in (duration_text(last.end - call.start), last.word, retried) if part)
    return Bar(label, tuple(segments), note=note, ended=look if look.end != "plain" else None, stops=stops, gaps=gaps)


def _segment(
    tried: Try, start: float, look: Category, axis: _Axis, about: str, *, until: float | None = None, pale: bool = False
) -> Segment:
    end = tried.end if until is None else until
    words = (about, tried.about, duration_text(end - start), tried.word)
    return Segment(axis.place(start), axis.place(end), look, " · ".join(word for word in words if word), pale=pale)


def _look(call: Call, tried: Try) -> Category:
    looks = _SUBAGENT if call.kind == "subagent" else _OUTCOMES
    return looks.get(tried.outcome, _KINDS[call.kind])


def _joined_bars(sessions: Sequence[Shown], axis: _Axis) -> list[Bar]:
    """A row for each session: what it did in each slot of the axis, failures before all else."""
    bars: list[Bar] = []
    place_of: dict[int, int] = {}
    slots = max(_FEWEST_SLOTS, min(PLOT_WIDTH, _MOST_PIECES // len(sessions)))
    for number, session in enumerate(sessions):
        painted: list[Category | None] = [None] * slots
        for turn in session.turns:
            _paint(painted, axis, turn.start, turn.end, _KINDS["turn"])
        for kinds in (("subagent",), ("tool",), ("model", "compaction")):
            for call in (each for each in session.calls if each.kind in kinds):
                for tried in call.tries:
                    _paint(painted, axis, tried.start, tried.end, _look(call, tried))
        for call in session.calls:
            for tried in (each for each in call.tries if each.outcome == "error"):
                _paint(painted, axis, tried.end, tried.end, _FAILED)
        place_of[session.depth] = number
        label = Label(session_name(session.session_id), session.depth, place_of.get(session.depth - 1))
        errors = _errors(session)
        words = [duration_text(_active(session)), plural(len(session.calls), "call")]
        note = " · ".join([*words, *([plural(errors, "error")] if errors else [])])
        bars.append(Bar(label, tuple(_runs(painted, axis, label.text)), note=note))
    return bars


def _paint(painted: list[Category | None], axis: _Axis, start: float, end: float, look: Category) -> None:
    slots = len(painted)
    first = min(slots - 1, int(axis.place(start) / axis.length * slots))
    last = min(slots, max(first + 1, round(axis.place(end) / axis.length * slots)))
    painted[first:last] = [look] * (last - first)


def _runs(painted: Sequence[Category | None], axis: _Axis, about: str) -> list[Segment]:
    runs: list[Segment] = []
    slot, first = axis.length / len(painted), 0
    for place in range(1, len(painted) + 1):
        look = painted[first]
        if place < len(painted) and painted[place] is look:
            continue
        if look is not None:
            runs.append(Segment(first * slot, place * slot, look, f"{about} · {look.name}"))
        first = place
    return runs


def _joined_cells(sessions: Sequence[Shown]) -> Cells:
    headers = ("session", "calls", "errors", "begins", "in turns")
    rows = [
        (
            "· " * session.depth + session_name(session.session_id),
            f"{len(session.calls):,}",
            f"{_errors(session):,}",
            duration_text(min((tried.start for tried in _tries(session)), default=None)),
            duration_text(_active(session)),
        )
        for session in sessions
    ]
    return Cells(headers, rows, frozenset(headers[1:]))


def _tries(session: Shown) -> list[Try]:
    return [*session.turns, *(tried for call in session.calls for tried in call.tries)]


def _errors(session: Shown) -> int:
    return sum(tried.outcome == "error" for call in session.calls for tried in call.tries)


def _active(session: Shown) -> float:
    return sum(turn.end - turn.start for turn in session.turns)


def _notes(sessions: Sequence[Shown], axis: _Axis, others: int) -> list[str]:
    """What the marks mean, as far as they occur, and what is not in the picture."""
    tries = [(call.kind, tried.outcome) for each in sessions for call in each.calls for tried in call.tries]
    kinds = {kind for kind, _ in tries}
    outcomes = {outcome for _, outcome in tries} | {turn.outcome for each in sessions for turn in each.turns}
    meanings = (
        (any(each.turns for each in sessions), "grey: turns"),
        ("model" in kinds, "blue: model, pale until its first chunk"),
        ("tool" in kinds, "green: tool"),
        ("subagent" in kinds, "outline: a call that started a subagent"),
        (any(len(call.tries) > 1 for each in sessions for call in each.calls), "dots: wait before the next attempt"),
        ("error" in outcomes, "cross: failed"),
        ("max-tokens" in outcomes, "flat cap: limit of tokens"),
        ("aborted" in outcomes, "hatched: aborted"),
    )
    notes = [" · ".join(text for there, text in meanings if there)]
    unplaced = sum(each.unplaced for each in sessions)
    if unplaced:
        notes.append(f"{plural(unplaced, 'call')} without a known time left out")
    if axis.waits:
        more = f" and {len(axis.waits) - _SHOWN_WAITS:,} more" if len(axis.waits) > _SHOWN_WAITS else ""
        waits = ", ".join(duration_text(wait) for wait in axis.waits[:_SHOWN_WAITS])
        notes.append(f"dotted line: the sessions waited for a message, {waits}{more}, which is cut out")
    if others:
        notes.append(f"the longest of {others + 1:,} runs; cl.waterfall(lab, id) shows another one")
    return [note for note in notes if note]


def _cells(sessions: Sequence[Shown]) -> Cells:
    rows = []
    for session in sessions:
        name = "· " * session.depth + session_name(session.session_id)
        rows += [(name, *_cells_of(call)) for call in session.calls]
    return Cells(("session", "call", "begins", "duration", "how it ended"), rows, _NUMERIC)


def _cells_of(call: Call) -> tuple[str, ...]:
    ends = ", then ".join(tried.word or tried.outcome for tried in call.tries)
    return call.name, duration_text(call.start), duration_text(call.end - call.start), ends
