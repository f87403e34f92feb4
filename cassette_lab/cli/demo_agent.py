"""The agent of the demo: it audits a small repository with subagents, on a model that is a script.

Three audits run at once; the first asks two questions to agents of its own, the second comes to the model's limit, the
third fails. No key, no network: the same questions get the same answers, after a pause as a model would make.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from cassette_lab.contracts import SubagentResult
from cassette_lab.errors import RecordedError
from cassette_lab.host import subagent

AREAS: Final = ("api", "docs", "tests")

_SCRIPT: Final[Mapping[str, tuple[str, float]]] = {
    "Which routes of orders/api.py can be reached without a login?": ("GET /orders/export answers without one.", 0.42),
    "Which routes of orders/api.py have no rate limit?": ("POST /orders/import takes any number of rows.", 0.66),
    "Sum up: what must be fixed in orders/api.py before a release?": ("A login for the export, a limit for the import.", 0.24),
    "Read docs/ and list what is out of date.": ("The guide still names v1; the upgrade page", 0.81),
    "Run tests/ and explain every failure.": ("All 212 tests pass.", 0.58),
}


@dataclass
class ScriptedModel:
    """Answers from the script. ``pace`` stretches its pauses. ``repaired``: the test runner works, and takes its time."""

    pace: float = 1.0
    repaired: bool = False
    asked: list[str] = field(default_factory=list)

    async def ask(self, question: str) -> str:
        """The scripted answer, after its pause. ``TimeoutError`` when it takes the test runner and that is broken."""
        self.asked.append(question)
        answer, seconds = _SCRIPT[question]
        tests = "tests/" in question
        today = (1.55 if tests else 0.8) if self.repaired else 1.0
        await asyncio.sleep(seconds * self.pace * today)
        if tests and not self.repaired:
            raise TimeoutError("the test runner gave no answer")
        return answer


MODEL: Final = ScriptedModel()


@dataclass(frozen=True)
class Findings:
    """What an audit of the interface found."""

    area: str
    open_routes: str
    unlimited_routes: str
    verdict: str


@subagent("check-login")
async def check_login(path: str) -> str:
    """A question of its own for one subagent."""
    return await MODEL.ask(f"Which routes of {path} can be reached without a login?")


@subagent("check-limits")
async def check_limits(path: str) -> str:
    """And another one, asked at the same time."""
    return await MODEL.ask(f"Which routes of {path} have no rate limit?")


@subagent("audit-api")
async def audit_api(path: str = "orders/api.py") -> Findings:
    """Two nested calls at once, then a verdict."""
    login, limits = await asyncio.gather(check_login(path), check_limits(path))
    return Findings("api", login, limits, await MODEL.ask(f"Sum up: what must be fixed in {path} before a release?"))


@subagent("audit-docs")
async def audit_docs(path: str = "docs/") -> SubagentResult:
    """The model stops at its limit of tokens; the result says so."""
    text = await MODEL.ask(f"Read {path} and list what is out of date.")
    return SubagentResult(output=[{"type": "text", "text": text}], stop_reason="max-tokens")


@subagent("audit-tests")
async def audit_tests(path: str = "tests/") -> str:
    """Needs the test runner."""
    return await MODEL.ask(f"Run {path} and explain every failure.")


Answer = Findings | SubagentResult | str | BaseException

_AUDITS: Final[Mapping[str, Callable[[], Awaitable[Answer]]]] = {"api": audit_api, "docs": audit_docs, "tests": audit_tests}


async def audit_repository(areas: Sequence[str] = AREAS) -> dict[str, Answer]:
    """All audits at once, started in this order; what each gave, or the exception it ended with."""
    answers = await asyncio.gather(*(_AUDITS[area]() for area in areas), return_exceptions=True)
    return dict(zip(areas, answers, strict=True))


def told(answer: Answer) -> str:
    """An answer in one line."""
    if isinstance(answer, Findings):
        return answer.verdict
    if isinstance(answer, SubagentResult):
        return f"{answer.output[0]['text']} … (cut off: {answer.stop_reason})"
    if isinstance(answer, RecordedError):
        return f"{answer.recorded_name}: {answer.message}"
    if isinstance(answer, BaseException):
        return f"{type(answer).__name__}: {answer}"
    return answer
