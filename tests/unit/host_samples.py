"""Agents for the tests of the host: with stores in a test's folder, and what their logs say."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cassette_lab.host.agent import Agent
from cassette_lab.host.context import Context
from cassette_lab.host.models.scripted import ScriptedModel
from cassette_lab.host.retrying import RetryPolicy
from cassette_lab.jsonio import JsonObject
from cassette_lab.session.derive import derive
from cassette_lab.session.facts import SessionFacts
from cassette_lab.session.model import SessionLog
from cassette_lab.session.replay_model import ReplayModel
from cassette_lab.session.scripts import script_of_log
from cassette_lab.session.store_jsonl import JsonlStore


def logged(folder: Path, session_id: str) -> SessionLog:
    """The log of a session as it is on disk."""
    return JsonlStore(folder).load(session_id)


def facts_of(folder: Path, session_id: str) -> SessionFacts:
    """What our own reader tells of it."""
    return derive(logged(folder, session_id))


def without_ids(messages: Iterable[JsonObject]) -> list[JsonObject]:
    """Messages as they can be compared between runs."""
    return [{name: value for name, value in message.items() if name != "id"} for message in messages]


def replaying(log: SessionLog) -> ReplayModel:
    """A model that answers as the log says."""
    return ReplayModel([script_of_log(log, primary=True)])


def patient(noted: list[float], **options: Any) -> RetryPolicy:
    """A retry policy that does not really wait."""

    async def sleep(delay_s: float) -> None:
        noted.append(delay_s)
        await asyncio.sleep(0)

    return RetryPolicy(sleep=sleep, **options)


def agent(*answers: Any, **options: Any) -> Agent:
    """An agent on a scripted model, in a host of its own."""
    return Agent(ScriptedModel(*answers), context=options.pop("context", None) or Context(), **options)
