"""``record`` and ``replay``: the cassettes to work under, in plain Python and in the magics."""

from __future__ import annotations

import os
from dataclasses import fields
from typing import Any, Final, TypedDict, Unpack

from cassette_lab.cassette.config import DEFAULT_FILE, CassetteConfig, Mode, WriteMode
from cassette_lab.cassette.delays import ReplayTiming
from cassette_lab.cassette.matching import DuplicatePolicy, NestedPolicy
from cassette_lab.cassette.model import RequestStorage
from cassette_lab.cassette.writer import Durability
from cassette_lab.errors import ConfigError
from cassette_lab.host.active import ActiveCassette
from cassette_lab.host.registry import SubagentRegistry


class CassetteOptions(TypedDict, total=False):
    """What ``record`` and ``replay`` take beside the file: the fields of ``CassetteConfig``, and two of their own.

    ``settle_timeout_s``: how long leaving the block waits for calls that still run. ``registry``: whose providers.
    """

    provider: str
    upstream_provider: str
    write_mode: WriteMode
    request_storage: RequestStorage
    redact_secrets: bool
    redaction_patterns: tuple[str, ...] | list[str]
    redact_labels: bool
    fsync: Durability
    timing: ReplayTiming
    speed: float
    duplicate_policy: DuplicatePolicy
    allow_redacted_replay: bool
    assert_consumed: bool
    nested: NestedPolicy
    settle_timeout_s: float
    registry: SubagentRegistry


def record(file: str | os.PathLike[str] = DEFAULT_FILE, **options: Unpack[CassetteOptions]) -> ActiveCassette:
    """A cassette to record into, under ``async with``: every subagent call of the block.

    The options are ``CassetteConfig``'s; with ``write_mode="once"`` a file that is there is replayed instead. Raises
    ``ConfigError`` for an option that cannot be used; entering the block raises what ``open_cassette`` does.
    """
    return _configured("record", file, options)


def replay(file: str | os.PathLike[str], **options: Unpack[CassetteOptions]) -> ActiveCassette:
    """A cassette to replay, under ``async with``: every subagent call of the block is answered from it.

    The options are ``CassetteConfig``'s. Leaving the block raises ``MismatchError`` where recorded calls were not asked
    for, unless ``assert_consumed=False``.
    """
    return _configured("replay", file, options)


_CONFIG_OPTIONS: Final = frozenset(field.name for field in fields(CassetteConfig)) - {"mode", "file"}
_OWN_OPTIONS: Final = frozenset({"settle_timeout_s", "registry"})


def _configured(mode: Mode, file: str | os.PathLike[str], options: CassetteOptions) -> ActiveCassette:
    given: dict[str, Any] = dict(options)
    unknown = sorted(given.keys() - _CONFIG_OPTIONS - _OWN_OPTIONS)
    if unknown:
        raise ConfigError(f"{mode}() has no option {unknown[0]!r}; it has {', '.join(sorted(_CONFIG_OPTIONS | _OWN_OPTIONS))}")
    own = {name: given.pop(name) for name in _OWN_OPTIONS & given.keys()}
    return ActiveCassette(CassetteConfig(mode=mode, file=file, **given), **own)
