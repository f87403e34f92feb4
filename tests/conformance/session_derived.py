"""What every expectation of a session log says of what is derived from it: turns, calls, tools, usage, surface, relations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cassette_lab.session.facts import SessionFacts, own
from cassette_lab.session.links import link
from tests.conformance.identity import assert_equal


def check_derived(facts: SessionFacts, expected: dict[str, Any]) -> None:
    """Everything derived from a log is what is expected, as far as the expectation tells."""
    for name, value in _document(facts).items():
        if name in expected:
            wanted = expected[name]
            if facts.missing_times:  # position and 0 stand in for what such a log lacks: no time that anyone could know
                value, wanted = _without_stand_ins(value, wanted)  # noqa: PLW2901 - the same, apart from times
            assert_equal(value, wanted, name)


def check_tree(sessions: Sequence[SessionFacts], expected: dict[str, Any]) -> None:
    """Totals and links of a tree's sessions are the expected ones."""
    turns = [turn for session in sessions for turn in own(session.turns)]
    tools = [call for session in sessions for call in own(session.tool_calls)]
    totals = {
        "sessions": len(sessions),
        "turns": sum(turn.start_seq is not None for turn in turns),
        "steps": sum(step.start_seq is not None for session in sessions for step in own(session.steps)),
        "modelCalls": sum(len(own(session.model_calls)) for session in sessions),
        "toolCalls": len(tools),
        "toolErrors": sum(call.is_error is True for call in tools),
        "retries": sum(len(own(session.retries)) for session in sessions),
        "turnEndKinds": sorted(str(turn.end_kind) for turn in turns if turn.end_seq is not None),
    }
    for name, value in expected.get("totals", {}).items():
        if name in totals:
            assert_equal(totals[name], sorted(value) if name == "turnEndKinds" else value, f"totals.{name}")
    forest = link(sessions)
    links = [
        {
            "child": session.id,
            "parent": session.header.parent_session,
            "parentPresent": session.id not in forest.missing_parents,
        }
        for session in sessions
        if session.header.parent_session is not None
    ]
    if "links" in expected:
        assert_equal(sorted(links, key=_child), sorted(expected["links"], key=_child), "links")


def _child(entry: dict[str, Any]) -> str:
    return str(entry["child"])


def _document(facts: SessionFacts) -> dict[str, Any]:
    turns, steps = own(facts.turns), own(facts.steps)
    return {
        "modelCalls": [
            {
                "turn": call.turn,
                "step": call.step,
                "settledAs": call.settled_as,
                "interrupted": call.interrupted,
                "chunks": call.chunks,
                "deltas": call.deltas,
                "firstChunkTime": call.first_chunk_at,
                "firstDeltaTime": call.first_delta_at,
                "lastDeltaTime": call.last_delta_at,
                "lastChunkTime": call.last_chunk_at,
                "settledTime": call.settled_at,
                "finish": call.finish,
                "usage": None if call.usage is None else call.usage.to_json(),
                "text": call.text_chars,
                "reasoning": call.reasoning_chars,
                "argChars": call.argument_chars,
            }
            for call in own(facts.model_calls)
        ],
        "turnsStarted": sum(turn.start_seq is not None for turn in turns),
        "stepsStarted": sum(step.start_seq is not None for step in steps),
        "turnEnds": [
            {
                "turn": turn.turn,
                "kind": turn.end_kind,
                "cause": turn.end_cause,
                "errorCode": turn.error_code,
                "status": turn.error_status,
                "time": turn.ended_at,
            }
            for turn in turns
            if turn.end_seq is not None
        ],
        "steps": [
            {"turn": step.turn, "step": step.step, "start": step.started_at, "end": step.ended_at}
            for step in steps
            if step.end_seq is not None
        ],
        "openSteps": [[step.turn, step.step] for step in steps if step.is_open],
        "openTurn": facts.is_open,
        "toolCalls": [
            {
                "callId": call.call_id,
                "name": call.name,
                "turn": call.turn,
                "step": call.step,
                "callTime": call.started_at,
                "resultTime": call.ended_at,
                "isError": call.is_error,
                "errorCode": call.error_code,
            }
            for call in own(facts.tool_calls)
        ],
        "retries": [
            {
                "turn": retry.turn,
                "step": retry.step,
                "retry": retry.retry,
                "delayMs": retry.delay_ms,
                "code": retry.error_code,
            }
            for retry in own(facts.retries)
        ],
        "usageTotals": facts.message_usage.to_json(),
        "compactions": [
            {
                "start": compaction.started_at,
                "end": compaction.ended_at,
                "summary": compaction.summarised,
                "error": compaction.failed,
                "usage": None if compaction.usage is None else compaction.usage.to_json(),
            }
            for compaction in own(facts.compactions)
        ],
        "surface": {
            "nodes": list(facts.surface.nodes),
            "replacements": facts.surface.replacements,
            "ok": facts.surface.problem is None,
        },
        "childrenCatalog": [child.session_id for child in own(facts.children)],
        "finalText": facts.final_text,
    }


_TIMES = frozenset(
    {"firstChunkTime", "firstDeltaTime", "lastDeltaTime", "lastChunkTime", "settledTime", "time", "start", "end"}
    | {"callTime", "resultTime"}
)


def _without_stand_ins(value: Any, wanted: Any) -> tuple[Any, Any]:
    if isinstance(value, list) and isinstance(wanted, list):
        pairs = [_without_stand_ins(one, other) for one, other in zip(value, wanted, strict=False)]
        rest = min(len(value), len(wanted))
        return [one for one, _ in pairs] + value[rest:], [other for _, other in pairs] + wanted[rest:]
    if isinstance(value, dict) and isinstance(wanted, dict):
        left_out = {name for name in _TIMES & value.keys() if value[name] is None}
        return tuple({name: each for name, each in side.items() if name not in left_out} for side in (value, wanted))  # type: ignore[return-value]
    return value, wanted
