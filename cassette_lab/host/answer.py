"""A model's answer as it arrives: chunks collected into the blocks of one message.

Source: session logs, Event envelope, Packed chunk rows; Event types, usage and finish reason.
"""

from __future__ import annotations

from typing import Any, Final, cast

from cassette_lab.cassette.failures import error_facts
from cassette_lab.contracts import FailureCode, StreamChunk
from cassette_lab.errors import RecordedError
from cassette_lab.host.models.failures import ModelFailure, malformed, redacted
from cassette_lab.jsonio import JsonObject

ERROR_FINISHES: Final = frozenset({"error", "aborted"})


class Answer:
    """What has been streamed so far. ``usage`` and ``finish`` (a reason with its ``kind``) are None until they come.

    ``replay_state`` is what the provider wants back with the message, where it says so.
    """

    def __init__(self) -> None:
        self.usage: JsonObject | None = None
        self.finish: JsonObject | None = None
        self.replay_state: Any = None
        self._blocks: dict[Any, JsonObject] = {}
        self._whole: set[Any] = set()

    def add(self, chunk: StreamChunk) -> None:
        """The next chunk. A block's own end says what it holds; before that its deltas do.

        Raises ``ModelFailure`` (``MALFORMED_RESPONSE``) for what is no chunk; one of an unknown type is passed over.
        """
        try:
            self._add(chunk)
        except (AttributeError, KeyError, TypeError) as error:
            raise malformed("a chunk is not what its type says") from error

    def _add(self, chunk: StreamChunk) -> None:
        kind, index = chunk.get("type"), chunk.get("index")
        if kind == "text-delta":
            self._open(index, "text")["text"] += chunk["text"]
        elif kind == "reasoning-delta":
            self._open(index, "reasoning")["text"] += chunk["text"]
        elif kind == "tool-call-delta":
            block = self._open(index, "tool-call")
            block["id"], block["name"] = _text(chunk["id"]), _text(chunk.get("name") or block["name"])
            block["arguments"] += chunk["argumentsDelta"]
        elif kind == "block-start":
            self._open(index, _text(chunk["blockType"]))
        elif kind == "block-end":
            block = self._blocks[index] = _checked(chunk["block"])
            self._whole.add(index)
            if block["type"] == "tool-call" and sum(other.get("id") == block["id"] for other in self._blocks.values()) > 1:
                raise TypeError("two tool calls have one id")
        elif kind == "usage":
            self.usage = chunk["usage"] if isinstance(chunk["usage"], dict) else None
        elif kind == "finish":
            _text(chunk["reason"]["kind"])
            self.finish = chunk["reason"]
            self.replay_state = chunk.get("replayState")

    @property
    def finish_kind(self) -> str | None:
        """How the answer ended; None while it has not."""
        return None if self.finish is None else str(self.finish["kind"])

    def content(self, *, with_tools: bool = True) -> list[JsonObject]:
        """The blocks, in the order in which they began; those that are only open are left out where they hold nothing."""
        return [
            block
            for index, block in self._blocks.items()
            if (index in self._whole or block.get("text") or block.get("arguments"))
            and (with_tools or block.get("type") != "tool-call")
        ]

    def tool_calls(self) -> list[JsonObject]:
        """The blocks that call tools."""
        return [block for block in self.content() if block.get("type") == "tool-call"]

    def _open(self, index: Any, kind: Any) -> JsonObject:
        block = self._blocks.get(index)
        if block is None:
            block = {"type": kind, "id": "", "name": "", "arguments": ""} if kind == "tool-call" else {"type": kind, "text": ""}
            self._blocks[index] = block
        return block


def _checked(block: Any) -> JsonObject:
    """A whole block, if it is one."""
    kind = _text(block["type"])
    if kind in ("text", "reasoning"):
        _text(block["text"])
    elif kind == "tool-call" and not (_text(block["id"]) and _text(block["name"])):
        raise TypeError("a tool call has an id and a name")
    elif kind == "tool-call":
        _text(block["arguments"])
    return cast("JsonObject", block)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a text is expected, not {type(value).__name__}")
    return value


def text_of(content: Any) -> str:
    """The text blocks of a message's content, joined."""
    return "".join(block["text"] for block in content if block.get("type") == "text")


def failure_of(error: BaseException) -> ModelFailure | None:
    """``error`` as a failure of the model; None where it is a fault of something else."""
    if isinstance(error, ModelFailure):
        return error
    if isinstance(error, RecordedError):  # a replayed one
        return ModelFailure(error.message, code=cast("FailureCode", error.code))
    return None


def failure_of_finish(finish: JsonObject) -> ModelFailure:
    """The failure that a finish reason of the kind error or aborted stands for."""
    told = finish.get("failure")
    facts: JsonObject = told if isinstance(told, dict) else {}
    status, wait_ms = facts.get("status"), facts.get("providerRetryAfterMs")
    return ModelFailure(
        str(facts.get("message") or "the model's answer ended with an error"),
        code=cast("FailureCode", str(facts.get("code") or "UNKNOWN")),
        status=status if isinstance(status, int) else None,
        retry_after_s=wait_ms / 1000 if isinstance(wait_ms, (int, float)) else None,
        is_final=facts.get("retryable") is False,
    )


def failure_json(error: BaseException) -> JsonObject:
    """A failure as a session log writes it, whatever it is."""
    failure = failure_of(error)
    if failure is not None:
        members = failure.to_json()
        return {**members, "message": redacted(members["message"])}
    facts = error_facts(error)
    return {"message": redacted(f"{facts.name}: {facts.message}"), "code": facts.code or "UNKNOWN"}
