"""Sessions in a folder, one file each: raw JSONL, or zstd with one checksummed frame per batch; format 0.

``<root>/<project>/<session>/session.jsonl[.zstd]``, and beside it a lock of ours. A file appears with its first batch, under
its name at once and never over another one; frame 1 holds the header line alone. Every batch is synced; one that fails is
taken back. A root has one encoding. Source: session logs, Files and bytes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cassette_lab.errors import ConfigError, FormatError
from cassette_lab.looking import os_reason, sync_folder
from cassette_lab.session.frames import FrameWriter
from cassette_lab.session.locking import SessionLock
from cassette_lab.session.model import SessionHeader, SessionLog
from cassette_lab.session.packing import Packer, encode_json, encode_line, join_lines
from cassette_lab.session.paths import FILE_NAMES, LogEncoding, log_path, path_segment
from cassette_lab.session.reader import FILE_NAME, SessionReader, read_header, read_session
from cassette_lab.session.repair import cut_file, find_cut
from cassette_lab.session.session import check_header
from cassette_lab.session.storing import StoreWriter, WritableStore, check_resumable, shown, stored_meanwhile

LOCK_NAME: Final = "session.lock"
_MOST_NAME_BYTES: Final = 255


class JsonlStore(WritableStore):
    """A folder as a ``SessionStore``; made when the first session is. ``pack=False`` writes chunks one by one.

    Raises ``FormatError`` for a root that already has logs of the other encoding, or files lying flat in a project: the
    harness would refuse it.
    """

    def __init__(self, root: str | Path, *, encoding: LogEncoding = "zstd", pack: bool = True) -> None:
        if encoding not in FILE_NAMES:
            raise ConfigError(f"encoding must be zstd or jsonl, not {encoding!r}")
        self.root = Path(root).absolute()
        self.encoding: LogEncoding = encoding
        self._packer = Packer(encode_line, pack=pack)
        super().__init__(self.root)
        for folder in self._folders():
            self._check_encoding(folder)

    def locate(self, header: SessionHeader) -> Path:
        """The file of a session, whether it is there or not."""
        return log_path(self.root, header.cwd, header.id, self.encoding)

    def create(self, header: SessionHeader) -> JsonlWriter:
        """See ``SessionStore``."""
        check_header(header)
        if len(path_segment(header.id)) > _MOST_NAME_BYTES:
            sentence = (
                f"the id {shown(header.id)}… is too long for the name of a folder, {_MOST_NAME_BYTES} bytes; take another"
            )
            raise FormatError(sentence, path=self.root, field="id")
        there = self._find(header.id)
        if there is not None:
            raise self._taken(header.id, there)
        return self._writer(self.locate(header), header)

    def load(self, session_id: str) -> SessionLog:
        """See ``SessionStore``."""
        return read_session(self._path(session_id))

    def headers(self) -> list[SessionHeader]:
        """See ``SessionStore``. A file without a readable header is passed by; loading the folder tells of it."""
        found = []
        for folder in self._folders():
            path = folder / FILE_NAMES[self.encoding]
            if path.is_file():
                with contextlib.suppress(FormatError):
                    found.append(read_header(path))
        return sorted(found, key=lambda header: (header.created_at or 0, header.id))

    def _lock(self, session_id: str) -> SessionLock:
        path = self._path(session_id)
        if path.name != FILE_NAMES[self.encoding]:
            raise FormatError("a newer harness went on with this session, in a later format; it can only be loaded", path=path)
        return SessionLock(path.with_name(LOCK_NAME), path, session_id)

    def _take_up(self, session_id: str, lock: SessionLock) -> tuple[SessionLog, JsonlWriter]:
        path = lock.subject
        with SessionReader(path) as reader:
            log = reader.log([row for batch in reader.batches() for row in batch])
        check_resumable(log, session_id, path)
        if self.locate(log.header) != path:
            raise FormatError(
                f"the log's working directory, {log.header.cwd!r}, belongs to another folder than this one; "
                "move it there, or load it only",
                path=path,
                field="cwd",
            )
        try:
            _clean(path)
            cut_file(path, find_cut(path, reader.kept_end))
            return log, self._writer(path, log.header, lock, log.event_count)
        except OSError as error:
            raise FormatError(f"the log cannot be repaired ({os_reason(error)})", path=path) from error

    def _writer(self, path: Path, header: SessionHeader, lock: SessionLock | None = None, next_seq: int = 0) -> JsonlWriter:
        writer = JsonlWriter(path, header, encoding=self.encoding, packer=self._packer, lock=lock, next_seq=next_seq)
        self._writers.add(writer)
        return writer

    def _path(self, session_id: str) -> Path:
        path = self._find(session_id)
        if path is None:
            raise self._missing(session_id)
        return path

    def _find(self, session_id: str) -> Path | None:
        """A session's file, in whatever project it is, of the highest format that is there."""
        if not session_id:
            return None
        segment = path_segment(session_id)
        found = []
        for project in _subfolders(self.root):
            folder = project / segment
            if _is_folder(folder):
                self._check_encoding(folder)
                generations = {int(named[1] or 0): folder / named[0] for named in _logs(folder)}
                if generations:
                    found.append(generations[max(generations)])
        if len(found) > 1:
            sentence = f"session {shown(session_id)} is there twice, also in {found[1].parent.parent.name}"
            raise FormatError(sentence, path=found[0])
        return found[0] if found else None

    def _check_encoding(self, folder: Path) -> None:
        for named in _logs(folder):
            if bool(named[2]) != (self.encoding == "zstd"):
                raise FormatError(
                    f"this root has logs of another encoding than {self.encoding}, and may have one only; "
                    "take the other encoding, or another root",
                    path=folder / named[0],
                )

    def _folders(self) -> Iterator[Path]:
        """The sessions' folders. Raises ``FormatError`` for logs that lie flat."""
        for project in _subfolders(self.root):
            for entry in _entries(project):
                if _is_folder(entry):
                    yield entry
                elif entry.name.endswith((".jsonl", ".jsonl.zstd")):
                    raise FormatError(
                        "a log lies flat in its project's folder, as old harnesses had it; take another root", path=entry
                    )


class JsonlWriter(StoreWriter):
    """The writer of one file."""

    def __init__(
        self,
        path: Path,
        header: SessionHeader,
        *,
        encoding: LogEncoding,
        packer: Packer,
        lock: SessionLock | None,
        next_seq: int,
    ) -> None:
        self._frames = FrameWriter() if encoding == "zstd" else None
        self._broken: str | None = None
        self._descriptor = -1
        self._names = self._end = 0
        if lock is not None:
            self._descriptor = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
            self._names = os.fstat(self._descriptor).st_nlink  # it loses one when it is removed or replaced
            self._end = os.lseek(self._descriptor, 0, os.SEEK_END)
        super().__init__(path, header, packer, lock, next_seq)

    def _store(self, rows: list[bytes], next_seq: int) -> None:
        batch = self._encoded(join_lines(rows))
        if self._lock is None:
            self._materialise(batch, next_seq)
        else:
            self._check_file()
            self._write(batch, next_seq)

    def _release(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
        super()._release()

    def _encoded(self, text: bytes) -> bytes:
        return text if self._frames is None else self._frames.frame(text)

    def _check_usable(self) -> None:
        super()._check_usable()
        if self._broken is not None:
            raise FormatError(self._broken, path=self.path)

    def _check_file(self) -> None:
        """Whoever writes without asking for the lock is noticed before two batches have the same seqs."""
        facts = os.fstat(self._descriptor)
        if facts.st_nlink != self._names and not _is_there(self.path, facts):
            raise FormatError("the log was removed or replaced while it was written; nothing more is written", path=self.path)
        if facts.st_size != self._end:
            raise FormatError(
                "something else wrote into the log; nothing more is written (close this session and resume it)", path=self.path
            )

    def _write(self, batch: bytes, next_seq: int) -> None:
        end = self._end + len(batch)
        try:
            _write_all(self._descriptor, batch)
            os.fsync(self._descriptor)
            self._end, self.next_seq = end, next_seq
        except BaseException as error:  # an interrupt, too, must not leave half a batch
            self._take_back()
            if isinstance(error, OSError):
                ending = self._broken or "the log ends with the batch before it, and it can be tried again"
                raise FormatError(f"a batch could not be written ({os_reason(error)}); {ending}", path=self.path) from error
            raise

    def _take_back(self) -> None:
        try:
            os.ftruncate(self._descriptor, self._end)
            os.lseek(self._descriptor, self._end, os.SEEK_SET)
            os.fsync(self._descriptor)
        except OSError as error:
            self._broken = (
                f"a batch was written in part and could not be taken back ({os_reason(error)}); "
                "nothing more is written, resume the session to have its end repaired"
            )

    def _materialise(self, batch: bytes, next_seq: int) -> None:
        """Header and first batch, in a file that gets its name when all of it is on disk."""
        folder = self.path.parent
        made: list[Path] = []
        lock: SessionLock | None = None
        text = self._encoded(encode_json(self.header.to_json()) + b"\n") + batch
        end = len(text)
        try:
            made = _make_folders(folder)
            lock = SessionLock(folder / LOCK_NAME, self.path, self.header.id)
            self._descriptor = _publish(text, self.path)
            self._lock, self._names, self._end, self.next_seq = lock, 1, end, next_seq
        except BaseException as error:
            if lock is not None:
                lock.release(remove=not self.path.exists())
            for each in reversed(made):
                with contextlib.suppress(OSError):
                    each.rmdir()
            if isinstance(error, FileExistsError) and not isinstance(error, FormatError):
                raise stored_meanwhile(self.header.id, self.path) from None
            if isinstance(error, OSError) and not isinstance(error, FormatError):
                raise FormatError(f"the log could not be made ({_reason(error)})", path=self.path) from error
            raise


def _reason(error: OSError) -> str:
    reason = os_reason(error)
    if error.errno not in (errno.EMFILE, errno.ENFILE):
        return reason
    return f"{reason}: every session that is written holds two; write fewer at once, or raise the limit (ulimit -n)"


def _publish(text: bytes, path: Path) -> int:
    """A file with this text, all of it or none, under a name that nothing has; the open file.

    Raises ``FileExistsError`` where something has the name.
    """
    _clean(path)
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    descriptor = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        _write_all(descriptor, text)
        os.fsync(descriptor)
        os.link(beside, path)
        _remove(beside)
        sync_folder(path.parent)
    except BaseException:  # an interrupt, too
        if _is_there(path, os.fstat(descriptor)):
            path.unlink()
        os.close(descriptor)
        _remove(beside)
        raise
    return descriptor


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):  # some systems do not remove a name of an open file
        path.unlink(missing_ok=True)


def _make_folders(folder: Path) -> list[Path]:
    """Make a folder and those above it, durably; returns those that were not there, the outermost first."""
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    missing.reverse()
    made = []
    for each in missing:
        with contextlib.suppress(FileExistsError):
            each.mkdir()
            made.append(each)
        sync_folder(each.parent)
    return made


def _write_all(descriptor: int, data: bytes) -> None:
    written = os.write(descriptor, data)
    while written < len(data):
        written += os.write(descriptor, memoryview(data)[written:])


def _is_there(path: Path, facts: os.stat_result) -> bool:
    try:
        return os.path.samestat(path.stat(), facts)
    except OSError:
        return False


def _clean(path: Path) -> None:
    """Remove what a process that was killed left beside a log, of which the lock is ours."""
    for left in path.parent.glob(f".{path.name}.*.tmp"):
        _remove(left)


def _logs(folder: Path) -> list[re.Match[str]]:
    """The names in a session's folder that are those of logs, of any format and encoding."""
    return [named for entry in _entries(folder) if (named := FILE_NAME.fullmatch(entry.name))]


def _subfolders(folder: Path) -> Iterator[Path]:
    return filter(_is_folder, _entries(folder))


def _entries(folder: Path) -> list[Path]:
    """What is in a folder; nothing where it is not there (any more). Raises ``FormatError``."""
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _unusable(folder, error) from error


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except PermissionError as error:
        raise _unusable(path.parent, error) from error
    except OSError:  # not there, a name that is too long, links in a circle
        return False


def _unusable(folder: Path, error: OSError) -> FormatError:
    return FormatError(
        f"this is no folder to keep sessions in ({os_reason(error)}); change its permissions, or take another root", path=folder
    )
