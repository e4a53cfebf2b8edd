"""A group's cases as pytest-benchmark tests, one for each library."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.cases import collect

SEED = 0


def cases_of(group: str) -> Any:
    """The test function of a ``bench_*.py`` file; each case is a group of its report."""
    cases = [case for case in collect(SEED) if case.group == group]

    @pytest.mark.parametrize("library", ["tinyt", "torch"])
    @pytest.mark.parametrize("case", cases, ids=lambda case: case.name)
    def test(case: Any, library: str, benchmark: Any) -> None:
        lib = pytest.importorskip(library)
        call = case.call(lib, case.arrays(SEED))
        benchmark.group = case.id
        benchmark(call)

    return test
