"""``record`` and ``replay``: the cassettes to work under, in plain Python and in the magics."""

from __future__ import annotations

import difflib
import functools
import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, Final, ParamSpec, cast

from cassette_lab.cassette.config import DEFAULT_FILE, CassetteConfig, WriteMode
from cassette_lab.cassette.delays import ReplayTiming
from cassette_lab.cassette.matching import DuplicatePolicy, NestedPolicy
from cassette_lab.cassette.model import RequestStorage
from cassette_lab.cassette.writer import Durability
from cassette_lab.errors import ConfigError
from cassette_lab.host.active import SETTLE_TIMEOUT_S, ActiveCassette
from cassette_lab.host.registry import REGISTRY, SubagentRegistry

P = ParamSpec("P")


def _with_known_options(function: Callable[P, ActiveCassette]) -> Callable[P, ActiveCassette]:
    """``function``, which answers an option that it does not have with a sentence."""
    known = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> ActiveCassette:
        for name in options:
            if name not in known:
                raise ConfigError(f"{function.__name__}() has no option {name!r}; {_instead(name, known)}", field=name)
        return function(*args, **options)

    return call


@_with_known_options
def record(
    file: str | os.PathLike[str] = DEFAULT_FILE,
    *,
    write_mode: WriteMode = "create",
    request_storage: RequestStorage = "metadata",
    redact_secrets: bool = True,
    redaction_patterns: Sequence[str] = (),
    redact_labels: bool = False,
    fsync: Durability = "close",
    upstream_provider: str = "spawn",
    provider: str = "cassette",
    settle_timeout_s: float = SETTLE_TIMEOUT_S,
    registry: SubagentRegistry = REGISTRY,
    timing: ReplayTiming = "instant",
    speed: float = 1,
    duplicate_policy: DuplicatePolicy = "reject",
    allow_redacted_replay: bool = False,
    assert_consumed: bool = True,
    nested: NestedPolicy = "strict",
) -> ActiveCassette:
    """A cassette to record into, under ``async with``: every subagent call of the block.

    ``file``: where; ``{timestamp}`` and ``{pid}`` in it are filled in.
    ``write_mode``: ``create`` (the file must not exist), ``truncate``, ``append``, or ``once``: record where the file is
    missing, replay it where it is there.
    ``request_storage``: ``metadata`` keeps sizes and labels of requests, ``full`` the prompts too.
    ``redact_secrets``: replace secrets by ``[REDACTED]`` in the file; callers get what the call returned.
    ``redaction_patterns``: JavaScript regular expressions to redact as well.
    ``redact_labels``: redact labels and the names of models and tools, too.
    ``fsync``: sync the file when it is closed (``close``), or after each call (``each``).
    ``upstream_provider``: the name of the provider to record from; ``spawn`` runs ``@subagent`` functions.
    ``provider``: the name that the cassette itself is registered under.
    ``settle_timeout_s``: how long leaving the block waits for calls that still run, before it stops them.
    ``registry``: whose providers.
    The other options are ``replay``'s, for ``write_mode="once"`` only.

    Raises ``ConfigError`` for an option that cannot be used; entering the block raises what ``open_cassette`` does.
    """
    replaying = {
        "timing": timing,
        "speed": speed,
        "duplicate_policy": duplicate_policy,
        "allow_redacted_replay": allow_redacted_replay,
        "assert_consumed": assert_consumed,
        "nested": nested,
    }
    if write_mode != "once":
        for name, value in replaying.items():
            if value != _DEFAULTS[name]:
                raise ConfigError(f'{name} is for replay(), or for record() with write_mode="once"', field=name)
    config = CassetteConfig(
        mode="record",
        file=file,
        write_mode=write_mode,
        request_storage=request_storage,
        redact_secrets=redact_secrets,
        redaction_patterns=cast("tuple[str, ...]", redaction_patterns),
        redact_labels=redact_labels,
        fsync=fsync,
        upstream_provider=upstream_provider,
        provider=provider,
        **cast("dict[str, Any]", replaying),
    )
    return ActiveCassette(config, settle_timeout_s=settle_timeout_s, registry=registry)


@_with_known_options
def replay(
    file: str | os.PathLike[str],
    *,
    timing: ReplayTiming = "instant",
    speed: float = 1,
    duplicate_policy: DuplicatePolicy = "reject",
    allow_redacted_replay: bool = False,
    assert_consumed: bool = True,
    nested: NestedPolicy = "strict",
    provider: str = "cassette",
    settle_timeout_s: float = SETTLE_TIMEOUT_S,
    registry: SubagentRegistry = REGISTRY,
) -> ActiveCassette:
    """A cassette to replay, under ``async with``: every subagent call of the block is answered from it, none is made.

    ``file``: the recording.
    ``timing``: answer at once (``instant``), or after the times that were ``recorded``.
    ``speed``: with recorded times, 2 is twice as quick; at least 0.001.
    ``duplicate_policy``: equal calls with different outcomes: ``reject`` the file, or take them in ``sequence``.
    ``allow_redacted_replay``: replay results in which secrets were redacted, as they stand in the file.
    ``assert_consumed``: leaving the block raises ``MismatchError`` where recorded calls were not asked for.
    ``nested``: calls recorded below a replayed call must be made again (``strict``), or need not (``covered``).
    ``provider``: the name that the cassette is registered under.
    ``settle_timeout_s``: how long leaving the block waits for calls that still run, before it stops them.
    ``registry``: whose providers.

    Raises ``ConfigError`` for an option that cannot be used; entering the block raises what ``open_cassette`` does.
    """
    config = CassetteConfig(
        mode="replay",
        file=file,
        timing=timing,
        speed=speed,
        duplicate_policy=duplicate_policy,
        allow_redacted_replay=allow_redacted_replay,
        assert_consumed=assert_consumed,
        nested=nested,
        provider=provider,
    )
    return ActiveCassette(config, settle_timeout_s=settle_timeout_s, registry=registry)


_DEFAULTS: Final = {field.name: field.default for field in fields(CassetteConfig)}


def _instead(name: str, known: Sequence[str]) -> str:
    """The way out of an option that is not known."""
    if name in inspect.signature(record).parameters:
        return "it is one of record()"
    near = difflib.get_close_matches(name, known, 1)
    return f"did you mean {near[0]}?" if near else f"it has {', '.join(known[1:])}"
