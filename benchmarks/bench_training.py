"""Training steps: `pytest benchmarks/bench_training.py`."""

from benchmarks.pytest_cases import tests_of

test_training = tests_of("training")
