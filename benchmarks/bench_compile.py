"""Compiled functions: `pytest benchmarks/bench_compile.py`."""

from benchmarks.pytest_cases import cases_of

test_compile = cases_of("compile")
