"""Agents of this process as parents of further calls: what identity may see of them, and the agent itself beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from cassette_lab.contracts import ParentAgent, SubagentRequest
from cassette_lab.session.model import Event

if TYPE_CHECKING:
    from cassette_lab.host.agent import Agent


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalAgent(ParentAgent):
    """An agent of this process. The agent itself takes no part in any identity."""

    agent: Agent


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCall(SubagentRequest):
    """A request that an agent of this process makes, for a child of its own kind."""

    agent: Agent


class EventMembers(Sequence[Mapping[str, Any]]):
    """Events as their JSON members, made when they are asked for."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._events = events

    @overload
    def __getitem__(self, index: int) -> Mapping[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Mapping[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> Mapping[str, Any] | Sequence[Mapping[str, Any]]:
        if isinstance(index, slice):
            return EventMembers(self._events[index])
        return self._events[index].to_json()

    def __len__(self) -> int:
        return len(self._events)
