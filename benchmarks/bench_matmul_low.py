"""Matrix products in bfloat16, float16 and int8: `pytest benchmarks/bench_matmul_low.py`."""

from benchmarks.pytest_cases import tests_of

test_matmul_low = tests_of("matmul_low")
