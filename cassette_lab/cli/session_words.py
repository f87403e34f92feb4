"""What a person reads about sessions: one line in a list, a few lines for one alone. Whoever prints them escapes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from cassette_lab.jsonio.text import show
from cassette_lab.words import UNKNOWN, duration_text, plural

if TYPE_CHECKING:
    from cassette_lab.jsonio import JsonObject

SHOWN: Final = 12
"""Of models, tools, children and problems that many are shown; the JSON document has all."""

_ID: Final = 36
_END: Final = 14
_NAME: Final = 200
"""Characters of a name where it stands alone: a log may have one of any length."""


def listed(row: JsonObject) -> str:
    """A line of the list, under ``HEADLINE``."""
    tokens = row["tokens"]
    return _line(
        _clip(row["id"], _ID),
        UNKNOWN if row["parent"] is None else _clip(row["parent"], _PARENT),
        _minute(row["startedAt"]),
        f"{row['turns']:,}",
        f"{row['modelCalls']:,}",
        _count(tokens, "inputTokens"),
        _count(tokens, "cacheReadTokens"),
        _count(tokens, "outputTokens"),
        _clip(row["end"] or UNKNOWN, _END),
        f"{row['problems']:,}",
    )


def totalled(totals: JsonObject) -> str:
    """``12 sessions · 34 turns · 120 model calls · 1,200 tokens in, 3,000 from caches, 400 out · from … to …``."""
    told = [
        plural(totals["sessions"], "session"),
        plural(totals["turns"], "turn"),
        plural(totals["modelCalls"], "model call"),
        tokens_text(totals["tokens"]),
    ]
    if totals["startedAt"] is not None:
        told.append(f"{_minute(totals['startedAt'])} to {_minute(totals['endedAt'])}")
    return " · ".join(told)


def summarised(document: JsonObject) -> list[str]:
    """One session: its facts, then its models and tools, then what is wrong with the log."""
    parent = "none" if document["parent"] is None else _clip(document["parent"], _NAME)
    origin = ", ".join(_clip(each, _NAME) for each in (document["origin"], document["spawnedBy"], document["mode"]) if each)
    ends = ", ".join(f"{count:,} {_clip(end, _END)}" for end, count in list(document["turnEnds"].items())[:SHOWN])
    facts = {
        "session": _clip(document["id"], _NAME),
        "parent": f"{parent} ({origin})" if origin else parent,
        "started": f"{_second(document['startedAt'])}, for {duration_text(document['durationMs'])}",
        "folder": _clip(document["cwd"] or UNKNOWN, _NAME),
        "turns": plural(document["turns"], "turn") + (f": {ends}" if ends else ""),
        "end": _clip(document["end"] or UNKNOWN, _NAME),
        "model calls": f"{document['modelCalls']:,} in {plural(document['steps'], 'step')}, "
        f"{plural(document['retries'], 'retry', 'retries')}",
        "tokens": tokens_text(document["tokens"]),
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
    lines += _some("child", [_clip(each, _NAME) for each in document["children"]])
    return [*lines, *_some("problem", [problem(each) for each in document["problems"]])]


def problem(document: JsonObject) -> str:
    """What is wrong, and where."""
    place = [show(document["file"])] if document.get("file") is not None else []
    place += [f"{name} {document[name]:,}" for name in ("line", "frame") if document.get(name) is not None]
    return f"{', '.join(place)}: {document['message']}" if place else str(document["message"])


def tokens_text(tokens: Mapping[str, int]) -> str:
    """``1,200 tokens in, 3,000 from caches, 400 out``; what no log says is left out."""
    told = [
        f"{tokens[name]:,}{words}"
        for name, words in (
            ("inputTokens", " tokens in"),
            ("cacheReadTokens", " from caches"),
            ("cacheWriteTokens", " to caches"),
            ("outputTokens", " out"),
        )
        if name in tokens
    ]
    return ", ".join(told) or "tokens unknown"


def _shortened(document: JsonObject) -> str:
    failed = f" ({document['failedCompactions']:,} failed)" if document["failedCompactions"] else ""
    prunes = f"; {plural(document['prunes'], 'prune')}" if document["prunes"] else ""
    took = f"{duration_text(document['compactionMs'])}, {tokens_text(document['compactionTokens'])}"
    return f"{plural(document['compactions'], 'compaction')}{failed}, {took}{prunes}"


def _model(model: JsonObject) -> str:
    name = " / ".join(_clip(part, _NAME) for part in (model["provider"], model["model"]) if part is not None) or UNKNOWN
    speed = "" if model["tokensPerSecond"] is None else f", {model['tokensPerSecond']:,.0f} tokens per second"
    return (
        f"{name}: {plural(model['calls'], 'call')}, {model['failed']:,} without a message, "
        f"first chunk after {duration_text(model['firstChunkMs'])}{speed}"
    )


def _tool(tool: JsonObject) -> str:
    unanswered = f", {tool['unanswered']:,} without a result" if tool["unanswered"] else ""
    name = UNKNOWN if tool["name"] is None else _clip(tool["name"], _NAME)
    took = duration_text(tool["durationMs"])
    return f"{name}: {plural(tool['calls'], 'call')}, {plural(tool['errors'], 'error')}{unanswered}, {took} in the middle"


def _some(name: str, rows: list[str]) -> list[str]:
    """A row each, the first of many."""
    lines = [f"  {name:<14}{row}" for row in rows[:SHOWN]]
    more = len(rows) - SHOWN
    return [*lines, f"  {'':<14}and {more:,} more; --json has all"] if more > 0 else lines


_PARENT: Final = 13


def _line(*cells: str) -> str:
    left = zip(cells[:3], (_ID, _PARENT, 16), strict=True)
    right = zip(cells[3:8], (6, 6, 12, 12, 10), strict=True)
    words = [f"{cell:<{width}}" for cell, width in left] + [f"{cell:>{width}}" for cell, width in right]
    return " ".join([*words, f" {cells[8]:<{_END}}", f"{cells[9]:>8}"])


HEADLINE: Final = _line(
    "session", "parent", "started (UTC)", "turns", "calls", "tokens in", "from caches", "out", "end", "problems"
)


def _clip(text: str, width: int) -> str:
    shown = show(text)
    return shown if len(shown) <= width else f"{shown[: width - 1]}…"


def _count(tokens: Mapping[str, int], name: str) -> str:
    return f"{tokens[name]:,}" if name in tokens else UNKNOWN


def _minute(date: str | None) -> str:
    return UNKNOWN if date is None else date[:16].replace("T", " ")


def _second(date: str | None) -> str:
    return UNKNOWN if date is None else f"{date[:19].replace('T', ' ')} UTC"
