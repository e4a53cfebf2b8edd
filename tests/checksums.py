"""Checksums of results, to hold a change of the code's structure to the same bits.

    python -m tests.checksums --write            # this instruction-set level's file
    python -m tests.checksums                    # compares; exit code 1 where a line differs
    TINYT_ISA=x86-64-v2 python -m tests.checksums --only op

A line each: every operation of the table on every dtype (``op``), its gradients (``grad``), the
first results of every case of the benchmarks (``case``: large shapes), and the losses of 50 steps
of the digits, characters and LSTM networks, eager and compiled (``losses``). Results depend on the
level and, for linear algebra, on NumPy's LAPACK; nothing else of the machine may show.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
import tempfile
import warnings
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))  # the tests import each other so

from benchmarks.case import Case
from benchmarks.cases import collect
from benchmarks.networks import fill, lstm

import tinyt
from op_rows import Op
from op_samples import OPS
from sampling import LAYOUTS, Sample, build, flat, map_arrays
from tinyt import nn, optim
from tinyt.cli.tasks import TASKS

FOLDER = Path(__file__).parent / "checksums"
KINDS = ("op", "grad", "case", "losses")
STEPS = 50
LARGE = 4e9  # floating-point operations of a case that takes too long
UNSET = ("empty",)  # their values are whatever lay there

Line = tuple[str, Callable[[], Iterator[Any]]]


def digest(results: Iterator[Any]) -> str:
    """Of dtypes, shapes and bytes; every NaN counts as the same."""
    found = hashlib.sha256()
    for result in results:
        for value in flat(result):
            if not isinstance(value, tinyt.Tensor):
                found.update(repr(value).encode())
                continue
            value = value.detach().resolve_conj().resolve_neg()
            found.update(f"{value.dtype} {tuple(value.shape)}".encode())
            if value.dtype.is_complex:
                value = tinyt.view_as_real(value)
            if value.dtype.is_floating_point:
                value = value.masked_fill(value.isnan(), float("nan"))
            found.update(value.flatten().clone().view(tinyt.uint8).numpy().tobytes())
    return found.hexdigest()[:16]


def generator(*name: str) -> np.random.Generator:
    """Seeded by the name."""
    return np.random.default_rng(zlib.crc32(" ".join(name).encode()))


def forward(op: Op, dtype: str) -> Iterator[Any]:
    """Every sample, contiguous and with transposed operands."""
    for sample in op.samples(generator(op.name, dtype), dtype):
        for layout in ("contiguous", "transposed"):
            tinyt.manual_seed(0)
            args, kwargs = build(tinyt, (sample.args, sample.kwargs), LAYOUTS[layout])
            try:
                yield op.function(tinyt)(*args, **kwargs)
            except RuntimeError as error:  # a view that such strides do not allow
                yield type(error).__name__


def gradients(op: Op) -> Iterator[Any]:
    """Of every sample in float32, for random gradients of the results."""
    rng = generator(op.name, "grad")
    for sample in op.samples(rng, "float32"):
        if sample.grad:
            yield from gradient(op, sample, rng)


def gradient(op: Op, sample: Sample, rng: np.random.Generator) -> Iterator[Any]:
    leaves: list[Any] = []

    def leaf(array: Any, differentiable: bool) -> Any:
        leaves.append(tinyt.tensor(array).requires_grad_(differentiable))
        return leaves[-1]

    tinyt.manual_seed(0)
    args, kwargs = map_arrays((sample.args, sample.kwargs), leaf, lambda name: getattr(tinyt, name))
    results = [t for t in flat(op.function(tinyt)(*args, **kwargs)) if t.requires_grad]
    if results:
        given = [tinyt.tensor(rng.uniform(0.5, 1.5, tuple(t.shape))).to(t.dtype) for t in results]
        tinyt.autograd.backward(results, given)
        yield [t.grad for t in leaves if t.grad is not None]


def first_results(case: Case) -> Iterator[Any]:
    """Three calls, so that a compiled function runs as it does from then on."""
    tinyt.manual_seed(0)
    random.seed(0)
    call = case.call(tinyt, case.arrays(0))
    for _ in range(3):
        yield call()


def text() -> str:
    """Words of eight letters that follow each other at random."""
    rng = generator("text")
    words = ["".join(rng.choice(list("etaoinsh"), size)) for size in rng.integers(2, 9, 200)]
    return " ".join(rng.choice(words, 20_000))


def task_losses(name: str, compiled: bool) -> Iterator[Any]:
    """Of a task of the command line, with its own settings."""
    task = TASKS[name]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "text")
        file.write_text(text(), encoding="utf-8")
        trainer = task.make_trainer(
            task.config(**({"text": str(file)} if name == "chars" else {})), tinyt.device("cpu")
        )
    trainer.model.train()
    step = tinyt.compile(trainer.step) if compiled else trainer.step
    done = 0
    while done < STEPS:
        for batch in trainer.loader:
            yield step(batch)
            trainer.scheduler.step()
            done += 1
            if done == STEPS:
                return


def lstm_losses(compiled: bool) -> Iterator[Any]:
    tinyt.manual_seed(0)
    model = fill(tinyt, lstm(64, 128)(tinyt))
    optimizer = optim.AdamW(model.parameters(), lr=1e-3)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x).flatten(0, -2), y.flatten())
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = tinyt.compile(step) if compiled else step
    for _ in range(STEPS):
        yield run(tinyt.randint(0, 64, (16, 32)), tinyt.randint(0, 64, (16, 32)))


def lines() -> Iterator[Line]:
    """Everything, as (name, results)."""
    for op in OPS:
        if op.name.startswith(UNSET) or op.name.endswith(tuple(f"_{name}" for name in UNSET)):
            continue
        for dtype in op.dtypes:
            yield f"op {op.name} {dtype}", lambda op=op, dtype=dtype: forward(op, dtype)
        if op.grad and "float32" in op.dtypes:
            yield f"grad {op.name}", lambda op=op: gradients(op)
    for case in collect(0):
        if case.work.flops <= LARGE and case.group != "overhead":
            yield f"case {case.id}", lambda case=case: first_results(case)
    for compiled in (False, True):
        how = "compiled" if compiled else "eager"
        for name in ("digits", "chars"):
            yield f"losses {name} {how}", lambda n=name, c=compiled: task_losses(n, c)
        yield f"losses lstm {how}", lambda c=compiled: lstm_losses(c)


def measure(only: tuple[str, ...]) -> dict[str, str]:
    """The checksum of every line of these kinds; that of an error is its type."""
    found = {}
    for name, results in lines():
        if name.partition(" ")[0] not in only:
            continue
        try:
            found[name] = digest(results())
        except Exception as error:
            found[name] = type(error).__name__
    return found


def read(path: Path) -> dict[str, str]:
    """The lines of a file."""
    pairs = (line.rsplit("  ", 1) for line in path.read_text(encoding="utf-8").splitlines())
    return dict(pairs)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.checksums")
    parser.add_argument("--write", action="store_true", help="write the file instead of comparing")
    parser.add_argument("--only", choices=KINDS, action="append", help="these kinds of lines")
    parser.add_argument("--file", type=Path, help="default: tests/checksums/LEVEL.txt")
    args = parser.parse_args()
    level = tinyt._core.build_info()["isa"]
    path = args.file or FOLDER / f"{level}.txt"
    only = tuple(args.only or KINDS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = measure(only)
    if args.write:
        path.parent.mkdir(exist_ok=True)
        text = "".join(f"{name}  {value}\n" for name, value in sorted(found.items()))
        path.write_text(text, encoding="utf-8")
        print(f"{len(found)} lines: {path}")
        return 0
    want = {name: value for name, value in read(path).items() if name.partition(" ")[0] in only}
    for name in sorted(found.keys() | want.keys()):
        if found.get(name) != want.get(name):
            print(f"{name}: {want.get(name, 'not there')} became {found.get(name, 'not there')}")
    print(f"{level}: {len(found)} lines, {sum(found.get(n) != v for n, v in want.items())} differ")
    return int(found != want)


if __name__ == "__main__":
    sys.exit(main())
