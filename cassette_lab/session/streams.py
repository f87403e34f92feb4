"""What streamed in one model call: counts, times, the finish and the usage, of chunks in any of their packed forms.

Source: session logs, Packed chunk rows; Event types, chunk kinds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from cassette_lab.jsonio import JsonObject
from cassette_lab.jsonio.surrogates import SPLIT_PAIR
from cassette_lab.session.chunks import KIND_OF_ROW
from cassette_lab.session.members import known, text
from cassette_lab.session.model import ChunkRun, DeltaKind
from cassette_lab.session.spans import Time
from cassette_lab.session.stretches import Stretch
from cassette_lab.session.usage import Usage, read_usage

_MEMBER: Final = {"text-delta": "text", "reasoning-delta": "text", "tool-call-delta": "argumentsDelta"}
_HIGH, _LOW = ("\ud800", "\udbff"), ("\udc00", "\udfff")


class Stream:
    """A model call's stream so far. ``bodies`` keeps its texts, too."""

    __slots__ = (
        "_bodies",
        "_ends_high",
        "chars",
        "chunks",
        "deltas",
        "finish",
        "first_chunk_at",
        "first_delta_at",
        "last_chunk_at",
        "last_delta_at",
        "usage",
    )

    def __init__(self, *, bodies: bool) -> None:
        self.chunks = self.deltas = 0
        self.first_chunk_at: Time | None = None
        self.last_chunk_at: Time | None = None
        self.first_delta_at: Time | None = None
        self.last_delta_at: Time | None = None
        self.finish: JsonObject | None = None
        self.usage: Usage | None = None
        self.chars: dict[str, int] = {}
        self._ends_high: str | None = None
        self._bodies: dict[str, list[str]] | None = {} if bodies else None

    def body(self, kind: DeltaKind) -> str | None:
        """The whole text of one kind of delta; None where bodies are not kept or there was none."""
        return None if self._bodies is None or kind not in self._bodies else "".join(self._bodies[kind])

    def add_run(self, run: ChunkRun) -> None:
        """A packed run of deltas."""
        first = known(run.time0)
        self._add_deltas(run.kind, run.texts, first, None if first is None else run.last_time)

    def add_stretch(self, stretch: Stretch) -> None:
        """Consecutive chunks of a log that is skimmed. There are no bodies then."""
        if not self.chunks:
            self.first_chunk_at = stretch.first_chunk_at
        self.chunks += stretch.chunks
        self.last_chunk_at = stretch.last_chunk_at
        if stretch.deltas:
            if not self.deltas:
                self.first_delta_at = stretch.first_delta_at
            self.deltas += stretch.deltas
            self.last_delta_at = stretch.last_delta_at
            for kind, part in stretch.parts:
                if isinstance(part, str):
                    self._add_texts(kind, (part,))
                elif part:
                    self.chars[kind] = self.chars.get(kind, 0) + part
                    self._ends_high = None
        self.usage = stretch.usage or self.usage
        if stretch.finish is not None:
            self.finish = stretch.finish

    def add_item(self, item: JsonObject) -> None:
        """An item of an event's ``stream``, which the reader has checked."""
        kind = KIND_OF_ROW.get(item["type"])
        if kind is None:
            self.add_chunk(item["chunk"], known(item["time"]))
            return
        first = known(item.get("time0") or 0)
        texts = item["args" if kind == "tool-call-delta" else "texts"]
        self._add_deltas(kind, texts, first, None if first is None else first + sum(item["dt"]))

    def add_chunk(self, chunk: Any, time: Time | None) -> None:
        """A chunk that stands alone."""
        kind = chunk.get("type") if type(chunk) is dict else None
        if type(kind) is str and kind in _MEMBER:
            part = text(chunk, _MEMBER[kind])
            self._add_deltas(kind, () if part is None else (part,), time, time, members=1)
            return
        if not self.chunks:
            self.first_chunk_at = time
        self.chunks += 1
        self.last_chunk_at = time
        if kind == "usage":
            self.usage = read_usage(chunk.get("usage")) or self.usage
        elif kind == "finish":
            reason = chunk.get("reason")
            self.finish = reason if type(reason) is dict else {"kind": reason} if type(reason) is str else {}

    def _add_deltas(
        self, kind: str, texts: Sequence[str], first: Time | None, last: Time | None, members: int | None = None
    ) -> None:
        count = len(texts) if members is None else members
        if not self.chunks:
            self.first_chunk_at = first
        if not self.deltas:
            self.first_delta_at = first
        self.chunks += count
        self.deltas += count
        self.last_chunk_at = self.last_delta_at = last
        self._add_texts(kind, texts)

    def _add_texts(self, kind: str, texts: Sequence[str]) -> None:
        joined = "".join(texts)
        if joined:
            self.chars[kind] = self.chars.get(kind, 0) + self._code_points(kind, joined)
        if self._bodies is not None:
            self._bodies.setdefault(kind, []).append(joined)

    def _code_points(self, kind: str, joined: str) -> int:
        """How many code points a text adds: the two halves of one may have come in two deltas."""
        count = len(joined)
        if joined.isascii():
            self._ends_high = None
            return count
        try:
            joined.encode()
        except UnicodeEncodeError:
            count -= len(SPLIT_PAIR.findall(joined))
        if self._ends_high == kind and _LOW[0] <= joined[0] <= _LOW[1]:
            count -= 1
        self._ends_high = kind if _HIGH[0] <= joined[-1] <= _HIGH[1] else None
        return count
