"""What a crash leaves, made whole: the torn end cut off a file, and a turn that never ended closed in its log.

The closing events say what is known: a tool that was started may have worked, one that was not did nothing, and the turn
was interrupted. They have the time of the last event that was kept. Source: session logs, Files and bytes, Resume.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

from cassette_lab.jsonio import JsonObject
from cassette_lab.looking import sync_folder
from cassette_lab.session.frames import FrameError, compress_frame, decode_frame, is_zstd, walk_frame
from cassette_lab.session.lines import LogFile
from cassette_lab.session.model import Event

_NOT_STARTED: Final = (
    "ToolNotStartedError",
    "TOOL_NOT_STARTED",
    "The session was interrupted before this tool call was started. Call the tool again if the result is still needed.",
)
_OUTCOME_UNKNOWN: Final = (
    "ToolOutcomeUnknownError",
    "TOOL_OUTCOME_UNKNOWN",
    (
        "The session was interrupted while this tool call ran, and no result was kept: whether it took effect is unknown. "
        "Repeat it only if it reads or can safely be done twice; otherwise check first what it has done, or ask the user."
    ),
)


class OpenTurn(NamedTuple):
    """A turn that a log leaves open, with its open step, and the tool calls without a result.

    ``calls`` gives the step for each call id, and the seq of its ``tool/call``, None where there is none.
    """

    turn: Any
    step: Any
    calls: dict[str, tuple[Any, int | None]]
    last: Event


class Cut(NamedTuple):
    """Where a file's whole part ends, and lines that were saved from behind it."""

    offset: int
    saved: bytes


def closing_events(events: Iterable[Event]) -> list[Event]:
    """The events that close what a log of format 0 leaves open, with the seqs that follow; none where nothing is open.

    The results of tool calls that the model asked for come first, then the end of the step, then that of the turn.
    """
    found = open_turn(events)
    if found is None:
        return []
    seq, time = found.last.seq + 1, found.last.time
    closing: list[Event] = []
    for call_id, (step, call_seq) in found.calls.items():
        data = _missing_result(found.turn, step, call_id, call_seq, seq + len(closing))
        sources = None if call_seq is None else [call_seq]
        closing.append(Event("tool/result", seq + len(closing), time, data, source_event_seqs=sources, surface_op="append"))
    if found.step is not None:
        closing.append(Event("step/end", seq + len(closing), time, {"turn": found.turn, "step": found.step}))
    reason = {"kind": "interrupted"}
    closing.append(Event("turn/end", seq + len(closing), time, {"turn": found.turn, "reason": reason}))
    return closing


def open_turn(events: Iterable[Event]) -> OpenTurn | None:
    """The turn that the events leave open; None where every turn has ended."""
    turn = step = last = None
    calls: dict[str, tuple[Any, int | None]] = {}
    for event in events:
        last, data = event, event.data
        match event.type:
            case "turn/start":
                turn, step, calls = data.get("turn"), None, {}
            case "turn/end":
                turn, step, calls = None, None, {}
            case "step/start":
                step = data.get("step")
            case "step/end":
                step, calls = None, {}
            case "assistant/message":
                calls.update((call_id, (data.get("step"), None)) for call_id in _asked_for(data))
            case "tool/call":
                call_id = data.get("callId")
                if isinstance(call_id, str) and call_id in calls:
                    calls[call_id] = (calls[call_id][0], event.seq)
            case "tool/result":
                call_id = _answered(data)
                if isinstance(call_id, str):
                    calls.pop(call_id, None)
    return None if turn is None or last is None else OpenTurn(turn, step, calls, last)


def find_cut(path: Path, kept_end: int) -> Cut:
    """Where to cut a log whose decoded text is good up to ``kept_end`` bytes.

    A raw log is cut there. A zstd log is cut before the frame that is not good to its end, whose good lines are given back.
    """
    file = LogFile(path)
    try:
        if not is_zstd(file.at(0, 4)):
            return Cut(min(kept_end, file.size), b"")
        offset = text_bytes = 0
        while offset < file.size:
            text = bytearray()
            end = None
            with contextlib.suppress(FrameError):
                frame = walk_frame(file, offset)
                for block in decode_frame(file, frame):
                    text += block
                end = frame.end
            if end is None or text_bytes + len(text) > kept_end:
                return Cut(offset, bytes(text[: max(0, kept_end - text_bytes)]))
            offset, text_bytes = end, text_bytes + len(text)
        return Cut(offset, b"")
    finally:
        file.close()


def cut_file(path: Path, cut: Cut) -> None:
    """Cut a log, on disk when this returns. Saved lines go into a frame of their own; a crash in between loses none."""
    if cut.saved:
        beside = path.with_name(f".{path.name}.repair.tmp")
        try:
            with path.open("rb") as source, beside.open("wb") as target:
                _copy(source.read, target.write, cut.offset)
                target.write(compress_frame(cut.saved))
                target.flush()
                os.fsync(target.fileno())
            shutil.copymode(path, beside)
            beside.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)
    elif cut.offset < path.stat().st_size:
        with path.open("r+b") as file:
            file.truncate(cut.offset)
            file.flush()
            os.fsync(file.fileno())


_COPIED_BYTES: Final = 1 << 20


def _copy(read: Any, write: Any, count: int) -> None:
    while count > 0 and (block := read(min(count, _COPIED_BYTES))):
        write(block)
        count -= len(block)


def _asked_for(data: JsonObject) -> list[str]:
    """The ids of the tool calls in an assistant's message."""
    message = data.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    blocks = content if isinstance(content, list) else []
    ids = [block.get("id") for block in blocks if isinstance(block, dict) and block.get("type") == "tool-call"]
    return [call_id for call_id in ids if isinstance(call_id, str)]


def _answered(data: JsonObject) -> Any:
    """The id of the call that a tool's result answers."""
    message = data.get("message")
    source = message.get("source") if isinstance(message, dict) else None
    if isinstance(source, dict) and "callId" in source:
        return source["callId"]
    return data.get("callId")  # as old logs have it


def _missing_result(turn: Any, step: Any, call_id: str, call_seq: int | None, seq: int) -> JsonObject:
    name, code, text = _NOT_STARTED if call_seq is None else _OUTCOME_UNKNOWN
    block = {"type": "tool-result", "toolCallId": call_id, "content": [{"type": "text", "text": text}], "isError": True}
    message = {
        "source": {"kind": "tool", "callId": call_id},
        "content": [block],
        "role": "user",
        "id": f"interrupted-tool-result-{call_id}-{seq}",
    }
    return {"turn": turn, "step": step, "message": message, "error": {"name": name, "code": code}}
