"""The event types that the formats know. Source: session logs, Event types.

The harness refuses a log with any other type unless the event is marked as ignorable; here such an event is kept and told.
"""

from __future__ import annotations

import re
from typing import Final

_ALL_FORMATS: Final = """
turn/start turn/end step/start step/end user/message assistant/message tool/call tool/result request/header request/context
llm/retry llm/retry-started compaction/start compaction/end compaction/summary compaction/prune subagent/descriptor
session/end-seed agent/inbox/spliced session/title todo/write goal/change plan/mode command/run command/done sandbox/mode
permission/preset schedule/change workspace/changes image/offload working-directory/change
session/title-llm-request web/deepseek-search-llm-request session-log-deepseek/delivery-accepted steering/message
"""
_FAMILIES: Final = re.compile(r"(?:approval|hook|feedback|team|tool-workflow|compact)/.|plugin:")
"""Log-only state comes in families, ``compact/`` is what old logs call ``compaction/``; ``plugin:`` marks a plugin's own."""

_ADDED: Final = {
    "system/message": 3,
    "developer/message": 4,
    "assistant/attempt": 2,
    "tool/ptc-dispatch-start": 3,
    "tool/ptc-dispatch": 3,
    "job/registered": 4,
    "job/settled": 4,
    "subagent/catalog": 3,
}
_REMOVED: Final = {"assistant/chunk": 1, "tool/code-dispatch-start": 2, "tool/code-dispatch": 2}
_KNOWN: Final = frozenset(_ALL_FORMATS.split())


def is_known(kind: str, version: int) -> bool:
    """Whether format ``version`` has events of this type."""
    if kind in _KNOWN:
        return True
    if kind in _ADDED:
        return version >= _ADDED[kind]
    if kind in _REMOVED:
        return version <= _REMOVED[kind]
    return _FAMILIES.match(kind) is not None


DELEGATING: Final = frozenset({"subagent", "subagent_fork"})
"""Names of the tools that start subagents."""
