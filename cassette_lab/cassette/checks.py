"""What the interactions of one file owe each other: unique sequences, call keys and occurrences, none left out.

One place for these rules; the reader, the writer, the rescue and the table loader all use it.
Source: cassette format 1, Interaction (sequence, callKey, occurrence) and File (order of the checks).
"""

from __future__ import annotations

from typing import Final, TypeAlias

from cassette_lab.cassette.schema import RecordError

Group: TypeAlias = tuple[str, str, str]
"""Parent key, parent-context fingerprint, request fingerprint: the identity within which occurrences count."""


_GAP: Final = (
    "a recording that still runs, or was killed, leaves such gaps: wait for it, "
    "or keep the file's verified start with `cassette-lab rescue`"
)


class FileChecks:
    """The numbers and keys seen so far in one file. Add every interaction in physical order, then ``finish()``."""

    __slots__ = ("_call_keys", "_groups", "_highest", "_incomplete", "_sequences")

    def __init__(self) -> None:
        self._sequences: set[int] = set()
        self._highest = 0
        self._call_keys: set[str] = set()
        # Nearly every group has the one occurrence 1, which None stands for: a set for each would be most of the memory.
        self._groups: dict[Group, _Occurrences | None] = {}
        self._incomplete = 0

    @property
    def count(self) -> int:
        """How many interactions were added."""
        return len(self._sequences)

    @property
    def next_sequence(self) -> int:
        """One more than the highest sequence so far."""
        return self._highest + 1

    @property
    def complete(self) -> bool:
        """Whether what was added so far leaves no gap, so that a file may end here."""
        return self._highest == len(self._sequences) and not self._incomplete

    def occurrences(self) -> dict[Group, int]:
        """The highest occurrence of each group so far."""
        return {group: 1 if seen is None else seen.highest for group, seen in self._groups.items()}

    def add(self, sequence: int, call_key: str, group: Group, occurrence: int) -> None:
        """Take one interaction, or raise ``RecordError`` and stay as before."""
        if sequence in self._sequences:
            raise RecordError("sequence", f"sequence {sequence} is used twice in this file")
        if call_key in self._call_keys:
            raise RecordError("callKey", f"the callKey of sequence {sequence} is used twice in this file")
        if group not in self._groups:
            if occurrence == 1:
                self._groups[group] = None
            else:
                self._groups[group] = _Occurrences({occurrence})
                self._incomplete += 1
        else:
            seen = self._groups[group]
            if seen is None:
                seen = self._groups[group] = _Occurrences({1})
            if occurrence in seen.numbers:
                raise RecordError(
                    "occurrence", f"occurrence {occurrence} of one call from one parent is used twice in this file"
                )
            self._incomplete -= seen.has_gap
            seen.numbers.add(occurrence)
            seen.highest = max(seen.highest, occurrence)
            self._incomplete += seen.has_gap
        self._sequences.add(sequence)
        self._call_keys.add(call_key)
        self._highest = max(self._highest, sequence)

    def discard(self, sequence: int, call_key: str, group: Group, occurrence: int) -> None:
        """Take back an interaction that ``add`` has taken, or was interrupted in taking."""
        self._sequences.discard(sequence)
        self._highest = max(self._sequences, default=0)
        self._call_keys.discard(call_key)
        if group in self._groups:
            seen = self._groups[group]
            rest = (seen.numbers if seen is not None else {1}) - {occurrence}
            if rest:
                self._groups[group] = _Occurrences(rest)
            else:
                del self._groups[group]
        self._incomplete = sum(seen.has_gap for seen in self._groups.values() if seen is not None)

    def finish(self) -> None:
        """Raise ``RecordError`` where a sequence or an occurrence was left out."""
        if self._highest != len(self._sequences):
            missing = _first_missing(self._sequences)
            raise RecordError("sequence", f"sequence {missing} is missing, though there is a sequence {self._highest}", _GAP)
        if self._incomplete:
            seen = next(seen for seen in self._groups.values() if seen is not None and seen.has_gap)
            raise RecordError(
                "occurrence",
                f"occurrence {_first_missing(seen.numbers)} of a call is missing, though there is an occurrence {seen.highest}",
                _GAP,
            )


class _Occurrences:
    """The occurrences of one group, and their highest (so that adding one more stays quick)."""

    __slots__ = ("highest", "numbers")

    def __init__(self, numbers: set[int]) -> None:
        self.numbers = numbers
        self.highest = max(numbers)

    @property
    def has_gap(self) -> bool:
        return self.highest != len(self.numbers)


def _first_missing(numbers: set[int]) -> int:
    return next(number for number in range(1, len(numbers) + 2) if number not in numbers)
