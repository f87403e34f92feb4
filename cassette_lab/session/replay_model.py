"""A model that answers as it did when the session was recorded: no key, no network.

Source: session logs, Stream replay (binding, throw and hang entries, pacing).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Final, Self

from cassette_lab.contracts import AbortSignal, ModelRequest, StreamChunk
from cassette_lab.errors import AbortError, CassetteLabError, ConfigError, RecordedError
from cassette_lab.jsonio import as_integer
from cassette_lab.session.answers import Unfinished
from cassette_lab.session.binding import BindingStrategy, ScriptBinding
from cassette_lab.session.entries import HangEntry, ReplayEntry, SessionScript, ThrowEntry
from cassette_lab.session.families import family_of
from cassette_lab.session.placeholders import resolve_entry
from cassette_lab.session.scripts import load_session_scripts

_SHOWN_CHARACTERS: Final = 80


class ReplayModel:
    """An ``LlmAdapter`` that plays the scripts of recorded sessions, for any agent loop.

    A call belongs to its script's next entry from the moment ``stream`` is called, whether and when its stream is read. What
    is asked is not compared with what was asked then: the recorded answer comes whatever the request says.
    ``provider`` and ``model`` are what the primary session's requests were sent to, where its log says so, else None: an
    agent then has the names of the recorded one, as a cassette of its subagents' calls wants it.
    ``pace_ms`` is waited before each chunk (a whole number of milliseconds). For ``binding`` see ``ScriptBinding``. ``tell``
    is called with a sentence for each call: which recorded session answers it, or why none does.
    Raises ``ConfigError`` for an option that cannot be (code ``BAD_PACE`` for the pace).
    """

    def __init__(
        self,
        scripts: Sequence[SessionScript],
        *,
        binding: BindingStrategy = "first-call",
        pace_ms: float = 0,
        tell: Callable[[str], object] | None = None,
    ) -> None:
        self._tell = tell
        self._pace_s = _checked_pace(pace_ms) / 1000
        self._binding = ScriptBinding(scripts, binding=binding)
        primary = next((script for script in scripts if script.primary), None)
        names = None if primary is None else primary.names
        self.provider: str | None = names[0] if names else None
        self.model: str | None = names[1] if names else None

    @classmethod
    def from_files(
        cls,
        file: str | Path,
        child_files: Sequence[str | Path] = (),
        override_file: str | Path | None = None,
        *,
        binding: BindingStrategy = "first-call",
        pace_ms: float = 0,
        version: int | None = None,
        unfinished: Unfinished = "raise",
    ) -> Self:
        """A model that plays these logs. Raises what ``load_session_scripts`` raises, too, which says what the files are."""
        _checked_pace(pace_ms)
        scripts = load_session_scripts(file, child_files, override_file, version=version, unfinished=unfinished)
        return cls(scripts, binding=binding, pace_ms=pace_ms)

    @classmethod
    def from_folder(
        cls,
        folder: str | Path,
        override_file: str | Path | None = None,
        *,
        binding: BindingStrategy = "first-call",
        pace_ms: float = 0,
        unfinished: Unfinished = "raise",
    ) -> Self:
        """A model that plays a session with the subagents that lie in its folder (``FOLDER``, ``FOLDER#ID``, ``STORE#ID``).

        Raises what ``family_of`` and ``from_files`` raise.
        """
        primary, children = family_of(folder)
        return cls.from_files(primary, children, override_file, binding=binding, pace_ms=pace_ms, unfinished=unfinished)

    def stream(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        """The recorded chunks of the next call of the request's session.

        Reading raises ``AbortError`` once the request is aborted, ``RecordedError`` (with message and code) where the script
        says that the call fails, ``MismatchError`` where it has no such call, and what ``resolve_entry`` raises.
        """
        entry: ReplayEntry | CassetteLabError
        try:
            entry = resolve_entry(self._binding.next_entry(request), request.messages)
        except CassetteLabError as error:  # the model's failures come from its stream
            entry = error
        if self._tell is not None:
            self._tell(self._told(request.session_id, entry))
        return _played(entry, request.signal, self._pace_s)

    def _told(self, session_id: str | None, entry: ReplayEntry | CassetteLabError) -> str:
        if isinstance(entry, CassetteLabError):
            return f"refused: {entry.message}"
        place = self._binding.place_of(session_id)
        assert place is not None, "a call that is answered has a script"  # noqa: S101
        recorded_id, call, calls = place
        live = "a session without an id" if session_id is None else f"session {session_id[:_SHOWN_CHARACTERS]}"
        ends = f", which fails: {entry.code}" if isinstance(entry, ThrowEntry) else ""
        return f"{live}: call {call:,} of {calls:,} of {recorded_id[:_SHOWN_CHARACTERS]}{ends}"

    def __repr__(self) -> str:
        return f"<ReplayModel: {self._binding!r}>"

    def assert_consumed(self) -> None:
        """Raise ``MismatchError`` unless every recorded session was asked for, and every call of each."""
        self._binding.assert_consumed()


async def _played(
    entry: ReplayEntry | CassetteLabError, signal: AbortSignal | None, pace_s: float
) -> AsyncGenerator[StreamChunk, None]:
    if isinstance(entry, CassetteLabError):
        raise entry
    if isinstance(entry, HangEntry):
        yield {"type": "block-start", "index": 0, "blockType": "text"}
        yield {"type": "text-delta", "index": 0, "text": "partial"}
        if entry.ready_file is not None:
            _create(entry.ready_file)
        await (asyncio.get_running_loop().create_future() if signal is None else signal.wait())
        raise _abort_error()
    for chunk in entry.chunks:
        if signal is not None and signal.aborted:
            raise _abort_error()
        if pace_s:
            await _pause(pace_s, signal)
        yield chunk
    if isinstance(entry, ThrowEntry):
        raise RecordedError(entry.message, recorded_name="LlmError", code=entry.code)


async def _pause(seconds: float, signal: AbortSignal | None) -> None:
    if signal is None:
        await asyncio.sleep(seconds)
        return
    try:
        await asyncio.wait_for(signal.wait(), seconds)
    except TimeoutError:
        return
    raise _abort_error()


def _create(path: str) -> None:
    """Create an empty file. One that is there is not emptied: an override document may name any."""
    try:
        Path(path).touch()
    except (OSError, ValueError) as error:
        raise ConfigError(f"the ready file of a hang entry cannot be created ({error})", path=path) from error


def _checked_pace(pace_ms: float) -> int:
    whole = as_integer(pace_ms)
    if whole is None or whole < 0:
        raise ConfigError(f"pace_ms is a whole number of milliseconds, 0 or more, not {pace_ms!r}", code="BAD_PACE")
    return whole


def _abort_error() -> AbortError:
    return AbortError("the model call was aborted")
