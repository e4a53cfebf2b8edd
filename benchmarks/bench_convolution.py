"""Convolution and pooling: `pytest benchmarks/bench_convolution.py`."""

from benchmarks.pytest_cases import cases_of

test_convolution = cases_of("convolution")
