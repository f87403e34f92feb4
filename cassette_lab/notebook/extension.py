"""Everything the extension puts into a shell, and how it takes it out again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from IPython.core.interactiveshell import InteractiveShell
from IPython.lib.pretty import RepresentationPrinter

from cassette_lab.notebook import tracebacks
from cassette_lab.notebook.completion import cassette_matcher
from cassette_lab.notebook.display import Bundle, short_path
from cassette_lab.notebook.flight_completion import flight_matcher
from cassette_lab.notebook.flight_magics import FlightMagics
from cassette_lab.notebook.flight_options import NAME as FLIGHT
from cassette_lab.notebook.magics import CassetteMagics
from cassette_lab.notebook.options import UsageError
from cassette_lab.notebook.reports import show_diff, show_harness
from cassette_lab.notebook.transform import NAME, BodyStep, CellStep, StopStep

_MAGICS: Final = CassetteMagics.__name__
_FLIGHT_MAGICS: Final = FlightMagics.__name__
_MATCHERS: Final = (cassette_matcher, flight_matcher)
_SHOWN: Final[dict[tuple[str, str], Callable[[Any], Bundle]]] = {
    ("cassette_lab.cassette.diff", "CassetteDiff"): show_diff,
    ("cassette_lab.host.harness.recording", "HarnessTape"): show_harness,
}
"""Types of lower rooms that show themselves in a notebook, and how."""


def load(shell: InteractiveShell) -> None:
    """Magics, the two steps that let their bodies await, completion, displays. Loading twice does nothing."""
    if _MAGICS in shell.magics_manager.registry:
        return
    magics = CassetteMagics(shell)
    shell.register_magics(magics)
    magics.binding.register(shell)
    shell.input_transformers_cleanup.extend([CellStep(shell), StopStep(shell)])
    shell.ast_transformers.append(BodyStep(shell))
    flights = FlightMagics(shell)
    shell.register_magics(flights)
    flights.come()
    shell.Completer.custom_matchers.extend(_MATCHERS)
    formatters = _formatters(shell)
    for home, show in _SHOWN.items():
        formatters["text/html"].for_type_by_name(*home, _as_html(show))
        formatters["text/plain"].for_type_by_name(*home, _as_text(show))
    tracebacks.install(shell)


def unload(shell: InteractiveShell) -> None:
    """Undo ``load``. A line form that is still open must be stopped first: its file would be left without an end.

    A flight recorder that ``%flight`` turned on is turned off, and on again by the next ``load``: a reload forgets nothing.
    """
    magics = shell.magics_manager.registry.get(_MAGICS)
    if magics is None:
        return
    active = magics.line_cassette
    if active is not None and not active.closed:
        raise UsageError(f"the {active.mode} of {short_path(active.path)} is open; %{NAME} stop ends it, then unload")
    del shell.magics_manager.registry[_MAGICS]
    flights = shell.magics_manager.registry.pop(_FLIGHT_MAGICS, None)
    if flights is not None:
        flights.leave()
    magics.binding.unregister(shell)
    for kind in ("line", "cell"):
        for name in (NAME, FLIGHT):
            shell.magics_manager.magics[kind].pop(name, None)
    steps = shell.input_transformers_cleanup
    steps[:] = [step for step in steps if not _is(step, CellStep, StopStep)]
    shell.ast_transformers[:] = [step for step in shell.ast_transformers if not _is(step, BodyStep)]
    matchers = shell.Completer.custom_matchers
    matchers[:] = [matcher for matcher in matchers if matcher not in _MATCHERS]
    for kind in ("text/html", "text/plain"):
        for home in _SHOWN:
            _formatters(shell)[kind].pop(".".join(home), None)
    tracebacks.uninstall()


def _formatters(shell: InteractiveShell) -> dict[str, Any]:
    formatter = shell.display_formatter
    return {} if formatter is None else formatter.formatters


def _as_html(show: Callable[[Any], Bundle]) -> Callable[[Any], str]:
    return lambda value: show(value)["text/html"]


def _as_text(show: Callable[[Any], Bundle]) -> Callable[[Any, RepresentationPrinter, bool], None]:
    return lambda value, printer, _cycle: printer.text(show(value)["text/plain"])


def _is(step: object, *kinds: type) -> bool:
    return isinstance(step, kinds)
