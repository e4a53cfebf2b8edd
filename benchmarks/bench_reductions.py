"""Reductions, norms, softmax, scans, sort: `pytest benchmarks/bench_reductions.py`."""

from benchmarks.pytest_cases import cases_of

test_reductions = cases_of("reductions")
