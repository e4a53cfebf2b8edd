"""Fused kernels printed as C99 and compiled, beside tinyt's own kernels, on one thread.

``python -m benchmarks.c_source [--compiler clang] [--dtype float64] [OP ...]`` prints the own
kernel's time, the C's, and their ratio: above 1 the C is faster. Best of all rounds, in turns.
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tinyt
from benchmarks.limits import FLAGS as MACHINE
from tinyt import _core
from tinyt.tensor import prim

FLAGS = ("-O3", "-std=c99", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared")
OPS = ("add", "exp", "sin", "cos", "tan", "sigmoid", "tanh", "gelu", "log", "erf", "rsqrt", "sqrt")
POSITIVE = ("log", "log1p", "log2", "log10", "rsqrt", "sqrt", "lgamma")
ROWS = ("sum", "softmax", "layer_norm")
STEP = tuple[str, bool, tuple[int, ...]]
"""An operation of a kernel on rows: its name, whether it has one element a row, its operands."""

CENTRED: tuple[STEP, ...] = (("sum", True, (0,)), ("mul", True, (1, 1)), ("sub", False, (0, 2)))
STEPS: dict[str, tuple[STEP, ...]] = {
    "sum": (("sum", True, (0,)),),
    "softmax": (
        ("amax", True, (0,)),
        ("sub", False, (0, 1)),
        ("exp", False, (2,)),
        ("sum", True, (3,)),
        ("div", False, (3, 4)),
    ),
    "layer_norm": (
        *CENTRED,
        ("square", False, (3,)),
        ("sum", True, (4,)),
        ("rsqrt", True, (5,)),
        ("mul", False, (3, 6)),
    ),
}
OWN: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: x.sum(1),
    "softmax": lambda x: x.softmax(1),
    "layer_norm": lambda x: tinyt.nn.functional.layer_norm(x, (x.shape[1],)),
}


def kernel_of(name: str, shape: list[int], dtype: Any) -> tuple[Any, int]:
    """The kernel of an operation, and how many loads it has."""
    if name in STEPS:
        ops = [(op, dtype, dtype, row, [(v, False) for v in of]) for op, row, of in STEPS[name]]
        return _core.FusedKernel(shape, 1, [dtype], ops, [len(ops)]), 1
    inputs = next(row["inputs"] for row in _core.op_table() if row["name"] == name)
    ops = [(name, dtype, dtype, False, [(k, False) for k in range(inputs)])]
    return _core.FusedKernel(shape, 0, [dtype] * inputs, ops, [inputs]), inputs


def compiled(text: str, compiler: str, folder: Path) -> ctypes.CDLL:
    file = folder / f"{len(list(folder.iterdir()))}.c"
    file.write_text(text, encoding="utf-8")
    made = file.with_suffix(".so")
    command = [compiler, *FLAGS, MACHINE["native"], str(file), "-o", str(made), "-lm"]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(made))


def numbers(values: list[int]) -> Any:
    return (ctypes.c_int64 * len(values))(*values)


def best(calls: list[Callable[[], Any]], seconds: float) -> list[float]:
    """The least time of each, in turns."""
    least = [float("inf")] * len(calls)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for i, call in enumerate(calls):
            start = time.perf_counter()
            call()
            least[i] = min(least[i], time.perf_counter() - start)
    return least


def measure(name: str, dtype: str, compiler: str, folder: Path, seconds: float) -> list[float]:
    """Times of the own kernel and of the C."""
    shape = [128, 512] if name in STEPS else [100_000]
    values = np.random.default_rng(0).normal(size=shape)
    drawn = np.abs(values) + 0.1 if name in POSITIVE else values
    x = tinyt.tensor(drawn.astype(dtype))
    kernel, inputs = kernel_of(name, shape, x.dtype)
    library = compiled(kernel.source([1] * inputs, "kernel", "c99"), compiler, folder)
    strides, out = numbers(list(x.stride())), tinyt.empty_like(x)
    load = [ctypes.c_void_p(x.data_ptr()), strides]
    arguments = [numbers(shape), *load * inputs, ctypes.c_void_p(out.data_ptr())]
    own = OWN.get(name) or (lambda x: getattr(prim, name)(*[x] * inputs))
    return best([lambda: own(x), lambda: library.kernel(*arguments)], seconds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ops", nargs="*", default=[*OPS, *ROWS])
    parser.add_argument("--compiler", default="cc")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--seconds", type=float, default=1.0)
    chosen = parser.parse_args()
    tinyt.set_num_threads(1)
    print(f"{'':12} {'tinyt':>9} {'C':>9}  ratio")
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen.ops:
            own, c = measure(name, chosen.dtype, chosen.compiler, Path(folder), chosen.seconds)
            print(f"{name:12} {own * 1e6:6.1f} us {c * 1e6:6.1f} us  {own / c:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
