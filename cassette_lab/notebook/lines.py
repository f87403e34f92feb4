"""The quiet line of a recording or replay: while it runs, and when it is over."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from cassette_lab.cassette.model import Interaction
from cassette_lab.cassette.player import ReplayProvider
from cassette_lab.cassette.reader import read_cassette
from cassette_lab.errors import CassetteLabError
from cassette_lab.host.active import ActiveCassette
from cassette_lab.host.status import CassetteStatus
from cassette_lab.notebook.display import RED, QuietLine, short_path
from cassette_lab.notebook.strip import bars_of, picture
from cassette_lab.words import duration_text, plural

MARKS: Final = {"record": ("●", "#d55e00"), "replay": ("▶", "#0072b2")}
PICTURED_BYTES: Final = 1 << 19
"""A recording larger than this is not read again for the sake of its picture."""

_NAMED: Final = 3


def live_line(cassette: ActiveCassette, *, ending: bool = False) -> QuietLine:
    """What is going on: ``● recording · 3 calls · running: audit, docs · 4 s · run.jsonl``."""
    status = cassette.status()
    mark, colour = MARKS[status.mode]
    doing = {"record": "recording", "replay": "replaying"}[status.mode]
    calls = (
        f"{status.consumed:,} of {plural(status.total, 'call')}" if status.mode == "replay" else plural(status.started, "call")
    )
    words = [doing, calls]
    if status.refused:
        words.append(f"{plural(status.refused, 'call')} refused")
    words += _outcomes(status)
    if status.running:
        words.append(f"{'waiting for' if ending else 'running:'} {names(status.running)}")
    words.append(f"{int(status.elapsed_s)} s")
    return QuietLine(mark, words, short_path(status.file), colour=colour, muted=True)


def last_line(cassette: ActiveCassette, error: BaseException | None = None) -> QuietLine:
    """What it came to, with the picture of its calls. ``error`` is what ended the body."""
    status = cassette.status()
    mark, colour = MARKS[status.mode]
    calls, known = _calls(cassette, status)
    work_ms = sum(call.timing.duration_ms for call in calls) if calls else status.recorded_ms
    words = _replayed(status) if status.mode == "replay" else _recorded(status, known)
    if status.started and work_ms:
        words.append(f"{duration_text(work_ms)} of work in {duration_text(status.elapsed_s * 1000)}")
    if status.refused:
        colour = RED
    if error is not None:
        words.append(f"stopped by {type(error).__name__}")
        colour = RED
    return QuietLine(mark, words, short_path(status.file), picture(bars_of(calls)), colour=colour)


def names(labels: Iterable[str]) -> str:
    """``audit, docs and 3 more``: the first few of the labels."""
    each = list(labels)
    more = f" and {len(each) - _NAMED} more" if len(each) > _NAMED else ""
    return ", ".join(each[:_NAMED]) + more


def _recorded(status: CassetteStatus, known: int) -> list[str]:
    words = [f"recorded {plural(status.started, 'call')}"]
    if not status.started:
        words.append("no @subagent call was awaited")
    if known:
        words.append(f"{known + status.started:,} in the file")
    words += _outcomes(status)
    if status.redacted_results:
        words.append(f"{plural(status.redacted_results, 'result')} redacted: replay needs --allow-redacted")
    if status.late_calls:
        words.append(f"incomplete: {plural(status.late_calls, 'call')} came after its end")
    return words


def _replayed(status: CassetteStatus) -> list[str]:
    words = [f"replayed {status.consumed:,} of {plural(status.total, 'call')}"]
    if status.refused:
        words.append(f"{plural(status.refused, 'call')} refused: not in the recording")
    if status.covered:
        words.append(f"{status.covered:,} covered by their parents")
    words += _outcomes(status)
    if status.consumption.startswith(("skipped", "not checked")) and status.consumed + status.covered < status.total:
        words.append("leftover calls not checked")
    return words


def _outcomes(status: CassetteStatus) -> list[str]:
    """What did not complete, worst first: errors that were raised, then results by what stopped them."""
    errors = "recorded error" if status.mode == "replay" else "error"
    words = [f"{plural(status.raised, errors)} raised"] if status.raised else []
    words += [f"{status.stopped[name]:,} {word}" for name, word in _STOPPED.items() if status.stopped.get(name)]
    return [*words, f"{status.aborted:,} aborted"] if status.aborted else words


_STOPPED: Final = {"error": "ended in error", "max-tokens": "limit", "refusal": "refused", "other": "other"}
"""Words for stop reasons by category, as beside the bars of a chart."""


def _calls(cassette: ActiveCassette, status: CassetteStatus) -> tuple[Sequence[Interaction], int]:
    """The calls of this session as the file tells them (none where it is too large), and how many it had before."""
    provider = cassette.handle.provider
    if isinstance(provider, ReplayProvider):
        return [call for call in provider.matcher.cassette.interactions if provider.matcher.is_consumed(call)], 0
    try:
        if cassette.path.stat().st_size > PICTURED_BYTES:
            return [], 0
        calls = read_cassette(cassette.path).interactions
    except (CassetteLabError, OSError):
        return [], 0
    known = max(0, len(calls) - status.started)
    return [call for call in calls if call.sequence > known], known
