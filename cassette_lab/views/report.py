"""One HTML file about recorded calls and session logs: it opens anywhere, loads and runs nothing, and holds metadata only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cassette_lab.errors import ConfigError
from cassette_lab.views import session_report
from cassette_lab.views.drawing import Drawing
from cassette_lab.views.outcomes import stop_reasons_drawing
from cassette_lab.views.page import PAGE_STYLE, count_text, date_text, facts_list, html_table, note
from cassette_lab.views.rows import (
    Calls,
    Row,
    calls_of,
    category_numbers,
    loaded,
    shown,
    source_text,
    sources_of,
    tree_rows,
)
from cassette_lab.views.theme import STYLE
from cassette_lab.views.timelines import timeline_drawing
from cassette_lab.views.topologies import topology_drawing
from cassette_lab.views.view import View
from cassette_lab.words import UNKNOWN, duration_text, plural

if TYPE_CHECKING:
    import pyarrow as pa

    from cassette_lab.tables import Lab

CALL_ROWS: Final = 400
PROBLEM_ROWS: Final = 200
BODY_CHARACTERS: Final = 20_000
_NO_BODIES: Final = "No prompt, output or error message is included."
_BODIES: Final = ("prompt", "output", "structured", "error_message")


def report(
    data: Calls,
    path: str | PathLike[str],
    *,
    title: str | None = None,
    charts: Sequence[Drawing | View] = (),
    max_calls: int = CALL_ROWS,
    bodies: bool = False,
) -> Path:
    """Write a report of ``data`` (a lab, a ``calls`` table or paths) to ``path`` (and make its folders); returns the path.

    Summary, problems, timeline, stop reasons, topology, then ``charts`` (timing deltas, say) and a table of at most
    ``max_calls`` calls; of session logs a table, what to know about them, where their time went, and waterfalls.

    Nothing a call said is in it unless ``bodies`` is set, which needs a lab loaded with ``bodies=True``; nothing that was
    said in a session ever is. The same data give the same file, byte for byte. Raises ``ConfigError`` where bodies are
    missing.
    """
    lab = loaded(data)
    table = calls_of(lab)
    if bodies and not set(_BODIES) <= set(table.column_names):
        raise ConfigError("a report with bodies needs a lab that has them: load(..., bodies=True)")
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(_page(lab, table, title, charts, max_calls, bodies=bodies), encoding="utf-8")
    return target


def _page(
    lab: Any, table: pa.Table, title: str | None, charts: Sequence[Drawing | View], max_calls: int, *, bodies: bool
) -> str:
    problems: pa.Table | None = getattr(lab, "problems", None)
    with_sessions = bool(len(getattr(lab, "sessions", ())))
    sections = [
        *([] if with_sessions and not len(table) else _summary_section(lab, table)),
        ("problems", "Problems", "".join(_problems(problems)) if problems is not None and len(problems) else ""),
        *([] if with_sessions and not len(table) else _call_charts(table)),
        *(_session_sections(lab) if with_sessions else ()),
        *((f"chart-{number}", drawing.title, _figure(drawing)) for number, drawing in enumerate(charts, 1)),
        ("calls", "Calls", "" if with_sessions and not len(table) else "".join(_calls(table, max_calls, bodies=bodies))),
    ]
    heading = title or _heading(lab, table)
    sections = [section for section in sections if section[2]]
    contents = "".join(f'<li><a href="#{name}">{escape(text)}</a></li>' for name, text, _ in sections)
    body = "".join(
        f'<section id="{name}" aria-labelledby="{name}-title"><h2 id="{name}-title">{escape(text)}</h2>{content}</section>'
        for name, text, content in sections
    )
    said = " of the calls" if with_sessions else ""
    bodies_or_not = f"Prompts, outputs and error messages{said} are included." if bodies else _NO_BODIES
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">"
        f'<meta name="generator" content="cassette_lab"><title>{escape(shown(heading))}</title>'
        f"<style>{STYLE}{PAGE_STYLE}</style></head><body><header><h1>{escape(shown(heading))}</h1>{_lead(lab, table)}"
        f'<nav aria-label="contents"><ul>{contents}</ul></nav></header><main>{body}</main>'
        f"<footer><p>Written by cassette_lab. {bodies_or_not} Nothing is loaded from elsewhere.</p></footer></body></html>\n"
    )


def _heading(lab: Any, table: pa.Table) -> str:
    """The name of the only file, or what there is."""
    sessions = getattr(lab, "sessions", None)
    what = "Recorded agent calls" if len(table) or sessions is None or not len(sessions) else "Agent sessions"
    files = [*sources_of(table), *(sources_of(sessions) if sessions is not None else ())]
    return (source_text(files[0]) if len(files) == 1 else "") or what


def _summary_section(lab: Any, table: pa.Table) -> Iterator[tuple[str, str, str]]:
    content = _summary(table, getattr(lab, "cassettes", None), getattr(lab, "problems", None))
    yield "summary", "Summary", "".join(content)


def _call_charts(table: pa.Table) -> Iterator[tuple[str, str, str]]:
    yield "timeline", "When the calls ran", _figure(timeline_drawing(table))
    yield "stop-reasons", "How they ended", _endings(table)
    yield "topology", "Who called whom", _figure(topology_drawing(table))


def _session_sections(lab: Lab) -> Iterator[tuple[str, str, str]]:
    for name, heading, content in session_report.sections(lab):
        yield name, heading, content if isinstance(content, str) else "".join(map(_figure, content))


def _endings(table: pa.Table) -> str:
    """Outcomes of all calls, and by label where labels come more than once."""
    by_label = _figure(stop_reasons_drawing(table, by="label")) if len(table["label"].unique()) < len(table) else ""
    return _figure(stop_reasons_drawing(table)) + by_label


def _figure(drawing: Drawing | View) -> str:
    return drawing.html(still=False, style=False)


def _lead(lab: Any, table: pa.Table) -> str:
    """How much there is, and how far it can be trusted."""
    sessions, cassettes, problems = (getattr(lab, name, None) for name in ("sessions", "cassettes", "problems"))
    with_sessions = sessions is not None and bool(len(sessions))
    failed = int((category_numbers(table) > 0).sum())
    counts = [plural(len(table), "call"), f"{failed:,} did not complete" if failed else "all completed" if len(table) else ""]
    counts = [*([] if with_sessions and not len(table) else counts), *(session_report.counts(lab) if with_sessions else ())]
    lines = [f'<p class="lead">{" · ".join(count for count in counts if count)}</p>']
    unread = len(problems) if problems is not None else 0
    if unread:
        words = f"{plural(unread, 'problem')}: what could not be verified is not in this report"
        lines.append(f'<p class="trust broken">✕ {words}</p>')
    elif problems is not None and cassettes is not None and (len(cassettes) or not with_sessions):
        which = "cassette" if with_sessions else "file"
        lines.append(f'<p class="trust">✓ every {which} verified: schema, order, hash chain</p>')
    if with_sessions:
        sign = "" if len(getattr(lab, "notes", ())) else "✓ "
        lines.append(f'<p class="trust">{sign}{escape(session_report.trust(lab))}</p>')
    return "".join(lines)


def _summary(table: pa.Table, cassettes: pa.Table | None, problems: pa.Table | None) -> Iterator[str]:
    if cassettes is None or not len(cassettes):
        longest = (
            max([0.0, *(value for value in table["duration_ms"].to_pylist() if value is not None)]) if len(table) else None
        )
        yield facts_list(
            [
                ("calls", f"{len(table):,}"),
                ("files not loaded", f"{len(problems or ()):,}"),
                ("longest call", duration_text(longest)),
            ]
        )
        return
    columns = [
        "source",
        "created_at",
        "interactions",
        "completed",
        "failed",
        "aborted",
        "request_storage",
        "duration_ms",
        "bytes",
    ]
    there = [name for name in columns if name in cassettes.column_names]
    head = {
        "source": "file",
        "interactions": "calls",
        "duration_ms": "longest call",
        "request_storage": "requests kept as",
        "created_at": "created",
    }
    texts: dict[str, Callable[[Any], str]] = {
        "source": source_text,
        "duration_ms": duration_text,
        "created_at": date_text,
        "request_storage": shown,
    }
    rows = [
        [texts.get(name, count_text)(row[name]) for name in there]
        for row in cassettes.select(there).slice(0, PROBLEM_ROWS).to_pylist()
    ]
    yield html_table([head.get(name, name) for name in there], rows, numeric={2, 3, 4, 5, 7, 8})
    if len(cassettes) > PROBLEM_ROWS:
        yield note(f"the first {PROBLEM_ROWS} of {plural(len(cassettes), 'file')}")


def _problems(problems: pa.Table) -> Iterator[str]:
    columns = ["source", "line", "code", "message"]
    rows = [
        [source_text(row["source"]), count_text(row["line"]), shown(row["code"]), shown(row["message"])]
        for row in problems.select(columns).slice(0, PROBLEM_ROWS).to_pylist()
    ]
    yield html_table(["file", "line", "code", "what is wrong"], rows, numeric={1}, wrap={3})
    if len(problems) > PROBLEM_ROWS:
        yield note(f"the first {PROBLEM_ROWS} of {plural(len(problems), 'problem')}")


def _calls(table: pa.Table, limit: int, *, bodies: bool) -> Iterator[str]:
    if not len(table):
        yield note("this recording has no calls")
        return
    several = len(sources_of(table)) > 1
    chosen = table
    if len(table) > limit:
        chosen = _telling(table, limit)
        yield note(
            f"{limit:,} of {len(table):,} calls: first those that did not complete, then the longest. "
            "All of them: cassette-lab load FILE -o calls.parquet"
        )
    rows = tree_rows(chosen)
    head = [*(["file"] if several else []), "call", "outcome", "start latency", "duration", "model", "call key"]
    shift = 1 if several else 0
    cells = [
        [
            *([row.source] if several else []),
            "\u2003" * min(row.depth, 8) + row.label,
            row.outcome,
            duration_text(row.latency_ms),
            duration_text(row.duration_ms),
            row.model or UNKNOWN,
            row.key,
        ]
        for row in rows
    ]
    yield html_table(
        head,
        cells,
        numeric={2 + shift, 3 + shift},
        marks={1 + shift: [_mark(row) for row in rows]},
        code={5 + shift},
        wrap={shift},
    )
    if bodies:
        yield "<h3>What the calls said</h3>"
        yield from _bodies(chosen)


def _telling(table: pa.Table, limit: int) -> pa.Table:
    """The calls a reader looks for among too many: those that did not complete, then the longest."""
    import pyarrow as pa
    import pyarrow.compute as pc

    ranked = table.append_column("failed", pa.array(category_numbers(table) > 0)).append_column(
        "row", pa.array(range(len(table)))
    )
    order = pc.sort_indices(ranked, sort_keys=[("failed", "descending"), ("duration_ms", "descending"), ("row", "ascending")])
    return table.take(order[: max(limit, 0)])


def _mark(row: Row) -> str:
    category = row.category
    return f'<span class="mark {category.fill}" style="--mark:{category.colour}" aria-hidden="true">{category.glyph}</span>'


def _bodies(table: pa.Table) -> Iterator[str]:
    columns = ["call_key", *_BODIES]
    for row in table.select(columns).to_pylist():
        parts = []
        for name in _BODIES:
            if (text := row[name]) is not None:
                cut = f"<p>… {len(text) - BODY_CHARACTERS:,} more characters</p>" if len(text) > BODY_CHARACTERS else ""
                said = escape(shown(text[:BODY_CHARACTERS]))
                parts.append(f"<dt>{name.replace('_', ' ')}</dt><dd><pre>{said}</pre>{cut}</dd>")
        if parts:
            key = escape(shown(row["call_key"]))
            yield f"<details><summary><code>{key}</code></summary><dl>{''.join(parts)}</dl></details>"
