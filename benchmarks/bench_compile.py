"""Compiled functions: `pytest benchmarks/bench_compile.py`."""

from benchmarks.pytest_cases import tests_of

test_compile = tests_of("compile")
