"""Which recorded call answers a live one: strictly by identity, each call once, equal ones in recorded order.

The matcher of a replay. It never guesses: where the recording does not say which call is meant it refuses to start, and
where nothing matches it explains (``diagnosis``).
Source: cassette format, Matching and diagnosis.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from cassette_lab.cassette.diagnosis import CANDIDATES_KEPT, Diagnosis
from cassette_lab.cassette.identity import RequestIdentity
from cassette_lab.cassette.model import Cassette, Interaction
from cassette_lab.cassette.nearest import diagnose
from cassette_lab.cassette.topology import CallIdentity, Group, TopologyTracker
from cassette_lab.contracts import ParentAgent
from cassette_lab.errors import AmbiguityError, ConfigError, MismatchError
from cassette_lab.jsonio import JsonObject, canonical
from cassette_lab.jsonio.text import show
from cassette_lab.words import plural, was

DuplicatePolicy: TypeAlias = Literal["reject", "sequence"]
NestedPolicy: TypeAlias = Literal["strict", "covered"]

DUPLICATE_POLICIES: Final[tuple[DuplicatePolicy, ...]] = ("reject", "sequence")
NESTED_POLICIES: Final[tuple[NestedPolicy, ...]] = ("strict", "covered")
_NAMED: Final = 3  # calls a sentence names


@dataclass(frozen=True)
class Unconsumed:
    """Why ``assert_consumed`` failed: how many calls are ``missing`` of ``total``, the first of them, and the covered.

    Of the missing, ``below`` stand below a call that was replayed: ``nested="covered"`` would not miss them.
    """

    total: int
    missing: int
    covered: int
    first: tuple[Interaction, ...]
    below: int = 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.sentence()}>"

    def to_dict(self) -> JsonObject:
        """As JSON: counts, and the first missing calls by sequence."""
        return {
            "status": "unconsumed",
            "interactions": self.total,
            "missing": self.missing,
            "covered": self.covered,
            "below": self.below,
            "calls": [{"sequence": call.sequence, "callKey": call.call_key} for call in self.first],
        }

    def explain(self) -> list[str]:
        """Lines for a person: what was not asked for, and the next step."""
        lines = [self._counted()]
        lines += [f"  #{call.sequence} {show(call.call_key)}" for call in self.first]
        if self.missing > len(self.first):
            lines.append(f"  … and {self.missing - len(self.first):,} more")
        if self.below:
            lines.append(f"{self._below()}: {_COVER}")
        if self.below < self.missing:
            lines.append("replay all of them, or switch the check off (--no-assert-consumed, assert_consumed=False)")
        return lines

    def sentence(self) -> str:
        """The count and the first few calls, with the way out where there is one."""
        if self.below:
            return f"{self._counted()}; {self._below()}: {_COVER}; they are {_named(self.first, self.missing)}"
        return f"{self._counted()}: {_named(self.first, self.missing)}"

    def _counted(self) -> str:
        return f"{self.missing:,} of {plural(self.total, 'recorded call')} {was(self.missing)} never asked for"

    def _below(self) -> str:
        if self.missing == 1:
            return "it lies below a call that was replayed"
        count = f"all {self.below:,}" if self.below == self.missing else f"{self.below:,} of them"
        return f"{count} {'lies' if self.below == 1 else 'lie'} below a call that was replayed"


_COVER: Final = "replay with nested='covered' (--nested covered)"


class Matcher:
    """The calls of one cassette, to be matched one by one.

    ``duplicate_policy``: ``reject`` refuses a cassette in which equal calls had different outcomes, ``sequence`` takes
    them in recorded order. ``allow_redacted``: replay results in which something was redacted. ``nested``: with
    ``covered`` calls recorded below a consumed call are not missed by ``assert_consumed``; ``strict`` counts every call.

    Raises ``AmbiguityError`` (equal calls, different outcomes), then ``MismatchError`` (redacted results).
    """

    def __init__(
        self,
        cassette: Cassette,
        *,
        duplicate_policy: DuplicatePolicy = "reject",
        allow_redacted: bool = False,
        nested: NestedPolicy = "strict",
    ) -> None:
        if duplicate_policy not in DUPLICATE_POLICIES:
            raise ConfigError(f"the duplicate policy is reject or sequence, not {show(str(duplicate_policy))}")
        if nested not in NESTED_POLICIES:
            raise ConfigError(f"nested calls are counted as strict or covered, not {show(str(nested))}")
        self.cassette = cassette
        self.topology = TopologyTracker(cassette.header.provider.inherits_parent_context)
        self._nested = nested
        self._consumed: set[int] = set()
        # the calls of each group that are still to be matched, the next one last
        self._waiting: dict[Group, list[Interaction]] = {}
        for interaction in cassette.interactions:
            self._waiting.setdefault(interaction.group, []).append(interaction)
        shared = [calls for calls in self._waiting.values() if len(calls) > 1]
        for calls in shared:
            calls.sort(key=_next_last)
        if duplicate_policy == "reject":
            self._refuse_ambiguous(shared)
        if not allow_redacted:
            self._refuse_redacted()

    @property
    def consumed(self) -> int:
        """How many calls have been matched (and not released)."""
        return len(self._consumed)

    @property
    def remaining(self) -> int:
        """How many calls have not been matched; calls below a matched one included."""
        return len(self.cassette.interactions) - len(self._consumed)

    def match(self, request: Mapping[str, Any] | RequestIdentity, parent: ParentAgent) -> Interaction:
        """The recorded call that answers this one; it is used up.

        Raises ``MismatchError`` with a ``Diagnosis``, or what ``TopologyTracker.identify`` raises; then nothing changes.
        """
        identity = self.topology.identify(request, parent)
        waiting = self._waiting.get(identity.group)
        if not waiting:
            diagnosis = self._diagnose(identity)
            sentence = diagnosis.sentence()
            if diagnosis.reason == "parent-context-changed":
                sentence += _told_of(parent)
            raise MismatchError(sentence, diagnostic=diagnosis, path=self.cassette.path)
        self.topology.parent_key(parent)
        interaction = waiting.pop()
        self._consumed.add(interaction.sequence)
        return interaction

    def diagnose(self, request: Mapping[str, Any] | RequestIdentity, parent: ParentAgent) -> Diagnosis:
        """What ``match`` would find, or why it would find nothing. Changes nothing."""
        return self._diagnose(self.topology.identify(request, parent))

    def release(self, interaction: Interaction) -> None:
        """Give back a call whose start failed before its recorded outcome was delivered; it can be matched again.

        A call that is not used up stays as it is. Within its group the order of occurrences is kept.
        """
        if interaction.sequence in self._consumed:
            self._consumed.remove(interaction.sequence)
            insort(self._waiting[interaction.group], interaction, key=_next_last)

    def is_consumed(self, interaction: Interaction) -> bool:
        """Whether this call has been matched."""
        return interaction.sequence in self._consumed

    def missing(self) -> list[Interaction]:
        """The calls that ``assert_consumed`` misses, by sequence."""
        missing = [call for call in self.cassette.interactions if call.sequence not in self._consumed]
        if self._nested == "covered":
            covered = self._covered(missing)
            missing = [call for call in missing if call.sequence not in covered]
        missing.sort(key=_sequence)
        return missing

    def assert_consumed(self) -> None:
        """Raise ``MismatchError``, with ``Unconsumed`` as its diagnostic, when calls are missing."""
        missing = self.missing()
        if not missing:
            return
        below = len(self._covered(missing)) if self._nested == "strict" else 0
        unconsumed = Unconsumed(
            len(self.cassette.interactions),
            len(missing),
            self.remaining - len(missing),
            tuple(missing[:CANDIDATES_KEPT]),
            below,
        )
        raise MismatchError(unconsumed.sentence(), diagnostic=unconsumed, path=self.cassette.path)

    def _diagnose(self, identity: CallIdentity) -> Diagnosis:
        return diagnose(
            identity,
            self.cassette.interactions,
            consumed=self._consumed,
            waiting=self._waiting.get(identity.group) or (),
        )

    def _covered(self, calls: list[Interaction]) -> set[int]:
        """Sequences of those ``calls`` that stand below a consumed one."""
        by_key = {call.call_key: call for call in self.cassette.interactions}
        below: dict[str, bool] = {}  # parent key -> whether it is a consumed call or stands below one
        covered = set()
        for call in calls:
            path = []
            key = call.parent_key
            while key not in below:
                below[key] = False  # keys of a hand-made file may point in a circle
                path.append(key)
                above = by_key.get(key)
                if above is None:
                    break
                if above.sequence in self._consumed:
                    below[key] = True
                    break
                key = above.parent_key
            for passed in path:
                below[passed] = below[key]
            if below[call.parent_key]:
                covered.add(call.sequence)
        return covered

    def _refuse_ambiguous(self, shared: list[list[Interaction]]) -> None:
        ambiguous = [calls for calls in shared if outcomes_differ(calls)]
        if ambiguous:
            raise AmbiguityError(
                f"{plural(len(ambiguous), 'group')} of equal calls had different outcomes, so the recording does not say "
                f"which is meant: {_named([calls[-1] for calls in ambiguous])}; give the calls different labels, or "
                "replay them in recorded order (--duplicates sequence, duplicate_policy='sequence')",
                path=self.cassette.path,
            )

    def _refuse_redacted(self) -> None:
        redacted = [call for call in self.cassette.interactions if call.outcome.kind == "result" and call.outcome.redactions]
        if redacted:
            results = f"{plural(len(redacted), 'recorded result')} {was(len(redacted))} redacted"
            raise MismatchError(
                f"{results} and no longer what the run returned: {_named(redacted)}; "
                "replay them as they are (--allow-redacted, allow_redacted_replay=True), or record again and keep what was "
                "redacted (--no-redact, redact_secrets=False)",
                path=self.cassette.path,
            )


def _told_of(parent: ParentAgent) -> str:
    """What the parent is called now: a file keeps no more than the fingerprint of what it was called then."""
    options: Any = parent.options
    given = options if isinstance(options, Mapping) else {}
    shown = [f"{name} '{show(value)}'" for name in ("provider", "model") if isinstance(value := given.get(name), str)]
    return f"; the parent has the {' and the '.join(shown)} now, see whether it was recorded with them" if shown else ""


def outcomes_differ(calls: Sequence[Interaction]) -> bool:
    """Whether equal calls had more than one outcome (kind, result or error, and number of redactions)."""
    first = canonical(calls[0].outcome.to_json())
    return any(canonical(call.outcome.to_json()) != first for call in calls[1:])


def _named(calls: Sequence[Interaction], total: int | None = None) -> str:
    """The first few of ``total`` calls, for a sentence."""
    more = (len(calls) if total is None else total) - _NAMED
    return ", ".join(show(call.call_key) for call in calls[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def _next_last(interaction: Interaction) -> int:
    return -interaction.occurrence


def _sequence(interaction: Interaction) -> int:
    return interaction.sequence
