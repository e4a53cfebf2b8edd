"""Copies and indexing: `pytest benchmarks/bench_copies.py`."""

from benchmarks.pytest_cases import cases_of

test_copies = cases_of("copies")
