"""Whether a name leads to a file or folder, opening a file that may be anything, making a new one, and writing a whole one.

A name that no file can have (too long, with a NUL) leads to none.
"""

# ruff: noqa: PTH110, PTH111, PTH112, PTH113 - these never raise; the methods of Path do for names that no file can have

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from cassette_lab.errors import ExistingFileError, FormatError, MissingFileError


def exists(path: str | Path) -> bool:
    """Whether there is anything of this name; a link that leads nowhere is nothing."""
    return os.path.exists(path)


def is_file(path: str | Path) -> bool:
    """Whether it is a regular file, or a link to one."""
    return os.path.isfile(path)


def is_folder(path: str | Path) -> bool:
    """Whether it is a folder, or a link to one."""
    return os.path.isdir(path)


def size_of(path: Path) -> int:
    """A file's size in bytes; 0 where it is not known, and the reader says why."""
    try:
        return path.stat().st_size
    except (OSError, ValueError):
        return 0


def from_home(path: str | Path) -> Path:
    """The path with ``~`` as the home folder; one of somebody unknown stays as it is."""
    return Path(os.path.expanduser(path))


def open_regular(
    source: str | Path, path: str | None = None, *, missing: str = "check the name", folder: str = "", other: str = ""
) -> tuple[int, os.stat_result]:
    """A descriptor for reading a regular file, and its facts. ``path`` names it in errors.

    Raises ``MissingFileError`` where there is none, and ``FormatError`` for a folder, a device or pipe, and what may not be
    read; ``missing``, ``folder`` and ``other`` say what to do then.
    """
    path = str(source) if path is None else path
    try:
        # Not blocking: a named pipe without a writer would hold us for ever.
        descriptor = os.open(source, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except FileNotFoundError:
        what = "this is a link that leads to no file" if Path(source).is_symlink() else f"there is no such file; {missing}"
        raise MissingFileError(what, path=path) from None
    except (OSError, ValueError) as error:
        raise FormatError(unreadable(error), path=path) from error
    facts = os.fstat(descriptor)
    if stat.S_ISREG(facts.st_mode):
        return descriptor, facts
    os.close(descriptor)
    what, hint = ("a folder", folder) if stat.S_ISDIR(facts.st_mode) else ("a device or pipe, not a file", other)
    raise FormatError(f"this is {what}; {hint}" if hint else f"this is {what}", path=path)


def read_regular(source: str | Path) -> bytes:
    """All bytes of a regular file. Raises as ``open_regular``."""
    descriptor, _ = open_regular(source)
    with os.fdopen(descriptor, "rb") as file:
        try:
            return file.read()
        except OSError as error:
            raise FormatError(unreadable(error), path=source) from error


@contextlib.contextmanager
def rescued_file(path: Path) -> Iterator[BinaryIO]:
    """A new file for what is rescued: on disk at the end, and gone again where anything fails meanwhile.

    Raises ``ExistingFileError`` when there is such a file, and ``FormatError`` when it cannot be made or written.
    """
    try:
        file = path.open("xb")
    except FileExistsError:
        raise ExistingFileError(
            "there is such a file already, and a rescue never overwrites; name a new one", path=path
        ) from None
    except OSError as error:
        raise FormatError(f"the file cannot be made ({os_reason(error)})", path=path) from error
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
    except BaseException as error:
        with contextlib.suppress(OSError):
            path.unlink()
        if isinstance(error, OSError) and not isinstance(error, FormatError):
            raise FormatError(f"the file cannot be written ({os_reason(error)})", path=path) from error
        raise


def write_whole(path: Path, content: bytes) -> None:
    """All of a file or nothing of it, whatever happens meanwhile: an old one stays until the new one is on disk.

    It keeps the rights that it had; a link goes on leading where it led. Raises ``OSError``.
    """
    target = Path(os.path.realpath(path))
    if is_folder(target):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if exists(target) and not is_file(target):  # a device, or a pipe that somebody reads
        target.write_bytes(content)
        return
    descriptor, name = tempfile.mkstemp(prefix=".writing-", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(target.stat().st_mode & 0o7777 if is_file(target) else 0o666 & ~_umask())
        Path(name).replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
    sync_folder(target.parent)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def sync_folder(folder: Path) -> None:
    """Make new names in a folder durable, where the system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def unreadable(error: OSError | ValueError) -> str:
    """Why a file could not be opened or read, in a sentence."""
    if isinstance(error, PermissionError):
        return "the file may not be read; change its permissions or copy it"
    if isinstance(error, OSError):
        return f"the file cannot be read ({os_reason(error)})"
    return f"this is no file name ({error})"


def os_reason(error: Exception) -> str:
    """What the system says of a failure, without number and path."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
