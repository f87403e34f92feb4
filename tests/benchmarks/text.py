"""Small work that every recorded call does: canonical JSON, detached copies, redaction; and redaction of hostile text."""

from __future__ import annotations

from cassette_lab.cassette.redaction import Redactor
from cassette_lab.jsonio import canonical, detach
from tests.benchmarks.figures import Bench, figure

_TIMES = 2_000
_HOSTILE_CHARACTERS = 32_768
_HOSTILE = (
    "x-", "Bearer ", "api_key ", "sk-", "xsk-", "abc-_9", "token ", "token", "token: abc ", "token=abcd ", "id_token=", "AKIA",
    "ghp_", "k", "token" + " " * 5000, "sk-aaaaaaaaaa" + "-" * 5000,
)  # fmt: skip
_PROSE = "The module parses every line of the file and returns a list of records; see src/parser.py for the main loop. "
_RESULT = {
    "output": [
        {"type": "text", "text": _PROSE * 4},
        {"type": "tool-call", "id": "call_123", "name": "grep", "arguments": '{"path": "src", "query": "def main"}'},
        {"type": "text", "text": _PROSE * 4},
    ],
    "stopReason": "completed",
    "structured": {"files": ["a.py", "b.py"], "score": 0.5},
}
_REQUEST = {
    "label": "audit",
    "prompt": [{"type": "text", "text": _PROSE * 4}],
    "agentOptions": {"provider": "openai", "model": "large"},
    "maxDepth": 2,
    "toolFilter": {"allow": ["read", "grep"], "deny": []},
}


@figure("json")
def json_values(bench: Bench) -> None:
    """Canonical text and detached copy of a small request."""

    def write() -> None:
        for _ in range(_TIMES):
            canonical(_REQUEST)

    def copy() -> None:
        for _ in range(_TIMES):
            detach(_REQUEST)

    bench.report("canonical JSON of a request", bench.median(write) / _TIMES * 1e6, unit="µs", limit=6)
    bench.report("detached copy of a request", bench.median(copy) / _TIMES * 1e6, unit="µs", limit=10)


@figure("redaction")
def redaction(bench: Bench) -> None:
    """A result of 1 KB without secrets, and the slowest of some texts made to be slow."""
    redactor = Redactor()

    def redact() -> None:
        for _ in range(_TIMES):
            redactor.result(_RESULT)

    bench.report("redaction of 1 KB without secrets", bench.median(redact) / _TIMES * 1e6, unit="µs", limit=10)
    slowest = 0.0
    for unit in _HOSTILE:
        text = (unit * (_HOSTILE_CHARACTERS // len(unit) + 1))[:_HOSTILE_CHARACTERS]
        slowest = max(slowest, bench.median(lambda text=text: redactor.text(text)))  # type: ignore[misc]
    bench.report("redaction of 32 KB of hostile text, slowest", slowest * 1e3, unit="ms", limit=10)
