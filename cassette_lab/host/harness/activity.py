"""Which sessions of a runtime are busy: known from what it tells, and the ground for saying that a prompt is done."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any, Final

QUIET_S: Final = 0.25
"""A tree is settled when it has been idle for so long."""
UNFINISHED_QUIET_S: Final = 5.0
"""The same while the end of a child that is idle has not been told: it wakes its parent, and is told after that."""


class Watch:
    """One prompt: what its session said last, and when its tree has nothing more to do."""

    def __init__(self, activity: Activity, session_id: str) -> None:
        self.session_id = session_id
        self.message_id: str | None = None
        self.text = ""
        self.end_kind: str | None = None
        self.error_code: str | None = None
        self.error_status: int | None = None
        self.received: set[Any] = set()
        self._activity = activity

    async def settled(self) -> None:
        """Return when the session and all its descendants have been idle for a while. Raises what ended the runtime."""
        while True:
            change = self._activity.change
            if self._activity.failure is not None:
                raise self._activity.failure
            quiet_s = self._activity.quiet_s(self.session_id) if self.message_id in self.received else None
            try:
                await asyncio.wait_for(asyncio.shield(change), quiet_s)
            except TimeoutError:
                return

    def hear(self, event: Mapping[str, Any]) -> None:
        """An event of this session."""
        kind, data = event.get("type"), event.get("data")
        if not isinstance(data, Mapping):
            return
        if kind == "agent/inbox/spliced":
            self.received |= {message.get("id") for message in data.get("inserted") or () if isinstance(message, Mapping)}
        elif kind == "assistant/message":
            content = (data.get("message") or {}).get("content") or ()
            texts = [block["text"] for block in content if block.get("type") == "text"]
            self.text = "".join(texts) or self.text
        elif kind == "turn/end":
            reason = data.get("reason") or {}
            error = reason.get("error") or {}
            self.end_kind = reason.get("kind")
            code, status = error.get("code"), error.get("status")
            self.error_code = code if isinstance(code, str) else None
            self.error_status = status if type(status) is int else None


class Activity:
    """The state of all sessions. Belongs to one loop."""

    def __init__(self) -> None:
        self.failure: BaseException | None = None
        self._busy: set[str] = set()
        self._unfinished: set[str] = set()
        self._parents: dict[str, str] = {}
        self._watches: dict[str, Watch] = {}
        self._change: asyncio.Future[None] | None = None

    @property
    def change(self) -> asyncio.Future[None]:
        """Done at the next thing that is heard."""
        if self._change is None or self._change.done():
            self._change = asyncio.get_running_loop().create_future()
        return self._change

    def begin(self, session_id: str) -> Watch:
        """Watch a prompt that is about to be given to this session."""
        self._busy.add(session_id)
        watch = self._watches[session_id] = Watch(self, session_id)
        return watch

    def quiet_s(self, session_id: str) -> float | None:
        """How long nothing more must be heard until a session and its descendants are done; None while one is at work."""
        tree = {session_id, *self.descendants(session_id)}
        if tree & self._busy:
            return None
        return UNFINISHED_QUIET_S if tree & self._unfinished else QUIET_S

    def descendants(self, session_id: str) -> Iterator[str]:
        """The sessions below this one, in the order in which they began."""
        members = {session_id}
        for child, parent in self._parents.items():
            if parent in members:
                members.add(child)
                yield child

    def hear(self, method: str, payload: Mapping[str, Any]) -> None:
        """What the runtime tells."""
        session_id = payload.get("sessionId")
        if method == "session.status" and isinstance(session_id, str):
            if payload.get("status") == "idle":
                self._busy.discard(session_id)
            else:
                self._busy.add(session_id)
                self._unfinished |= {session_id} & self._parents.keys()
        elif method == "subagent.finished":
            self._unfinished.discard(str(payload.get("childSessionId")))
        elif method == "subagent.started":
            child, parent = payload.get("childSessionId"), payload.get("parentSessionId")
            if isinstance(child, str) and isinstance(parent, str):
                self._parents[child] = parent
                self._busy.add(child)
                self._unfinished.add(child)
        elif method == "session.event" and session_id in self._watches and isinstance(payload.get("event"), Mapping):
            self._watches[session_id].hear(payload["event"])
        self._wake()

    def end(self, failure: BaseException) -> None:
        """Nothing more will be heard; the first reason counts."""
        self.failure = self.failure or failure
        self._wake()

    def _wake(self) -> None:
        if self._change is not None and not self._change.done():
            self._change.set_result(None)
