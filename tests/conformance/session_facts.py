"""What every expectation of a session log says about the log itself, whatever is derived from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from cassette_lab.session.derive import derive
from cassette_lab.session.finding import find_logs
from cassette_lab.session.model import SessionLog
from cassette_lab.session.reader import read_session
from tests.conformance.case import Case
from tests.conformance.identity import assert_equal
from tests.conformance.session_derived import check_derived, check_tree


def tree_cases(name: str, root: Path, tree: dict[str, Any], *, whole: bool) -> Iterator[Case]:
    """One case for each session of a tree, one for what is found there (``whole``: these files and no others), one for all."""
    sessions = tree.get("sessions", [])
    yield Case(f"{name}/found", partial(_check_found, root, sessions, whole=whole))
    for expected in sessions:
        yield Case(f"{name}/{expected['file']}", partial(_check_session, root / expected["file"], expected))
    yield Case(f"{name}/together", partial(_check_together, root, tree))


def _check_found(root: Path, sessions: list[dict[str, Any]], *, whole: bool) -> None:
    found = list(find_logs(root))
    assert_equal([str(each.problem) for each in found if each.problem is not None], [], "problems")
    names = {each.path.relative_to(root).as_posix() for each in found}
    missing = sorted({expected["file"] for expected in sessions} - names)
    assert not missing, f"not found: {missing[0]}"
    if whole:
        assert_equal(len(names), len(sessions), "files found")


def _check_session(path: Path, expected: dict[str, Any]) -> None:
    log = read_session(path)
    check_facts(log, path, expected)
    check_derived(derive(log), expected)


def _check_together(root: Path, tree: dict[str, Any]) -> None:
    check_tree([derive(read_session(root / expected["file"])) for expected in tree.get("sessions", [])], tree)


def check_facts(log: SessionLog, path: Path, expected: dict[str, Any]) -> None:
    """Header, physical facts, rows and events of a log are the expected ones."""
    header, events = log.header, list(log.events())
    seen: dict[str, Any] = {
        "id": header.id,
        "version": header.version,
        "createdAt": header.created_at,
        "cwd": header.cwd,
        "parentSession": header.parent_session,
        "origin": header.origin,
        "delegationDepth": header.delegation_depth,
        "physical": _physical(log),
        "rows": log.row_count,
        "events": log.event_count,
        "inheritedEvents": log.boundary,
        "seqContiguous": [event.seq for event in events] == list(range(log.event_count)),
        "timesSynthetic": not any(event.time for event in events),
        "eventTypes": dict(Counter(event.type for event in log.own_events())),
    }
    wanted = {name: expected[name] for name in seen if name in expected}
    if "version" in wanted:  # a header without one is of format 0
        wanted["version"] = wanted["version"] or 0
    if "physical" in wanted:  # some frames were written anew after the expectation, as the layout's notes say
        wanted["physical"] = {**wanted["physical"], "bytes": path.stat().st_size}
    for name, value in wanted.items():
        assert_equal(seen[name], value, name)
    times = [event.time for event in events[log.boundary :]]
    for name, time in (("ownFirstTime", times[:1]), ("ownLastTime", times)):  # times may step back
        if name in expected:
            assert_equal(max(time, default=None), expected[name], name)


def _physical(log: SessionLog) -> dict[str, Any]:
    physical = log.physical
    facts = {
        "bytes": physical.size_bytes,
        "frames": physical.frames,
        "tornTailBytes": physical.torn_frame_bytes,
        "tornTailLineBytes": physical.torn_line_bytes,
        "textBytes": physical.text_bytes,
    }
    return {name: value for name, value in facts.items() if value is not None}
