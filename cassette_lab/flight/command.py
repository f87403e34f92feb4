"""The command ``/flight``: what a person asks of a recorder, and the answer, in facts and in words.

A command sees one snapshot, of which it shows its own session; the health is that of the whole process. The answer's ``facts``
are the original's, ``extended`` what goes beyond them; ``messages`` puts both into words. Source: flight records, Command.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias, get_args

from cassette_lab.flight.diff import diff_records
from cassette_lab.flight.insight import DEFAULTS, FILTERS, ExtendedStats, FilterName, explain, filtered, stats
from cassette_lab.flight.messages import Locale, resolve_locale
from cassette_lab.flight.model import FlightRecord, Snapshot
from cassette_lab.flight.recorder import FlightConfig
from cassette_lab.flight.wording import error_text, view_text
from cassette_lab.jsonio import JsonObject
from cassette_lab.jsonio.text import js_trim
from cassette_lab.jsonio.whitespace import JS_WHITESPACE

NAME: Final = "/flight"
DEFAULT_LIMIT: Final = 10
MOST_LIMIT: Final = 20
SHORT_ID_CHARACTERS: Final = 8

View: TypeAlias = Literal["record", "list", "health", "diff", "explain", "stats"]
VIEWS: Final[tuple[View, ...]] = get_args(View)
CommandError: TypeAlias = Literal["usage", "not-found", "ambiguous", "no-records", "diff-needs-two"]
COMMAND_ERRORS: Final[tuple[CommandError, ...]] = get_args(CommandError)


@dataclass(frozen=True, slots=True)
class CommandResult:
    """An answer. Either ``view``, with ``ids`` of the records it shows in their order, or ``error``.

    ``truncated``: the text was cut at its bound. ``prefix`` is what no record's id, or more than one, begins with.
    """

    text: str = ""
    view: View | None = None
    ids: tuple[str, ...] = ()
    facts: Any = None
    extended: JsonObject = field(default_factory=dict)
    filter: FilterName | None = None
    limit: int | None = None
    truncated: bool = False
    error: CommandError | None = None
    prefix: str | None = None


def command_input(line: str) -> str | None:
    """What stands behind ``/flight`` in a line; None where the line is no such command."""
    rest = line.removeprefix(NAME)
    ours = rest is not line and len(rest) < len(line) and (not rest or rest[0] in "\t\n\r ")
    return rest if ours else None


def run_command(
    words: str,
    snapshot: Snapshot,
    session_id: str | None,
    *,
    locale: Locale | str | None = "en",
    thresholds: FlightConfig = DEFAULTS,
) -> CommandResult:
    """Answer what stands behind the command's name. Whatever is asked, the answer is a result; nothing is raised.

    Without a ``session_id`` it is about the records of all sessions.
    """
    language = resolve_locale(locale)
    try:
        answer = _answer(re.split(_SPACES, rest) if (rest := js_trim(words)) else [], snapshot, session_id, thresholds)
    except _Refusal as refusal:
        told = error_text(refusal.text or refusal.error, refusal.prefix, language)
        return CommandResult(told, error=refusal.error, prefix=refusal.prefix)
    text, truncated = view_text(answer.view or "", answer.facts, answer.extended, language)
    return replace(answer, text=text, truncated=truncated)


class _Refusal(Exception):  # noqa: N818 - an answer, not a fault
    def __init__(self, error: CommandError, prefix: str | None = None, *, text: str | None = None) -> None:
        super().__init__(error)
        self.error = error
        self.prefix = prefix
        self.text = text


def _answer(words: list[str], snapshot: Snapshot, session_id: str | None, thresholds: FlightConfig) -> CommandResult:
    records = tuple(record for record in snapshot.records if session_id in (None, record.session_id))
    match words:
        case [] | ["latest"]:
            return _record(_at_least_one(records)[0])
        case ["list", *rest]:
            name, limit = _list_options(rest)
            shown = filtered(_at_least_one(records), name, thresholds)[:limit]
            if not shown:
                raise _Refusal("no-records", text="none-such")
            rows = {"rows": [_row(record) for record in shown]}
            sessions: JsonObject = {} if session_id is not None else {"sessions": [record.session_id for record in shown]}
            return CommandResult(view="list", ids=_ids(shown), facts=rows, extended=sessions, filter=name, limit=limit)
        case ["show", prefix]:
            return _record(_resolved(records, prefix))
        case ["explain", prefix]:
            record = _resolved(records, prefix)
            facts = [fact.to_json() for fact in explain(record, thresholds)]
            return CommandResult(view="explain", ids=(record.id,), facts=facts, extended=_extra(record))
        case ["diff"]:
            if len(records) < 2:
                raise _Refusal("diff-needs-two")
            return _diff(records[1], records[0])
        case ["diff", from_prefix, to_prefix]:
            before = _resolved(records, from_prefix)
            return _diff(before, _resolved(records, to_prefix))
        case ["health"]:
            return CommandResult(view="health", facts=snapshot.health.to_json())
        case ["stats"]:
            figures = stats(records)
            told = {**figures.to_json(), "successPercent": figures.success_percent}
            return CommandResult(view="stats", facts=told, extended=_more_figures(figures.extended))
    raise _Refusal("usage")


def _at_least_one(records: Sequence[FlightRecord]) -> Sequence[FlightRecord]:
    if not records:
        raise _Refusal("no-records")
    return records


def _list_options(words: list[str]) -> tuple[FilterName, int]:
    """``[all|failed|slow|truncated] [limit]``."""
    rest = list(words)
    name: FilterName = "all"
    if rest and rest[0] in FILTERS:
        name = next(each for each in FILTERS if each == rest[0])
        rest = rest[1:]
    if not rest:
        return name, DEFAULT_LIMIT
    limit = _limit(rest[0]) if len(rest) == 1 else None
    if limit is None:
        raise _Refusal("usage")
    return name, limit


def _limit(word: str) -> int | None:
    """A whole number from 1 to ``MOST_LIMIT``, spelled as JavaScript's ``Number()`` reads it."""
    if _DECIMAL.fullmatch(word):
        number = float(word)
    elif match := _PREFIXED.fullmatch(word):
        number = int(match[0], 0) if len(word) < _LONG else 0
    else:
        return None
    return int(number) if 1 <= number <= MOST_LIMIT and number == int(number) else None


_SPACES: Final = re.compile(f"[{re.escape(JS_WHITESPACE)}]+")
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_PREFIXED: Final = re.compile(r"0(?:[xX][0-9a-fA-F]+|[oO][0-7]+|[bB][01]+)")
_LONG: Final = 4096


def _resolved(records: Sequence[FlightRecord], prefix: str) -> FlightRecord:
    """The one record whose id begins so."""
    found = [record for record in records if record.id.startswith(prefix)]
    if len(found) != 1:
        raise _Refusal("ambiguous" if found else "not-found", prefix)
    return found[0]


def _record(record: FlightRecord) -> CommandResult:
    request, outcome, prompt = record.request, record.outcome, record.prompt_assembly
    usage = outcome.usage
    facts = {
        **_row(record),
        "messages": request.messages.total,
        "systemCharacters": request.system_characters,
        "toolCount": len(request.tools),
        "tools": [list(tool) for tool in request.tools],
        "sections": [] if prompt is None else [part.name for part in prompt.sections],
        "contexts": [] if prompt is None else [part.name for part in prompt.contexts],
        "variables": [] if prompt is None else list(prompt.variables),
        "detail": outcome.detail,
        "firstChunkMs": outcome.first_chunk_ms,
        "totalMs": outcome.total_ms,
        "inputTokens": None if usage is None else usage.input_tokens,
        "outputTokens": None if usage is None else usage.output_tokens,
    }
    return CommandResult(view="record", ids=(record.id,), facts=facts, extended=_extra(record))


def _extra(record: FlightRecord) -> JsonObject:
    """What stands beside a record, with the tokens that the facts do not tell."""
    members = record.extra.to_json()
    kept = record.extra.prompt_assembly
    if kept is not None:
        members["promptAssembly"] = {
            "sections": [part.name for part in kept.sections],
            "contexts": [part.name for part in kept.contexts],
            "variables": list(kept.variables),
        }
    usage = record.outcome.usage
    counts: JsonObject = {} if usage is None else usage.to_json()
    return members | {
        name: counts[name] for name in ("cacheReadTokens", "cacheWriteTokens", "reasoningTokens") if name in counts
    }


def _more_figures(extended: ExtendedStats) -> JsonObject:
    """Of each model only what one line tells; nothing of them where there is but one."""
    told = ("provider", "model", "retained", "inputTokens", "outputTokens")
    models = []
    for model in extended.models if len(extended.models) > 1 else ():
        members = model.to_json()
        medians = {"firstChunkMs": model.first_chunk.median, "totalMs": model.total.median}
        models.append({name: members[name] for name in told} | medians | {"finished": model.outcomes["finished"]})
    return extended.to_json() | {"models": models}


def _row(record: FlightRecord) -> JsonObject:
    return {
        "shortId": _short(record.id),
        "turn": record.turn,
        "step": record.step,
        "attempt": record.attempt,
        "provider": record.request.provider,
        "model": record.request.model,
        "outcome": record.outcome.kind,
    }


def _diff(before: FlightRecord, after: FlightRecord) -> CommandResult:
    diff = diff_records(before, after)
    known = set(diff.changes)
    more = [change.to_json() for change in diff_records(before, after, extended=True).changes if change not in known]
    return CommandResult(
        view="diff", ids=(before.id, after.id), facts=diff.to_json(), extended={"changes": more} if more else {}
    )


def _short(record_id: str) -> str:
    """The first 8 UTF-16 code units; ids are ASCII, as a rule."""
    if record_id.isascii():
        return record_id[:SHORT_ID_CHARACTERS]
    units = record_id.encode("utf-16-le", "surrogatepass")[: 2 * SHORT_ID_CHARACTERS]
    return units.decode("utf-16-le", "surrogatepass")


def _ids(records: Sequence[FlightRecord]) -> tuple[str, ...]:
    return tuple(record.id for record in records)
