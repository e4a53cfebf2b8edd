"""Copies and indexing: `pytest benchmarks/bench_copies.py`."""

from benchmarks.pytest_cases import tests_of

test_copies = tests_of("copies")
