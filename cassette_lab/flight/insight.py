"""What records tell: which failed, were slow or are not whole; what was odd about one; figures of a window of them.

Source: flight records, Insight. ``Stats.extended`` goes beyond it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from cassette_lab.flight.model import OUTCOME_KINDS, USAGE_NAMES, FlightRecord, Usage
from cassette_lab.flight.recorder import FlightConfig
from cassette_lab.jsonio import JsonObject

FilterName: TypeAlias = Literal["all", "failed", "slow", "truncated"]
FILTERS: Final[tuple[FilterName, ...]] = get_args(FilterName)
FactKind: TypeAlias = Literal[
    "running", "incomplete", "threw", "request-truncated", "prompt-truncated", "slow-first-chunk", "slow-total",
    "missing-prompt-assembly", "no-anomaly",
]  # fmt: skip
FACT_KINDS: Final[tuple[FactKind, ...]] = get_args(FactKind)

DEFAULTS: Final = FlightConfig()


@dataclass(frozen=True, slots=True)
class Fact:
    """Something about a record that is worth a look. ``name`` says what ``value`` is, where there is one."""

    kind: FactKind
    name: Literal["reason", "error", "count", "milliseconds"] | None = None
    value: str | float | None = None

    def to_json(self) -> JsonObject:
        """As it is written."""
        return {"kind": self.kind} if self.name is None else {"kind": self.kind, self.name: self.value}


@dataclass(frozen=True, slots=True)
class Distribution:
    """Median and 95th percentile (nearest rank) of durations in milliseconds; None where there are none."""

    median: float | None = None
    p95: float | None = None

    def to_json(self) -> JsonObject:
        """As it is written."""
        return {"median": self.median, "p95": self.p95}


@dataclass(frozen=True, slots=True)
class TokenSums(Usage):
    """Sums of what was counted; None until a count of the kind is seen."""

    def to_json(self) -> JsonObject:
        """As it is written: what was never counted, too."""
        return {name: getattr(self, attribute) for name, attribute in USAGE_NAMES.items()}


@dataclass(frozen=True, slots=True)
class ModelStats:
    """The figures of one model. ``outcomes`` counts by kind."""

    provider: str
    model: str
    retained: int
    outcomes: dict[str, int]
    success_ratio: float | None
    first_chunk: Distribution
    total: Distribution
    tokens: TokenSums

    def to_json(self) -> JsonObject:
        """As it is written."""
        return {
            "provider": self.provider,
            "model": self.model,
            "retained": self.retained,
            "outcomes": self.outcomes,
            "successRatio": self.success_ratio,
            "firstChunk": self.first_chunk.to_json(),
            "total": self.total.to_json(),
            **self.tokens.to_json(),
        }


@dataclass(frozen=True, slots=True)
class ExtendedStats:
    """What the original does not count: all tokens, by model, why requests failed or were stopped, retries."""

    tokens: TokenSums
    models: tuple[ModelStats, ...]
    error_codes: dict[str, int]
    aborted: dict[str, int]
    ended_by_run: int
    retries: int

    def to_json(self) -> JsonObject:
        """As it is written."""
        return {
            **self.tokens.to_json(),
            "models": [model.to_json() for model in self.models],
            "errorCodes": self.error_codes,
            "aborted": self.aborted,
            "endedByRun": self.ended_by_run,
            "retries": self.retries,
        }


@dataclass(frozen=True, slots=True)
class Stats:
    """Figures of the records that there are; None: there is nothing to tell it by."""

    retained: int
    outcomes: dict[str, int]
    success_ratio: float | None
    first_chunk: Distribution
    total: Distribution
    input_tokens: float | None
    output_tokens: float | None
    truncated: int
    extended: ExtendedStats

    @property
    def success_percent(self) -> float | None:
        """The ratio as it is shown, to one decimal."""
        return None if self.success_ratio is None else math.floor(self.success_ratio * 1000 + 0.5) / 10

    def to_json(self, *, extended: bool = False) -> JsonObject:
        """As it is written; ``extended`` adds the member of that name."""
        members: JsonObject = {
            "retained": self.retained,
            "outcomes": self.outcomes,
            "successRatio": self.success_ratio,
            "firstChunk": self.first_chunk.to_json(),
            "total": self.total.to_json(),
            "inputTokens": self.input_tokens,
            "outputTokens": self.output_tokens,
            "truncated": self.truncated,
        }
        return {**members, "extended": self.extended.to_json()} if extended else members


def filtered(
    records: Iterable[FlightRecord], name: FilterName, thresholds: FlightConfig = DEFAULTS
) -> tuple[FlightRecord, ...]:
    """The records that a filter lets through, in their order."""
    passes: dict[FilterName, Callable[[FlightRecord], bool]] = {
        "all": lambda record: True,  # noqa: ARG005 - all of them
        "failed": lambda record: record.outcome.kind in {"threw", "incomplete"},
        "slow": lambda record: is_slow(record, thresholds),
        "truncated": lambda record: bool(record.omissions),
    }
    return tuple(filter(passes[name], records))


def is_slow(record: FlightRecord, thresholds: FlightConfig = DEFAULTS) -> bool:
    """Whether a request that is over took as long as a threshold, to its first chunk or in all."""
    return _slow_first_ms(record, thresholds) is not None or _slow_total_ms(record, thresholds) is not None


def explain(record: FlightRecord, thresholds: FlightConfig = DEFAULTS) -> tuple[Fact, ...]:
    """What is worth a look about a record, in a fixed order; ``no-anomaly`` where nothing is."""
    outcome, omissions = record.outcome, record.omissions
    facts: list[Fact] = []
    if outcome.kind == "running":
        facts.append(Fact("running"))
    elif outcome.kind == "incomplete":
        facts.append(Fact("incomplete", "reason", outcome.reason))
    elif outcome.kind == "threw":
        facts.append(Fact("threw", "error", outcome.error))
    if omissions.request_count:
        facts.append(Fact("request-truncated", "count", omissions.request_count))
    if omissions.prompt_count:
        facts.append(Fact("prompt-truncated", "count", omissions.prompt_count))
    first_ms, total_ms = _slow_first_ms(record, thresholds), _slow_total_ms(record, thresholds)
    if first_ms is not None:
        facts.append(Fact("slow-first-chunk", "milliseconds", first_ms))
    if total_ms is not None:
        facts.append(Fact("slow-total", "milliseconds", total_ms))
    if record.prompt_assembly is None:
        facts.append(Fact("missing-prompt-assembly"))
    return tuple(facts) or (Fact("no-anomaly"),)


def stats(records: Sequence[FlightRecord]) -> Stats:
    """Figures of a window of records."""
    first, total = _distributions(records)
    tokens = _tokens(records)
    return Stats(
        len(records),
        outcomes := _outcomes(records),
        _ratio(outcomes),
        first,
        total,
        tokens.input_tokens,
        tokens.output_tokens,
        sum(1 for record in records if record.omissions),
        ExtendedStats(
            tokens,
            _models(records),
            dict(Counter(record.extra.error_code for record in records if record.extra.error_code)),
            dict(Counter(record.extra.aborted for record in records if record.extra.aborted)),
            sum(1 for record in records if record.extra.ended_by),
            sum(1 for record in records if record.attempt > 1),
        ),
    )


def _slow_first_ms(record: FlightRecord, thresholds: FlightConfig) -> float | None:
    duration_ms = record.outcome.first_chunk_ms
    return duration_ms if duration_ms is not None and duration_ms >= thresholds.slow_first_chunk_ms else None


def _slow_total_ms(record: FlightRecord, thresholds: FlightConfig) -> float | None:
    duration_ms = record.outcome.total_ms
    return duration_ms if duration_ms is not None and duration_ms >= thresholds.slow_total_ms else None


def _models(records: Sequence[FlightRecord]) -> tuple[ModelStats, ...]:
    """By provider and model, in the order of the names."""
    groups: dict[tuple[str, str], list[FlightRecord]] = {}
    for record in records:
        groups.setdefault((record.request.provider, record.request.model), []).append(record)
    return tuple(
        ModelStats(*name, len(group), outcomes := _outcomes(group), _ratio(outcomes), *_distributions(group), _tokens(group))
        for name, group in sorted(groups.items())
    )


def _outcomes(records: Sequence[FlightRecord]) -> dict[str, int]:
    counts = Counter(record.outcome.kind for record in records)
    return {kind: counts[kind] for kind in OUTCOME_KINDS}


def _ratio(outcomes: dict[str, int]) -> float | None:
    terminal = sum(outcomes.values()) - outcomes["running"]
    return outcomes["finished"] / terminal if terminal else None


def _distributions(records: Sequence[FlightRecord]) -> tuple[Distribution, Distribution]:
    firsts = [record.outcome.first_chunk_ms for record in records if record.outcome.first_chunk_ms is not None]
    totals = [record.outcome.total_ms for record in records if record.outcome.total_ms is not None]
    return _distribution(firsts), _distribution(totals)


def _distribution(durations_ms: list[float]) -> Distribution:
    if not durations_ms:
        return Distribution()
    durations_ms.sort()
    count = len(durations_ms)
    middle = count // 2
    median = durations_ms[middle] if count % 2 else (durations_ms[middle - 1] + durations_ms[middle]) / 2
    return Distribution(median, durations_ms[math.ceil(0.95 * count) - 1])


def _tokens(records: Sequence[FlightRecord]) -> TokenSums:
    usages = [record.outcome.usage for record in records if record.outcome.usage is not None]
    return TokenSums(**{name: _sum(usages, name) for name in USAGE_NAMES.values()})


def _sum(usages: list[Usage], name: str) -> float | None:
    counts = [count for usage in usages if (count := getattr(usage, name)) is not None]
    return sum(counts) if counts else None
