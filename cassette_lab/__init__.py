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
    from cassette_lab.contracts import AbortController, AbortSignal, ModelRequest, ParentAgent, SubagentRequest, SubagentResult
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
    from cassette_lab.host.agent import Agent, AgentResult
    from cassette_lab.host.flights import flight_recorder
    from cassette_lab.host.harness.current import harness
    from cassette_lab.host.harness.options import HarnessOptions
    from cassette_lab.host.harness.provider import HarnessProvider
    from cassette_lab.host.harness.recording import record_harness, replay_harness
    from cassette_lab.host.harness.runtime import Harness, HarnessError, HarnessRun
    from cassette_lab.host.models.deepseek_messages import DeepSeekMessages
    from cassette_lab.host.models.endpoint import Timeouts
    from cassette_lab.host.models.failures import ModelFailure
    from cassette_lab.host.models.openai_chat import OpenAIChat
    from cassette_lab.host.models.scripted import Call, Say, ScriptedModel
    from cassette_lab.host.retrying import RetryPolicy
    from cassette_lab.host.tools import ToolContext, ToolError, ToolOutput, tool
    from cassette_lab.session.follow import Follower, follow
    from cassette_lab.session.model import SessionLog
    from cassette_lab.session.opening import open_session
    from cassette_lab.session.persistence import StoredSession
    from cassette_lab.session.replay_model import ReplayModel
    from cassette_lab.session.rescue import SessionRescue, rescue_session
    from cassette_lab.session.session import Session, new_header
    from cassette_lab.session.store_jsonl import JsonlStore
    from cassette_lab.session.store_sqlite import SqliteSessionStore
    from cassette_lab.tables import Lab, load
    from cassette_lab.views import (
        View,
        durations,
        explore,
        first_chunks,
        paired_deltas,
        report,
        side_by_side,
        stop_reasons,
        time_went,
        timeline,
        timing_deltas,
        token_rates,
        tool_errors,
        topology,
        waterfall,
    )

_HOME = {
    "AbortController": "contracts",
    "AbortError": "errors",
    "AbortSignal": "contracts",
    "Agent": "host.agent",
    "AgentResult": "host.agent",
    "AmbiguityError": "errors",
    "Call": "host.models.scripted",
    "Cassette": "cassette.model",
    "CassetteDiff": "cassette.diff",
    "CassetteLabError": "errors",
    "ClosedError": "errors",
    "ConfigError": "errors",
    "DeepSeekMessages": "host.models.deepseek_messages",
    "Follower": "session.follow",
    "FormatError": "errors",
    "Harness": "host.harness.runtime",
    "HarnessError": "host.harness.runtime",
    "HarnessOptions": "host.harness.options",
    "HarnessProvider": "host.harness.provider",
    "HarnessRun": "host.harness.runtime",
    "IdentityError": "errors",
    "JsonlStore": "session.store_jsonl",
    "Lab": "tables",
    "LockedError": "errors",
    "MismatchError": "errors",
    "ModelFailure": "host.models.failures",
    "ModelRequest": "contracts",
    "NoUpstreamError": "errors",
    "OpenAIChat": "host.models.openai_chat",
    "ParentAgent": "contracts",
    "RecordedError": "errors",
    "ReplayModel": "session.replay_model",
    "RetryPolicy": "host.retrying",
    "Say": "host.models.scripted",
    "ScriptedModel": "host.models.scripted",
    "Session": "session.session",
    "SessionLog": "session.model",
    "SessionRescue": "session.rescue",
    "SqliteSessionStore": "session.store_sqlite",
    "StoredSession": "session.persistence",
    "SubagentRequest": "contracts",
    "SubagentResult": "contracts",
    "Timeouts": "host.models.endpoint",
    "ToolContext": "host.tools",
    "ToolError": "host.tools",
    "ToolOutput": "host.tools",
    "View": "views",
    "diff": "cassette.diff",
    "durations": "views",
    "explore": "views",
    "first_chunks": "views",
    "flight_recorder": "host.flights",
    "follow": "session.follow",
    "harness": "host.harness.current",
    "load": "tables",
    "new_header": "session.session",
    "open_session": "session.opening",
    "paired_deltas": "views",
    "read_cassette": "cassette.reader",
    "record": "host",
    "record_harness": "host.harness.recording",
    "replay": "host",
    "replay_harness": "host.harness.recording",
    "report": "views",
    "rescue": "cassette.rescue",
    "rescue_session": "session.rescue",
    "run_subagent": "host",
    "side_by_side": "views",
    "stop_reasons": "views",
    "subagent": "host",
    "time_went": "views",
    "timeline": "views",
    "timing_deltas": "views",
    "token_rates": "views",
    "tool": "host.tools",
    "tool_errors": "views",
    "topology": "views",
    "waterfall": "views",
}

__all__ = [
    "AbortController",
    "AbortError",
    "AbortSignal",
    "Agent",
    "AgentResult",
    "AmbiguityError",
    "Call",
    "Cassette",
    "CassetteDiff",
    "CassetteLabError",
    "ClosedError",
    "ConfigError",
    "DeepSeekMessages",
    "Follower",
    "FormatError",
    "Harness",
    "HarnessError",
    "HarnessOptions",
    "HarnessProvider",
    "HarnessRun",
    "IdentityError",
    "JsonlStore",
    "Lab",
    "LockedError",
    "MismatchError",
    "ModelFailure",
    "ModelRequest",
    "NoUpstreamError",
    "OpenAIChat",
    "ParentAgent",
    "RecordedError",
    "ReplayModel",
    "RetryPolicy",
    "Say",
    "ScriptedModel",
    "Session",
    "SessionLog",
    "SessionRescue",
    "SqliteSessionStore",
    "StoredSession",
    "SubagentRequest",
    "SubagentResult",
    "Timeouts",
    "ToolContext",
    "ToolError",
    "ToolOutput",
    "View",
    "diff",
    "durations",
    "explore",
    "first_chunks",
    "flight_recorder",
    "follow",
    "harness",
    "load",
    "new_header",
    "open_session",
    "paired_deltas",
    "read_cassette",
    "record",
    "record_harness",
    "replay",
    "replay_harness",
    "report",
    "rescue",
    "rescue_session",
    "run_subagent",
    "side_by_side",
    "stop_reasons",
    "subagent",
    "time_went",
    "timeline",
    "timing_deltas",
    "token_rates",
    "tool",
    "tool_errors",
    "topology",
    "waterfall",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__"))]


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext cassette_lab``: the magics ``%cassette`` and ``%flight``."""
    from cassette_lab.notebook import load_ipython_extension as load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """``%unload_ext cassette_lab``: take the magics out again."""
    from cassette_lab.notebook import unload_ipython_extension as unload

    unload(shell)
