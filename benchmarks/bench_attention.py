"""Attention: `pytest benchmarks/bench_attention.py`."""

from benchmarks.pytest_cases import tests_of

test_attention = tests_of("attention")
