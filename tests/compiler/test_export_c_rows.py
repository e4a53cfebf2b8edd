"""Every operation as C, beside the program that it is exported from."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinyt
from c_library import compiles, has_fma
from c_program import CProgram, same_bits
from op_rows import COMPLEX, Op
from op_samples import OPS
from sampling import build, flat

pytestmark = [compiles, has_fma, pytest.mark.host]

# Programs that depend on data, or are none.
REFUSED = "depends on data|value is not known while recording"


class Leaves:
    """The tensors of a sample, in the order in which a program takes them."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.tensors: list[tinyt.Tensor] = []
        self._collect(value)

    def _collect(self, x: Any) -> None:
        if isinstance(x, tinyt.Tensor):
            self.tensors.append(x)
        elif isinstance(x, (list, tuple)):
            for part in x:
                self._collect(part)
        elif isinstance(x, dict):
            for part in x.values():
                self._collect(part)

    def with_tensors(self, tensors: list[tinyt.Tensor]) -> Any:
        """The same with other tensors."""
        return put(self.value, iter(tensors))


def put(x: Any, rest: Iterator[tinyt.Tensor]) -> Any:
    """A value with the next tensors in the place of its own."""
    if isinstance(x, tinyt.Tensor):
        return next(rest)
    if isinstance(x, (list, tuple)):
        return type(x)(put(part, rest) for part in x)
    return {k: put(v, rest) for k, v in x.items()} if isinstance(x, dict) else x


def samples_of(op: Op, dtype: str, rng: np.random.Generator, grad: bool = False) -> list[Any]:
    """The arguments of a row's samples."""
    return [build(tinyt, (s.args, s.kwargs)) for s in op.samples(rng, dtype) if s.grad or not grad]


def results_of(op: Op, one: Leaves, tensors: list[tinyt.Tensor]) -> list[tinyt.Tensor]:
    args, kwargs = one.with_tensors(tensors)
    return [y for y in flat(op.function(tinyt)(*args, **kwargs)) if isinstance(y, tinyt.Tensor)]


def gradients_of(op: Op, one: Leaves, tensors: list[tinyt.Tensor]) -> list[tinyt.Tensor]:
    """Of the sum of all results, each times numbers that differ."""
    wanted = [x.detach().requires_grad_() for x in tensors if x.dtype.is_floating_point]
    rest = iter(wanted)
    given = [next(rest) if x.dtype.is_floating_point else x for x in tensors]
    with tinyt.enable_grad():
        results = [y for y in results_of(op, one, given) if y.requires_grad]
        total = sum(
            ((y * (0.5 + tinyt.arange(y.numel(), dtype=y.dtype).view(y.shape))).sum())
            for y in results
        )
        if not isinstance(total, tinyt.Tensor):
            return []
        found = tinyt.autograd.grad(total, wanted, allow_unused=True)
    return [g for g in found if g is not None]


def difference(
    folder: Path, op: Op, samples: list[Any], make: Callable[..., list[tinyt.Tensor]]
) -> float | None:
    """How far the C of all samples in one program is from the program (`far`); None where there is
    no program, or nothing in it."""
    leaves = [Leaves(s) for s in samples]
    counts = [len(x.tensors) for x in leaves]
    given = [t for x in leaves for t in x.tensors]

    def function(*tensors: tinyt.Tensor) -> list[tinyt.Tensor]:
        found, at = [], 0
        for one, count in zip(leaves, counts, strict=True):
            found += [y.clone() for y in make(op, one, list(tensors[at : at + count]))]
            at += count
        return found

    try:
        with tinyt.no_grad():
            if not function(*given):
                return None
            program = CProgram(folder, function, *given)
    except tinyt.CaptureError as error:
        if re.search(REFUSED, str(error)):
            return None
        raise
    with tinyt.no_grad():
        want = program.step(*given)
    largest = max(size(y) for y in want)
    return max(
        0.0 if same_bits(x, y) else far(x, y, largest)
        for x, y in zip(program(given, want), want, strict=True)
    )


def size(x: tinyt.Tensor) -> float:
    """The largest finite element."""
    if not x.dtype.is_floating_point or x.numel() == 0:
        return 0.0
    return x.double().where(x.isfinite(), 0).abs().max().item()


def far(x: tinyt.Tensor, y: tinyt.Tensor, scale: float) -> float:
    """The largest difference in units of rounding at a scale."""
    if not y.dtype.is_floating_point:
        return float("inf")
    if bool((x.isfinite() != y.isfinite()).any()):
        return float("inf")
    eps = {"float32": 2.0**-24, "float64": 2.0**-53}.get(y.dtype.name, 2.0**-9)
    difference = (x.double() - y.double()).where(y.isfinite(), 0).abs().max().item()
    return difference / (scale * eps)


# Rows whose programs have a product, a convolution or attention in them, which add up in an order
# of their own. All others have the bits of the program.
PRODUCTS = {
    *("addbmm", "addmm", "addmv", "affine_grid", "baddbmm", "bilinear", "bmm", "chain_matmul"),
    *("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
    *("corrcoef", "cov", "dot", "einsum", "inner", "linalg.multi_dot", "linear", "matmul"),
    *("matrix_power", "mm", "mv", "scaled_dot_product_attention", "tensordot", "vdot"),
}
# Results are complex numbers.
COMPLEX_RESULTS = {"complex", "polar", "view_as_complex"}


def is_slow(op: Op, dtype: str) -> bool:
    """A third of the rows is enough for every day: .ci/full has all, in all dtypes."""
    return dtype != op.dtypes[0] or zlib.crc32(op.name.encode()) % 3 != 0


CASES = [
    pytest.param(
        op, dtype, id=f"{op.name}-{dtype}", marks=[pytest.mark.slow] if is_slow(op, dtype) else []
    )
    for op in OPS
    for dtype in op.dtypes
    if dtype not in COMPLEX
]


@pytest.mark.parametrize(("op", "dtype"), CASES)
def test_row(tmp_path: Path, op: Op, dtype: str, rng: np.random.Generator) -> None:
    samples = samples_of(op, dtype, rng)
    if op.name in COMPLEX_RESULTS:
        with pytest.raises(NotImplementedError, match="complex"):
            difference(tmp_path, op, samples, results_of)
        return
    found = difference(tmp_path, op, samples, results_of)
    assert found is None or found <= (16 if op.name in PRODUCTS else 0)


@pytest.mark.slow
@pytest.mark.parametrize("op", [op for op in OPS if op.grad], ids=lambda op: op.name)
def test_gradients_of_a_row(tmp_path: Path, op: Op, rng: np.random.Generator) -> None:
    if op.name in COMPLEX_RESULTS:
        return
    found = difference(tmp_path, op, samples_of(op, op.dtypes[0], rng, True), gradients_of)
    assert found is None or found <= 128
