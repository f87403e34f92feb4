"""How an answer of ``%flight`` shows itself: its words, and the requests it is about as bars in a table."""

# ruff: noqa: RUF001 - Chinese has punctuation of its own

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

from cassette_lab.flight.command import CommandResult
from cassette_lab.flight.messages import MESSAGES, Locale
from cassette_lab.flight.model import ERROR_KINDS, INCOMPLETE_REASONS, OUTCOME_KINDS, FlightRecord
from cassette_lab.notebook.display import INK, MUTED, Bundle
from cassette_lab.views.flights import RequestTimes, TimesWords

SHOWN_REQUESTS: Final = 20

_LABEL: Final = f"color:{MUTED};text-align:left;white-space:nowrap;padding:1px 14px 1px 0;vertical-align:top"
_VALUE: Final = f"color:{INK};text-align:left;white-space:pre-wrap;padding:1px 0;overflow-wrap:anywhere"


def locale_now(environment: Mapping[str, str] = os.environ) -> Locale:
    """The language of the environment at this moment: Chinese where it says so, else English."""
    preference = next((value for name in ("LC_ALL", "LC_MESSAGES", "LANG") if (value := environment.get(name))), "")
    return "zh" if preference.lower().startswith("zh") else "en"


@dataclass(frozen=True, slots=True, repr=False)
class FlightView:
    """An answer: ``result`` in facts and words, ``records`` in full, of the session ``session_id``. It shows itself.

    ``notes`` stand below the answer.
    """

    result: CommandResult
    records: tuple[FlightRecord, ...]
    session_id: str | None
    locale: Locale
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        parts = [self.result.text]
        if self.records:
            parts += ["", *RequestTimes(self.records, _WORDS[self.locale]).text(_TEXT_COLUMNS)]
        return "\n".join([*parts, *self.notes])

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Bundle:
        del include, exclude
        return self.bundle()

    def bundle(self) -> Bundle:
        """The answer for a display. A list stands in its table alone, each request once."""
        heading, *lines = self.result.text.split("\n")
        listed = self.result.view == "list"
        parts = [f'<div style="color:{INK};font-weight:600">{escape(heading)}</div>']
        parts += [] if listed else [_lines_html(lines)]
        if self.records:
            times = RequestTimes(self.records, _WORDS[self.locale])
            parts.append(times.html(sessions=len({record.session_id for record in self.records}) > 1))
        parts += [f'<div style="color:{MUTED}">{escape(note)}</div>' for note in self.notes]
        style = "font-family:var(--jp-ui-font-family, sans-serif);font-size:13px;line-height:1.5"
        return {"text/plain": repr(self), "text/html": f'<div class="cassette-flight" style="{style}">{"".join(parts)}</div>'}


def _lines_html(lines: Sequence[str]) -> str:
    """Names at the left and what is said of them; points as they are."""
    rows = []
    for line in lines:
        name, colon, value = ("", "", line) if line.startswith("- ") else _parted(line)
        if colon:
            rows.append(f'<tr><td style="{_LABEL}">{escape(name)}</td><td style="{_VALUE}">{escape(value)}</td></tr>')
        else:
            point = f"• {line[2:]}" if line.startswith("- ") else line
            rows.append(f'<tr><td colspan="2" style="{_VALUE}">{escape(point)}</td></tr>')
    return f'<table style="border:none;margin:2px 0"><tbody>{"".join(rows)}</tbody></table>' if rows else ""


def _parted(line: str) -> tuple[str, str, str]:
    """A line at its first colon, of either language."""
    return min((line.partition(colon) for colon in (": ", "：")), key=lambda parts: len(parts[0]))


def shown_records(result: CommandResult, records: Sequence[FlightRecord]) -> tuple[FlightRecord, ...]:
    """The records that an answer is about, of those of its session; figures are of all, of which the newest are shown."""
    if result.view == "stats":
        return tuple(records[:SHOWN_REQUESTS])
    by_id = {record.id: record for record in records}
    return tuple(by_id[name] for name in dict.fromkeys(result.ids))


_TEXT_COLUMNS: Final = 88

NOTES: Final[dict[Locale, dict[str, str]]] = {
    "en": {
        "nothing": "no request yet; agents are watched from now on",
        "off": "nobody is watched now; %flight on goes on",
        "once": "--live goes on in a notebook only; here it is shown once",
    },
    "zh": {
        "nothing": "还没有请求；从现在起观察智能体",
        "off": "现在没有观察；%flight on 继续观察",
        "once": "--live 只在笔记本中持续更新；这里只显示一次",
    },
}
"""What may stand beside an answer."""


def _words(locale: Locale, legend: str, place: str, *headers: str) -> TimesWords:
    messages = MESSAGES[locale]
    outcomes: dict[str, str] = {kind: messages[f"outcome.{kind}"] for kind in OUTCOME_KINDS}
    more = {kind: messages[f"detail.{kind}"] for kind in (*ERROR_KINDS, *INCOMPLETE_REASONS)}
    return TimesWords(legend, place, dict(zip(_COLUMNS, headers, strict=True)), more | outcomes)


_COLUMNS: Final = (
    "id", "place", "session", "model", "messages", "tools", "outcome", "bar", "first", "total", "tokens_in", "tokens_out",
)  # fmt: skip
_WORDS: Final[dict[Locale, TimesWords]] = {
    "en": _words(
        "en", "pale: until the first chunk", "{place}: turn {turn}, step {step}, attempt {attempt}", "id", "place",
        "session", "model", "messages", "tools", "outcome", "time", "first chunk", "total", "tokens in", "out",
    ),
    "zh": _words(
        "zh", "浅色：首块之前", "{place}：第 {turn} 轮，第 {step} 步，第 {attempt} 次尝试", "编号", "位置",
        "会话", "模型", "消息", "工具", "结果", "时间", "首块", "总计", "输入令牌", "输出",
    ),
}  # fmt: skip
