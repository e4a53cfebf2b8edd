"""Matrix products in bfloat16, float16 and int8: `pytest benchmarks/bench_matmul_low.py`."""

from benchmarks.pytest_cases import cases_of

test_matmul_low = cases_of("matmul_low")
