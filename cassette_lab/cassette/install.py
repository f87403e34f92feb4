"""Sets a cassette up among the providers of a host, to record or to replay, and takes it down again.

Source: cassette format, Recording; the original's ``installCassette``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from cassette_lab.cassette.config import CassetteConfig, Mode, resolve_file
from cassette_lab.cassette.delays import Timer, loop_timer
from cassette_lab.cassette.lock import locked, read_owner
from cassette_lab.cassette.model import ProviderFacts
from cassette_lab.cassette.player import ReplayProvider
from cassette_lab.cassette.progress import Progress
from cassette_lab.cassette.reader import read_cassette
from cassette_lab.cassette.recorder import RecordingProvider
from cassette_lab.cassette.redaction import Redactor
from cassette_lab.cassette.writer import CassetteWriter, make_header
from cassette_lab.contracts import SubagentProviders
from cassette_lab.errors import ConfigError, NoUpstreamError


class CassetteHandle:
    """An installed cassette. ``mode`` is what it does: with ``write_mode="once"`` a file that is there is replayed."""

    def __init__(
        self,
        provider: RecordingProvider | ReplayProvider,
        path: Path,
        config: CassetteConfig,
        unregister: Callable[[], None],
    ) -> None:
        self.provider = provider
        self.path = path
        self.config = config
        self._unregister = unregister
        self._disposed = False

    @property
    def mode(self) -> Mode:
        """``record`` or ``replay``."""
        return "record" if isinstance(self.provider, RecordingProvider) else "replay"

    @property
    def stats(self) -> Progress:
        """Live counters of the calls."""
        return self.provider.progress

    def assert_consumed(self) -> None:
        """Replay: ``MismatchError`` where recorded calls were not asked for. A recording has none to ask for."""
        if isinstance(self.provider, ReplayProvider):
            self.provider.matcher.assert_consumed()

    async def dispose(self) -> None:
        """Unregister the provider; then sync and close a recording, or check that a replay was asked for everything.

        A recording waits for the calls that are out. Raises ``FormatError`` (recording) or ``MismatchError`` (replay,
        unless ``assert_consumed`` is off). Idempotent.
        """
        self._unregister()
        first, self._disposed = not self._disposed, True
        if isinstance(self.provider, RecordingProvider):
            await self.provider.dispose()
        else:
            self.provider.close()
            if first and self.config.assert_consumed:
                self.assert_consumed()

    def abandon(self) -> None:
        """Unregister and close at once, without waiting or checking. Calls of a recording that are out end as aborted."""
        self._unregister()
        self._disposed = True
        self.provider.close()


async def install_cassette(
    config: CassetteConfig,
    providers: SubagentProviders,
    *,
    cwd: str | os.PathLike[str] | None = None,
    now: str | None = None,
    timer: Timer = loop_timer,
) -> CassetteHandle:
    """``open_cassette``, for a host that sets up its providers asynchronously."""
    return open_cassette(config, providers, cwd=cwd, now=now, timer=timer)


def open_cassette(
    config: CassetteConfig,
    providers: SubagentProviders,
    *,
    cwd: str | os.PathLike[str] | None = None,
    now: str | None = None,
    timer: Timer = loop_timer,
) -> CassetteHandle:
    """Open the cassette of ``config`` and register it in ``providers``.

    ``cwd`` and ``now`` (an ISO time) resolve the file, see ``resolve_file``; ``timer`` is what a replay waits with.
    Raises ``ConfigError`` (an option, a pattern, a name that is taken), ``NoUpstreamError``, ``FormatError`` (the file;
    ``LockedError`` where another writer has it), and for a replay what its ``Matcher`` raises.
    """
    if providers.get(config.provider) is not None:
        raise ConfigError(f"a provider {config.provider!r} is registered already; close that cassette first", field="provider")
    path = resolve_file(config.file, cwd=cwd, now=now)
    if config.mode == "replay":
        provider: RecordingProvider | ReplayProvider = _replay(config, path, timer)
    elif config.write_mode == "once" and path.exists():
        owner = read_owner(path)
        if owner is not None:
            raise locked(path, owner)
        provider = _replay(config, path, timer)
    else:
        provider = _record(config, path, providers)
    try:
        unregister = providers.register(provider)
    except BaseException:
        provider.close()
        raise
    return CassetteHandle(provider, path, config, unregister)


def _replay(config: CassetteConfig, path: Path, timer: Timer) -> ReplayProvider:
    return ReplayProvider(
        read_cassette(path),
        name=config.provider,
        timing=config.timing,
        speed=config.speed,
        duplicate_policy=config.duplicate_policy,
        allow_redacted=config.allow_redacted_replay,
        nested=config.nested,
        timer=timer,
    )


def _record(config: CassetteConfig, path: Path, providers: SubagentProviders) -> RecordingProvider:
    upstream = providers.get(config.upstream_provider)
    if upstream is None:
        raise NoUpstreamError(
            f"no provider {config.upstream_provider!r} is registered to record from; register it, or name another one",
        )
    redactor = Redactor(config.redact_secrets, config.redaction_patterns)
    facts = ProviderFacts(
        cassette=config.provider,
        upstream=config.upstream_provider,
        capabilities=upstream.capabilities,
        inherits_parent_context=upstream.inherits_parent_context,
    )
    header = make_header(
        facts,
        request_storage=config.request_storage,
        redact_secrets=config.redact_secrets,
        redaction_patterns=config.redaction_patterns,
    )
    mode = "create" if config.write_mode == "once" else config.write_mode
    writer = CassetteWriter.open(path, header, mode=mode, fsync=config.fsync)
    return RecordingProvider(writer, providers, redactor, redact_labels=config.redact_labels)
