"""The session logs in ``notebooks/samples/sessions``: ``python -m tests.notebooks.sample_sessions`` writes them anew.

One agent looks at a release with the help of three others, and another one crashed at night. All times are made up, and the
same in every run. Between them they have what a reader of logs has to tell apart: two subagents and a fork that inherits
a turn, calls that were retried, tools that failed, turns that ended in each way, and an end that a crash left torn.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any, Final

from cassette_lab.session.persistence import StoredSession
from cassette_lab.session.session import Session, new_header
from cassette_lab.session.store_jsonl import LOCK_NAME, JsonlStore

SAMPLES: Final = Path(__file__).resolve().parents[2] / "notebooks" / "samples" / "sessions"
START_MS: Final = 1_793_610_000_000
NIGHT_MS: Final = START_MS - 9 * 3_600_000
CWD: Final = "/srv/orders"
TORN: Final = b'{"type":"assistant/chunk","seq":44,"ti'
"""What the crash left of its last line."""

_PIECE: Final = re.compile(r"\s?(?:\w+|[^\w\s])")


class Agent:
    """A session that is written while a clock of its own goes on; ``now`` is that clock, in epoch ms."""

    def __init__(self, store: JsonlStore, session: Session, now: int) -> None:
        self.session, self.now = session, now
        self._stored = StoredSession.create(store, session)
        self._turn = sum(event.type == "turn/start" for event in session.events)
        self._step = 0
        self._calls = 0
        self._model = "large" if session.header.origin is None else "small"

    def log(self, kind: str, data: dict[str, Any], *, after: int = 0, sources: list[int] | None = None) -> int:
        """Log an event ``after`` so many ms; returns its seq."""
        self.now += after
        operation = "append" if kind in ("user/message", "assistant/message", "tool/result") else None
        return self._stored.append(kind, data, time_ms=self.now, surface_op=operation, source_event_seqs=sources).seq

    def close(self) -> None:
        """Store what was logged, and let go."""
        self._stored.close()

    def begin(self, prompt: str, *, waited: int = 0, descriptor: dict[str, Any] | None = None) -> None:
        """Begin a turn with a message that waited in the inbox."""
        message: dict[str, Any] = {"role": "user", "id": self._id("message"), "source": {"kind": "user"}}
        message["content"] = [{"type": "text", "text": prompt}]
        self.log("agent/inbox/spliced", {"target": "next-turn", "start": 0, "inserted": [message]})
        self._turn, self._step = self._turn + 1, 0
        self.log("turn/start", {"turn": self._turn}, after=waited)
        self.log("agent/inbox/spliced", {"target": "next-turn", "start": 0, "removedCount": 1, "inserted": []})
        if descriptor is not None:
            self.log("subagent/descriptor", {"version": 2, "mode": "one-shot", **descriptor})
        self.step()
        self.log("user/message", message, after=2)
        config = {"provider": "scripted", "model": self._model}
        self.log("request/header", {"header": {"config": config}, "reason": "initial"}, after=1)

    def step(self) -> None:
        """Begin the turn's next step; the one before it ends."""
        if self._step:
            self._end_step()
        self._step += 1
        self.log("step/start", self._at(), after=4)

    def end(self, kind: str = "completed", **reason: Any) -> None:
        """End the step and the turn."""
        self._end_step()
        self.log("turn/end", {"turn": self._turn, "reason": {"kind": kind, **reason}}, after=3)
        self._stored.flush()

    def fails(self, code: str, status: int, *, wait: int, retry: int = 0, delay: int = 0, most: int = 3) -> None:
        """A request that fails after ``wait`` ms; ``retry`` numbers the one after ``delay`` ms, if any."""
        failure = {"message": f"the provider answered {status}", "code": code, "status": status}
        self._chunk({"type": "finish", "reason": {"kind": "error", "failure": failure}}, after=wait)
        if retry:
            known = {**self._at(), "retryId": f"retry-{self._turn}-{self._step}", "retry": retry}
            policy = {"provider": "scripted", "mode": "normal", "policyKey": "normal", "maxRetries": most, "delayMs": delay}
            self.log("llm/retry", {**known, **policy, "failure": failure}, after=1)
            self.log("llm/retry-started", known, after=delay)

    def streams(self, kind: str, text: str, *, wait: int, pace: int, index: int = 0, **members: Any) -> None:
        """A block of deltas, a word or a sign each: it opens after ``wait`` ms, they come about ``pace`` ms apart."""
        opening = {"type": "block-start", "index": index, "blockType": kind, **members}
        self._chunk(opening, after=wait)
        member = "argumentsDelta" if kind == "tool-call" else "text"
        for number, piece in enumerate(_PIECE.findall(text)):
            delta = {"type": f"{kind}-delta", "index": index, **members, member: piece}
            self._chunk(delta, after=pace + (number * 7 % 5 - 2) * pace // 8)

    def answers(
        self,
        text: str,
        *tools: tuple[str, dict[str, Any]],
        wait: int,
        pace: int,
        read: tuple[int, int],
        thought: str = "",
        finish: str | None = None,
    ) -> list[str]:
        """A model call with its message and its calls of tools; returns their ids.

        ``read``: tokens of the input, beside the cache and from it; every delta is one of the output. ``finish="aborted"``
        stops it while it speaks.
        """
        first = len(self.session.events)
        content: list[dict[str, Any]] = []
        for kind, words in (("reasoning", thought), ("text", text)):
            if words:
                self.streams(kind, words, wait=pace if content else wait, pace=pace, index=len(content))
                content.append({"type": kind, "text": words})
        if finish == "aborted":
            self._settle(content, range(first, len(self.session.events)), interrupted=True)
            return []
        calls = []
        for name, arguments in tools:
            self._calls += 1
            call = {"id": f"call-{self._turn}-{self._calls}", "name": name}
            written = json.dumps(arguments)
            self.streams("tool-call", written, wait=pace if content else wait, pace=pace, index=len(content), **call)
            content.append({"type": "tool-call", **call, "arguments": written})
            calls.append({"callId": call["id"], "name": name, "arguments": written})
        fresh, cached = read
        output = sum(event.data["chunk"]["type"].endswith("-delta") for event in self.session.events[first:])
        usage = {
            "inputTokens": fresh,
            "outputTokens": output,
            "cacheReadTokens": cached,
            "totalTokens": fresh + cached + output,
        }
        self._chunk({"type": "usage", "usage": usage}, after=5)
        self._chunk({"type": "finish", "reason": {"kind": finish or ("tool-calls" if tools else "stop")}})
        self._settle(content, range(first, len(self.session.events)), usage=usage)
        for made in calls:
            self.log("tool/call", {**self._at(), **made}, after=1)
        return [made["callId"] for made in calls]

    def result(self, call_id: str, text: str, *, after: int, error: dict[str, str] | None = None) -> None:
        """What a tool answered."""
        block = {"type": "tool-result", "toolCallId": call_id, "content": [{"type": "text", "text": text}]}
        message = {
            "role": "user",
            "id": self._id("result"),
            "source": {"kind": "tool", "callId": call_id},
            "content": [{**block, "isError": error is not None}],
        }
        failure = {} if error is None else {"error": error}
        asked = [event.seq for event in self.session.events if event.type == "tool/call" and event.data["callId"] == call_id]
        self.log("tool/result", {**self._at(), "message": message, **failure}, after=after, sources=asked)

    def _settle(self, content: list[dict[str, Any]], sources: range, **members: Any) -> None:
        source = {"kind": "model", "provider": "scripted", "model": self._model}
        message = {"role": "assistant", "id": self._id("answer"), "source": source, "content": content}
        self.log("assistant/message", {**self._at(), "message": message, **members}, after=2, sources=list(sources))

    def _chunk(self, chunk: dict[str, Any], *, after: int = 0) -> None:
        self.log("assistant/chunk", {**self._at(), "chunk": chunk}, after=after)

    def _end_step(self) -> None:
        self.log("step/end", self._at(), after=2)

    def _at(self) -> dict[str, int]:
        return {"turn": self._turn, "step": self._step}

    def _id(self, what: str) -> str:
        return f"{what}-{len(self.session.events)}"


def write_samples(root: Path) -> None:
    """Write the logs below ``root``, which must be empty or not there."""
    with JsonlStore(root, encoding="jsonl") as store:
        _release(store)
        crashed = _night(store)
    for lock in root.rglob(LOCK_NAME):
        lock.unlink()
    with crashed.open("ab") as file:
        file.write(TORN)


def _release(store: JsonlStore) -> None:
    """The agent that looks at a release, and those that it asks."""
    header = new_header(session_id="release-check", cwd=CWD, created_at=START_MS)
    agent = Agent(store, Session(header), START_MS)
    agent.begin("Look at the orders service before the release. Which routes need no login?", waited=40)
    agent.fails("SERVER", 503, wait=320, retry=1, delay=510)
    (read,) = agent.answers(
        "I begin with the routes.",
        ("read", {"file_path": "orders/routes.py"}),
        thought="The routes should be in one file, so that one is read first.",
        wait=740, pace=24, read=(1_840, 0),
    )  # fmt: skip
    agent.result(read, "no such file: orders/routes.py", after=14, error={"name": "FsError", "code": "FS_NOT_FOUND"})
    agent.step()
    (found,) = agent.answers(
        "It is not there; the routes must be declared elsewhere.",
        ("grep", {"pattern": "@route", "path": "orders"}),
        wait=610, pace=21, read=(96, 1_886),
    )  # fmt: skip
    agent.result(found, "orders/api.py: 14 matches\norders/admin.py: 3 matches", after=180)
    agent.step()
    agent.answers(
        "Seventeen routes are declared in two files. Two of them need no login: the export of orders, and the status page. "
        "The status page is meant to be open; the export is not, and it gives away every order of the day.",
        wait=690, pace=26, read=(160, 1_982),
    )  # fmt: skip
    agent.end()

    agent.now += 6_200
    agent.begin("Ask others to check the limits and to run the tests, and get a second opinion on the export.", waited=25)
    tasks = [
        ("subagent", {"description": "check the limits", "prompt": "Which routes have no rate limit?"}),
        ("subagent", {"description": "run the tests", "prompt": "Run the tests and say what fails."}),
        ("subagent_fork", {"description": "second opinion", "prompt": "Is the open export a reason to wait?"}),
    ]
    calls = agent.answers("Three of them at once.", *tasks, wait=820, pace=18, read=(210, 2_150))
    asked = agent.now
    parts = [
        (_limits(store, agent.session, asked + 30), "The answer was cut off at the limit of its length."),
        (_tests(store, agent.session, asked + 36), "The subagent was stopped after 12 s."),
        (_second_opinion(store, agent.session, asked + 41), "Wait for it: the export must ask for a login first."),
    ]
    for call, (ended, text) in sorted(zip(calls, parts, strict=True), key=lambda pair: pair[1][0]):
        stopped = {"name": "AbortError", "code": "ABORTED"} if "stopped" in text else None
        agent.result(call, text, after=ended + 5 - agent.now, error=stopped)
    agent.step()
    agent.answers(
        "Do not release yet. The export must ask for a login, the import has no limit, and the tests were stopped before "
        "they were through: run them again without a time limit.",
        thought="Two reports are incomplete, which has to be said.",
        wait=780, pace=25, read=(420, 2_480),
    )  # fmt: skip
    agent.end()
    agent.close()


def _limits(store: JsonlStore, parent: Session, now: int) -> int:
    """A subagent that talks until it comes to the limit; returns when it ended."""
    agent = Agent(store, Session.spawn(parent, session_id="check-limits", clock=lambda: now), now)
    agent.begin("Which routes have no rate limit?", descriptor={"provider": "spawn", "label": "check the limits"})
    found = agent.answers(
        "", ("grep", {"pattern": "@limit", "path": "orders/api.py"}), ("grep", {"pattern": "@limit", "path": "orders/old.py"}),
        wait=410, pace=12, read=(640, 0),
    )  # fmt: skip
    agent.result(found[0], "orders/api.py: 13 matches", after=150)
    agent.result(found[1], "no such file: orders/old.py", after=9, error={"name": "FsError", "code": "FS_NOT_FOUND"})
    agent.step()
    agent.answers(
        " ".join(f"Route {number} has a limit of {60 + number} calls a minute, which is enough." for number in range(1, 14)),
        wait=380, pace=11, read=(150, 692), finish="max-tokens",
    )  # fmt: skip
    agent.end("max-tokens")
    agent.close()
    return agent.now


def _tests(store: JsonlStore, parent: Session, now: int) -> int:
    """A subagent that waits for a slow tool, and is stopped while it reports; returns when it ended."""
    agent = Agent(store, Session.spawn(parent, session_id="run-tests", clock=lambda: now), now)
    agent.begin("Run the tests and say what fails.", descriptor={"provider": "spawn", "label": "run the tests"})
    (ran,) = agent.answers("", ("bash", {"command": "pytest -q"}), wait=390, pace=14, read=(610, 0))
    agent.result(ran, "211 passed, 1 failed in 10.02 s", after=10_400)
    agent.step()
    agent.answers("One of 212 tests fails: the import of an empty", wait=430, pace=13, read=(90, 631), finish="aborted")
    agent.end("aborted", reason={"kind": "parent"})
    agent.close()
    return agent.now


def _second_opinion(store: JsonlStore, parent: Session, now: int) -> int:
    """A fork that knows its parent's first turn; returns when it ended."""
    agent = Agent(store, Session.fork(parent, session_id="second-opinion", clock=lambda: now), now)
    descriptor = {"provider": "fork", "label": "second opinion"}
    agent.begin("Is the open export a reason to wait?", descriptor=descriptor)
    agent.fails("RATE_LIMIT", 429, wait=90, retry=1, delay=980)
    agent.fails("RATE_LIMIT", 429, wait=85, retry=2, delay=2_040)
    agent.answers(
        "Yes. Whoever knows the address can read every order of the day, and it is one line to close it.",
        wait=560, pace=15, read=(120, 2_190),
    )  # fmt: skip
    agent.end()
    agent.close()
    return agent.now


def _night(store: JsonlStore) -> Path:
    """An agent whose second turn failed, and whose process died in the third; returns its file."""
    header = new_header(session_id="night-report", cwd=CWD, created_at=NIGHT_MS)
    agent = Agent(store, Session(header), NIGHT_MS)
    agent.begin("Write the report of the night.")
    agent.answers("Nothing of note; 4,102 orders came in.", wait=520, pace=22, read=(700, 0))
    agent.end()
    agent.now += 60_000
    agent.begin("Send it to the team.")
    agent.fails("AUTH", 401, wait=140)
    agent.end("error", error={"message": "the provider answered 401", "code": "AUTH", "status": 401})
    agent.now += 600_000
    agent.begin("The key is renewed. Send it to the team now.")
    agent.streams("text", "I send the report of", wait=640, pace=22)
    agent.close()
    return store.locate(header)


if __name__ == "__main__":
    shutil.rmtree(SAMPLES, ignore_errors=True)
    write_samples(SAMPLES)
