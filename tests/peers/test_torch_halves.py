"""float16 and bfloat16 over scales: every operation of the table, values and gradients, against
PyTorch's float64 on the same numbers. What a composite computes in between is float32: nothing but
the result is rounded, and nothing but the result leaves the range."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import tinyt
from op_rows import Op
from op_samples import FAMILIES
from sampling import Array, Sample, arrays_in, flat, map_arrays

# Of float16 such that squares leave its range, of bfloat16 such that cubes stay in float32's.
SCALES = {"float16": (1.0, 100.0, 1e-3), "bfloat16": (1.0, 1e10, 1e-6)}
LARGEST = 200
SAMPLES = 3
UNITS = 3.0  # halves of a unit in the last place, of the largest element

# The whole row is left out.
EXCEPT = {
    "quantile": "not for halves, as in PyTorch",
    "nanquantile": "not for halves, as in PyTorch",
    **{
        name: "not for halves, as in PyTorch"
        for name in (
            "linalg.cholesky",
            "linalg.cholesky_ex",
            "cholesky",
            "cholesky_solve",
            "cholesky_inverse",
            "linalg.solve_triangular",
        )
    },
    "full": "a number that does not fit is an error",
    "histc": "positions near the ends of bins",
    "histogram": "positions near the ends of bins",
    "histogramdd": "positions near the ends of bins",
    "topk": "ties",
    "ldexp": "powers of two leave float32",
    "scaled_dot_product_attention": "scores of learnt masks are halves, as those of products are",
    "matmul": "products of products are halves between",
    "linalg.multi_dot": "products of products are halves between",
    "chain_matmul": "products of products are halves between",
    "matrix_power": "products of products are halves between",
    "einsum": "products of products are halves between",
    "as_strided_scatter": "PyTorch returns the gradient of elements that were overwritten",
    "triplet_margin_with_distance_loss": "the distances of the user's function are halves",
}
# Left out at the largest scale.
MODERATE = {
    "hinge_embedding_loss": "of other targets than 1 and -1 the two terms cancel",
    "sinc": "the angle is rounded in float32",
    "special_erfcx": "PyTorch's slope is a difference of nearly equal numbers",
    "grid_sample": "positions are rounded in float32",
    "prod": "the product of all leaves float32",
    "scatter_reduce": "the product of all leaves float32",
    "index_reduce": "the product of all leaves float32",
    "logcumsumexp": "a logarithm of the gradient is lost beside the result",
}
# Left out at the smallest one.
COARSE = {
    "tanhshrink": "a difference of nearly equal numbers in float32",
    "cosine_similarity": "the slope is 0 for vectors of one element, a difference of large numbers",
}
# Gradients that are sums of products, each of which is a half, and may cancel.
LOOSE = {"mul", "inner", "kron", "softmax", "softmin", "cosine_similarity"}
# As in PyTorch from the result, of which near its limit nothing is left.
FROM_RESULT = {"tanh", "sigmoid"}

CASES = [
    pytest.param(op, dtype, id=f"{op.name}-{dtype}")
    for family, ops in FAMILIES.items()
    if family != "Complex"
    for op in ops
    if "float32" in op.dtypes and op.name not in EXCEPT
    for dtype in SCALES
]


def small(op: Op, rng: np.random.Generator) -> list[Sample]:
    found = []
    for sample in op.samples(rng, "float32"):
        arrays = [a for a, _ in arrays_in([sample.args, sample.kwargs])]
        floats = [a for a in arrays if a.dtype.kind == "f"]
        if floats and sample.grad and all(a.size <= LARGEST for a in arrays):
            found.append(sample)
    return found[:SAMPLES]


def rounded(array: Array, dtype: str, scale: float) -> Array:
    """The numbers times a scale, rounded to a half, in float64."""
    scaled = torch.tensor(np.asarray(array, np.float64) * scale)
    return np.asarray(scaled.to(getattr(torch, dtype)).double().numpy())


def results(
    tt: Any, op: Op, sample: Sample, scale: float, half: str, dtype: str, weights: list[Array]
) -> tuple[list[Any], list[Any]]:
    """Values, and gradients of their weighted sum, in float64; of leaves without one None."""
    leaves: list[Any] = []

    def leaf(array: Array, differentiable: bool) -> Any:
        if array.dtype.kind != "f":
            return tt.tensor(array)
        tensor = tt.tensor(rounded(array, half, scale)).to(getattr(tt, dtype))
        if differentiable and op.grad:
            leaves.append(tensor.requires_grad_())
        return tensor

    def named(name: str) -> Any:
        return getattr(tt, dtype if name in ("float32", "float64") else name)

    args, kwargs = map_arrays((sample.args, sample.kwargs), leaf, named)
    found = [t for t in flat(op.function(tt)(*args, **kwargs)) if t.is_floating_point()]
    on_tape = [t for t in found if t.requires_grad]
    if not weights:
        rng = np.random.default_rng(3)
        # Numbers that halves hold.
        weights += [np.asarray(rng.integers(64, 192, tuple(t.shape)) / 128) for t in on_tape]
    if on_tape:
        parts = zip(on_tape, weights, strict=True)
        sum((t.to(tt.float64) * tt.tensor(w)).sum() for t, w in parts).backward()
    values = [t.detach().to(tt.float64).numpy() for t in found]
    gradients = [None if x.grad is None else x.grad.to(tt.float64).numpy() for x in leaves]
    for x in leaves:
        x.grad = None
    return values, gradients


def compare(got: Any, want: Any, dtype: str, what: str, loose: float) -> None:
    """Within some units of the largest element, or of ``loose`` where that is larger."""
    if got is None and want is None:
        return
    # No gradient is 0 everywhere.
    got = np.zeros_like(want) if got is None else got
    want = np.zeros_like(got) if want is None else want
    info = torch.finfo(getattr(torch, dtype))
    with np.errstate(all="ignore"):
        fits = np.isfinite(want) & (np.abs(want) < info.max * (1 - 4 * info.eps))
        size = np.max(np.abs(want), initial=0, where=fits)
        bound = UNITS / 2 * info.eps * max(size, loose)
        bound = np.maximum(bound, info.smallest_normal * info.eps * 2)
        off = np.where(fits, np.abs(got - want), 0.0)
    worst = np.unravel_index(int(np.argmax(off)), off.shape) if off.size else ()
    assert off.size == 0 or off[worst] <= bound, f"{what}: {got[worst]} for {want[worst]}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("op", "dtype"), CASES)
def test_half_over_scales(op: Op, dtype: str, rng: np.random.Generator) -> None:
    for number, sample in enumerate(small(op, rng)):
        for scale in SCALES[dtype]:
            if op.name in (MODERATE if scale > 1 else COARSE if scale < 1 else ()):
                continue
            weights: list[Array] = []
            try:
                want = results(torch, op, sample, scale, dtype, "float64", weights)
            except (RuntimeError, TypeError, ValueError, NotImplementedError):
                continue  # out of the domain, or not there
            got = results(tinyt, op, sample, scale, dtype, dtype, weights)
            what = f"{op.name} sample {number} times {scale}"
            for a, b in zip(got[0], want[0], strict=True):
                compare(a, b, dtype, what, 0.0)
            if op.name in FROM_RESULT:
                continue
            for a, b in zip(got[1], want[1], strict=True):
                compare(a, b, dtype, f"{what}, gradient", 4.0 * scale if op.name in LOOSE else 0.0)
