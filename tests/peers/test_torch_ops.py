"""Every row of the op table in PyTorch: values, shapes, dtypes, gradients, error classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import tinyt
from op_rows import Bad, Op
from op_samples import OPS
from sampling import Sample, build, dtype_name, flat, map_arrays, to_numpy

CASES = [pytest.param(op, dtype, id=f"{op.name}-{dtype}") for op in OPS for dtype in op.dtypes]


def compare(op: Op, sample: Sample, ours: Any, theirs: Any, what: str) -> None:
    assert dtype_name(ours) == dtype_name(theirs), what
    assert tuple(ours.shape) == tuple(theirs.shape), what
    a, b = to_numpy(ours), to_numpy(theirs)
    if a.dtype.kind not in "fc":
        np.testing.assert_array_equal(a, b, what)
        return
    # PyTorch's own bound is wider than ours: approximate division and square root.
    size = max(1.0, float(np.max(np.abs(b), initial=0, where=np.isfinite(b))))
    size += float(np.max(op.error_scale(sample), initial=0))
    eps = float(np.finfo(a.dtype).eps)
    np.testing.assert_allclose(a, b, 40 * eps, (40 if op.ulp > 2 else 8) * eps * size, err_msg=what)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("op", "dtype"), CASES)
def test_forward(op: Op, dtype: str, rng: np.random.Generator) -> None:
    for number, sample in enumerate(op.samples(rng, dtype)):
        results = [
            list(flat(op.function(tt)(*build(tt, sample.args), **build(tt, sample.kwargs))))
            for tt in (tinyt, torch)
        ]
        for ours, theirs in zip(*results, strict=True):
            compare(op, sample, ours, theirs, f"{op.name} sample {number}")


def gradients(tt: Any, op: Op, sample: Any, weights: list[np.ndarray]) -> list[np.ndarray]:
    """Gradients of the weighted sum of the float outputs to every leaf."""
    leaves: list[Any] = []

    def leaf(array: np.ndarray, differentiable: bool) -> Any:
        tensor = tt.tensor(array)
        if differentiable:
            leaves.append(tensor.requires_grad_())
        return tensor

    args, kwargs = map_arrays((sample.args, sample.kwargs), leaf, lambda name: getattr(tt, name))
    outputs = [t for t in flat(op.function(tt)(*args, **kwargs)) if t.requires_grad]
    if not weights:
        rng = np.random.default_rng(len(leaves))
        weights += [rng.uniform(0.5, 1.5, tuple(t.shape)).astype(dtype_name(t)) for t in outputs]
    if outputs:
        total = sum((tt.tensor(w) * t).sum() for w, t in zip(weights, outputs, strict=True))
        total.backward()
    found = []
    for x in leaves:
        found.append(np.zeros(tuple(x.shape)) if x.grad is None else to_numpy(x.grad))
        x.grad = None
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op", [op for op in OPS if op.grad], ids=lambda op: op.name)
def test_gradient(op: Op, rng: np.random.Generator) -> None:
    if op.name == "as_strided_scatter":
        pytest.skip("PyTorch returns the gradient of elements that were overwritten")
    for number, sample in enumerate(op.samples(rng, "float32")):
        if not sample.grad and op.name not in ("matmul", "linear", "conv2d", "layer_norm"):
            continue
        weights: list[np.ndarray] = []
        ours = gradients(tinyt, op, sample, weights)
        theirs = gradients(torch, op, sample, weights)
        for a, b in zip(ours, theirs, strict=True):
            size = max(1.0, float(np.max(np.abs(b), initial=0)))
            np.testing.assert_allclose(
                a, b, rtol=2e-5, atol=2e-5 * size, err_msg=f"{op.name} sample {number}"
            )


# PyTorch raises in backward, or at once, as it has no such gradient.
NO_GRADIENT_THERE = {
    "histogram", "histogramdd", "view_as_complex", "complex", "polar", "instance_norm",
    "batch_norm",
}  # fmt: skip


def on_the_tape(tt: Any, op: Op, sample: Sample, which: int) -> tuple[list[bool], int]:
    """Whether the results require grad where array number ``which`` does; how many there are."""
    count = 0

    def leaf(array: np.ndarray, differentiable: bool) -> Any:
        nonlocal count
        tensor = tt.tensor(array)
        if array.dtype.kind == "f":
            if count == which:
                tensor.requires_grad_()
            count += 1
        return tensor

    args, kwargs = map_arrays((sample.args, sample.kwargs), leaf, lambda name: getattr(tt, name))
    return [t.requires_grad for t in flat(op.function(tt)(*args, **kwargs))], count


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "op",
    [op for op in OPS if "float32" in op.dtypes and op.name not in NO_GRADIENT_THERE],
    ids=lambda op: op.name,
)
def test_requires_grad(op: Op, rng: np.random.Generator) -> None:
    """Each float argument alone puts the same results on the tape, steps and constants too."""
    for number, sample in enumerate(op.samples(rng, "float32")):
        which, count = 0, 1
        while which < count:
            ours, count = on_the_tape(tinyt, op, sample, which)
            try:
                theirs, _ = on_the_tape(torch, op, sample, which)
            except RuntimeError as error:  # of a loss to its target, say
                if "is not differentiable with respect to" not in str(error):
                    raise
            else:
                assert ours == theirs, f"{op.name} sample {number} argument {which}"
            which += 1


WRONG = [
    pytest.param(op, wrong, id=f"{op.name}-{number}")
    for op in OPS
    for number, wrong in enumerate(op.errors)
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("op", "wrong"), WRONG)
def test_error_class(op: Op, wrong: Bad) -> None:
    """The table asks for the class that PyTorch raises."""
    with pytest.raises(wrong.exception):
        op.function(torch)(*build(torch, wrong.args), **build(torch, wrong.kwargs))
