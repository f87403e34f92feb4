"""What a person reads about sessions: one line in a list, a few lines for one alone. Whoever prints them escapes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from cassette_lab.jsonio.text import clip, show
from cassette_lab.words import UNKNOWN, duration_text, plural, tokens_text

if TYPE_CHECKING:
    from cassette_lab.jsonio import JsonObject

SHOWN: Final = 12
"""Of models, tools, children and notes that many are shown; the JSON document has all."""

_ID: Final = 40
_END: Final = 24
_DEEPEST: Final = 8
_NAME: Final = 200
"""Characters of a name where it stands alone: a log may have one of any length."""


def listed(row: JsonObject, depth: int = 0, *, below: str = "") -> str:
    """A line of the list, under ``HEADLINE``: a subagent stands below its parent, a step to the right for each ``depth``.

    Files are named from the folder ``below``. Of a session whose parent is not in the list the parent is named behind it.
    """
    tokens = row["tokens"]
    file = UNKNOWN if row["file"] is None else show(row["file"].removeprefix(below))
    indent = "  " * min(depth, _DEEPEST)
    return _line(
        indent + clip(row["id"], _ID - len(indent)),
        clip(_second(row["startedAt"]).removesuffix(" UTC"), 19),
        duration_text(row["durationMs"]),
        f"{row['turns']:,}",
        f"{row['modelCalls']:,}",
        f"{row['toolErrors']:,}",
        _count(tokens, "inputTokens"),
        _count(tokens, "cacheReadTokens"),
        _count(tokens, "outputTokens"),
        clip(_end(row), _END),
        f"{row['notes']:,}",
        file if row["parent"] is None or depth else f"{file} (child of {clip(row['parent'], _ID)})",
    )


def arranged(rows: Sequence[JsonObject]) -> Iterator[tuple[int, JsonObject]]:
    """Sessions as they began, each followed by its subagents, with how deep each stands.

    Two runs may hold sessions of one id: a child belongs to the parent whose file lies nearest. Where that is not one, or
    parents go in a circle, the child stands by itself.
    """
    by_id: dict[str, list[int]] = {}
    for number, row in enumerate(rows):
        by_id.setdefault(row["id"], []).append(number)
    children: dict[int | None, list[int]] = {}
    for number, row in enumerate(rows):
        children.setdefault(_parent_of(row, number, rows, by_id.get(row["parent"], [])), []).append(number)
    told: set[int] = set()
    # Circles have no root: what was not told begins anew.
    for root in sorted(range(len(rows)), key=lambda number: (number not in children.get(None, ()), _began(rows[number]))):
        waiting = [(0, root)]
        while waiting:
            depth, number = waiting.pop()
            if number not in told:
                told.add(number)
                yield depth, rows[number]
                below = sorted(children.get(number, ()), key=lambda each: _began(rows[each]), reverse=True)
                waiting += [(depth + 1, each) for each in below]


def _parent_of(row: JsonObject, number: int, rows: Sequence[JsonObject], candidates: Sequence[int]) -> int | None:
    from cassette_lab.session.families import nearest

    return nearest(row["file"] or "", [(each, rows[each]["file"] or "") for each in candidates if each != number])


def _began(row: JsonObject) -> tuple[bool, str]:
    return row["startedAt"] is None, row["startedAt"] or ""


def _end(row: JsonObject) -> str:
    """How a session ended, with the error code where it has one: ``error AUTH``."""
    return " ".join(filter(None, (row["end"], row["endCode"]))) or UNKNOWN


def totalled(totals: JsonObject) -> str:
    """``12 sessions · 34 turns · 120 model calls · 1,200 tokens in, 3,000 from caches, 400 out · from … to …``."""
    told = [
        plural(totals["sessions"], "session"),
        plural(totals["turns"], "turn"),
        plural(totals["modelCalls"], "model call"),
        _tokens(totals["tokens"]),
    ]
    if totals["startedAt"] is not None:
        told.append(f"{_second(totals['startedAt']).removesuffix(' UTC')} to {_second(totals['endedAt'])}")
    return " · ".join(told)


def summarised(document: JsonObject) -> list[str]:
    """One session: its facts, then its models and tools, then what is wrong with the log."""
    parent = "none" if document["parent"] is None else clip(document["parent"], _NAME)
    origin = ", ".join(clip(each, _NAME) for each in (document["origin"], document["spawnedBy"], document["mode"]) if each)
    ends = ", ".join(f"{count:,} {clip(end, _END)}" for end, count in list(document["turnEnds"].items())[:SHOWN])
    ends += _codes(document["turnErrorCodes"])
    began = plural(document["turns"], "turn") if document["turns"] or not ends else "none that began here"
    busy = "" if document["turnMs"] is None else f", {duration_text(document['turnMs'])} of it in turns"
    facts = {
        "session": clip(document["id"], _NAME),
        "parent": f"{parent} ({origin})" if origin else parent,
        "started": f"{_second(document['startedAt'])}, for {duration_text(document['durationMs'])}{busy}",
        "folder": clip(document["cwd"] or UNKNOWN, _NAME),
        "turns": began + (f": {ends}" if ends else ""),
        "end": clip(_end(document), _NAME),
        "model calls": f"{document['modelCalls']:,} in {plural(document['steps'], 'step')}, "
        f"{plural(document['retries'], 'retry', 'retries')}",
        "tokens": _tokens(document["tokens"]),
        "tool calls": f"{document['toolCalls']:,}, {plural(document['toolErrors'], 'error')}",
        "log": f"format {document['format']}, {document['encoding']}, {document['bytes']:,} bytes, "
        f"{plural(document['events'], 'event')} in {plural(document['rows'], 'row')}",
    }
    if document["compactions"] or document["prunes"]:
        facts["shortened"] = _shortened(document)
    if document["inheritedEvents"]:
        facts["inherited"] = f"{plural(document['inheritedEvents'], 'event')} of its parent, not counted above"
    lines = [document["file"], *(f"  {name:<14}{value}" for name, value in facts.items())]
    lines += _some("model", [_model(each) for each in document["models"]])
    lines += _some("tool", [_tool(each) for each in document["tools"]])
    lines += _some("child", [clip(each, _NAME) for each in document["children"] or ()])
    return [*lines, *_some("note", [problem(each) for each in document["notes"]])]


def verified(document: JsonObject) -> list[str]:
    """What the rules of a log say of it, and what they cannot say."""
    verdict = "follows its format" if document["whole"] else "is not whole"
    facts = f"format {document['format']}, {plural(document['events'], 'event')} in {plural(document['rows'], 'row')}"
    sums = "it has no checksums and no hash chain, so that a changed text is not noticed"
    if document["frames"]:
        sums = (
            f"{plural(document['frames'], 'zstd frame')} decode, and the checksums that they have fit: nothing was damaged by "
            "accident; there is no hash chain, so that a log that was written anew is not noticed"
        )
    lines = [
        f"{document['file']}: the session log {verdict}",
        f"  {facts}: header, order of events and packed rows were checked",
        f"  {sums}",
    ]
    if document["surfaceProblem"] is not None:
        lines.append(f"  problem       its messages do not fold: {document['surfaceProblem']}")
    return [*lines, *_some("note", [problem(each) for each in document["notes"]])]


def problem(document: JsonObject) -> str:
    """What is wrong, and where."""
    place = [show(document["file"])] if document.get("file") is not None else []
    place += [f"{name} {document[name]:,}" for name in ("line", "frame") if document.get(name) is not None]
    return f"{', '.join(place)}: {document['message']}" if place else str(document["message"])


def _tokens(tokens: Mapping[str, int]) -> str:
    return tokens_text(*map(tokens.get, ("inputTokens", "cacheReadTokens", "cacheWriteTokens", "outputTokens")))


def _shortened(document: JsonObject) -> str:
    failed = f" ({document['failedCompactions']:,} failed)" if document["failedCompactions"] else ""
    prunes = f"; {plural(document['prunes'], 'prune')}" if document["prunes"] else ""
    took = f"{duration_text(document['compactionMs'])}, {_tokens(document['compactionTokens'])}"
    return f"{plural(document['compactions'], 'compaction')}{failed}, {took}{prunes}"


def _model(model: JsonObject) -> str:
    name = " / ".join(clip(part, _NAME) for part in (model["provider"], model["model"]) if part is not None) or UNKNOWN
    speed = "" if model["tokensPerSecond"] is None else f", {model['tokensPerSecond']:,.0f} tokens per second"
    return (
        f"{name}: {plural(model['calls'], 'call')}, {model['failed']:,} failed{_codes(model['errorCodes'])}, "
        f"first chunk after {duration_text(model['firstChunkMs'])}{speed}"
    )


def _tool(tool: JsonObject) -> str:
    unanswered = f", {tool['unanswered']:,} without a result" if tool["unanswered"] else ""
    name = UNKNOWN if tool["name"] is None else clip(tool["name"], _NAME)
    took = duration_text(tool["durationMs"])
    errors = plural(tool["errors"], "error") + _codes(tool["errorCodes"])
    background = f" to start {tool['background']:,} in the background" if tool["background"] else ""
    return f"{name}: {plural(tool['calls'], 'call')}, {errors}{unanswered}, median {took}{background}"


def _codes(codes: Mapping[str, int]) -> str:
    """`` (2 SERVER, 1 AUTH)``; nothing where there is none."""
    shown = [f"{count:,} {clip(code, _END)}" for code, count in list(codes.items())[:SHOWN]]
    more = [f"{len(codes) - SHOWN:,} more"] if len(codes) > SHOWN else []
    return f" ({', '.join(shown + more)})" if codes else ""


def _some(name: str, rows: list[str]) -> list[str]:
    """A row each, the first of many."""
    lines = [f"  {name:<14}{row}" for row in rows[:SHOWN]]
    more = len(rows) - SHOWN
    return [*lines, f"  {'':<14}and {more:,} more; --json has all"] if more > 0 else lines


def _line(*cells: str) -> str:
    left = zip(cells[:2], (_ID, 19), strict=True)
    right = zip(cells[2:9], (12, 6, 6, 11, 12, 12, 10), strict=True)
    words = [f"{cell:<{width}}" for cell, width in left] + [f"{cell:>{width}}" for cell, width in right]
    return " ".join([*words, f" {cells[9]:<{_END}}", f"{cells[10]:>8}", f" {cells[11]}"])


HEADLINE: Final = _line(
    "session",
    "started (UTC)",
    "lasted",
    "turns",
    "calls",
    "tool errors",
    "tokens in",
    "from caches",
    "out",
    "end",
    "notes",
    "file",
)


def _count(tokens: Mapping[str, int], name: str) -> str:
    return f"{tokens[name]:,}" if name in tokens else UNKNOWN


def _second(date: str | None) -> str:
    return UNKNOWN if date is None else f"{date[:19].replace('T', ' ')} UTC"
