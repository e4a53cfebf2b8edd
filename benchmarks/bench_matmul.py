"""Matrix products in float32 and float64: `pytest benchmarks/bench_matmul.py`."""

from benchmarks.pytest_cases import cases_of

test_matmul = cases_of("matmul")
