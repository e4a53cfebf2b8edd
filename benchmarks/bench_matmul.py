"""Matrix products in float32 and float64: `pytest benchmarks/bench_matmul.py`."""

from benchmarks.pytest_cases import tests_of

test_matmul = tests_of("matmul")
