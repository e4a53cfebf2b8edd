"""Reductions, norms, softmax, scans, sort: `pytest benchmarks/bench_reductions.py`."""

from benchmarks.pytest_cases import tests_of

test_reductions = tests_of("reductions")
