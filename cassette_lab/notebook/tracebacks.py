"""How the errors of this package show themselves under a cell: what is wrong, where the call was made, what to do.

IPython asks an exception for ``_render_traceback_``. While the extension is loaded ours answer: one sentence in place of
the frames of this library, for a mismatch the comparison with the recorded calls. What a recorded agent raised keeps its
traceback, without our frames.
"""

from __future__ import annotations

import linecache
import sysconfig
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final

from IPython.core.interactiveshell import InteractiveShell

import cassette_lab
from cassette_lab.errors import CassetteLabError, MismatchError, RecordedError
from cassette_lab.jsonio.text import show
from cassette_lab.notebook.display import explanation, publish, sentence
from cassette_lab.views.theme import fit

_HOOK: Final = "_render_traceback_"
_OURS: Final = str(Path(cassette_lab.__file__).parent)
_NOT_THE_USERS: Final = (_OURS, *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")))
_PLACES: Final = 3
_RED: Final = "\x1b[31m"
_PLAIN: Final = "\x1b[0m"
_compared: Final[weakref.WeakSet[MismatchError]] = weakref.WeakSet()


def install(shell: InteractiveShell) -> None:
    """Let our errors show themselves, in ``shell``."""

    def render(error: CassetteLabError) -> list[str]:
        return rendered(error, shell)

    setattr(CassetteLabError, _HOOK, render)


def uninstall() -> None:
    """Undo ``install``."""
    if hasattr(CassetteLabError, _HOOK):
        delattr(CassetteLabError, _HOOK)


def rendered(error: CassetteLabError, shell: InteractiveShell) -> list[str]:
    """The lines that stand for the traceback of ``error``; the comparison of a mismatch is displayed where it can be."""
    if isinstance(error, RecordedError):
        trace = _without_ours(error.__traceback__)
        return list(shell.InteractiveTB.structured_traceback(type(error), error, trace, tb_offset=1))
    colours = ("", "") if shell.colors.lower() == "nocolor" else (_RED, _PLAIN)
    head = f"{colours[0]}{type(error).__name__}{colours[1]}: "
    places = [f"  {place}" for place in _places(error, shell)]
    shown = explanation(error) if isinstance(error, MismatchError) else None
    if shown is None or not isinstance(error, MismatchError):
        return [head + sentence(error), *places]
    if not hasattr(shell, "kernel"):
        return [head + _short(error), *(f"  {line}" for line in shown["text/plain"].splitlines()), *places]
    if error not in _compared:  # IPython renders an error more than once
        _compared.add(error)
        publish(shown)
    return [head + _short(error), *places]


def explain_nested(error: BaseException | None) -> None:
    """Display the comparison of each mismatch inside an exception group: IPython prints the group by itself."""
    if not isinstance(error, BaseExceptionGroup):
        return
    mismatches = error.subgroup(MismatchError)
    for each in _leaves(mismatches) if mismatches is not None else ():
        shown = explanation(each) if isinstance(each, MismatchError) else None
        if shown is not None:
            publish(shown)


def _short(error: MismatchError) -> str:
    """The sentence, without what the comparison beside it says better."""
    return sentence(MismatchError(error.message.partition(":")[0], path=error.path))


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for each in group.exceptions:
        if isinstance(each, BaseExceptionGroup):
            yield from _leaves(each)
        else:
            yield each


def _places(error: BaseException, shell: InteractiveShell) -> list[str]:
    """The user's own lines on the way to the call, the call last; none where a magic raised the error."""
    places = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename.startswith(f"{_OURS}/notebook") or code.co_filename.startswith(f"{_OURS}\\notebook"):
            return []
        if not code.co_filename.startswith(_NOT_THE_USERS):
            named = shell.compile.format_code_name(code.co_filename)
            where = f"{named[0]} {named[1]}" if named else show(code.co_filename)
            inside = "" if code.co_name == "<module>" else f", in {code.co_name}"
            text = fit(show(linecache.getline(code.co_filename, trace.tb_lineno).strip()), 90)
            places.append(f"{where}, line {trace.tb_lineno}{inside}: {text}")
        trace = trace.tb_next
    return places[-_PLACES:]


def _without_ours(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without the frames of this package."""
    kept: list[TracebackType] = []
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(_OURS):
            kept.append(trace)
        trace = trace.tb_next
    rest: TracebackType | None = None
    for each in reversed(kept):
        rest = TracebackType(rest, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return rest
