"""One HTML file about recorded calls: it opens anywhere, loads nothing, runs nothing, and holds metadata only."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from html import escape
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cassette_lab.errors import ConfigError
from cassette_lab.views.drawing import Drawing
from cassette_lab.views.outcomes import stop_reasons
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
from cassette_lab.views.timelines import timeline
from cassette_lab.views.topologies import topology
from cassette_lab.words import UNKNOWN, duration_text, plural

if TYPE_CHECKING:
    import pyarrow as pa

CALL_ROWS: Final = 400
PROBLEM_ROWS: Final = 200
BODY_CHARACTERS: Final = 20_000
_BODIES: Final = ("prompt", "output", "structured", "error_message")


def report(
    data: Calls,
    path: str | PathLike[str],
    *,
    title: str | None = None,
    charts: Sequence[Drawing] = (),
    max_calls: int = CALL_ROWS,
    bodies: bool = False,
) -> Path:
    """Write a report of ``data`` (a lab, a ``calls`` table or paths) to ``path`` (and make its folders); returns the path.

    Summary, problems, timeline, stop reasons, topology, then ``charts`` (timing deltas, say) and a table of at most
    ``max_calls`` calls. Nothing a call said is in it unless ``bodies`` is set, which needs a lab loaded with
    ``bodies=True``. The same data give the same file, byte for byte. Raises ``ConfigError`` where bodies are missing.
    """
    lab = loaded(data)
    table = calls_of(lab)
    if bodies and not set(_BODIES) <= set(table.column_names):
        raise ConfigError("a report with bodies needs a lab that has them: load(..., bodies=True)")
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(_page(lab, table, title, charts, max_calls, bodies=bodies), encoding="utf-8")
    return target


def _page(lab: Any, table: pa.Table, title: str | None, charts: Sequence[Drawing], max_calls: int, *, bodies: bool) -> str:
    problems: pa.Table | None = getattr(lab, "problems", None)
    cassettes: pa.Table | None = getattr(lab, "cassettes", None)
    files = [source_text(source) for source in sources_of(table)]
    heading = title or (files[0] if len(files) == 1 and files[0] else "Recorded agent calls")
    sections = [
        ("summary", "Summary", "".join(_summary(table, cassettes, problems))),
        ("problems", "Problems", "".join(_problems(problems)) if problems is not None and len(problems) else ""),
        ("timeline", "When the calls ran", _figure(timeline(table))),
        (
            "stop-reasons",
            "How they ended",
            _endings(table),
        ),
        ("topology", "Who called whom", _figure(topology(table))),
        *((f"chart-{number}", drawing.title, _figure(drawing)) for number, drawing in enumerate(charts, 1)),
        ("calls", "Calls", "".join(_calls(table, max_calls, bodies=bodies))),
    ]
    sections = [section for section in sections if section[2]]
    contents = "".join(f'<li><a href="#{name}">{escape(text)}</a></li>' for name, text, _ in sections)
    body = "".join(
        f'<section id="{name}" aria-labelledby="{name}-title"><h2 id="{name}-title">{escape(text)}</h2>{content}</section>'
        for name, text, content in sections
    )
    bodies_or_not = (
        "Prompts, outputs and error messages are included." if bodies else "No prompt, output or error message is included."
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">"
        f'<meta name="generator" content="cassette_lab"><title>{escape(shown(heading))}</title>'
        f"<style>{STYLE}{_PAGE_STYLE}</style></head><body><header><h1>{escape(shown(heading))}</h1>{_lead(table, problems)}"
        f'<nav aria-label="contents"><ul>{contents}</ul></nav></header><main>{body}</main>'
        f"<footer><p>Written by cassette_lab. {bodies_or_not} Nothing is loaded from elsewhere.</p></footer></body></html>\n"
    )


def _endings(table: pa.Table) -> str:
    """Outcomes of all calls, and by label where labels come more than once."""
    by_label = _figure(stop_reasons(table, by="label")) if len(table["label"].unique()) < len(table) else ""
    return _figure(stop_reasons(table)) + by_label


def _figure(drawing: Drawing) -> str:
    return drawing.html(still=False, style=False)


def _lead(table: pa.Table, problems: pa.Table | None) -> str:
    failed = int((category_numbers(table) > 0).sum())
    counts = [plural(len(table), "call"), f"{failed:,} did not complete" if failed else "all completed" if len(table) else ""]
    unread = len(problems) if problems is not None else 0
    trust = (
        f'<p class="trust broken">✕ {plural(unread, "problem")}: what could not be verified is not in this report</p>'
        if unread
        else '<p class="trust">✓ every file verified: schema, order, hash chain</p>'
        if problems is not None
        else ""
    )
    return f'<p class="lead">{" · ".join(count for count in counts if count)}</p>{trust}'


def _summary(table: pa.Table, cassettes: pa.Table | None, problems: pa.Table | None) -> Iterator[str]:
    if cassettes is None or not len(cassettes):
        longest = (
            max([0.0, *(value for value in table["duration_ms"].to_pylist() if value is not None)]) if len(table) else None
        )
        yield _facts(
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
        "created_at": _date,
        "request_storage": shown,
    }
    rows = [
        [texts.get(name, _count)(row[name]) for name in there]
        for row in cassettes.select(there).slice(0, PROBLEM_ROWS).to_pylist()
    ]
    yield _table([head.get(name, name) for name in there], rows, numeric={2, 3, 4, 5, 7, 8})
    if len(cassettes) > PROBLEM_ROWS:
        yield _note(f"the first {PROBLEM_ROWS} of {plural(len(cassettes), 'file')}")


def _problems(problems: pa.Table) -> Iterator[str]:
    columns = ["source", "line", "code", "message"]
    rows = [
        [source_text(row["source"]), _count(row["line"]), shown(row["code"]), shown(row["message"])]
        for row in problems.select(columns).slice(0, PROBLEM_ROWS).to_pylist()
    ]
    yield _table(["file", "line", "code", "what is wrong"], rows, numeric={1}, wrap={3})
    if len(problems) > PROBLEM_ROWS:
        yield _note(f"the first {PROBLEM_ROWS} of {plural(len(problems), 'problem')}")


def _calls(table: pa.Table, limit: int, *, bodies: bool) -> Iterator[str]:
    if not len(table):
        yield _note("this recording has no calls")
        return
    several = len(sources_of(table)) > 1
    chosen = table
    if len(table) > limit:
        chosen = _telling(table, limit)
        yield _note(
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
    yield _table(
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


def _table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    numeric: Collection[int] = (),
    wrap: Collection[int] = (),
    code: Collection[int] = (),
    marks: dict[int, list[str]] | None = None,
) -> str:
    looks = (("n", numeric), ("wrap", wrap), ("code", code))
    kinds = [" ".join(name for name, places in looks if place in places) for place in range(len(head))]
    classes = [f' class="{kind}"' if kind else "" for kind in kinds]
    headers = "".join(f'<th scope="col"{kind}>{escape(text)}</th>' for text, kind in zip(head, classes, strict=True))
    body = []
    for number, row in enumerate(rows):
        cells = [
            f"<td{kind}>{marks[place][number] if marks and place in marks else ''}<bdi>{escape(text)}</bdi></td>"
            for place, (text, kind) in enumerate(zip(row, classes, strict=True))
        ]
        body.append(f"<tr>{''.join(cells)}</tr>")
    content = f"<table><thead><tr>{headers}</tr></thead><tbody>{''.join(body)}</tbody></table>"
    return f'<div class="clab table" tabindex="0">{content}</div>'


def _facts(facts: Sequence[tuple[str, str]]) -> str:
    return (
        f"<dl class=facts>{''.join(f'<div><dt>{escape(name)}</dt><dd>{escape(text)}</dd></div>' for name, text in facts)}</dl>"
    )


def _note(text: str) -> str:
    return f'<p class="note">{escape(text)}</p>'


def _count(value: Any) -> str:
    return UNKNOWN if value is None else f"{value:,}" if isinstance(value, (int, float)) else shown(value)


def _date(value: Any) -> str:
    return UNKNOWN if value is None else f"{value:%Y-%m-%d %H:%M} UTC"


_PAGE_STYLE: Final = """
:root { color-scheme: light dark; --clab-page-ink: #1b1f24; --clab-page-muted: #59636e; --clab-page-grid: #d8dee4;
  --clab-page-paper: #fff; --broken: #b34700 }
@media (prefers-color-scheme: dark) {
  :root { --clab-page-ink: #e6edf3; --clab-page-muted: #9da7b1; --clab-page-grid: #343b43; --clab-page-paper: #15191e;
    --broken: #ff9d5c }
}
html { background: var(--clab-page-paper); color: var(--clab-page-ink); font-variant-numeric: tabular-nums;
  font: 15px/1.55 system-ui, -apple-system, "Segoe UI", sans-serif }
body { max-width: 1040px; margin: 0 auto; padding: 32px 24px 64px }
h1 { font-size: 26px; line-height: 1.25; margin: 0 0 4px; overflow-wrap: anywhere }
h2 { font-size: 18px; margin: 44px 0 12px; padding-top: 10px; border-top: 1px solid var(--clab-page-grid) }
h3 { font-size: 15px }
.lead { margin: 0; color: var(--clab-page-muted) }
.trust { margin: 2px 0 0 }
.broken { color: var(--broken) }
.note, footer { color: var(--clab-page-muted); font-size: 13px }
nav ul { list-style: none; display: flex; flex-wrap: wrap; gap: 4px 18px; padding: 0; margin: 14px 0 0 }
nav a { color: inherit }
figure.clab { margin: 0 0 20px }
.clab.table, figure.clab details { overflow-x: auto }
.clab table { font-size: 13px }
.clab th { font-weight: 600 }
.clab td.wrap { white-space: normal; overflow-wrap: anywhere; min-width: 14em }
.clab td.code { white-space: normal; overflow-wrap: anywhere; min-width: 18em }
.clab td.code bdi { font: 12px ui-monospace, Menlo, Consolas, monospace; color: var(--clab-page-muted) }
.mark { display: inline-block; width: 1.5em; color: var(--mark); font-weight: 700 }
.facts { display: flex; gap: 28px; margin: 0 }
.facts dt { color: var(--clab-page-muted); font-size: 13px }
.facts dd { margin: 0; font-size: 20px }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: 12px; margin: 4px 0 }
summary { cursor: pointer }
footer { margin-top: 48px; border-top: 1px solid var(--clab-page-grid) }
@media print { body { max-width: none; padding: 0 } nav { display: none } }
"""
