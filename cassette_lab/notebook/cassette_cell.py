"""Cells that record or replay a cassette: how it is opened, and what is shown of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from IPython.core.interactiveshell import InteractiveShell

from cassette_lab.cassette.lock import break_lock, owner_is_dead
from cassette_lab.errors import CassetteLabError, ExistingFileError, FormatError, LockedError
from cassette_lab.host import record, replay
from cassette_lab.host.active import ActiveCassette
from cassette_lab.host.harness.recorded import SESSIONS
from cassette_lab.notebook.block import Block
from cassette_lab.notebook.display import Bundle, QuietLine, publish, short_path
from cassette_lab.notebook.lines import last_line, live_line
from cassette_lab.notebook.options import Command
from cassette_lab.notebook.tracebacks import explain_nested
from cassette_lab.notebook.transform import loop_is_running

DEFAULTS: Final[dict[str, Any]] = {"nested": "covered"}
"""Where the magics differ from the library: calls under a replayed call need not be made again."""


def opened(command: Command) -> ActiveCassette:
    """The cassette of a ``record`` or ``replay`` command, open.

    A lock that was left behind by a process that is gone is released, and said so. Raises what ``open_cassette`` does.
    """
    given = dict(command.given)
    if "max_wait_s" in given:
        given["settle_timeout_s"] = given.pop("max_wait_s")
    make: Callable[..., ActiveCassette] = {"record": record, "replay": replay}[command.verb]
    replays = command.verb == "replay" or given.get("write_mode") == "once"
    cassette = make(*command.files, **(DEFAULTS if replays else {}) | given)
    try:
        return cassette.open()
    except LockedError as error:
        if error.path is None or not error.owner or owner_is_dead(error.owner) is not True:
            raise
        _release(Path(error.path))
    except FormatError as error:
        raise _offered(error) from None
    try:
        return cassette.open()
    except FormatError as error:
        raise _offered(error) from None


class CassetteTaping:
    """An open cassette, and what is shown of it."""

    def __init__(self, cassette: ActiveCassette) -> None:
        self.cassette = cassette
        self.bind = cassette.bind
        self.close = cassette.close
        self.interrupt = cassette.interrupt

    def live_line(self, *, ending: bool = False) -> QuietLine:
        """The calls so far."""
        return live_line(self.cassette, ending=ending)

    def last_line(self, error: BaseException | None) -> QuietLine:
        """The calls, and their picture."""
        return last_line(self.cassette, error)

    def below(self) -> Bundle | None:
        """Nothing: errors are shown where they are raised."""
        return None


class CassetteBlock(Block):
    """The block of a cassette. It can also stand inside another cell, whose loop cannot run before that ends."""

    def __init__(self, command: Command, shell: InteractiveShell, on_open: Callable[[ActiveCassette], None]) -> None:
        super().__init__(command, shell, self._open)
        self._on_open = on_open
        self._cassette: ActiveCassette | None = None

    def __enter__(self) -> Self:
        self._begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if not loop_is_running():
            super().__exit__(kind, error, trace)
            return
        assert self._cassette is not None  # noqa: S101 - entered
        self._leave()
        try:
            self._cassette.close_now(error)
        except CassetteLabError as failure:
            if error is None:
                raise
            error.add_note(str(failure))
        finally:
            publish(last_line(self._cassette, error).bundle())
            explain_nested(error)

    def _open(self) -> CassetteTaping:
        self._cassette = opened(self._command)
        self._on_open(self._cassette)
        return CassetteTaping(self._cassette)


def _release(path: Path) -> None:
    """Break a dead owner's lock, and say so."""
    owner = break_lock(path)
    if owner is not None:
        words = [f"released the lock that process {owner.get('pid')} left behind; it is gone"]
        publish(QuietLine("⚿", words, short_path(path), muted=True).bundle())


def _offered(error: FormatError) -> FormatError:
    """A file that is there already, or is none: the sentence with the options that go on from there."""
    if error.path is not None and Path(error.path, SESSIONS).is_dir():
        return FormatError("this is a folder with a run of the harness; --harness replays it", path=error.path)
    if not isinstance(error, ExistingFileError):
        return error
    offer = (
        "there is such a recording already; --write-mode truncate records it anew, append continues it, once replays it, "
        "or name another file"
    )
    return ExistingFileError(offer, path=error.path, field=error.field)
