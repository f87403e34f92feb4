"""Tool calls and their first results, calls made by code that a tool ran, and the jobs behind them.

A call and its result belong together by the call's id; a result that replaces another one on the surface is a rewritten
copy of it, not a second result. Source: session logs, Event types, Tool result message; Parents and children.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from cassette_lab.jsonio import JsonSyntaxError, parse
from cassette_lab.session.facts import Job, ToolCall
from cassette_lab.session.kinds import DELEGATING
from cassette_lab.session.members import inner, number, result_body, text, text_blocks, time_of, whole
from cassette_lab.session.model import Event

_STARTED: Final = re.compile(r"started subagent (\S+)\s*")
_MOST_LABEL_BYTES: Final = 1 << 20


class ToolsTracker:
    """Reads tool calls and jobs off the events of one log; ``cut`` ends what a fork inherited."""

    def __init__(self, *, bodies: bool = False) -> None:
        self.calls: list[ToolCall] = []
        self.dispatches: list[ToolCall] = []
        self.jobs: list[Job] = []
        self._bodies = bodies
        self._open: dict[str, int] = {}
        self._open_dispatches: dict[str, int] = {}
        self._open_jobs: dict[str, int] = {}

    def handlers(self) -> Mapping[str, Callable[[Event], None]]:
        """What to call for which type of event."""
        return {
            "tool/call": self._call,
            "tool/result": self._result,
            "tool/ptc-dispatch-start": self._dispatch_start,
            "tool/code-dispatch-start": self._dispatch_start,
            "tool/ptc-dispatch": self._dispatch_end,
            "tool/code-dispatch": self._dispatch_end,
            "job/registered": self._job,
            "job/settled": self._job,
        }

    def cut(self) -> None:
        """Everything so far is inherited, and nothing of it goes on."""
        self.calls = [replace(call, inherited=True) for call in self.calls]
        self.dispatches = [replace(call, inherited=True) for call in self.dispatches]
        self.jobs = [replace(job, inherited=True) for job in self.jobs]
        self._open, self._open_dispatches, self._open_jobs = {}, {}, {}

    def _call(self, event: Event) -> None:
        data = event.data
        call_id, name, arguments = text(data, "callId"), text(data, "name"), text(data, "arguments")
        if call_id is not None:
            self._open[call_id] = len(self.calls)
        self.calls.append(
            ToolCall(
                turn=whole(data, "turn"),
                step=whole(data, "step"),
                call_id=call_id,
                name=name,
                started_at=time_of(event),
                argument_bytes=_bytes(arguments),
                delegates=name in DELEGATING,
                delegation_label=_label(arguments) if name in DELEGATING else None,
                arguments=arguments if self._bodies else None,
            )
        )

    def _result(self, event: Event) -> None:
        if event.surface_op is not None and event.surface_op != "append":
            return
        body = result_body(event.data)
        call_id = text(body, "toolCallId") or text(body, "callId")
        place = None if call_id is None else self._open.pop(call_id, None)
        if place is None:  # a second result, or one of a call that is not there
            return
        call = self.calls[place]
        answer = text_blocks(body.get("content"))
        started = _STARTED.fullmatch("".join(answer)) if call.delegates else None
        error = inner(event.data, "error")
        self.calls[place] = replace(
            call,
            ended_at=time_of(event),
            is_error=body.get("isError") is True,
            error_name=text(error, "name"),
            error_code=text(error, "code"),
            result_bytes=sum(_bytes(part) or 0 for part in answer),
            child_session_id=started[1] if started else None,
            result="".join(answer) if self._bodies else None,
        )

    def _dispatch_start(self, event: Event) -> None:
        data = event.data
        call_id, arguments = text(data, "subCallId"), data.get("arguments")
        if call_id is not None:
            self._open_dispatches[call_id] = len(self.dispatches)
        self.dispatches.append(
            ToolCall(
                turn=whole(data, "turn"),
                step=whole(data, "step"),
                call_id=call_id,
                name=text(data, "name"),
                started_at=time_of(event),
                argument_bytes=_bytes(arguments) if type(arguments) is str else None,
                parent_call_id=text(data, "parentCallId") or text(data, "rootCallId"),
                arguments=arguments if self._bodies and type(arguments) is str else None,
            )
        )

    def _dispatch_end(self, event: Event) -> None:
        data = event.data
        call_id = text(data, "subCallId")
        place = None if call_id is None else self._open_dispatches.pop(call_id, None)
        if place is None:
            self._dispatch_start(event)
            place = len(self.dispatches) - 1
            self.dispatches[place] = replace(self.dispatches[place], started_at=None)
            self._open_dispatches.pop(call_id or "", None)
        answer = text_blocks(data.get("content"))
        error = inner(data, "error")
        self.dispatches[place] = replace(
            self.dispatches[place],
            ended_at=time_of(event),
            is_error=data.get("isError") is True,
            error_name=text(error, "name"),
            error_code=text(error, "code"),
            result_bytes=sum(_bytes(part) or 0 for part in answer),
            result="".join(answer) if self._bodies else None,
        )

    def _job(self, event: Event) -> None:
        data = event.data
        job_id, call = text(data, "jobId"), inner(data, "toolCall")
        place = None if job_id is None else self._open_jobs.get(job_id)
        if place is None:
            place = len(self.jobs)
            self.jobs.append(Job(job_id))
            if job_id is not None:
                self._open_jobs[job_id] = place
        before = self.jobs[place]
        self.jobs[place] = replace(
            before,
            kind=text(data, "kind") or before.kind,
            call_id=text(call, "callId") or before.call_id,
            root_call_id=text(call, "rootCallId") or before.root_call_id,
            started_at=number(data, "startedAt") or before.started_at,
            finished_at=number(data, "finishedAt") or before.finished_at,
            status=text(data, "status") or before.status,
            cause=text(data, "cause") or before.cause,
        )


def _label(arguments: str | None) -> str | None:
    """What a delegating call named its subagent: the argument ``description``."""
    if arguments is None or len(arguments) > _MOST_LABEL_BYTES:
        return None
    try:
        value: Any = parse(arguments)
    except JsonSyntaxError:
        return None
    return text(value, "description") if type(value) is dict else None


def _bytes(value: str | None) -> int | None:
    """UTF-8 bytes; half a surrogate pair counts as its replacement character does."""
    if value is None:
        return None
    return len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass"))
