"""One tree of errors, each a sentence for a person.

::

    CassetteLabError              code, message, path, line, field
    ├── FormatError               CASSETTE_FORMAT: a cassette or session log breaks a rule of its format
    │   ├── LockedError           … or another writer holds it (owner)
    │   ├── MissingFileError      … or there is none (also a FileNotFoundError)
    │   └── ExistingFileError     … or there is one already (also a FileExistsError)
    ├── MismatchError             CASSETTE_MISMATCH: nothing recorded answers this call (diagnostic)
    ├── AmbiguityError            CASSETTE_AMBIGUOUS: the recording does not say which call is meant
    ├── ConfigError               INVALID_CONFIG: an option or pattern that cannot be used
    ├── NoUpstreamError           NO_UPSTREAM: nothing to record from
    ├── IdentityError             INVALID_REQUEST: a request or parent that has no identity (also a TypeError)
    ├── SurfaceError              BROKEN_SURFACE: a session history that does not fold (also a ValueError)
    ├── AbortError                ABORTED: stopped before a run was published, or while a model answered
    ├── ClosedError               CASSETTE_CLOSED: a call through a cassette or store that is already closed
    └── RecordedError             what the recorded call raised (recorded_name), replayed
        └── RecordedAbortError    … that it was aborted (also an AbortError, and a TimeoutError: a timeout aborts, too)
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

from cassette_lab.jsonio.text import show


class CassetteLabError(Exception):
    """Base of every error this package raises on purpose.

    ``message`` is one sentence without its place; ``str()`` puts ``path`` and ``line`` (1-based, physical) in front, the
    path with unseen characters escaped: anyone may have named the file.
    ``code`` is a stable word to program against; ``field`` is the dotted member name, where there is one. Some have a
    ``recorded_name``: what a cassette calls them where a call failed with one, as the original does.
    """

    code = "CASSETTE_LAB"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        path: str | Path | None = None,
        line: int | None = None,
        field: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code
        self.path = None if path is None else str(path)
        self.line = line
        self.field = field

    def __str__(self) -> str:
        place = []
        if self.path is not None:
            place.append(_named(self.path))
        if self.line is not None:
            place.append(f"line {self.line}")
        return f"{', '.join(place)}: {self.message}" if place else self.message


class FormatError(CassetteLabError):
    """A file (a cassette, a session log, an override) breaks a rule of its format; names file, line, field as far as known.

    Where programs need to know more the code says it, such as ``MISSING_FINISH`` of a log without the end of a call,
    or ``JUST_BEGUN`` of one whose header is not written yet.
    ``record`` is the number of the line among non-blank lines, 1-based (what the format's vectors count); ``frame`` is that
    of a zstd frame, 1-based.
    """

    code = "CASSETTE_FORMAT"
    recorded_name = "CassetteFormatError"
    record: int | None = None
    frame: int | None = None


class LockedError(FormatError):
    """Another writer holds the cassette or session. ``owner`` is what its marker says, where there is one that can be read."""

    owner: dict[str, Any] | None = None


class MissingFileError(FormatError, FileNotFoundError):
    """There is no such file."""

    def __init__(self, message: str, **place: Any) -> None:
        super().__init__(message, **place)
        self.errno, self.filename = errno.ENOENT, self.path


class ExistingFileError(FormatError, FileExistsError):
    """There is such a file already, and it is not to be written over."""

    def __init__(self, message: str, **place: Any) -> None:
        super().__init__(message, **place)
        self.errno, self.filename = errno.EEXIST, self.path


class MismatchError(CassetteLabError):
    """No recorded call answers this one, or some were never asked for. ``diagnostic`` says why.

    Its ``str()`` begins with the reason, and ends with the file: where only the start of a line is shown, that matters.
    """

    code = "CASSETTE_MISMATCH"
    recorded_name = "CassetteMismatchError"

    def __init__(self, message: str, *, diagnostic: Any = None, path: str | Path | None = None) -> None:
        super().__init__(message, path=path)
        self.diagnostic = diagnostic

    def __str__(self) -> str:
        return self.message if self.path is None else f"{self.message} (in {_named(self.path)})"


class AmbiguityError(CassetteLabError):
    """The recording or the topology does not say which call is meant."""

    code = "CASSETTE_AMBIGUOUS"
    recorded_name = "CassetteAmbiguityError"


class ConfigError(CassetteLabError):
    """An option, name or pattern that cannot be used."""

    code = "INVALID_CONFIG"
    recorded_name = "CassetteError"


class NoUpstreamError(CassetteLabError):
    """The provider to record from is not registered."""

    code = "NO_UPSTREAM"
    recorded_name = "CassetteError"


class IdentityError(CassetteLabError, TypeError):
    """A request or parent context that has no identity: not lossless plain JSON, or of the wrong type."""

    code = "INVALID_REQUEST"


class SurfaceError(CassetteLabError, ValueError):
    """A session's events do not fold into a message surface."""

    code = "BROKEN_SURFACE"


class AbortError(CassetteLabError):
    """Stopped before a run was published, or while a model answered. The recorded name of this error is ``AbortError``."""

    code = "ABORTED"


class ClosedError(CassetteLabError):
    """A call through a cassette that is already closed, or through a closed store of sessions."""

    code = "CASSETTE_CLOSED"


class RecordedError(CassetteLabError):
    """What a recorded call raised, replayed: ``recorded_name``, message and code as they stand in the file."""

    code = "CASSETTE_RECORDED_ERROR"

    def __init__(self, message: str, *, recorded_name: str = "Error", code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.recorded_name = recorded_name


class RecordedAbortError(RecordedError, AbortError, TimeoutError):
    """What a replay raises where the recorded call was stopped: by a timeout, a cancellation or an interrupt.

    Whoever gave the call a time limit caught ``TimeoutError`` then; the same handler catches this, and without waiting.
    """

    code = AbortError.code

    def __init__(self, message: str, *, recorded_name: str = AbortError.__name__, code: str | None = None) -> None:
        super().__init__(message, recorded_name=recorded_name, code=code)


def _named(path: str) -> str:
    """A path for a sentence; an empty one is shown, too."""
    return show(path) or '""'
