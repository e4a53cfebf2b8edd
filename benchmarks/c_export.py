"""Exported C beside the compiled functions that it is made of, on one thread.

``python -m benchmarks.c_export [--compilers gcc,clang] [--cases REGEX]`` prints, for each case and
compiler, the compiled call's time by the C function's (above 1 the C is faster), the static arena
beside the bytes that the plan's run holds at most, and the size of the object.
"""

from __future__ import annotations

import argparse
import ctypes
import re
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tinyt
from tinyt import nn, optim
from tinyt.nn import functional as F

Case = tuple[Callable[..., Any], list[tinyt.Tensor], bool]  # function, arguments, whether it trains
FLAGS = "-std=c99 -O3 -march=native -ffp-contract=off -fno-math-errno -fno-trapping-math"
ROUNDS, CALLS = 15, 20


def cnn(batch: int) -> Case:
    """Two convolutions, two layers."""
    model = nn.Sequential(
        *(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU()),
        *(nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64 * 16, 128), nn.ReLU(), nn.Linear(128, 10)),
    ).eval()
    return model, [tinyt.randn(batch, 1, 8, 8)], False


def transformer(length: int) -> Case:
    """Four layers of width 128 with four heads."""
    layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True, norm_first=True)
    model = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False).eval()
    return model, [tinyt.randn(1, length, 128)], False


def mlp(batch: int) -> Case:
    """Three layers."""
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU())
    model.append(nn.Linear(256, 10))
    return model, [tinyt.randn(batch, 64)], False


def mlp_training(batch: int) -> Case:
    """A step of the same with AdamW."""
    model = mlp(batch)[0]
    optimizer = optim.AdamW(model.parameters(), lr=1e-3)

    def step(x: tinyt.Tensor, y: tinyt.Tensor) -> tinyt.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, [tinyt.randn(batch, 64), tinyt.randint(0, 10, (batch,))], True


CASES: dict[str, Callable[[], Case]] = {
    "CNN, batch 1": lambda: cnn(1),
    "CNN, batch 32": lambda: cnn(32),
    "transformer, 64 tokens": lambda: transformer(64),
    "MLP, batch 1": lambda: mlp(1),
    "MLP, batch 64": lambda: mlp(64),
    "MLP training step, batch 64": lambda: mlp_training(64),
}


def built(folder: Path, compiler: str) -> tuple[Any, int]:
    """The library of an exported program, and its bytes."""
    made = folder / f"{compiler}.so"
    sources = [str(p) for p in folder.glob("*.c") if not p.name.endswith("_test.c")]
    flags = [*FLAGS.split(), "-fno-strict-aliasing", "-fPIC", "-shared"]
    subprocess.run([compiler, *flags, *sources, "-o", str(made), "-lm"], check=True)
    return ctypes.CDLL(str(made)), made.stat().st_size


def best_of(call: Callable[[], object]) -> float:
    """Seconds of a call: the best of some."""
    best = float("inf")
    for _ in range(CALLS):
        begin = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - begin)
    return best


def measure(name: str, make: Callable[[], Case], compilers: list[str]) -> None:
    """Prints a line for each compiler."""
    tinyt.manual_seed(0)
    function, arguments, trains = make()
    step = tinyt.compile(function)
    with tinyt.set_grad_enabled(trains), tempfile.TemporaryDirectory() as where:
        for _ in range(3):
            result = step(*arguments)
        folder = Path(where)
        compiled = getattr(step, "compiled", step)  # that of a module
        compiled.export_c(folder, *arguments, name="program")
        header = (folder / "program.h").read_text(encoding="utf-8")
        arena = int(re.findall(r"ARENA_BYTES (\d+)", header)[0])
        outputs = [np.zeros(result.numel() * result.dtype.itemsize, np.uint8)]
        pointers = [
            ctypes.c_void_p(p)
            for p in [x.data_ptr() for x in arguments] + [y.ctypes.data for y in outputs]
        ]
        for compiler in compilers:
            library, nbytes = built(folder, compiler)
            if (folder / "program.weights").exists():
                assert library.program_load(str(folder / "program.weights").encode()) == 0
            run = library.program_run
            own, other = float("inf"), float("inf")
            for _ in range(ROUNDS):
                time.sleep(0.03)
                own = min(own, best_of(lambda: step(*arguments)))
                other = min(other, best_of(lambda run=run: run(*pointers)))
            print(
                f"{name:30} {compiler:6} {own / other:6.2f}   C {other * 1e6:9.1f} us, compiled "
                f"{own * 1e6:9.1f} us, arena {arena}, plan {compiled.peak_bytes}, object {nbytes}",
                flush=True,
            )


def main() -> None:
    """Times all cases."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--compilers", default="gcc,clang")
    parser.add_argument("--cases", default="")
    options = parser.parse_args()
    tinyt.set_num_threads(1)
    for name, make in CASES.items():
        if re.search(options.cases, name):
            measure(name, make, options.compilers.split(","))


if __name__ == "__main__":
    main()
