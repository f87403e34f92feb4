"""The notebook lab for agent runs: record, verify, replay, diff and chart subagent calls.

>>> import cassette_lab as cl
>>> lab = cl.load("runs/")  # doctest: +SKIP

In a notebook: ``%load_ext cassette_lab``. Every name below is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from cassette_lab.cassette.diff import CassetteDiff, diff
    from cassette_lab.cassette.model import Cassette
    from cassette_lab.cassette.reader import read_cassette
    from cassette_lab.cassette.rescue import rescue
    from cassette_lab.contracts import AbortController, AbortSignal, ParentAgent, SubagentRequest, SubagentResult
    from cassette_lab.errors import (
        AbortError,
        AmbiguityError,
        CassetteLabError,
        ClosedError,
        ConfigError,
        FormatError,
        IdentityError,
        LockedError,
        MismatchError,
        NoUpstreamError,
        RecordedError,
    )
    from cassette_lab.host import record, replay, run_subagent, subagent
    from cassette_lab.session.model import SessionLog
    from cassette_lab.session.opening import open_session
    from cassette_lab.tables import Lab, load
    from cassette_lab.views import report, stop_reasons, timeline, timing_deltas, topology

_HOME = {
    "AbortController": "contracts",
    "AbortError": "errors",
    "AbortSignal": "contracts",
    "AmbiguityError": "errors",
    "Cassette": "cassette.model",
    "CassetteDiff": "cassette.diff",
    "CassetteLabError": "errors",
    "ClosedError": "errors",
    "ConfigError": "errors",
    "FormatError": "errors",
    "IdentityError": "errors",
    "Lab": "tables",
    "LockedError": "errors",
    "MismatchError": "errors",
    "NoUpstreamError": "errors",
    "ParentAgent": "contracts",
    "RecordedError": "errors",
    "SessionLog": "session.model",
    "SubagentRequest": "contracts",
    "SubagentResult": "contracts",
    "diff": "cassette.diff",
    "load": "tables",
    "open_session": "session.opening",
    "read_cassette": "cassette.reader",
    "record": "host",
    "replay": "host",
    "report": "views",
    "rescue": "cassette.rescue",
    "run_subagent": "host",
    "stop_reasons": "views",
    "subagent": "host",
    "timeline": "views",
    "timing_deltas": "views",
    "topology": "views",
}

__all__ = [
    "AbortController",
    "AbortError",
    "AbortSignal",
    "AmbiguityError",
    "Cassette",
    "CassetteDiff",
    "CassetteLabError",
    "ClosedError",
    "ConfigError",
    "FormatError",
    "IdentityError",
    "Lab",
    "LockedError",
    "MismatchError",
    "NoUpstreamError",
    "ParentAgent",
    "RecordedError",
    "SessionLog",
    "SubagentRequest",
    "SubagentResult",
    "diff",
    "load",
    "open_session",
    "read_cassette",
    "record",
    "replay",
    "report",
    "rescue",
    "run_subagent",
    "stop_reasons",
    "subagent",
    "timeline",
    "timing_deltas",
    "topology",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext cassette_lab``: the ``%cassette`` magics."""
    from cassette_lab.notebook import load_ipython_extension as load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """``%unload_ext cassette_lab``: take the magics out again."""
    from cassette_lab.notebook import unload_ipython_extension as unload

    unload(shell)
