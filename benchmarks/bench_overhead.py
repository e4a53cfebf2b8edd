"""The cost of a call: tensors so small that the work itself does not count; import time."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any

import torch

import tinyt
from benchmarks.harness import Case, compare, report


def add(lib: Any) -> Any:
    a, b = lib.ones(1), lib.ones(1)
    return lambda: a + b


def add_recorded(lib: Any) -> Any:
    a, b = lib.ones(1, requires_grad=True), lib.ones(1)
    return lambda: a + b


def forward_backward(lib: Any) -> Any:
    a, b = lib.ones(4, requires_grad=True), lib.ones(4, requires_grad=True)

    def step() -> None:
        a.grad = b.grad = None
        ((a * b) + b).sum().backward()

    return step


def small_matmul(lib: Any) -> Any:
    a, b = lib.ones(4, 4), lib.ones(4, 4)
    return lambda: a @ b


def index_row(lib: Any) -> Any:
    a = lib.ones(4, 4)
    return lambda: a[1]


def seconds_to_import(module: str) -> float:
    """Above bare Python, best of several processes."""
    best = {"pass": float("inf"), f"import {module}": float("inf")}
    # As installed packages are: with their byte code.
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    for _ in range(7):
        for code in best:
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True, env=env)
            best[code] = min(best[code], time.perf_counter() - start)
    return best[f"import {module}"] - best["pass"]


def main() -> None:
    makers = {
        "add, 1 element": add,
        "add, 1 element, recorded": add_recorded,
        "((a*b)+b).sum().backward()": forward_backward,
        "matmul 4x4": small_matmul,
        "x[1] of 4x4": index_row,
    }
    cases = [compare(name, make(tinyt), make(torch)) for name, make in makers.items()]
    cases.append(Case("import", seconds_to_import("tinyt"), seconds_to_import("torch")))
    report("overhead", cases)


if __name__ == "__main__":
    main()
