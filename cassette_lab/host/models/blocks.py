"""A block of an answer while it streams, and the chunks that tell of it. Source: session logs, Chunk kinds."""

from __future__ import annotations

from dataclasses import dataclass, field

from cassette_lab.contracts import StreamChunk
from cassette_lab.jsonio import JsonObject


@dataclass(slots=True)
class StreamedBlock:
    """One block: ``text``, ``reasoning``, or a ``tool-call``, which has an id and a name. ``parts`` is what has come of it.

    A tool call of whose arguments nothing streams has those that were ``given`` with its beginning.
    """

    index: int
    kind: str
    call_id: str = ""
    name: str = ""
    given: str = "{}"
    parts: list[str] = field(default_factory=list)

    def start(self) -> StreamChunk:
        """Its first chunk."""
        return {"type": "block-start", "index": self.index, "blockType": self.kind}

    def add(self, text: str, *, with_name: bool = False) -> StreamChunk:
        """More of it. ``with_name`` tells the name of a tool call, which one of its chunks does."""
        self.parts.append(text)
        if self.kind != "tool-call":
            return {"type": f"{self.kind}-delta", "index": self.index, "text": text}
        named = {"name": self.name} if with_name else {}
        return {"type": "tool-call-delta", "index": self.index, "id": self.call_id, **named, "argumentsDelta": text}

    def end(self) -> StreamChunk:
        """Its last chunk, with the whole block."""
        return {"type": "block-end", "index": self.index, "block": self.to_json()}

    def to_json(self) -> JsonObject:
        """The block as a message has it."""
        text = "".join(self.parts)
        if self.kind != "tool-call":
            return {"type": self.kind, "text": text}
        return {"type": "tool-call", "id": self.call_id, "name": self.name, "arguments": text or self.given}
