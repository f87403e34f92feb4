"""Axes of statistics: time from 0 or, where values spread over many sizes, logarithmic; signed differences; shares.

An axis knows its domain and where a value lies on it, in pixels of a picture or in columns of text.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from cassette_lab.views.layout import TICKS, time_unit

if TYPE_CHECKING:
    import altair as alt

    from cassette_lab.views.statistics.figures import Floats

SPREAD: Final = 40.0
"""From this ratio of the largest value to a small one (5 %) on, an axis of time is logarithmic."""

_DEEPEST: Final = 1e-9
_LEFT: Final = 0.001
"""A logarithmic axis begins at this share of the values: one odd value takes no half of it."""

_PRETTY_MS: Final = (
    *(10.0**power for power in range(-6, 4)), 10e3, 60e3, 600e3, 3.6e6, 36e6, *(86.4e6 * 10.0**power for power in range(293)),
)  # fmt: skip
_FINE_MS: Final = (
    *(factor * 10.0**power for power in range(-6, 4) for factor in (1, 2, 5)), 10e3, 20e3, 30e3, 60e3, 120e3, 300e3, 600e3,
    1.2e6, 1.8e6, 3.6e6, 7.2e6, 18e6, 36e6, *(factor * 86.4e6 * 10.0**power for power in range(293) for factor in (1, 2, 5)),
)  # fmt: skip
_UNITS: Final = (("ms", 1.0, 1e3), ("s", 1e3, 60e3), ("min", 60e3, 3.6e6), ("h", 3.6e6, 86.4e6), ("d", 86.4e6, math.inf))


@dataclass(frozen=True)
class Scale:
    """From values to places. ``low`` and ``high`` are the ends of the axis, in the values' unit."""

    low: float
    high: float
    title: str
    log: bool = False
    per_unit: float = 1.0
    """What one unit of the axis is worth: 1,000 where values are ms and the axis shows seconds."""
    label: str | None = None
    """Expression that writes a tick (of Vega's language); None for a plain number."""
    ticks: tuple[float, ...] = ()

    def x(self, field: str = "x", *, axis: bool = True) -> alt.X:
        """The encoding of a field that holds values of the axis (see ``at``)."""
        import altair as alt

        domain = [self.at(self.low), self.at(self.high)]
        scale = alt.Scale(type="log" if self.log else "linear", domain=domain, nice=False, clamp=True)
        return alt.X(f"{field}:Q", scale=scale, axis=self._axis() if axis else None)

    def at(self, value: float) -> float:
        """A value as the axis has it, moved to the nearest end where it lies beyond."""
        return min(max(value, self.low), self.high) / self.per_unit

    def share(self, value: float) -> float:
        """Where a value lies: 0 at the low end, 1 at the high one."""
        value = min(max(value, self.low), self.high)
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def edges(self, count: int) -> Floats:
        """Ends of ``count`` parts that are equally wide to look at."""
        import numpy as np

        space = np.geomspace if self.log else np.linspace
        return np.asarray(space(self.low, self.high, count + 1), dtype=np.float64)

    def _axis(self) -> alt.Axis:
        import altair as alt

        more: dict[str, Any] = {"values": [self.at(tick) for tick in self.ticks]} if self.ticks else {"tickCount": TICKS}
        if self.label is not None:
            more["labelExpr"] = self.label
        else:
            more["format"] = "~e" if self.high / self.per_unit > 1e7 else ",~f"
        return alt.Axis(title=self.title, orient="top", titleAnchor="start", labelOverlap="greedy", **more)


def time_scale(values_ms: Floats, what: str) -> Scale:
    """The axis for durations: from 0, or logarithmic where they spread over sizes. Names its unit, or one at each tick."""
    import numpy as np

    positive = values_ms[values_ms > 0]
    if not len(positive):
        return Scale(0.0, 1.0, f"{what} (ms)")
    high = float(positive.max())
    if high < SPREAD * float(np.quantile(positive, 0.05)):
        unit = time_unit(high)
        return Scale(0.0, high * 1.04, f"{what} ({unit.sign})", per_unit=unit.ms)
    low = max(float(np.quantile(positive, _LEFT, method="lower")), high * _DEEPEST)
    low, high = low * 0.9, high * 1.1
    ticks = _ticks(low, high)
    signs = dict.fromkeys(_sign(tick) for tick in ticks)
    return Scale(low, high, f"{what} ({', '.join(signs)}; log scale)", log=True, label=_LOG_LABEL, ticks=ticks)


def signed_scale(low: float, high: float, what: str) -> Scale:
    """The axis for differences of durations in ms; 0 is on it."""
    low, high = min(low, 0.0), max(high, 0.0)
    unit = time_unit(max(-low, high))
    margin = max(high - low, 1e-3) * 0.06
    return Scale(
        low - margin,
        high + margin,
        f"← quicker · {what} ({unit.sign}) · slower →",
        per_unit=unit.ms,
        label="datum.value ? replace(format(datum.value, '+,~f'), '-', '\N{MINUS SIGN}') : '0'"
        if max(-low, high) / unit.ms < 1e7
        else "format(datum.value, '~e')",
    )


def share_scale(highest: float, what: str) -> Scale:
    """The axis for shares in percent, from 0 to a round number above ``highest`` (a share)."""
    top = next(limit for limit in (1, 2, 5, 10, 20, 40, 60, 80, 100) if limit >= min(100 * highest, 100))
    return Scale(0.0, float(top), f"{what} (%)")


def _ticks(low: float, high: float) -> tuple[float, ...]:
    coarse = [tick for tick in _PRETTY_MS if low <= tick <= high]
    if len(coarse) < 4:
        coarse = [tick for tick in _FINE_MS if low <= tick <= high]
    return tuple(coarse[:: max(1, math.ceil(len(coarse) / 9))])


def _sign(tick_ms: float) -> str:
    return next(sign for sign, _, limit in _UNITS if tick_ms < limit)


_LOG_LABEL: Final = (
    "datum.value < 1e3 ? format(datum.value, '~r') + ' ms' : datum.value < 6e4 ? format(datum.value / 1e3, '~r') + ' s' : "
    "datum.value < 36e5 ? format(datum.value / 6e4, '~r') + ' min' : "
    "datum.value < 864e5 ? format(datum.value / 36e5, '~r') + ' h' : "
    "format(datum.value / 864e5, datum.value < 864e10 ? ',~r' : '~e') + ' d'"
)
