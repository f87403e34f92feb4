"""How an answer of ``%flight`` shows itself: its words, and the requests it is about as a small chart and a table."""

# ruff: noqa: RUF001 - Chinese has punctuation of its own

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

from cassette_lab.flight.command import CommandResult
from cassette_lab.flight.messages import MESSAGES, Locale
from cassette_lab.flight.model import OUTCOME_KINDS, FlightRecord
from cassette_lab.notebook.display import INK, MUTED, Bundle
from cassette_lab.views.flights import TimesWords, request_times
from cassette_lab.views.theme import STYLE

SHOWN_REQUESTS: Final = 20

_PRE: Final = (
    "font-family:var(--jp-code-font-family, monospace);font-size:13px;line-height:1.4;white-space:pre-wrap;margin:4px 0;"
    "background:transparent"
)


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
            drawing = request_times(self.records, _WORDS[self.locale])
            parts += ["", *drawing.draw_text(_TEXT_COLUMNS), *drawing.notes]
        return "\n".join([*parts, *self.notes])

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Bundle:
        del include, exclude
        return self.bundle()

    def bundle(self, *, lively: bool = False) -> Bundle:
        """The answer for a display. A ``lively`` one, soon to be replaced, has its bars made of characters: no time is lost."""
        parts = [f'<pre style="{_PRE};color:{INK}">{escape(self.result.text)}</pre>']
        if self.records:
            drawing = request_times(self.records, _WORDS[self.locale])
            if lively:
                bars = "\n".join([*drawing.draw_text(_TEXT_COLUMNS), *drawing.notes])
                parts.append(f'<pre style="{_PRE};color:{INK}">{escape(bars)}</pre>')
                parts.append(f'<figure class="clab"><style>{STYLE}</style>{drawing.cells.html()}</figure>')
            else:
                parts.append(drawing.html(opened=True))
        parts += [f'<div style="color:{MUTED}">{escape(note)}</div>' for note in self.notes]
        return {"text/plain": repr(self), "text/html": f'<div class="cassette-flight">{"".join(parts)}</div>'}


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


def _words(locale: Locale, title: str, legend: str, axis: str, *headers: str) -> TimesWords:
    outcomes: dict[str, str] = {kind: MESSAGES[locale][f"outcome.{kind}"] for kind in OUTCOME_KINDS}
    return TimesWords(title, legend, axis, headers, outcomes)


_WORDS: Final[dict[Locale, TimesWords]] = {
    "en": _words(
        "en", "First chunk and total of requests", "pale: until the first chunk", "time", "id", "turn.step.attempt", "model",
        "messages", "tools", "outcome", "first chunk", "total", "tokens in", "tokens out",
    ),
    "zh": _words(
        "zh", "请求的首块与总计时间", "浅色：首块之前", "时间", "编号", "轮.步.次", "模型",
        "消息", "工具", "结果", "首块", "总计", "输入令牌", "输出令牌",
    ),
}  # fmt: skip
