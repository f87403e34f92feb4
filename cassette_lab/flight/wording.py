"""The facts of an answer in words. Every fact is in its text; names are shown escaped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from cassette_lab.errors import ConfigError
from cassette_lab.flight.messages import MESSAGES, Locale
from cassette_lab.jsonio import JsonObject, as_integer
from cassette_lab.jsonio.text import show
from cassette_lab.words import UNKNOWN, delta_text, duration_text

MOST_CHARACTERS: Final = 4096
"""Of a text, in UTF-16 code units, the marker of a cut included."""


def view_text(view: str, facts: Any, extended: JsonObject, locale: Locale) -> tuple[str, bool]:
    """The words for the facts of a view, and whether they had to be cut."""
    words = _Words(MESSAGES[locale])
    lines = [*_VIEWS[view](words, facts), *_EXTENDED.get(view, _nothing_more)(words, extended)]
    return bound_text("\n".join(lines), MOST_CHARACTERS, MESSAGES[locale]["cut"])


def error_text(error: str, prefix: str | None, locale: Locale) -> str:
    """The words for a refusal; they are not cut."""
    return MESSAGES[locale][f"error.{error}"].format(prefix=show(prefix or ""))


def bound_text(text: str, most: float, marker: str) -> tuple[str, bool]:
    """``text`` of at most so many UTF-16 code units, cut with ``marker`` at its end; never through a surrogate pair.

    Raises ``ConfigError`` (code ``OUT_OF_RANGE``) for a bound that is no whole number or has no room for the marker.
    """
    bound = as_integer(most)
    ending = marker.encode("utf-16-le", "surrogatepass")
    if bound is None or 2 * bound <= len(ending):
        raise ConfigError("a text is bound by a whole number, larger than the marker of a cut", code="OUT_OF_RANGE")
    units = text.encode("utf-16-le", "surrogatepass")
    if len(units) <= 2 * bound:
        return text, False
    room = 2 * bound - len(ending)
    high = int.from_bytes(units[room - 2 : room], "little") if room else 0
    low = int.from_bytes(units[room : room + 2], "little")
    if 0xD800 <= high < 0xDC00 <= low < 0xE000:
        room -= 2
    return units[:room].decode("utf-16-le", "surrogatepass") + marker, True


class _Words:
    """Sentences of one language, filled in."""

    def __init__(self, messages: Mapping[str, str]) -> None:
        self._messages = messages

    def __call__(self, key: str, **values: Any) -> str:
        return self._messages[key].format(**{name: self.plain(value) for name, value in values.items()})

    def plain(self, value: Any) -> str:
        """A value for a person; what is not there is a dash."""
        if value is None:
            return UNKNOWN
        if isinstance(value, str):
            return show(value)
        if isinstance(value, (list, tuple)):
            return self._messages["comma"].join(map(self.plain, value)) if value else UNKNOWN
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        return str(value)

    def word(self, group: str, name: Any) -> str:
        """One of a closed list of words, in this language; another one as it is."""
        return self._messages.get(f"{group}.{name}", self.plain(name))


def _record(words: _Words, facts: JsonObject) -> list[str]:
    tools = [words("record.tool", name=name, nodes=nodes) for name, nodes in facts["tools"]]
    return [
        words("record.title", **_of(facts, "shortId", "turn", "step", "attempt")),
        words("record.model", **_of(facts, "provider", "model")),
        words("record.sent", **_of(facts, "messages", "systemCharacters")),
        words("record.tools", toolCount=facts["toolCount"], tools=words.plain(tools) if tools else None),
        words("record.sections", sections=facts["sections"]),
        words("record.contexts", contexts=facts["contexts"]),
        words("record.variables", variables=facts["variables"]),
        words("record.outcome", outcome=words.word("outcome", facts["outcome"]), detail=facts["detail"]),
        words("record.times", first=duration_text(facts["firstChunkMs"]), total=duration_text(facts["totalMs"])),
        words("record.tokens", **_of(facts, "inputTokens", "outputTokens")),
    ]


def _list(words: _Words, facts: JsonObject) -> list[str]:
    rows = facts["rows"]
    title = words("list.title", count=len(rows))
    return [title, *(words("list.row", **{**row, "outcome": words.word("outcome", row["outcome"])}) for row in rows)]


def _health(words: _Words, facts: JsonObject) -> list[str]:
    lines = [words("health.title")]
    for name, count in facts.items():
        if name == "correlationMissesByReason":
            lines += [words(f"health.{reason}", count=missed) for reason, missed in count.items()]
        else:
            lines.append(words(f"health.{name}", count=count))
    return lines


def _stats(words: _Words, facts: JsonObject) -> list[str]:
    counts = facts["outcomes"].items()
    outcomes = [words("stats.outcome", kind=words.word("outcome", kind), count=count) for kind, count in counts]
    percent = facts["successPercent"]
    return [
        words("stats.title", retained=facts["retained"]),
        words("stats.outcomes", outcomes=outcomes),
        words("stats.success", percent=None if percent is None else f"{words.plain(percent)} %"),
        words("stats.first", **_durations(facts["firstChunk"])),
        words("stats.total", **_durations(facts["total"])),
        words("record.tokens", **_of(facts, "inputTokens", "outputTokens")),
        words("stats.truncated", truncated=facts["truncated"]),
    ]


def _diff(words: _Words, facts: JsonObject) -> list[str]:
    title = words("diff.title", **_of(facts, "fromId", "toId"))
    return (
        [title, *(_change(words, change) for change in facts["changes"])] if facts["changed"] else [title, words("diff.same")]
    )


def _change(words: _Words, change: JsonObject) -> str:
    field, kind = change["field"], change["kind"]
    if kind == "value":
        return words("diff.value", **_of(change, "field", "before", "after"))
    if kind == "counter":
        name = field if change["key"] is None else f"{field}[{change['key']}]"
        before, after, delta = change["before"], change["after"], change["delta"]
        if field.startswith("timing."):
            before, after = duration_text(before), duration_text(after)
            signed = UNKNOWN if delta is None else delta_text(delta)
        else:
            signed = words.plain(delta) if delta is None or delta < 0 else f"+{words.plain(delta)}"
        return words("diff.counter", name=name, before=before, after=after, delta=signed)
    changed = words.word("change", change["change"])
    return words("diff.named", changed=changed, **_of(change, "field", "name", "beforeSize", "afterSize"))


def _explain(words: _Words, facts: Sequence[JsonObject]) -> list[str]:
    return [words("explain.title"), *(_fact(words, fact) for fact in facts)]


def _fact(words: _Words, fact: JsonObject) -> str:
    values = {name: value for name, value in fact.items() if name != "kind"}
    if "milliseconds" in values:
        values["milliseconds"] = duration_text(values["milliseconds"])
    return words(f"fact.{fact['kind']}", **values)


def _more_of_a_record(words: _Words, extended: JsonObject) -> list[str]:
    names = [name for name in ("errorCode", "aborted", "endedBy") if name in extended]
    lines = [words(f"more.{name}", value=words.word(name, extended[name])) for name in names]
    lines += _more_tokens(words, extended)
    if "promptAssembly" in extended:
        kept = extended["promptAssembly"]
        lines.append(words("more.promptAssembly", **_of(kept, "sections", "contexts", "variables")))
    return lines


def _more_of_stats(words: _Words, extended: JsonObject) -> list[str]:
    lines = _more_tokens(words, extended)
    if extended["retries"]:
        lines.append(words("more.retries", count=extended["retries"]))
    if extended["endedByRun"]:
        lines.append(words("more.endedByRun", count=extended["endedByRun"]))
    lines += [words("more.errorCodes", code=code, count=count) for code, count in extended["errorCodes"].items()]
    causes = extended["aborted"].items()
    lines += [words("more.abortedCount", cause=words.word("aborted", cause), count=count) for cause, count in causes]
    return lines + [_model(words, model) for model in extended["models"]]


def _more_of_a_diff(words: _Words, extended: JsonObject) -> list[str]:
    return [_change(words, change) for change in extended.get("changes", ())]


def _nothing_more(_words: _Words, _extended: JsonObject) -> list[str]:
    return []


def _more_tokens(words: _Words, extended: JsonObject) -> list[str]:
    names = ("cacheReadTokens", "cacheWriteTokens", "reasoningTokens")
    return [words(f"more.{name}", count=extended[name]) for name in names if extended.get(name) is not None]


def _model(words: _Words, model: JsonObject) -> str:
    first, total = duration_text(model["firstChunkMs"]), duration_text(model["totalMs"])
    known = _of(model, "provider", "model", "retained", "finished", "inputTokens", "outputTokens")
    return words("more.model", first=first, total=total, **known)


def _of(facts: JsonObject, *names: str) -> dict[str, Any]:
    return {name: facts[name] for name in names}


def _durations(distribution: JsonObject) -> dict[str, str]:
    return {name: duration_text(value) for name, value in distribution.items()}


_VIEWS: Final[dict[str, Callable[[_Words, Any], list[str]]]] = {
    "record": _record,
    "list": _list,
    "health": _health,
    "stats": _stats,
    "diff": _diff,
    "explain": _explain,
}
_EXTENDED: Final[dict[str, Callable[[_Words, JsonObject], list[str]]]] = {
    "record": _more_of_a_record,
    "explain": _more_of_a_record,
    "stats": _more_of_stats,
    "diff": _more_of_a_diff,
}
