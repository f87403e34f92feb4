"""The first things that a report says: how much there is, how it went, how far each file can be trusted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import escape
from typing import TYPE_CHECKING, Any, Final

from cassette_lab.views import session_report
from cassette_lab.views.page import badge, count_text, date_text, facts_list, html_table, mark, note
from cassette_lab.views.rows import category_numbers, shown, source_text
from cassette_lab.views.theme import CATEGORIES, percent_text
from cassette_lab.words import duration_text, plural

if TYPE_CHECKING:
    import pyarrow as pa

FILE_ROWS: Final = 200
VERIFIED: Final = "✓ chain verified"
_STRIP: Final = 1000
_NO_BODIES: Final = "metadata only: no prompt, no output, no error message"


def lead(lab: Any, table: pa.Table, *, bodies: bool) -> str:
    """How much there is, how far it can be trusted, and whether it tells what was said."""
    sessions, cassettes, problems = (getattr(lab, name, None) for name in ("sessions", "cassettes", "problems"))
    with_sessions = sessions is not None and bool(len(sessions))
    flights = getattr(lab, "flights", ())
    failed = int((category_numbers(table) > 0).sum())
    counts = [plural(len(table), "call"), f"{failed:,} did not complete" if failed else "all completed" if len(table) else ""]
    with_others = with_sessions or bool(len(flights))
    counts = [*([] if with_others and not len(table) else counts), *(session_report.counts(lab) if with_sessions else ())]
    counts += [plural(len(flights), "flight record")] if len(flights) else []
    lines = [f'<p class="lead">{" · ".join(count for count in counts if count)}</p>']
    unread = len(problems) if problems is not None else 0
    badges = []
    if unread:
        words = f"{plural(unread, 'problem')}: what could not be verified is not in this report"
        badges.append(badge(f"✕ {words}", "broken"))
    elif problems is not None and cassettes is not None and (len(cassettes) or not with_others):
        which = "cassette" if with_others else "file"
        badges.append(badge(f"✓ every {which} verified: schema, order, hash chain", "verified"))
    if with_sessions:
        partial = bool(len(getattr(lab, "notes", ())))
        badges.append(badge(("" if partial else "✓ ") + session_report.trust(lab), "partial" if partial else "verified"))
    badges.append(badge("with bodies: what was said is inside" if bodies else _NO_BODIES, "partial" if bodies else "plain"))
    return "".join([*lines, f'<ul class="badges">{"".join(badges)}</ul>'])


def summary(table: pa.Table, cassettes: pa.Table | None, problems: pa.Table | None) -> Iterator[str]:
    """Figures of all calls, how they ended, and the files."""
    yield facts_list(list(_figures(table, problems)))
    yield _strip(table)
    if cassettes is not None and len(cassettes):
        yield from _files(cassettes)


def problem_rows(problems: pa.Table) -> Iterator[str]:
    """What was not loaded, and why."""
    columns = ["source", "line", "code", "message"]
    rows = [
        [source_text(row["source"]), count_text(row["line"]), shown(row["code"]), shown(row["message"])]
        for row in problems.select(columns).slice(0, FILE_ROWS).to_pylist()
    ]
    yield html_table(["file", "line", "code", "what is wrong"], rows, numeric={1}, wrap={3}, csv="problems")
    if len(problems) > FILE_ROWS:
        yield note(f"the first {FILE_ROWS} of {plural(len(problems), 'problem')}")


def _figures(table: pa.Table, problems: pa.Table | None) -> Iterator[tuple[str, str]]:
    import numpy as np

    yield "calls", f"{len(table):,}"
    completed = int((category_numbers(table) == 0).sum())
    yield "completed", percent_text(completed, len(table))
    if len(table):
        took = np.asarray(table["duration_ms"].drop_null().to_numpy(), dtype=float)
        took = took[~np.isnan(took)]
        yield "median call", duration_text(float(np.median(took)) if len(took) else None)
        yield "longest call", duration_text(float(took.max()) if len(took) else None)
    if problems is not None and len(problems):
        yield "files not loaded", f"{len(problems):,}"


def _strip(table: pa.Table) -> str:
    """One bar of all calls, a part for each category of outcome, and its legend."""
    if not len(table):
        return ""
    import numpy as np

    counts = np.bincount(category_numbers(table), minlength=len(CATEGORIES)).tolist()
    parts, legend, at = [], [], 0.0
    for category, count in zip(CATEGORIES.values(), counts, strict=True):
        if count:
            width = _STRIP * count / len(table)
            title = f"<title>{escape(category.name)}: {count:,}</title>"
            parts.append(f'<rect class="of-{category.name}" x="{at:.2f}" width="{width:.2f}" height="10">{title}</rect>')
            share = percent_text(count, len(table))
            legend.append(f"<li>{mark(category)} {escape(category.name)} <b>{count:,}</b> {share}</li>")
            at += width
    picture = f'<svg viewBox="0 0 {_STRIP} 10" preserveAspectRatio="none" aria-hidden="true">{"".join(parts)}</svg>'
    return f'<div class="outcomes">{picture}<ul>{"".join(legend)}</ul></div>'


def _files(cassettes: pa.Table) -> Iterator[str]:
    heads = {
        "source": "file", "created_at": "created", "interactions": "calls", "completed": "completed", "failed": "failed",
        "aborted": "aborted", "request_storage": "requests kept as", "duration_ms": "longest call", "bytes": "bytes",
    }  # fmt: skip
    there = [name for name in heads if name in cassettes.column_names]
    texts: dict[str, Callable[[Any], str]] = {
        "source": source_text,
        "duration_ms": duration_text,
        "created_at": date_text,
        "request_storage": shown,
    }
    rows = [
        [*(texts.get(name, count_text)(row[name]) for name in there), VERIFIED]
        for row in cassettes.select(there).slice(0, FILE_ROWS).to_pylist()
    ]
    numeric = [place for place, name in enumerate(there) if name not in ("source", "created_at", "request_storage")]
    yield html_table([*(heads[name] for name in there), "trust"], rows, numeric=numeric, csv="cassettes")
    if len(cassettes) > FILE_ROWS:
        yield note(f"the first {FILE_ROWS} of {plural(len(cassettes), 'file')}")
