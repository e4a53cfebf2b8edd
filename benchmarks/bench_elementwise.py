"""Elementwise operations: `pytest benchmarks/bench_elementwise.py`."""

from benchmarks.pytest_cases import tests_of

test_elementwise = tests_of("elementwise")
