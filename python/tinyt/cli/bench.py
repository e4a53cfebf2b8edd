"""`tinyt bench`: some operations beside NumPy and, where it is installed, PyTorch."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import tinyt
from tinyt.cli.errors import at_least, is_installed
from tinyt.cli.timing import interleaved

Call = Callable[[], object]


@dataclass(frozen=True)
class Case:
    """One line: inputs as shapes, and the call in tensor libraries and in NumPy."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    tensors: Callable[..., object]
    arrays: Callable[..., object] | None


CASES = (
    Case("add, 1 element", ((1,), (1,)), lambda a, b: a + b, lambda np, a, b: a + b),
    Case("add, 1M elements", ((1 << 20,),) * 2, lambda a, b: a + b, lambda np, a, b: a + b),
    Case("exp, 1M elements", ((1 << 20,),), lambda a: a.exp(), lambda np, a: np.exp(a)),
    Case("sum, 1024x1024, rows", ((1024, 1024),), lambda a: a.sum(1), lambda np, a: a.sum(1)),
    Case(
        "transpose to contiguous, 2048x2048",
        ((2048, 2048),),
        lambda a: a.t().contiguous(),
        lambda np, a: np.ascontiguousarray(a.T),
    ),
    Case("softmax, 1024x1024", ((1024, 1024),), lambda a: a.softmax(1), None),
    Case("matmul, 64x64", ((64, 64),) * 2, lambda a, b: a @ b, lambda np, a, b: a @ b),
    Case("matmul, 512x512", ((512, 512),) * 2, lambda a, b: a @ b, lambda np, a, b: a @ b),
    Case(
        "row of a table, 100x64",
        ((100, 64),),
        lambda a: a[7],
        lambda np, a: a[7],
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `tinyt bench`."""
    parser.add_argument(
        "--threads", type=at_least(1), metavar="N", help="processor threads (default: all cores)"
    )
    parser.add_argument(
        "--rounds", type=at_least(1), default=7, metavar="N", help="best of N (default: 7)"
    )
    parser.set_defaults(command=bench)


def bench(args: argparse.Namespace) -> int:
    """Prints best times in microseconds, and how often tinyt's fits into the others'."""
    if args.threads is not None:
        tinyt.set_num_threads(args.threads)
    torch = _torch(tinyt.get_num_threads())
    others = ["numpy", *(["torch"] if torch else [])]
    print(f"float32, {tinyt.get_num_threads()} threads (NumPy: its own), best of {args.rounds}")
    heads = "".join(f"{name:>12}  {'times':>6}" for name in others)
    print(f"{'operation':<36}{'tinyt':>12}{heads}")
    for case in CASES:
        calls = _calls(case, torch)
        times = dict(zip(calls, interleaved(list(calls.values()), args.rounds), strict=True))
        print(_line(case.name, times, others), flush=True)
    print("microseconds; times: how many times faster tinyt is")
    return 0


def _torch(threads: int) -> ModuleType | None:
    if not is_installed("torch"):
        return None
    torch = importlib.import_module("torch")
    torch.set_num_threads(threads)
    return torch


def _calls(case: Case, torch: ModuleType | None) -> dict[str, Call]:
    """The call in every library, on equal values."""
    np: Any = importlib.import_module("numpy")
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(shape, np.float32) for shape in case.shapes]
    ours = [tinyt.from_numpy(a) for a in arrays]
    calls: dict[str, Call] = {"tinyt": lambda: case.tensors(*ours)}
    if case.arrays is not None:
        in_numpy = case.arrays
        calls["numpy"] = lambda: in_numpy(np, *arrays)
    if torch is not None:
        theirs = [torch.from_numpy(a) for a in arrays]
        calls["torch"] = lambda: case.tensors(*theirs)
    return calls


def _line(name: str, times: dict[str, float], others: list[str]) -> str:
    text = f"{name:<36}{times['tinyt'] * 1e6:12.2f}"
    for other in others:
        if other in times:
            text += f"{times[other] * 1e6:12.2f}  {times[other] / times['tinyt']:6.2f}"
        else:
            text += f"{'-':>12}  {'-':>6}"
    return text
