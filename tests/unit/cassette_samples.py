"""Small cassettes for the tests of this room: facts made here, files in ``tests/data/cassettes`` written by our writer.

``python -m tests.unit.cassette_samples`` writes those files anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cassette_lab.cassette.model import (
    ErrorFacts,
    Header,
    Interaction,
    Outcome,
    ProviderFacts,
    RequestMetadata,
    StoredRequest,
    Timing,
)
from cassette_lab.cassette.writer import CassetteWriter, make_header
from cassette_lab.contracts import Capabilities
from cassette_lab.jsonio import JsonObject, canonical, digest, digest_bytes

DATA = Path(__file__).resolve().parents[1] / "data" / "cassettes"

DIGEST = "sha256:" + "5a" * 32


def header(**changes: Any) -> Header:
    """A sealed header with a fixed id and time."""
    facts: dict[str, Any] = {"cassette_id": "sample", "created_at": "2026-11-30T10:00:00.000Z", "redact_secrets": False}
    provider = ProviderFacts("cassette", "spawn", Capabilities(persona=False), inherits_parent_context=False)
    return make_header(changes.pop("provider", provider), **(facts | changes))


def interaction(sequence: int = 1, **changes: Any) -> Interaction:
    """A completed call of its own group, metadata only; ``changes`` replace members."""
    label = f"job {sequence}"
    call = Interaction(
        sequence=sequence,
        call_key=f"root/job-{sequence}-0a1b2c3d4e5f~1",
        parent_key="root",
        parent_context_fingerprint=DIGEST,
        request_fingerprint=digest({"label": label}),
        occurrence=1,
        request=StoredRequest(RequestMetadata(1, 20 + sequence, has_output_schema=False, has_persona=False, label=label)),
        timing=Timing("2026-11-30T10:00:01.000Z", 0.25, 10.5 + sequence),
        published=True,
        local=False,
        outcome=result([{"type": "text", "text": f"answer {sequence}"}]),
    )
    return replace(call, **changes)


def result(output: list[JsonObject], stop_reason: str = "completed", redactions: int = 0, **more: Any) -> Outcome:
    """A result outcome."""
    return Outcome("result", {"output": output, "stopReason": stop_reason, **more}, redactions)


def siblings() -> tuple[Header, list[Interaction]]:
    """Calls in completion order: a nested one, a start error, a result error, an abort, two equal calls."""
    equal = {"request_fingerprint": digest("equal")}
    return header(), [
        interaction(2, timing=Timing("2026-11-30T10:00:01.002Z", 1, 3, dispose_called_at_ms=2.5)),
        interaction(3, parent_key="root/job-1-0a1b2c3d4e5f~1", call_key="root/job-1-0a1b2c3d4e5f~1/deep-000000000000~1"),
        interaction(
            1,
            local=True,
            request=StoredRequest(
                RequestMetadata(
                    2,
                    99,
                    has_output_schema=True,
                    has_persona=True,
                    label="größer 🎼",
                    child_provider="scripted",
                    child_model="small",
                    max_depth=2,
                    tool_filter={"allow": ["read"], "deny": []},
                )
            ),
            outcome=result([{"type": "text", "text": 'quoted "text" \\ and\u2028more'}], structured={"z": 1, "a": [1.5, None]}),
        ),
        interaction(
            4,
            published=False,
            outcome=Outcome("start-error", error=ErrorFacts("ConnectionError", "the model is down", "OFFLINE")),
        ),
        interaction(5, outcome=Outcome("result-error", error=ErrorFacts("ValueError", ""))),
        interaction(6, outcome=result([], "aborted"), timing=Timing("2026-11-30T10:00:02.000Z", 0, 7, 6.75, 6.875)),
        interaction(8, call_key="root/job-7~2", occurrence=2, **equal),
        interaction(7, call_key="root/job-7~1", occurrence=1, **equal),
    ]


def full() -> tuple[Header, list[Interaction]]:
    """Whole requests and every kind of content block, redacted."""
    blocks: list[JsonObject] = [
        {"type": "text", "text": "look at [REDACTED]"},
        {"type": "reasoning", "text": ""},
        {"type": "tool-call", "id": "call-1", "name": "read", "arguments": "{}"},
        {"type": "tool-result", "toolCallId": "call-1", "content": [{"type": "text", "text": "ok"}], "isError": False},
        {
            "type": "image",
            "attachment": {"attachmentId": "a", "mediaType": "image/png", "bytes": 70, "width": 1, "height": 1, "name": "dot"},
        },
        {"type": "x-unknown", "anything": [None]},
    ]
    value = {
        "prompt": blocks,
        "label": "look",
        "persona": "careful",
        "agentOptions": {"provider": "scripted", "temperature": 0.5},
        "outputSchema": {"type": "object"},
        "maxDepth": 0,
        "toolFilter": {"deny": ["write"]},
    }
    policy = {"request_storage": "full", "redact_secrets": True, "redaction_patterns": ("secret-\\d+",)}
    return header(**policy), [
        interaction(1, request=StoredRequest(value=value, redactions=1), outcome=result(blocks, "refusal", 1)),
        interaction(2, request=StoredRequest(value={"prompt": []}), outcome=result([], "a-reason-of-its-own")),
    ]


def write(path: Path, cassette: tuple[Header, Iterable[Interaction]]) -> Path:
    """Write a cassette; returns ``path``."""
    with CassetteWriter.open(path, cassette[0]) as writer:
        for call in cassette[1]:
            writer.append(call)
    return path


def records(cassette: tuple[Header, Iterable[Interaction]]) -> list[JsonObject]:
    """The members of every record, header first, not sealed yet."""
    return [cassette[0].to_json(), *(call.to_json() for call in cassette[1])]


def sealed(members: Sequence[JsonObject]) -> list[JsonObject]:
    """The same records with right hashes, whatever else is wrong with them."""
    out: list[JsonObject] = []
    for number, record in enumerate(members):
        rest = {name: value for name, value in record.items() if name != "hash"}
        if number:
            rest["previousHash"] = out[-1]["hash"]
        out.append(rest | {"hash": digest(rest)})
    return out


def text(members: Iterable[JsonObject]) -> bytes:
    """Canonical lines of records as they are."""
    return b"".join(canonical(record) + b"\n" for record in members)


def resealed_line(line: bytes, spelled: bytes, value: bytes) -> bytes:
    """A canonical line with ``value`` in place of ``spelled``, its hash made right for the bytes as they then stand."""
    at = line.index(b',"hash":"sha256:')
    rest = (line[:at] + line[at + 81 :]).replace(spelled, value)
    return rest[:at] + b',"hash":"' + digest_bytes(rest).encode() + b'"' + rest[at:]


def torn() -> bytes:
    """``siblings`` as a crash leaves it: cut inside a record, behind calls of which one never ended."""
    lines = text(sealed(records(siblings()))).splitlines(keepends=True)
    return b"".join(lines[:8]) + lines[8][:200]


if __name__ == "__main__":
    DATA.mkdir(parents=True, exist_ok=True)
    for name, cassette in (("siblings", siblings()), ("full", full())):
        (DATA / f"{name}.cassette.jsonl").unlink(missing_ok=True)
        write(DATA / f"{name}.cassette.jsonl", cassette)
    (DATA / "torn.cassette.jsonl").write_bytes(torn())
