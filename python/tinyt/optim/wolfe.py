"""A line search for the strong Wolfe conditions (Nocedal & Wright, "Numerical optimization", 2nd
ed., algorithms 3.5 and 3.6), with the constants and safeguards of Schmidt's minFunc that PyTorch's
LBFGS has."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from tinyt.tensor import Tensor

SUFFICIENT = 1e-4  # c1: what share of the fall that the slope promises is enough
FLAT = 0.9  # c2: what share of the slope may be left


@dataclass
class Point:
    """A point on the line: how far along it, value, gradient and slope there."""

    step: float
    value: float
    grad: Tensor
    slope: float


Evaluate = Callable[[float], Point]


def _quotient(a: float, b: float) -> float:
    """a / b, as IEEE arithmetic has it for b = 0."""
    if b:
        return a / b
    return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a)


def cubic_minimum(a: Point, b: Point, bounds: tuple[float, float] | None = None) -> float:
    """The step at the minimum of the cubic through values and slopes of two points, within
    `bounds` (their steps by default); the middle where the cubic has none (op. cit., 3.59)."""
    low, high = bounds or (min(a.step, b.step), max(a.step, b.step))
    near, far = (a, b) if a.step <= b.step else (b, a)
    d1 = a.slope + b.slope - 3 * _quotient(a.value - b.value, a.step - b.step)
    square = d1 * d1 - a.slope * b.slope
    if not square >= 0:
        return (low + high) / 2
    d2 = math.sqrt(square)
    share = _quotient(far.slope + d2 - d1, far.slope - near.slope + 2 * d2)
    best = far.step - (far.step - near.step) * share
    return min(max(best, low), high)


@dataclass
class _Search:
    """One search: where it starts, and how many evaluations it has made and may make."""

    start: Point
    evaluate: Evaluate
    most: int
    count: int = 1

    def falls_short(self, point: Point, beside: float = math.inf) -> bool:
        """Whether the value is not low enough, or not below `beside`."""
        enough = self.start.value + SUFFICIENT * point.step * self.start.slope
        return point.value > enough or point.value >= beside

    def is_flat(self, point: Point) -> bool:
        return abs(point.slope) <= -FLAT * self.start.slope

    def bracket(self, step: float) -> tuple[list[Point], int, bool]:
        """Points with a right one between them, the first alone if it is right itself; how many
        longer steps were tried; whether it is done."""
        before, point, longer = self.start, self.evaluate(step), 0
        while longer < self.most:
            if self.falls_short(point, before.value if longer > 1 else math.inf):
                return [before, point], longer, False
            if self.is_flat(point):
                return [point], longer, True
            if point.slope >= 0:
                return [before, point], longer, False
            least = point.step + 0.01 * (point.step - before.step)
            following = cubic_minimum(before, point, (least, point.step * 10))
            before, point = point, self.evaluate(following)
            self.count += 1
            longer += 1
        return [replace(self.start, step=0.0), point], longer, False

    def zoom(self, ends: list[Point], tried: int, width: float, tolerance: float) -> Point:
        """The best point of an interval that is made smaller until it is right."""
        low, high = _order(ends)
        stuck = False
        while tried < self.most and not abs(ends[1].step - ends[0].step) * width < tolerance:
            step, stuck = _inside(ends, cubic_minimum(ends[0], ends[1]), stuck)
            point = self.evaluate(step)
            self.count += 1
            tried += 1
            if self.falls_short(point, ends[low].value):
                ends[high] = point
                low, high = _order(ends)
                continue
            right = self.is_flat(point)
            if not right and point.slope * (ends[high].step - ends[low].step) >= 0:
                ends[high] = ends[low]
            ends[low] = point
            if right:
                break
        return ends[low]


def _order(ends: list[Point]) -> tuple[int, int]:
    return (0, 1) if ends[0].value <= ends[-1].value else (1, 0)


def _inside(ends: list[Point], step: float, stuck: bool) -> tuple[float, bool]:
    """A step away from the ends of an interval where it was near one of them twice, or is one;
    and whether it is near."""
    last, first = max(p.step for p in ends), min(p.step for p in ends)
    margin = 0.1 * (last - first)
    if not min(last - step, step - first) < margin:
        return step, False
    if not (stuck or step >= last or step <= first):
        return step, True
    return (last - margin if abs(step - last) < abs(step - first) else first + margin), False


def strong_wolfe(
    evaluate: Evaluate, start: Point, step: float, width: float, tolerance: float, most: int
) -> tuple[Point, int]:
    """A point that meets the strong Wolfe conditions, or the best found; and the number of
    evaluations.

    Args:
        evaluate: gives the point at a step.
        start: the point at step 0, whose slope is negative.
        step: the first to try.
        width: the largest change of a parameter per unit of step.
        tolerance: of that change, at which an interval is not divided further.
        most: how many steps are tried.
    """
    search = _Search(start, evaluate, most)
    ends, tried, done = search.bracket(step)
    if done:
        return ends[0], search.count
    if tried >= most:
        return ends[_order(ends)[0]], search.count
    return search.zoom(ends, tried, width, tolerance), search.count
