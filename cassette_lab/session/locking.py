"""One writer per session, across processes and within one: a lock of the operating system on an empty file.

It is gone with the process that holds it, however that ends; the file stays behind, as the harness leaves its own.

Of databases that this process writes, a descriptor is held, too. POSIX takes all of a process's locks on a file when any of
its descriptors is closed, SQLite's locks with them: whoever wants to look into such a file must borrow that descriptor.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from pathlib import Path
from typing import Final

from cassette_lab.errors import FormatError, LockedError
from cassette_lab.looking import os_reason

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


class SessionLock:
    """A held lock on ``path``, whose folder must exist. ``LockedError`` where another writer has it.

    ``subject`` is the file or store to name in errors. ``passing``: its file is removed when it is given back.
    """

    _descriptor = -1

    def __init__(self, path: Path, subject: Path, session_id: str, *, passing: bool = False) -> None:
        self.subject = subject
        self._path = path
        self._passing = passing
        self._pid = os.getpid()
        while self._descriptor < 0:
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            except OSError as error:
                raise FormatError(f"its lock cannot be made ({os_reason(error)})", path=subject) from error
            try:
                _take(descriptor)
                # Whoever held it may have removed it: then another file is the lock by now.
                if os.path.samestat(os.fstat(descriptor), path.stat()):
                    self._descriptor = descriptor
            except FileNotFoundError:
                pass
            except (BlockingIOError, PermissionError):
                raise LockedError(
                    f"another writer has the session {session_id!r} open; close that one, or fork the session", path=subject
                ) from None
            except OSError as error:
                raise FormatError(
                    f"its lock cannot be taken ({os_reason(error)}); keep sessions on a file system that has locks",
                    path=subject,
                ) from error
            finally:
                if self._descriptor < 0:
                    os.close(descriptor)

    def release(self, *, remove: bool = False) -> None:
        """Give the lock back (and remove its file); harmless when done before, and in a forked process."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor < 0:
            return
        if os.getpid() == self._pid:
            with contextlib.suppress(OSError):
                if remove or self._passing:
                    self._path.unlink()
                _give_back(descriptor)
        os.close(descriptor)

    def __del__(self) -> None:  # an interrupt can come before anybody holds it
        self.release()


class HeldFile:
    """A file of which this process keeps one descriptor open, until each of its holders has let go."""

    def __init__(self, path: Path) -> None:
        with _HELD_MUTEX:
            facts = path.stat()
            self._identity = (facts.st_dev, facts.st_ino)
            descriptor, holders = _HELD.get(self._identity, (-1, 0))
            if not holders:
                descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
            _HELD[self._identity] = (descriptor, holders + 1)

    def is_still(self, path: Path) -> bool:
        """Whether this is the file of that name."""
        try:
            facts = path.stat()
        except OSError:
            return False
        return (facts.st_dev, facts.st_ino) == self._identity

    def release(self) -> None:
        """Let go; the last holder closes the file, after its database."""
        with _HELD_MUTEX:
            descriptor, holders = _HELD.pop(self._identity)
            if holders > 1:
                _HELD[self._identity] = (descriptor, holders - 1)
            else:
                os.close(descriptor)


def held_descriptor(path: str | Path) -> int | None:
    """The descriptor that this process holds of a file, to read at offsets and not to close; None where it holds none."""
    if not _HELD or sys.platform == "win32":  # there a lock is a descriptor's own
        return None
    try:
        facts = os.stat(path)  # noqa: PTH116 - also for what is no Path
    except (OSError, ValueError):
        return None
    with _HELD_MUTEX:
        return _HELD.get((facts.st_dev, facts.st_ino), (None, 0))[0]


_HELD: Final[dict[tuple[int, int], tuple[int, int]]] = {}
_HELD_MUTEX: Final = threading.Lock()


def _take(descriptor: int) -> None:
    if sys.platform == "win32":
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _give_back(descriptor: int) -> None:
    if sys.platform == "win32":
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
