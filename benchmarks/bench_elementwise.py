"""Elementwise operations: `pytest benchmarks/bench_elementwise.py`."""

from benchmarks.pytest_cases import cases_of

test_elementwise = cases_of("elementwise")
