"""What the reading verbs give back: ``verify``, ``inspect``, ``diff``, ``load``, ``rescue``, ``status``.

Each returns an object that shows itself; heavy libraries are imported when a verb needs them.
"""

from __future__ import annotations

from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Final

from cassette_lab.cassette.model import Header
from cassette_lab.host.active import ActiveCassette
from cassette_lab.jsonio import JsonObject
from cassette_lab.jsonio.text import show
from cassette_lab.notebook.display import GREEN, RED, Bundle, Facts, QuietLine, short_path, table
from cassette_lab.notebook.lines import live_line
from cassette_lab.notebook.options import Command, UsageError
from cassette_lab.views.theme import category_of
from cassette_lab.words import duration_text, plural

if TYPE_CHECKING:
    from cassette_lab.cassette.diff import CassetteDiff
    from cassette_lab.host.harness.recording import HarnessTape
    from cassette_lab.tables import Lab

SHOWN_CALLS: Final = 500
"""``inspect --show-calls`` shows at most this many; its document holds all."""


def verify(command: Command) -> Facts:
    """The summary of a file that has passed every check; raises ``FormatError`` for one that has not.

    Of a session log what its format has rules for; one without a whole end is told as such.
    """
    from cassette_lab.cassette.scan import project
    from cassette_lab.cassette.summary import summary

    (file,) = command.files
    if _is_session(file):
        from cassette_lab.session.opening import session_facts
        from cassette_lab.session.summary import verified

        document = verified(session_facts(file))
        return Facts(_read_session(file, document), document, _problem_facts(document))
    document = {"file": file, **summary(project(file))}
    return Facts(_verified(file, document), document, [])


def inspect(command: Command) -> Facts:
    """What a file holds, without bodies: provider, policy, counts; with ``--show-calls`` every call. Also of a session log."""
    from cassette_lab.cassette.scan import project
    from cassette_lab.cassette.summary import call_documents, summary

    (file,) = command.files
    if _is_session(file):
        return _inspect_session(file)
    projection = project(file)
    document = {"file": file, **summary(projection)}
    lines: list[str] = []
    html = ""
    if command.given.get("show_calls"):
        document["calls"] = list(call_documents(projection))
        lines, html = _calls(document["calls"])
    return Facts(_verified(file, document), document, _facts(projection.header, document), lines, html)


def diff(command: Command) -> CassetteDiff:
    """The comparison of two files."""
    from cassette_lab.cassette.diff import diff as compare

    return compare(*command.files)


def load(command: Command) -> Lab:
    """The verified tables of files, folders and globs; a bar where that takes long, in a terminal, too.

    One bad file hides nothing here: what could not be read is shown with the rest, unless ``--on-error raise`` is given.
    Where nothing could be read, that is the error.
    """
    from cassette_lab.tables import load as load_tables

    lab = load_tables(*command.files, **{"progress": True, "on_error": "collect", **command.given})
    if "on_error" in command.given or any(len(lab.tables[name]) for name in ("cassettes", "sessions", "flight_health")):
        return lab
    return load_tables(*command.files, **command.given)  # which raises


def rescue(command: Command) -> QuietLine:
    """Copy the longest verified prefix of a torn file, and say what was lost."""
    from cassette_lab.cassette.rescue import rescue as rescue_file

    if "out" not in command.given:
        raise UsageError("%cassette rescue needs -o NEW, the file to write")
    (file,) = command.files
    if _is_session(file):
        from cassette_lab.session.rescue import rescue_session

        saved = rescue_session(file, command.given["out"])
        mark, colour = ("✓", GREEN) if saved.reason is None else ("◐", RED)
        return QuietLine(mark, [saved.to_sentence()], colour=colour)
    report = rescue_file(file, command.given["out"])
    return QuietLine("✓" if not report.lost else "◐", [report.to_sentence()], colour=GREEN if not report.lost else RED)


def status(active: ActiveCassette | None, last: ActiveCassette | None) -> QuietLine:
    """What is being recorded or replayed; of the ``last`` cassette, whether calls came after its end or were refused."""
    if active is not None:
        return live_line(active)
    words = ["no cassette is active: calls are made live and are not recorded"]
    if last is not None:
        done = last.status()
        if done.late_calls:
            words.append(f"{short_path(last.path)} is incomplete: {plural(done.late_calls, 'call')} came after its end")
        if done.refused:
            words.append(f"the replay of {short_path(last.path)} refused {plural(done.refused, 'call')}")
    return QuietLine("○", words, muted=True)


def show_diff(difference: CassetteDiff) -> Bundle:
    """How a comparison shows itself in a notebook."""
    head, *lines = difference.human()
    mark, colour = ("✓", GREEN) if difference.equivalent else ("≠", RED)
    line = QuietLine(mark, [head], colour=colour)
    rows = [
        [escape(show(name)), f"<bdi>{escape(show(rest))}</bdi>"] for name, _, rest in (text.partition(": ") for text in lines)
    ]
    return {
        "text/plain": "\n".join([str(line), *(f"  {show(text)}" for text in lines)]),
        "text/html": line.bundle()["text/html"] + (table([], rows) if rows else ""),
    }


def show_harness(tape: HarnessTape) -> Bundle:
    """How a recorded or replayed run of the harness shows itself in a notebook."""
    from cassette_lab.notebook.harness_cell import shown_harness

    return shown_harness(tape)


def _is_session(file: str) -> bool:
    from cassette_lab.session.places import is_session

    return is_session(file)


def _inspect_session(file: str) -> Facts:
    from cassette_lab.session.opening import session_facts
    from cassette_lab.session.summary import summary, verified

    told = session_facts(file)
    document, checked = summary(told), verified(told)
    tokens = {"inputTokens": "in", "cacheReadTokens": "from caches", "outputTokens": "out"}
    counts = [f"{document['tokens'][name]:,} {word}" for name, word in tokens.items() if name in document["tokens"]]
    lasted = duration_text(document["durationMs"])
    busy = "" if document["turnMs"] is None else f", {duration_text(document['turnMs'])} of it in turns"
    facts = [
        ("session", document["id"]),
        ("parent", document["parent"] or "none"),
        ("started", f"{document['startedAt'] or 'unknown'}, for {lasted}{busy}"),
        ("end", " ".join(filter(None, (document["end"], document["endCode"]))) or "unknown"),
        ("model calls", f"{document['modelCalls']:,}"),
        ("tokens", ", ".join(counts) or "unknown"),
        ("tool calls", f"{document['toolCalls']:,}, {plural(document['toolErrors'], 'error')}"),
    ]
    return Facts(_read_session(file, checked), document, [*facts, *_problem_facts(checked)])


def _read_session(file: str, document: JsonObject) -> QuietLine:
    words = [f"session log of format {document['format']}", plural(document["events"], "event")]
    words.append("it follows its format; there is no hash chain" if document["whole"] else "it is not whole")
    mark, colour = ("✓", GREEN) if document["whole"] else ("◐", RED)
    return QuietLine(mark, words, short_path(file), colour=colour)


def _problem_facts(document: JsonObject) -> list[tuple[str, str]]:
    told = [("note", str(each["message"])) for each in document["notes"]]
    broken = document["surfaceProblem"]
    return told if broken is None else [*told, ("problem", f"its messages do not fold: {broken}")]


def _verified(file: str, document: JsonObject) -> QuietLine:
    words = ["chain verified", plural(document["interactions"], "call")]
    words += [f"{document[name]:,} {name}" for name in ("failed", "aborted") if document[name]]
    if document["interactions"]:
        words.append(f"longest {duration_text(document['durationMs'])}")
    return QuietLine("✓", words, short_path(file), colour=GREEN)


def _facts(header: Header, document: JsonObject) -> list[tuple[str, str]]:
    provider = header.provider
    able = [name for name, yes in provider.capabilities.to_json().items() if yes]
    secrets = "secrets redacted" if header.redact_secrets else "secrets not redacted"
    if header.redact_secrets and header.redaction_patterns:
        secrets += f", {plural(len(header.redaction_patterns), 'pattern')} of its own"
    return [
        ("cassette", header.cassette_id),
        ("recorded", header.created_at),
        ("provider", f"{provider.cassette}, recorded from {provider.upstream}"),
        ("capabilities", ", ".join(able) or "none"),
        ("parent context", "inherited" if provider.inherits_parent_context else "not inherited"),
        ("keeps", f"{'whole requests' if header.request_storage == 'full' else 'request metadata only'}, {secrets}"),
        ("outcomes", ", ".join(f"{document[name]:,} {name}" for name in ("completed", "failed", "aborted"))),
        ("ambiguous groups", f"{document['ambiguousGroups']:,}"),
        ("redacted results", f"{document['redactedResults']:,}"),
    ]


def _calls(calls: list[JsonObject]) -> tuple[list[str], str]:
    """The calls as lines and as an HTML table."""
    lines, rows = [], []
    for call in islice(calls, SHOWN_CALLS):
        category = category_of(call["outcome"], call.get("stopReason"))
        duration = duration_text(call["durationMs"])
        lines.append(f"{call['sequence']:>6}  {category.glyph} {category.name:<13} {duration:>11}  {show(call['callKey'])}")
        mark = f'<span style="color:{category.colour}">{category.glyph}</span> {category.name}'
        rows.append([f"{call['sequence']:,}", mark, duration, f"<bdi>{escape(show(call['callKey']))}</bdi>"])
    if len(calls) > SHOWN_CALLS:
        more = f"… and {len(calls) - SHOWN_CALLS:,} more; the member 'calls' of this report holds all"
        lines.append(more)
        rows.append(["", escape(more), "", ""])
    return lines, table(["call", "outcome", "duration", "key"], rows)
