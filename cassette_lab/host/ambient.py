"""Who is calling: the parent that a subagent call belongs to, carried by a context variable into tasks and threads."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from typing import Final

from cassette_lab.cassette.runs import new_run_id
from cassette_lab.contracts import ROOT_PARENT, ParentAgent

SUBAGENT_ORIGIN: Final = "subagent"

_parent: Final[ContextVar[ParentAgent]] = ContextVar("cassette_lab_parent", default=ROOT_PARENT)


def current_parent() -> ParentAgent:
    """The agent whose code is running: a subagent inside one, else the root."""
    return _parent.get()


def new_child(parent: ParentAgent) -> ParentAgent:
    """A child that runs in this process, one level below ``parent``."""
    depth = parent.header.get("delegationDepth", 0)
    depth = depth + 1 if isinstance(depth, int) else 1
    return ParentAgent(id=new_run_id("agent"), header={"origin": SUBAGENT_ORIGIN, "delegationDepth": depth})


def enter_parent(parent: ParentAgent) -> Callable[[], None]:
    """Calls from here on belong to ``parent``, until the returned function is called (in this context)."""
    token = _parent.set(parent)
    return lambda: _parent.reset(token)


def context_of(parent: ParentAgent) -> Context:
    """A copy of the current context in which calls belong to ``parent``."""
    context = copy_context()
    context.run(_parent.set, parent)
    return context
