"""One writer per cassette, across processes: a folder beside the file that holds its owner's marker.

The folder is ``<real path of the file>.writer.lock``, the marker in it ``<uuid>.json`` with ``ownerToken``, ``pid``,
``acquiredAt`` and, ours, ``host``, ``bootId``, ``pidNamespace`` and ``processStart``. A lock is never taken over: it is
released by its owner, or broken on request when its owner is provably gone.

Source: cassette format 1, Recording.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import socket
import stat
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from cassette_lab.cassette.model import iso_now
from cassette_lab.cassette.schema import shorten
from cassette_lab.errors import FormatError, LockedError
from cassette_lab.jsonio import JsonObject, JsonSyntaxError, parse
from cassette_lab.jsonio.dates import date_parse_ms
from cassette_lab.jsonio.text import show
from cassette_lab.looking import os_reason

Owner: TypeAlias = Mapping[str, Any]
"""What a marker says: pid, host and so on; empty where it cannot be read. Anyone may have written it."""


class WriterLock:
    """A held lock. ``release()`` gives it back; it removes this lock's own marker and nothing else."""

    def __init__(self, target: str | Path) -> None:
        """Take the lock of ``target``, whose folder must exist; ``LockedError`` where another writer has it."""
        self.owner = _facts_of_this_process()
        self.folder = lock_folder(target)
        self._marker = self.folder / f"{self.owner['ownerToken']}.json"
        self._make_folder(target)
        try:
            with self._marker.open("xb") as file:
                file.write(json.dumps(self.owner).encode())
                file.flush()
                os.fsync(file.fileno())
        except BaseException as error:
            with contextlib.suppress(OSError):
                self._marker.unlink(missing_ok=True)
                self.folder.rmdir()
            if isinstance(error, OSError):
                raise FormatError(f"the lock cannot be written ({os_reason(error)})", path=target) from error
            raise

    def release(self) -> None:
        """Give the lock back. Harmless when done before, and in a process that was forked from the owner."""
        if os.getpid() != self.owner["pid"]:
            return
        # Where the marker is gone, or the folder holds more, the folder is not ours to remove.
        with contextlib.suppress(OSError):
            self._marker.unlink()
            self.folder.rmdir()

    def _make_folder(self, target: str | Path) -> None:
        for _ in range(3):
            try:
                self.folder.mkdir()
            except FileExistsError:
                owner = read_owner(target)
                if owner is not None:
                    raise locked(target, owner) from None
                continue  # given back between the two looks
            except (OSError, ValueError) as error:
                raise FormatError(
                    f"the lock beside the file cannot be made ({os_reason(error)}); record into a folder that may be written",
                    path=target,
                ) from error
            return
        raise LockedError("the lock of this file comes and goes; try again", path=target)


def lock_folder(target: str | Path) -> Path:
    """Where the lock of ``target`` is, or would be."""
    path = Path(target)
    try:
        real = path.resolve(strict=True) if path.exists() else path.parent.resolve(strict=True) / path.name
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: links in a circle, before Python 3.13
        raise FormatError(f"the folder of this file cannot be reached ({os_reason(error)})", path=target) from error
    if not real.name or not real.parent.is_dir():
        raise FormatError("this is no place for a file, so it has no lock; name a file in a folder", path=target)
    return real.with_name(f"{real.name}.writer.lock")


def read_owner(target: str | Path) -> Owner | None:
    """Who holds the lock of ``target``: None when it is free, an empty mapping when the marker cannot be read."""
    return _read_folder(lock_folder(target))[1]


def owner_is_dead(owner: Owner) -> bool | None:
    """Whether the process that ``owner`` names is gone; None where that cannot be decided from here.

    Decidable on the host it names: gone after another boot, when no such process runs, or when the one that now has
    its pid began at another time.
    """
    pid = owner.get("pid")
    if owner.get("host") != socket.gethostname() or type(pid) is not int or pid <= 0:
        return None
    here = _facts_of_this_process()
    if _differ(owner, here, "bootId"):
        return True
    if _differ(owner, here, "pidNamespace") or os.name != "posix":
        return None
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        pass  # another user's: it runs
    state, start = _process(pid)
    if state in ("Z", "X"):
        return True
    return start is not None and type(owner.get("processStart")) is int and owner["processStart"] != start


def explain(target: str | Path, owner: Owner) -> str:
    """One sentence for a person: who holds the lock of ``target``, since when, and what to do."""
    since = _age(owner)
    if not owner:
        return (
            "a lock without a readable owner lies on this file; if nothing records it any more, "
            f"remove the folder {show(str(lock_folder(target)))}"
        )
    who = f"process {_shown(owner, 'pid')} on {_shown(owner, 'host')}"
    dead = owner_is_dead(owner)
    if dead:
        return (
            f"the lock of {who}{since} was left behind, that process is gone; "
            "`cassette-lab rescue FILE --break-lock` removes it"
        )
    if dead is None:
        return (
            f"{who} holds the lock of this file{since}, and whether it still runs cannot be seen from here; if it does not, "
            f"remove the folder {show(str(lock_folder(target)))}"
        )
    if owner["pid"] == os.getpid():
        return f"a recording in this very process ({owner['pid']}) holds this file{since}; stop that one, or name another file"
    return f"{who} is recording into this file{since}; wait for it, or name another file"


def locked(target: str | Path, owner: Owner) -> LockedError:
    """The error that says who holds ``target``."""
    error = LockedError(explain(target, owner), path=target)
    error.owner = dict(owner)
    return error


def break_lock(target: str | Path) -> Owner | None:
    """Remove a lock whose owner is provably gone; returns that owner, or None when there was no lock.

    Raises ``LockedError`` when the owner lives, cannot be judged from here, or the folder holds anything else.
    """
    folder = lock_folder(target)
    names, owner = _read_folder(folder)
    if owner is None:
        return None
    if owner_is_dead(owner) is not True:
        raise locked(target, owner)
    if len(names) != 1:
        raise LockedError(
            f"the lock's folder holds more than its marker; look at {show(str(folder))} and remove it by hand", path=target
        )
    try:
        (folder / names[0]).unlink()
        folder.rmdir()
    except OSError as error:
        raise LockedError(f"the lock changed while it was broken ({os_reason(error)}); try again", path=target) from error
    return owner


_MARKER_BYTES: Final = 1 << 16


def _read_folder(folder: Path) -> tuple[list[str], Owner | None]:
    """Names in the lock folder, and its one owner."""
    try:
        names = [entry.name for entry in folder.iterdir()]
    except (FileNotFoundError, ValueError):  # ValueError: what no file can be named
        return [], None
    except OSError:
        return [], {}
    markers = [name for name in names if name.endswith(".json")]
    return names, _read_marker(folder / markers[0]) if len(markers) == 1 else {}


def _read_marker(path: Path) -> JsonObject:
    try:
        # Not blocking: a pipe of that name would hold us for ever.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        try:
            text = os.read(descriptor, _MARKER_BYTES) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
        finally:
            os.close(descriptor)
        members = parse(text)
    except (OSError, JsonSyntaxError):
        return {}
    return members if isinstance(members, dict) else {}


def _facts_of_this_process() -> JsonObject:
    facts = {
        "ownerToken": str(uuid.uuid4()),
        "pid": os.getpid(),
        "acquiredAt": iso_now(),
        "host": socket.gethostname(),
        "bootId": _boot_id(),
        "pidNamespace": _pid_namespace(),
        "processStart": _process(os.getpid())[1],
    }
    return {name: value for name, value in facts.items() if value is not None}


@functools.cache
def _boot_id() -> str | None:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip() or None
    except OSError:
        return None


def _pid_namespace() -> str | None:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return None


def _process(pid: int) -> tuple[str | None, int | None]:
    """State letter and start (clock ticks since boot) of a process, as far as this system tells."""
    try:
        # The name in brackets may hold anything, brackets too.
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return fields[0].decode("ascii"), int(fields[19])
    except (OSError, IndexError, ValueError):
        return None, None


def _differ(owner: Owner, here: Owner, name: str) -> bool:
    return name in owner and name in here and owner[name] != here[name]


def _shown(owner: Owner, name: str) -> str:
    value = owner.get(name)
    return show(shorten(str(value), 60)) if isinstance(value, str | int) else f"an unknown {name}"


def _age(owner: Owner) -> str:
    acquired = owner.get("acquiredAt")
    then = date_parse_ms(acquired) if isinstance(acquired, str) else None
    if then is None:
        return ""
    seconds = max(0.0, time.time() - then / 1000)
    for unit, name in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * unit:
            return f" since {seconds / unit:.0f} {name}"
    return f" since {seconds:.0f} seconds"
