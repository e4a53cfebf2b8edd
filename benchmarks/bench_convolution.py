"""Convolution and pooling: `pytest benchmarks/bench_convolution.py`."""

from benchmarks.pytest_cases import tests_of

test_convolution = tests_of("convolution")
