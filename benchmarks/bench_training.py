"""Training steps: `pytest benchmarks/bench_training.py`."""

from benchmarks.pytest_cases import cases_of

test_training = cases_of("training")
