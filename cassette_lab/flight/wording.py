"""The facts of an answer in words. Every fact is in its text; names are shown escaped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from cassette_lab.errors import ConfigError
from cassette_lab.flight.messages import MESSAGES, Locale
from cassette_lab.jsonio import JsonObject, as_integer
from cassette_lab.jsonio.text import show
from cassette_lab.words import MINUS, UNKNOWN, delta_text, duration_text

MOST_CHARACTERS: Final = 4096
"""Of a text, in UTF-16 code units, the marker of a cut included."""


def view_text(view: str, facts: Any, extended: JsonObject, locale: Locale) -> tuple[str, bool]:
    """The words for the facts of a view, and whether they had to be cut."""
    words = _Words(MESSAGES[locale])
    lines = [*_VIEWS[view](words, facts, extended), *_EXTENDED.get(view, _nothing_more)(words, facts, extended)]
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
        return str(value).replace("-", MINUS)

    def word(self, group: str, name: Any) -> str:
        """One of a closed list of words, in this language; another one as it is."""
        return self._messages.get(f"{group}.{name}", self.plain(name))


def _record(words: _Words, facts: JsonObject, extended: JsonObject) -> list[str]:
    tools = [words("record.tool", name=name, nodes=nodes) for name, nodes in facts["tools"]]
    told = {"toolCount": facts["toolCount"], **({"tools": tools} if tools else {})}
    kind = facts["outcome"]
    ending = f"record.{kind}" if kind in ("running", "threw") else "record.outcome"
    return [
        words("record.title", **_of(facts, "shortId", "turn", "step", "attempt")),
        words("record.model", **_of(facts, "provider", "model")),
        words("record.sent", **_of(facts, "messages", "systemCharacters")),
        words("record.tools" if tools else "record.no-tools", **told),
        *(words(f"record.{name}", **{name: facts[name]}) for name in ("sections", "contexts", "variables") if facts[name]),
        words(ending, outcome=words.word("outcome", kind), detail=_detail(words, facts["detail"], extended)),
        words("record.times", first=duration_text(facts["firstChunkMs"]), total=duration_text(facts["totalMs"])),
        words("record.tokens", **_of(facts, "inputTokens", "outputTokens")),
    ]


def _detail(words: _Words, detail: str | None, extended: JsonObject) -> str:
    """How a request ended, with the status and the code of its failure."""
    why = words.word("detail", detail)
    status, code = extended.get("httpStatus"), extended.get("errorCode")
    if status is None and code is None:
        return why
    form = "code" if status is None else "status" if code is None else "both"
    known = {"status": words.plain(status), "code": words.plain(code)}
    return words(f"cause.{form}", detail=why, **known)


def _list(words: _Words, facts: JsonObject, extended: JsonObject) -> list[str]:
    rows = facts["rows"]
    lines = [words("list.row", **{**row, "outcome": words.word("outcome", row["outcome"])}) for row in rows]
    if "sessions" in extended:
        named = zip(lines, extended["sessions"], strict=True)
        lines = [words("list.of", row=row, session=words.plain(session)) for row, session in named]
    return [words("list.title", count=len(rows)), *lines]


def _health(words: _Words, facts: JsonObject, _: JsonObject) -> list[str]:
    """Whether all is well in a sentence, and the numbers."""
    by_reason = facts["correlationMissesByReason"]
    ill = any(facts[name] for name in ("truncatedRecords", "correlationMisses", "projectionFailures", "subscriberFailures"))
    verdict = "ill" if ill or any(by_reason.values()) else "well" if facts["captured"] else "nothing"

    def counts(numbers: Mapping[str, Any], *names: str) -> list[str]:
        return [words(f"health.{name}", count=numbers[name]) for name in names]

    seen = counts(facts, "captured", "completed", "active", "retained", "evicted", "truncatedRecords")
    unseen = counts(facts, "correlationMisses") + counts(by_reason, *by_reason)
    failures = counts(facts, "projectionFailures", "subscriberFailures")
    lines = (("requests", seen), ("unseen", unseen), ("failures", failures))
    return [words(f"health.{verdict}"), *(words(f"health.{name}", counts=told) for name, told in lines)]


def _stats(words: _Words, facts: JsonObject, _: JsonObject) -> list[str]:
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


def _diff(words: _Words, facts: JsonObject, _: JsonObject) -> list[str]:
    title = words("diff.title", **_of(facts, "fromId", "toId"))
    return (
        [title, *(_change(words, change) for change in facts["changes"])] if facts["changed"] else [title, words("diff.same")]
    )


def _change(words: _Words, change: JsonObject) -> str:
    field, kind = change["field"], change["kind"]
    label = words.word("field", field)
    if kind == "value":
        group = {"outcome.kind": "outcome", "extra.aborted": "aborted"}.get(field, "")
        before, after = (words.word(group, change[side]) for side in ("before", "after"))
        return words("diff.value", field=label, before=before, after=after)
    if kind == "counter":
        name = label if change["key"] is None else f"{label} {words.plain(change['key'])}"
        before, after, delta = change["before"], change["after"], change["delta"]
        if field.startswith("timing."):
            before, after = duration_text(before), duration_text(after)
            signed = UNKNOWN if delta is None else delta_text(delta)
        else:
            signed = words.plain(delta) if delta is None or delta < 0 else f"+{words.plain(delta)}"
        return words("diff.counter", name=name, before=words.plain(before), after=words.plain(after), delta=signed)
    changed = words.word("change", change["change"])
    return words(
        "diff.named",
        field=label,
        changed=changed,
        **{name: words.plain(change[name]) for name in ("name", "beforeSize", "afterSize")},
    )


def _explain(words: _Words, facts: Sequence[JsonObject], extended: JsonObject) -> list[str]:
    """What is worth a look. That a retry has the prompt of the first attempt is not; ``_more_of_a_record`` says so."""
    reused = "promptAssembly" in extended
    told = [fact for fact in facts if not (reused and fact["kind"] == "missing-prompt-assembly")]
    return [words("explain.title"), *(_fact(words, fact, extended) for fact in told or [{"kind": "no-anomaly"}])]


def _fact(words: _Words, fact: JsonObject, extended: JsonObject) -> str:
    key = f"fact.{fact['kind']}"
    if "milliseconds" in fact:
        return words(key, milliseconds=duration_text(fact["milliseconds"]))
    if "error" in fact:
        return words(key, error=_detail(words, fact["error"], extended))
    if "reason" in fact:
        return words(key, reason=words.word("detail", fact["reason"]))
    return words(key, **{name: value for name, value in fact.items() if name != "kind"})


def _more_of_a_record(words: _Words, facts: Any, extended: JsonObject) -> list[str]:
    kinds = {fact["kind"] for fact in facts} if isinstance(facts, list) else {facts["outcome"]}
    told = () if "threw" in kinds else ("errorCode", "httpStatus")
    names = [name for name in (*told, "aborted", "endedBy") if name in extended]
    lines = [words(f"more.{name}", value=words.word(name, extended[name])) for name in names]
    lines += _more_tokens(words, extended)
    if "promptAssembly" in extended:
        kept = extended["promptAssembly"]
        lines.append(words("more.promptAssembly", **_of(kept, "sections", "contexts", "variables")))
    return lines


def _more_of_stats(words: _Words, _: Any, extended: JsonObject) -> list[str]:
    lines = _more_tokens(words, extended)
    if extended["retries"]:
        lines.append(words("more.retries", count=extended["retries"]))
    if extended["endedByRun"]:
        lines.append(words("more.endedByRun", count=extended["endedByRun"]))
    lines += [words("more.errorCodes", code=code, count=count) for code, count in extended["errorCodes"].items()]
    causes = extended["aborted"].items()
    lines += [words("more.abortedCount", cause=words.word("aborted", cause), count=count) for cause, count in causes]
    return lines + [_model(words, model) for model in extended["models"]]


def _more_of_a_diff(words: _Words, _: Any, extended: JsonObject) -> list[str]:
    return [_change(words, change) for change in extended.get("changes", ())]


def _nothing_more(_words: _Words, _facts: Any, _extended: JsonObject) -> list[str]:
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


_VIEWS: Final[dict[str, Callable[[_Words, Any, JsonObject], list[str]]]] = {
    "record": _record,
    "list": _list,
    "health": _health,
    "stats": _stats,
    "diff": _diff,
    "explain": _explain,
}
_EXTENDED: Final[dict[str, Callable[[_Words, Any, JsonObject], list[str]]]] = {
    "record": _more_of_a_record,
    "explain": _more_of_a_record,
    "stats": _more_of_stats,
    "diff": _more_of_a_diff,
}
