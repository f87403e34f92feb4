"""Where a call stands: stable keys for agents, and the reservation of a call's place among its equals.

Ids of agents and sessions change from run to run, so no file holds them. The first top-level parent is ``root``, a
local child is the call that started it. Nothing is remembered of a call that fails before it is reserved.
Source: cassette format, Identity, Topology.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from cassette_lab.cassette.identity import RequestIdentity, call_key, parent_fingerprint, session_header
from cassette_lab.contracts import ABSENT, ParentAgent
from cassette_lab.errors import AmbiguityError, IdentityError
from cassette_lab.jsonio import CanonicalError, canonical

ROOT: Final = "root"
Group = tuple[str, str, str]
"""Parent key, parent-context fingerprint, request fingerprint: what makes calls equal."""


class Placed(Protocol):
    """A call that has its place already: an ``Interaction`` or a ``Reservation``."""

    @property
    def group(self) -> Group:
        """What the call is equal to others by."""
        ...

    @property
    def occurrence(self) -> int:
        """Its number among the calls of its group, from 1."""
        ...


class CallIdentity(NamedTuple):
    """What a call is matched by: where its parent stands, what the parent is, what is asked."""

    parent_key: str
    parent_context_fingerprint: str
    request: RequestIdentity

    @property
    def group(self) -> Group:
        """What the call is equal to others by."""
        return (self.parent_key, self.parent_context_fingerprint, self.request.fingerprint)


class Reservation(NamedTuple):
    """The place of an admitted call. ``occurrence`` counts the calls of one group from 1."""

    call_key: str
    parent_key: str
    parent_context_fingerprint: str
    request_fingerprint: str
    occurrence: int

    @property
    def group(self) -> Group:
        """What the call is equal to others by."""
        return (self.parent_key, self.parent_context_fingerprint, self.request_fingerprint)


class TopologyTracker:
    """Keys of the agents one provider has seen, and how many calls of each group are reserved.

    ``inherits_parent_context`` is the provider's. ``existing`` are calls recorded before (append): their groups go on
    counting. Every method either does all of its work or raises and changes nothing.
    """

    def __init__(self, inherits_parent_context: bool, existing: Iterable[Placed] = ()) -> None:  # noqa: FBT001
        self.inherits_parent_context = inherits_parent_context
        self._keys: dict[str, str] = {}
        self._root_known = False
        self._occurrences: dict[Group, int] = {}
        for call in existing:
            self._occurrences[call.group] = max(call.occurrence, self._occurrences.get(call.group, 0))

    def peek_parent_key(self, parent: ParentAgent) -> str:
        """The key ``parent`` has or would get; remembers nothing. ``AmbiguityError`` where it can have none."""
        key = self._keys.get(_name(parent))
        if key is not None:
            return key
        if session_header(parent).get("origin") == "subagent":
            raise AmbiguityError(
                "the parent is a subagent that no call through this cassette has started, so its calls have no place; "
                "start it through the same cassette provider"
            )
        if self._root_known:
            raise AmbiguityError(
                "a second top-level agent calls through this cassette, which knows one root; use one cassette for each"
            )
        return ROOT

    def parent_key(self, parent: ParentAgent) -> str:
        """The key of ``parent``, which is remembered: the first top-level one becomes ``root``."""
        key = self.peek_parent_key(parent)
        self._remember(parent)
        return key

    def register_local_child(self, child: ParentAgent, call_key: str) -> None:
        """Calls of ``child`` from now on stand below ``call_key``. ``AmbiguityError`` if it stands elsewhere already."""
        if self._keys.setdefault(_name(child), call_key) != call_key:
            raise AmbiguityError("an agent is registered as the child of two calls; its calls would have two places")

    def identify(self, request: Mapping[str, Any] | RequestIdentity, parent: ParentAgent) -> CallIdentity:
        """The identity of a call; remembers nothing. ``IdentityError``, ``AmbiguityError`` or ``SurfaceError``."""
        if not isinstance(request, RequestIdentity):
            request = RequestIdentity(request)
        parent_key = self.peek_parent_key(parent)
        return CallIdentity(parent_key, parent_fingerprint(parent, self.inherits_parent_context), request)

    def reserve(self, request: Mapping[str, Any] | RequestIdentity, parent: ParentAgent) -> Reservation:
        """Give a call its place: remembers the root and takes the next occurrence of its group.

        Raises ``IdentityError``, also for a label that is no string, ``AmbiguityError`` or ``SurfaceError``.
        """
        identity = self.identify(request, parent)
        label = label_text(identity.request)
        group = identity.group
        occurrence = self._occurrences.get(group, 0) + 1
        key = call_key(group[0], label, group[1], group[2], occurrence)
        reservation = Reservation(key, *group, occurrence)
        self._occurrences[group] = occurrence
        if not self._root_known:  # else whoever has a place is known already
            self._remember(parent)
        return reservation

    def _remember(self, parent: ParentAgent) -> None:
        """Commit what ``peek_parent_key`` found: a parent without a key becomes the root."""
        name = _name(parent)
        if name not in self._keys:
            self._keys[name] = ROOT
            self._root_known = True


def label_text(request: RequestIdentity) -> str | None:
    """The label of a request, None without one; ``IdentityError`` where it is no string and so can name no call."""
    if request.label is ABSENT:
        return None
    if not isinstance(request.label, str):
        raise IdentityError("the label of a request must be a string, or absent", field="label")
    return request.label


def _name(agent: ParentAgent) -> str:
    """The id of an agent as text, which ``5`` and ``"5"`` share."""
    name: Any = agent.id
    if isinstance(name, str):
        return name
    if name is None or isinstance(name, (int, float)):
        try:
            return canonical(name).decode("ascii")
        except CanonicalError:
            pass
    raise IdentityError("the id of an agent must be a string or a number", field="id")
