"""Vectors of ``migrated/``: the same sessions in every format, converted by the reference."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from cassette_lab import jsonio
from cassette_lab.session.derive import derive
from cassette_lab.session.facts import SessionFacts
from cassette_lab.session.reader import read_session
from tests.conformance.case import Case
from tests.conformance.session_facts import tree_cases


def cases(folder: Path) -> Iterator[Case]:
    """The cases of each format's tree and of each session in it."""
    for path in sorted(folder.glob("*/expected.json")):
        expected = jsonio.parse(path.read_bytes())
        for name, tree in sorted(expected.items()):
            if isinstance(tree, dict) and "sessions" in tree:
                yield from tree_cases(f"{path.parent.name}/{name}", path.parent / name, tree, whole=True)
        yield Case(f"{path.parent.name}/formats agree", partial(_check_formats_agree, path.parent, expected))


def _check_formats_agree(folder: Path, expected: dict[str, Any]) -> None:
    """What a log tells does not depend on the format it is in, apart from seqs and from what settled a call."""
    told: dict[str, tuple[str, dict[str, Any]]] = {}
    for name, tree in sorted(expected.items()):
        for session in tree["sessions"] if isinstance(tree, dict) and "sessions" in tree else ():
            facts = derive(read_session(folder / name / session["file"]))
            here = _kept_by_every_format(facts)
            first, there = told.setdefault(facts.id, (name, here))
            for what, value in here.items():
                assert value == there[what], f"{facts.id}: {what} differ between {first} and {name}"


def _kept_by_every_format(facts: SessionFacts) -> dict[str, Any]:
    """Everything derived, without seqs; a call that failed is settled by nothing before format 2."""
    return {
        "turns": [replace(turn, start_seq=None, end_seq=None) for turn in facts.turns],
        "steps": [replace(step, start_seq=None, end_seq=None) for step in facts.steps],
        "model calls": [
            call if call.settled_as == "message" else replace(call, settled_as="none", settled_at=None)
            for call in facts.model_calls
        ],
        "tool calls": facts.tool_calls,
        "retries": facts.retries,
        "compactions": [replace(compaction, start_seq=None) for compaction in facts.compactions],
        "settlements": facts.settlements,
        "descriptors": facts.descriptor,
        "usages": facts.usage,
        "times": (facts.first_at, facts.last_at),
        "final texts": facts.final_text,
    }
