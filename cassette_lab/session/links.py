"""The forest of sessions: whose child each is, which tool call started it, and what does not fit together.

A child names its parent in its header. A parent names its children in its catalog (formats 3 and later), in the result of
the call that started one in the background, and in the message that says that one ended. Nothing else links the two:
where more than one call could have started a child, none did. Source: session logs, Parents and children.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias, TypeVar

from cassette_lab.session.facts import Child, SessionFacts, Settlement, ToolCall, own
from cassette_lab.session.spans import Time
from cassette_lab.session.usage import Usage, total

_Key = TypeVar("_Key", str, int)
LinkedBy: TypeAlias = Literal["result", "label", "interval"]

_WAYS: Final[tuple[LinkedBy, ...]] = ("label", "interval")


class Candidate(NamedTuple):
    """A child whose call is looked for: what it was named, and when it was created."""

    session_id: str
    label: str | None
    created_at: Time | None


@dataclass(frozen=True, slots=True)
class Link:
    """A child and its parent. ``catalog``, ``call`` and ``settlement`` are the parent's own words on it, if there are any.

    ``linked_by`` says how the call was found: its result names the child, the two have one label, or the child was created
    while it ran; each only where no other call or child fits as well.
    """

    child: str
    parent: str
    catalog: Child | None = None
    settlement: Settlement | None = None
    call: ToolCall | None = None
    linked_by: LinkedBy | None = None


@dataclass(frozen=True, slots=True)
class Forest:
    """Sessions and how they belong together, by id.

    ``roots`` have no parent here, ``children`` are in the order they were created. ``missing_parents`` maps a session to
    the parent that its header names and that is not here, ``missing_children`` a parent to those that only it names.
    Sessions in ``cycles`` would be their own ancestors; those are roots, too, so that every session has its place once.
    ``disagreements`` are children whose header names another parent than the catalog they are in.
    """

    sessions: Mapping[str, SessionFacts]
    links: Mapping[str, Link]
    roots: tuple[str, ...]
    children: Mapping[str, tuple[str, ...]]
    missing_parents: Mapping[str, str]
    missing_children: Mapping[str, tuple[str, ...]]
    cycles: tuple[str, ...]
    disagreements: tuple[str, ...]

    def walk(self, root: str | None = None) -> Iterator[tuple[str, int]]:
        """Every session below ``root`` (all of them without one) with its depth, parents before children."""
        return walk(self.roots if root is None else (root,), self.children)

    def usage(self, root: str) -> Usage:
        """What a session is known to have cost with all its descendants, each counted once."""
        return total(self.sessions[session_id].usage for session_id, _ in self.walk(root))


def link(sessions: Iterable[SessionFacts]) -> Forest:
    """The forest of these sessions; of several with one id the last counts."""
    by_id = {session.id: session for session in sessions}
    parents: dict[str, str] = {}
    missing: dict[str, str] = {}
    for session in by_id.values():
        parent = session.header.parent_session
        if parent is not None:
            (parents if parent in by_id else missing)[session.id] = parent
    links: dict[str, Link] = {}
    for parent, ids in _grouped(parents).items():
        links.update(_links(by_id[parent], [by_id[child] for child in ids]))
    roots, children, cycles = arrange(_in_order(by_id.values()), parents)
    return Forest(
        sessions=by_id,
        links=links,
        roots=tuple(roots),
        children={parent: tuple(ids) for parent, ids in children.items()},
        missing_parents=missing,
        missing_children={session.id: named for session in by_id.values() if (named := _absent(session, by_id))},
        cycles=tuple(cycles),
        disagreements=tuple(
            child.session_id
            for session in by_id.values()
            for child in own(session.children)
            if child.session_id in by_id and by_id[child.session_id].header.parent_session != session.id
        ),
    )


def arrange(order: Iterable[_Key], parents: Mapping[_Key, _Key]) -> tuple[list[_Key], dict[_Key, list[_Key]], list[_Key]]:
    """Roots, children by parent, and those in cycles, each in this order; ``parents`` has only those that have one here.

    What would be its own ancestor is a root, so that everything has its place once.
    """
    cycles = _cycles(parents)
    roots: list[_Key] = []
    children: dict[_Key, list[_Key]] = defaultdict(list)
    listed = list(order)
    for each in listed:
        if each in parents and each not in cycles:
            children[parents[each]].append(each)
        else:
            roots.append(each)
    return roots, dict(children), [each for each in listed if each in cycles]


def walk(roots: Sequence[_Key], children: Mapping[_Key, Sequence[_Key]]) -> Iterator[tuple[_Key, int]]:
    """The roots and everything below them with its depth, parents before children."""
    waiting = [(root, 0) for root in reversed(roots)]
    while waiting:
        each, depth = waiting.pop()
        yield each, depth
        waiting += [(child, depth + 1) for child in reversed(children.get(each, ()))]


def started_by(calls: Sequence[ToolCall], children: Iterable[Candidate]) -> dict[str, tuple[int, LinkedBy]]:
    """Which call started which of these children: its place among ``calls``, and how that was found.

    The surest way first, so that a call that is taken fits no other; where more than one call or child fits, none does.
    """
    found: dict[str, tuple[int, LinkedBy]] = {}
    for place, call in enumerate(calls):
        if call.child_session_id is not None:
            found[call.child_session_id] = (place, "result")
    waiting = [child for child in children if child.session_id not in found]
    for way in _WAYS:
        taken = {place for place, _ in found.values()}
        free = [place for place, call in enumerate(calls) if place not in taken]
        waiting = [child for child in waiting if child.session_id not in found]
        fitting = {child.session_id: [place for place in free if _fits(way, calls[place], child)] for child in waiting}
        claims = Counter(place for places in fitting.values() for place in places)
        for child_id, places in fitting.items():
            if len(places) == 1 and claims[places[0]] == 1:
                found[child_id] = (places[0], way)
    return found


def delegations(tool_calls: Iterable[ToolCall]) -> dict[int, ToolCall]:
    """Own calls that start subagents, by their place among all calls."""
    return {place: call for place, call in enumerate(tool_calls) if call.delegates and not call.inherited}


def _links(parent: SessionFacts, children: list[SessionFacts]) -> dict[str, Link]:
    """Each child's link."""
    calls = [*delegations(parent.tool_calls).values()]
    catalog = {child.session_id: child for child in own(parent.children)}
    settled = {each.session_id: each for each in own(parent.settlements)}
    found = started_by(calls, [_candidate(child, catalog.get(child.id)) for child in children])
    links = {}
    for child in children:
        place, way = found.get(child.id, (None, None))
        call = None if place is None else calls[place]
        links[child.id] = Link(child.id, parent.id, catalog.get(child.id), settled.get(child.id), call, way)
    return links


def _candidate(child: SessionFacts, noted: Child | None) -> Candidate:
    label = None if child.descriptor is None else child.descriptor.label
    return Candidate(child.id, label or (None if noted is None else noted.label), child.header.created_at)


def _fits(way: LinkedBy, call: ToolCall, child: Candidate) -> bool:
    if way == "label":
        return child.label is not None and call.delegation_label == child.label
    contradicts = None not in (child.label, call.delegation_label) and child.label != call.delegation_label
    return not contradicts and _ran(call, child)


def _ran(call: ToolCall, child: Candidate) -> bool:
    """Whether the call ran when the child was created."""
    if child.created_at is None or call.started_at is None or child.created_at < call.started_at:
        return False
    return call.ended_at is None or child.created_at <= call.ended_at


def _cycles(parents: Mapping[_Key, _Key]) -> set[_Key]:
    """Those that are their own ancestors."""
    state: dict[_Key, int] = {}
    cycles: set[_Key] = set()
    for number, start in enumerate(parents, 1):
        path: list[_Key] = []
        at: _Key | None = start
        while at is not None and at not in state:
            state[at] = number
            path.append(at)
            at = parents.get(at)
        if at is not None and state[at] == number:
            cycles.update(path[path.index(at) :])
    return cycles


def _grouped(parents: Mapping[_Key, _Key]) -> dict[_Key, list[_Key]]:
    grouped: dict[_Key, list[_Key]] = defaultdict(list)
    for child, parent in parents.items():
        grouped[parent].append(child)
    return grouped


def _in_order(sessions: Iterable[SessionFacts]) -> list[str]:
    known = sorted(sessions, key=lambda session: (session.header.created_at is None, session.header.created_at or 0))
    return [session.id for session in known]


def _absent(session: SessionFacts, by_id: Mapping[str, SessionFacts]) -> tuple[str, ...]:
    named = [child.session_id for child in own(session.children)]
    named += [call.child_session_id for call in own(session.tool_calls) if call.child_session_id is not None]
    named += [settlement.session_id for settlement in own(session.settlements)]
    return tuple(child for child in dict.fromkeys(named) if child not in by_id)
