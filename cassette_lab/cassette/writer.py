"""Writes a cassette: canonical lines, chained by hash, each one whole in the file or not there at all.

``CassetteWriter.open`` takes the lock, then creates, truncates or verifies the file; ``append`` writes one interaction;
``close`` syncs and gives the lock back. Whatever a record may not be is refused before a byte is written.

Source: cassette format 1, Recording.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
import uuid
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal, NamedTuple, Self, TypeAlias, get_args

import orjson

from cassette_lab.cassette.checks import FileChecks, Group
from cassette_lab.cassette.lock import WriterLock
from cassette_lab.cassette.model import Header, Interaction, ProviderFacts, RequestStorage, iso_now
from cassette_lab.cassette.quick_record import is_plainly_valid
from cassette_lab.cassette.reader import CassetteReader
from cassette_lab.cassette.schema import RecordError, check_header, check_interaction
from cassette_lab.cassette.source import LINE_LIMIT_BYTES
from cassette_lab.errors import ClosedError, ConfigError, ExistingFileError, FormatError
from cassette_lab.jsonio import CanonicalError, JsonObject, canonical, digest_bytes
from cassette_lab.looking import os_reason, sync_folder

OpenMode: TypeAlias = Literal["create", "truncate", "append"]
Durability: TypeAlias = Literal["close", "each"]


class RecordedGroup(NamedTuple):
    """A group of equal calls that a file holds already, and the highest occurrence in it."""

    group: Group
    occurrence: int


def make_header(
    provider: ProviderFacts,
    *,
    request_storage: RequestStorage = "metadata",
    redact_secrets: bool = True,
    redaction_patterns: Sequence[str] = (),
    cassette_id: str | None = None,
    created_at: str | None = None,
) -> Header:
    """A sealed header: a new UUID and the present time where none are given. Raises ``FormatError`` for bad values."""
    header = Header(
        cassette_id=str(uuid.uuid4()) if cassette_id is None else cassette_id,
        created_at=iso_now() if created_at is None else created_at,
        provider=provider,
        request_storage=request_storage,
        redact_secrets=redact_secrets,
        redaction_patterns=tuple(redaction_patterns),
    )
    try:
        return replace(header, hash=_seal(header.to_json(), check_header)[1])
    except RecordError as error:
        raise FormatError(error.message, field=error.field) from None


class CassetteWriter:
    """A cassette open for writing, with its lock. A context manager; also closed when it is dropped, or at exit.

    ``header`` is the file's (in append mode the one that was there); ``existing`` the groups of calls that were there;
    ``next_sequence`` the first free sequence. Methods may be called from any thread of the process that opened it.
    """

    def __init__(self, path: Path, header: Header, lock: WriterLock, descriptor: int, durability: Durability) -> None:
        """Internal: use ``open``."""
        self.path = path
        self.header = header
        self.existing: tuple[RecordedGroup, ...] = ()
        self._checks = FileChecks()
        self._descriptor = descriptor
        self._durability = durability
        self._mutex = threading.RLock()
        self._pid = os.getpid()
        self._broken: str | None = None
        # What the last whole record left: where it ends in the file, its hash, its physical line.
        self._state = _State(0, header.hash, 0)
        self._finalizer = weakref.finalize(self, _give_up, descriptor, lock)

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], header: Header, *, mode: OpenMode = "create", fsync: Durability = "close"
    ) -> Self:
        """Lock ``path`` (its folders are made), and start or go on with a cassette.

        ``create`` refuses a file that is there; ``truncate`` empties it; ``append`` verifies it, keeps its id and
        creation time, and wants its provider facts, request storage and redaction policy to be ``header``'s; a missing
        file is created. The header is on disk when this returns. ``fsync="each"`` syncs every record, not only the
        header and the end. Raises ``FormatError`` (``LockedError`` where another writer has the file).
        """
        if mode not in get_args(OpenMode):
            raise ConfigError(f"mode must be {', '.join(get_args(OpenMode))}, not {mode!r}")
        if fsync not in get_args(Durability):
            raise ConfigError(f"fsync must be {' or '.join(get_args(Durability))}, not {fsync!r}")
        target = Path(path)
        try:
            line, digest = _seal(header.to_json(), check_header)
        except RecordError as error:
            raise FormatError(f"the header cannot be written: {error.message}", path=target, field=error.field) from None
        prepare_target(target)
        lock = WriterLock(target)
        try:
            if mode == "append" and target.exists():
                return cls._resume(target, header, lock, fsync)
            return cls._begin(target, replace(header, hash=digest), line, lock, fsync, mode)
        except BaseException:
            lock.release()
            raise

    @property
    def next_sequence(self) -> int:
        """One more than the highest sequence in the file."""
        return self._checks.next_sequence

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return not self._finalizer.alive

    def append(self, interaction: Interaction) -> Interaction:
        """Write one interaction at the end of the file; returns it with its hashes and physical line.

        Whatever hashes it carries are replaced. Raises ``FormatError`` for one that a cassette may not hold, or that
        could not be written whole; the file is then as before, and the writer usable unless the message says otherwise.
        ``ClosedError`` after ``close``.
        """
        self._check_process()
        with self._mutex:
            previous_hash = self._state.hash
            self.write(interaction.to_json())
            return replace(interaction, previous_hash=previous_hash, hash=self._state.hash, line=self._state.line)

    def write(self, members: JsonObject) -> None:
        """``append`` for an interaction that is JSON already (and stays it: its hashes are set)."""
        self._check_process()
        with self._mutex:
            self._check_usable()
            before = self._state
            members["previousHash"] = before.hash
            try:
                quick = is_plainly_valid(members, self.header.request_storage)
                line, digest = _seal(members, None if quick else self._check)
                numbers = _numbers(members)
                self._checks.add(*numbers)
            except RecordError as error:
                raise FormatError(f"the call was not recorded: {error.message}", path=self.path, field=error.field) from None
            try:
                self._write(line)
                self._state = _State(before.end + len(line), digest, before.line + 1)
            except BaseException as error:  # an interrupt, too, must not leave a line that nobody knows of
                self._state = before
                self._checks.discard(*numbers)
                self._undo()
                if isinstance(error, OSError):
                    raise self._write_failure(error) from error
                raise

    def close(self) -> None:
        """Sync the file, close it and give the lock back. Idempotent.

        Raises ``FormatError`` when the file could not be synced, or was removed, replaced or written by something else
        meanwhile; it is closed and the lock is free all the same.
        """
        self._check_process()
        with self._mutex:
            if not self._finalizer.alive:
                return
            try:
                self._finish()
            finally:
                self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @classmethod
    def _begin(cls, target: Path, header: Header, line: bytes, lock: WriterLock, fsync: Durability, mode: OpenMode) -> Self:
        descriptor = _open(target, os.O_RDWR | os.O_CREAT | (os.O_TRUNC if mode == "truncate" else os.O_EXCL))
        writer = cls(target, header, lock, descriptor, fsync)
        try:
            writer._write(line)
            os.fsync(descriptor)
        except BaseException as error:
            writer._undo()
            if mode != "truncate":
                with contextlib.suppress(OSError):
                    target.unlink()
            writer._finalizer()
            if isinstance(error, OSError):
                raise FormatError(f"the header could not be written ({os_reason(error)})", path=target) from error
            raise
        sync_folder(target.parent)
        writer._state = _State(len(line), header.hash, 1)
        return writer

    @classmethod
    def _resume(cls, target: Path, header: Header, lock: WriterLock, fsync: Durability) -> Self:
        with CassetteReader(target) as reader:
            _check_same_policy(target, reader.header, header)
            for _ in reader:
                pass
        writer = cls(target, reader.header, lock, _open(target, os.O_RDWR), fsync)
        writer._checks = reader.checks
        writer.existing = tuple(RecordedGroup(group, highest) for group, highest in reader.checks.occurrences().items())
        writer._state = _State(reader.size_bytes, reader.previous_hash, reader.lines)
        try:
            if os.lseek(writer._descriptor, 0, os.SEEK_END) != reader.size_bytes:
                raise FormatError("the file changed while it was opened; try again", path=target)  # noqa: TRY301 - it gives up as an OSError does
            if not reader.ends_with_newline:
                writer._write(b"\n")
                writer._state = writer._state._replace(end=reader.size_bytes + 1)
        except OSError as error:
            writer._undo()
            writer._finalizer()
            raise FormatError(f"the file cannot be written ({os_reason(error)})", path=target) from error
        except BaseException:
            writer._finalizer()
            raise
        return writer

    def _check(self, members: JsonObject) -> None:
        check_interaction(members, self.header.request_storage)

    def _check_process(self) -> None:
        # A forked process has the file but not the lock, and its copy of the mutex may be held for ever.
        if os.getpid() != self._pid:
            raise FormatError("the cassette was opened in another process; record in the one that opened it", path=self.path)

    def _check_usable(self) -> None:
        if not self._finalizer.alive:
            raise ClosedError("the cassette is closed; the call was not recorded", path=self.path)
        if self._broken is not None:
            raise FormatError(self._broken, path=self.path)

    def _write(self, data: bytes) -> None:
        written = os.write(self._descriptor, data)
        while written < len(data):
            written += os.write(self._descriptor, memoryview(data)[written:])
        if self._durability == "each":
            os.fsync(self._descriptor)

    def _undo(self) -> None:
        """Cut the file back to its last whole record."""
        try:
            os.ftruncate(self._descriptor, self._state.end)
            os.lseek(self._descriptor, self._state.end, os.SEEK_SET)
        except OSError as error:
            self._broken = (
                f"a record was written in part and could not be taken back ({os_reason(error)}); nothing more is recorded, "
                "keep the file's verified start with `cassette-lab rescue`"
            )

    def _write_failure(self, error: OSError) -> FormatError:
        ending = self._broken or "the file ends with the last whole record, and recording can go on"
        return FormatError(f"the call could not be written ({os_reason(error)}); {ending}", path=self.path)

    def _finish(self) -> None:
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            raise FormatError(
                f"the file could not be synced to disk ({os_reason(error)}); verify it", path=self.path
            ) from error
        ours = os.fstat(self._descriptor)
        try:
            there = self.path.stat()
        except OSError:
            there = None
        if there is None or not os.path.samestat(ours, there):
            raise FormatError("the file was removed or replaced while it was recorded; the calls are lost", path=self.path)
        if ours.st_size != self._state.end and self._broken is None:
            raise FormatError("something else wrote into the file while it was recorded; verify it", path=self.path)


class _State(NamedTuple):
    end: int
    hash: str
    line: int


_UNSEALED: Final = "sha256:" + 64 * "0"


def _numbers(members: JsonObject) -> tuple[int, str, Group, int]:
    """What must not come twice: sequence, call key, group and occurrence of a checked record."""
    group = (members["parentKey"], members["parentContextFingerprint"], members["requestFingerprint"])
    return (int(members["sequence"]), members["callKey"], group, int(members["occurrence"]))


def _seal(members: JsonObject, check: Callable[[JsonObject], None] | None) -> tuple[bytes, str]:
    """The canonical line of checked members, newline included, and their hash. Raises ``RecordError``.

    Without a ``check`` the members are known to pass, and orjson to spell them canonically.
    """
    members["hash"] = _UNSEALED
    if check is not None:
        check(members)
    del members["hash"]
    text = None if check is not None else _plain_text(members)
    if text is None:
        try:
            text = canonical(members)
        except CanonicalError as error:
            raise RecordError(None, str(error)) from None
    digest = digest_bytes(text)
    # In sorted order hash comes just before kind: before the first of these bytes stand only strings, where the quotes
    # would be escaped.
    at = text.index(b',"kind":"cassette/')
    line = b'%b,"hash":"%b"%b\n' % (text[:at], digest.encode("ascii"), text[at:])
    if len(line) > LINE_LIMIT_BYTES:
        raise RecordError(None, f"the record has {len(line)} bytes, more than a line may have ({LINE_LIMIT_BYTES})")
    return line, digest


def _plain_text(members: JsonObject) -> bytes | None:
    """What orjson makes of plain members; None where they hold a lone surrogate."""
    try:
        return orjson.dumps(members, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:
        return None


def prepare_target(target: Path) -> None:
    """Make the folders of a file that is to be written; ``FormatError`` for what is no file."""
    try:
        if not target.name:
            raise FormatError("this names no file", path=target)
        target.parent.mkdir(parents=True, exist_ok=True)
        facts = target.lstat()
        if stat.S_ISLNK(facts.st_mode):
            if not target.exists():
                raise FormatError("this is a link to a file that is not there; name the file itself", path=target)
            facts = target.stat()
    except FileNotFoundError:
        return
    except (FileExistsError, NotADirectoryError) as error:
        raise FormatError("a part of this path is a file, not a folder; name another place", path=target) from error
    except (OSError, ValueError) as error:
        raise FormatError(f"the file cannot be reached ({os_reason(error)})", path=target) from error
    if stat.S_ISDIR(facts.st_mode):
        raise FormatError("this is a folder; name a file in it", path=target)
    if not stat.S_ISREG(facts.st_mode):
        raise FormatError("this is a device or pipe, not a file; name another one", path=target)


def _open(target: Path, flags: int) -> int:
    try:
        return os.open(target, flags | getattr(os, "O_BINARY", 0), 0o666)
    except FileExistsError:
        raise ExistingFileError(
            'there is such a file already; record with write_mode="truncate", "append" or "once", or name another file',
            path=target,
        ) from None
    except OSError as error:
        raise FormatError(f"the file cannot be opened for writing ({os_reason(error)})", path=target) from error


def _check_same_policy(target: Path, there: Header, wanted: Header) -> None:
    for field, one, other in (
        ("provider", there.provider, wanted.provider),
        ("requestStorage", there.request_storage, wanted.request_storage),
        ("redactSecrets", there.redact_secrets, wanted.redact_secrets),
        ("redactionPatterns", there.redaction_patterns, wanted.redaction_patterns),
    ):
        if one != other:
            raise FormatError(
                f"the file was recorded with another {field}; append with the same one, or record into another file",
                path=target,
                line=1,
                field=field,
            )


def _give_up(descriptor: int, lock: WriterLock) -> None:
    with contextlib.suppress(OSError):
        os.close(descriptor)
    lock.release()
