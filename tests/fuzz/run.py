"""One graph after another."""

from __future__ import annotations

import warnings

import numpy as np

from fuzz.case import text
from fuzz.check import check
from fuzz.draw import drawn
from fuzz.shrink import shrunk


class Fuzzer:
    """The graphs of a seed; counts their steps, and those that cannot be compiled."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.steps = self.refused = 0

    def report(self, number: int) -> str:
        """The graph of that number: a program that shows what is wrong with it, "" if nothing."""
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            case = drawn(np.random.default_rng([self._seed, number]))
            self.steps += len(case.steps)
            wrong = check(case)
            self.refused += wrong == ""
            if not wrong:
                return ""
            small = shrunk(case, lambda smaller: bool(check(smaller)))
            return text(small, f"seed {self._seed}, graph {number}: {check(small)}")
