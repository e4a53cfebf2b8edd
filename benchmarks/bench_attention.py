"""Attention: `pytest benchmarks/bench_attention.py`."""

from benchmarks.pytest_cases import cases_of

test_attention = cases_of("attention")
