"""What an active cassette says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cassette_lab.cassette.config import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class CassetteStatus:
    """What an active cassette has done so far; the last word once it is closed.

    ``running`` are the labels of calls without an outcome. ``completed`` and ``aborted`` count results by stop reason,
    ``failed`` every other outcome: ``raised`` of them raised an error, the others are results that ``stopped`` for
    another reason, counted by its category. ``total`` is the number of calls in the file (replay), ``consumed`` of them were
    asked for, ``covered`` stand below such a call (counted at the end). ``recorded_ms`` is the recorded duration of the
    replayed calls, ``saved_ms`` what replay did not wait of it. ``consumption`` says how the check at the end went.
    ``refused`` calls had no answer in the replayed file and raised ``MismatchError`` (or why they have no place), also where
    the agent went on. ``redacted_results`` were recorded without their secrets: replaying them must be allowed.
    ``late_calls`` came after the end: a recording with late calls is incomplete.
    """

    file: str
    mode: Mode
    closed: bool
    started: int
    running: tuple[str, ...]
    completed: int
    failed: int
    raised: int
    stopped: Mapping[str, int]
    aborted: int
    total: int
    consumed: int
    covered: int
    recorded_ms: float
    saved_ms: float
    elapsed_s: float
    consumption: str
    late_calls: int
    refused: int
    redacted_results: int
