"""`Measurement`: the times of a statement, and what can be said of them."""

from __future__ import annotations

import dataclasses
import math
import statistics
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

# A median cannot be told better than this: what starting a clock takes.
_LEAST_INTERVAL = 25e-9
_MOST_DIGITS = 4
_WARN_IQR, _GROSS_IQR = 0.1, 0.25  # parts of the median
_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_ENGLISH = {"ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second"}


def select_unit(t: float) -> tuple[str, float]:
    """(unit, its seconds) in which a time has up to three digits before the point."""
    for unit, scale in reversed(_UNITS.items()):
        if t >= scale:
            return unit, scale
    return "ns", 1e-9


def unit_to_english(u: str) -> str:
    """A unit in words: "ms" is "millisecond"."""
    return _ENGLISH[u]


def trim_sigfig(x: float, n: int) -> float:
    """A number of n significant digits."""
    if x == 0:
        return 0.0
    scale = 10.0 ** (math.floor(math.log10(abs(x))) + 1 - n)
    return float(round(x / scale) * scale)


@dataclasses.dataclass(frozen=True)
class TaskSpec:
    """What was measured: the statement, and its names in tables."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label, or the statement, and the other names."""
        if self.label is not None:
            return self.label + (f": {self.sub_label}" if self.sub_label else "")
        if "\n" not in self.stmt:
            return self.stmt + (f": {self.sub_label}" if self.sub_label else "")
        return self.stmt + (f"\n{self.sub_label}" if self.sub_label else "")

    def summarize(self) -> str:
        """Everything but the times, as text."""
        parts = [self.title]
        if self.description:
            parts.append(self.description)
        if self.setup and self.setup != "pass":
            setup = textwrap.indent(self.setup, "  ") if "\n" in self.setup else self.setup
            parts.append(f"setup:\n{setup}" if "\n" in self.setup else f"setup: {setup}")
        return "\n".join(parts)


class Measurement:
    """Times of a statement.

    Args:
        number_per_run: how often the statement ran for each time.
        raw_times: seconds of those runs.
        task_spec: what was measured.
        metadata: anything else.
    """

    def __init__(
        self,
        number_per_run: int,
        raw_times: Sequence[float],
        task_spec: TaskSpec,
        metadata: dict[Any, Any] | None = None,
    ) -> None:
        self.number_per_run, self.raw_times = number_per_run, list(raw_times)
        self.task_spec, self.metadata = task_spec, metadata

    def __getattr__(self, name: str) -> Any:
        """The names and texts of what was measured."""
        if name.startswith("_") or "task_spec" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.task_spec, name)

    @property
    def times(self) -> list[float]:
        """Seconds of one run of the statement each."""
        return [t / self.number_per_run for t in self.raw_times]

    def _known(self) -> list[float]:
        if not self.raw_times:
            raise RuntimeError("No measurements")
        return sorted(self.times)

    @property
    def mean(self) -> float:
        """The average in seconds."""
        return statistics.fmean(self._known())

    @property
    def median(self) -> float:
        """The median in seconds."""
        return statistics.median(self._known())

    def _quantile(self, part: float) -> float:
        """Between the two nearest times, in proportion (NumPy's "linear")."""
        times = self._known()
        place = part * (len(times) - 1)
        low = math.floor(place)
        high = min(low + 1, len(times) - 1)
        return times[low] + (times[high] - times[low]) * (place - low)

    @property
    def iqr(self) -> float:
        """The range of the middle half in seconds."""
        return self._quantile(0.75) - self._quantile(0.25)

    @property
    def significant_figures(self) -> int:
        """How many digits of the median mean something.

        As many as its confidence interval leaves: 1.645 standard errors (90% of a normal
        distribution) of the middle half of the times, 25 ns at least; from 1 to 4.
        """
        times = self._known()
        middle = times[len(times) // 4 : math.ceil(3 * len(times) / 4)] or times
        error = statistics.pstdev(middle) / math.sqrt(len(middle))
        interval = max(1.645 * error, _LEAST_INTERVAL)
        digits = math.floor(math.log10(self.median / interval)) if self.median > 0 else 1
        return min(max(digits, 1), _MOST_DIGITS)

    @property
    def has_warnings(self) -> bool:
        """Whether the times differ much: the middle half by a tenth of the median or more."""
        return bool(self.meets_confidence(_WARN_IQR) is False)

    def meets_confidence(self, threshold: float = _WARN_IQR) -> bool:
        """Whether the middle half lies within a part of the median."""
        return self.iqr / self.median < threshold

    @property
    def title(self) -> str:
        """What was measured, in words."""
        return self.task_spec.title

    @property
    def env(self) -> str:
        """Where it was measured, as the timer was told."""
        return "Unspecified env" if self.task_spec.env is None else self.task_spec.env

    @property
    def as_row_name(self) -> str:
        """What a table calls its row."""
        spec = self.task_spec
        return spec.sub_label or spec.stmt or "[Unknown]"

    def __repr__(self) -> str:
        unit, scale = select_unit(self.median)
        count = len(self.raw_times)
        lines = [f"<{__name__}.Measurement object at {hex(id(self))}>", self.task_spec.summarize()]
        lines.append(f"  {'Median: ' if count > 1 else ''}{self.median / scale:.2f} {unit}")
        if count >= 4:
            low, high = self._quantile(0.25) / scale, self._quantile(0.75) / scale
            lines.append(f"  IQR:    {high - low:.2f} {unit} ({low:.2f} to {high:.2f})")
        threads = self.task_spec.num_threads
        lines.append(
            f"  {count} measurement{'s' if count > 1 else ''}, {self.number_per_run} runs "
            f"{'per measurement, ' if count > 1 else ', '}{threads} thread{'s' * (threads > 1)}"
        )
        if self.has_warnings:
            part = self.iqr / self.median * 100
            said = f"Interquartile range is {part:.1f}% of the median measurement."
            gross = not self.meets_confidence(_GROSS_IQR)
            why = "Something else runs on the machine." if gross else "The times are not steady."
            lines.append(f"  WARNING: {said}\n           {why}")
        return "\n".join(lines)

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """Measurements of one thing as one each; times are of single runs."""
        found: dict[TaskSpec, list[Measurement]] = {}
        for m in measurements:
            found.setdefault(m.task_spec, []).append(m)
        return [
            Measurement(1, [t for m in group for t in m.times], spec)
            for spec, group in found.items()
        ]
