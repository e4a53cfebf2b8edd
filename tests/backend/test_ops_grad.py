"""Gradients against central differences of the forward pass, in float64.

The differences use nothing but forward values, in NumPy. Second derivatives are checked in the
same way, as differences of first ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyt
from op_rows import Op
from op_samples import OPS
from sampling import (
    CONTIGUOUS,
    LAYOUTS,
    Layout,
    Sample,
    arrays_in,
    build,
    flat,
    map_arrays,
    placed,
    to_numpy,
)

Array = np.ndarray
STEP = 6e-6  # near the cube root of the float64 epsilon: truncation and rounding errors balance
TOLERANCE = 2e-8  # what that leaves for third derivatives and values of some tens

GRAD = [op for op in OPS if op.grad]


def with_values(value: Any, values: list[Array], make: Callable[[Array], Any]) -> Any:
    """The arguments with make(v) put for every differentiable array, in order."""
    rest = iter(values)
    return map_arrays(
        value,
        lambda a, differentiable: (
            placed(make, next(rest)) if differentiable else placed(tinyt.tensor, a)
        ),
        lambda name: getattr(tinyt, name),
    )


def outputs(op: Op, args: Any, kwargs: Any) -> list[Any]:
    """The float outputs of a call."""
    return [t for t in flat(op.function(tinyt)(*args, **kwargs)) if t.dtype.is_floating_point]


def central(function: Callable[[list[Array]], float], values: list[Array]) -> list[Array]:
    """Central differences of a function of several arrays, one element at a time."""
    found = []
    for k, array in enumerate(values):
        gradient = np.zeros(array.shape)
        for at in np.ndindex(array.shape):
            moved = [v.copy() for v in values]
            moved[k][at] = array[at] + STEP
            up = function(moved)
            moved[k][at] = array[at] - STEP
            gradient[at] = (up - function(moved)) / (2 * STEP)
        found.append(gradient)
    return found


def close(got: Array, want: Array, what: str) -> None:
    size = 1 + np.max(np.abs(want), initial=0)
    np.testing.assert_allclose(got, want, rtol=TOLERANCE, atol=TOLERANCE * size, err_msg=what)


def small(op: Op, rng: np.random.Generator) -> list[Sample]:
    return [
        s
        for s in op.samples(rng, "float64")
        if s.grad and any(differentiable for _, differentiable in arrays_in([s.args, s.kwargs]))
    ]


class Scalar:
    """sum of the outputs times fixed random numbers: one sample as a function to one number."""

    def __init__(self, op: Op, sample: Sample, rng: np.random.Generator, layout: Layout) -> None:
        self.op, self.sample, self.layout = op, sample, layout
        self.start = [layout.values(a) for a, d in arrays_in([sample.args, sample.kwargs]) if d]
        args, kwargs = build(tinyt, (sample.args, sample.kwargs), layout)
        self.weights = [rng.uniform(0.5, 1.5, tuple(t.shape)) for t in outputs(op, args, kwargs)]

    def value(self, values: list[Array]) -> float:
        args, kwargs = with_values((self.sample.args, self.sample.kwargs), values, tinyt.tensor)
        found = outputs(self.op, args, kwargs)
        return float(sum(np.sum(w * to_numpy(t)) for w, t in zip(self.weights, found, strict=True)))

    def gradients(self, values: list[Array], create_graph: bool = False) -> tuple[list, list]:
        """Leaves and the gradients of `value` to them; zeros where nothing depends on a leaf."""
        leaves: list[Any] = []

        def leaf(array: Array) -> Any:
            tensor = self.layout.build(tinyt, array).detach().requires_grad_()
            leaves.append(tensor)
            return tensor

        args, kwargs = with_values((self.sample.args, self.sample.kwargs), values, leaf)
        found = outputs(self.op, args, kwargs)
        weights = [placed(tinyt.tensor, w) for w in self.weights]
        total = sum(
            ((w * t).sum() for w, t in zip(weights, found, strict=True)),
            tinyt.zeros((), device="cpu"),
        )
        if not total.requires_grad:
            return leaves, [tinyt.zeros_like(t) for t in leaves]
        gradients = tinyt.autograd.grad(total, leaves, create_graph=create_graph, allow_unused=True)
        return leaves, [
            tinyt.zeros_like(t) if g is None else g for t, g in zip(leaves, gradients, strict=True)
        ]


@pytest.mark.parametrize("op", GRAD, ids=lambda op: op.name)
def test_gradient(op: Op, rng: np.random.Generator) -> None:
    for number, sample in enumerate(small(op, rng)):
        scalar = Scalar(op, sample, rng, CONTIGUOUS)
        want = central(scalar.value, scalar.start)
        leaves, got = scalar.gradients(scalar.start)
        for leaf, g, w in zip(leaves, got, want, strict=True):
            assert (g.dtype, tuple(g.shape)) == (leaf.dtype, tuple(leaf.shape))
            close(to_numpy(g), w, f"{op.name} sample {number}")


def method_gradients(name: str, sample: Sample, recorded: bool) -> list[Any] | None:
    """Gradients of all tensors after `x.name(...)`, x computed from one or, unless `recorded`, a
    constant. None where the method makes another shape."""
    leaves: list[Any] = []

    def leaf(array: Array, differentiable: bool) -> Any:
        leaves.append(placed(tinyt.tensor, array).requires_grad_(differentiable))
        return leaves[-1]

    (x, *args), kwargs = map_arrays((sample.args, sample.kwargs), leaf, str)
    x = x * 1.0 if recorded else x.detach().clone()
    result = getattr(x, name)(*args, **kwargs)
    if result.shape != x.shape:
        return None
    if result.requires_grad:
        (result * result.detach()).sum().backward()
    return [t.grad for t in leaves]


@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "constant"])
@pytest.mark.parametrize(
    "op", [op for op in GRAD if hasattr(tinyt.Tensor, op.name + "_")], ids=lambda op: op.name + "_"
)
def test_gradient_in_place(op: Op, recorded: bool, rng: np.random.Generator) -> None:
    """That of the function; what is written over may be part of the graph or not."""
    for sample in small(op, rng):
        want = method_gradients(op.name, sample, recorded)
        if want is None:
            continue
        got = method_gradients(op.name + "_", sample, recorded)
        for g, w in zip(got, want, strict=True):
            assert (g is None) == (w is None)
            if w is not None:
                close(to_numpy(g), to_numpy(w), op.name)


@pytest.mark.parametrize("layout", ["transposed", "stepped", "shifted"])
@pytest.mark.parametrize("op", GRAD, ids=lambda op: op.name)
def test_gradient_of_strided_leaves(op: Op, layout: str, rng: np.random.Generator) -> None:
    """Equal to that of contiguous ones, bit for bit."""
    if op.name == "view":
        pytest.skip("asks for fitting strides")
    for sample in small(op, rng):
        scalar = Scalar(op, sample, rng, CONTIGUOUS)
        _, want = scalar.gradients(scalar.start)
        scalar.layout = LAYOUTS[layout]
        _, got = scalar.gradients(scalar.start)
        for g, w in zip(got, want, strict=True):
            np.testing.assert_array_equal(to_numpy(g), to_numpy(w))


@pytest.mark.parametrize("op", [op for op in GRAD if op.grad2], ids=lambda op: op.name)
def test_second_gradient(op: Op, rng: np.random.Generator) -> None:
    samples = small(op, rng)
    for number in rng.permutation(len(samples))[:5]:
        scalar = Scalar(op, samples[number], rng, CONTIGUOUS)
        directions = [rng.uniform(0.5, 1.5, a.shape) for a in scalar.start]

        def slope(values: list[Array], scalar: Scalar = scalar, along: Any = directions) -> float:
            _, gradients = scalar.gradients(values)
            return float(
                sum(np.sum(v * to_numpy(g)) for v, g in zip(along, gradients, strict=True))
            )

        leaves, first = scalar.gradients(scalar.start, create_graph=True)
        total = sum(
            ((placed(tinyt.tensor, v) * g).sum() for v, g in zip(directions, first, strict=True)),
            tinyt.zeros((), device="cpu"),
        )
        if total.requires_grad:
            second = tinyt.autograd.grad(total, leaves, allow_unused=True)
        else:
            second = [None] * len(leaves)
        for leaf, g, w in zip(leaves, second, central(slope, scalar.start), strict=True):
            got = np.zeros(tuple(leaf.shape)) if g is None else to_numpy(g)
            close(got, w, f"{op.name} sample {number}")


@pytest.mark.parametrize("op", [op for op in OPS if not op.grad], ids=lambda op: op.name)
def test_not_differentiable(op: Op, rng: np.random.Generator) -> None:
    """Operations without a gradient give results that do not ask for one."""
    steps = ("floor_divide", "nextafter", "heaviside")  # their gradient is zero
    first = ("unique", "unique_consecutive")  # tests/unit/test_zero_gradient.py
    raises = ("complex", "polar", "view_as_complex")
    if op.name in (*steps, *first, *raises) or op.dtypes[0] not in (
        "float32",
        "float64",
    ):
        pytest.skip("records a node that raises, or takes no floats")
    sample = op.samples(rng, op.dtypes[0])[0]
    args = with_values(
        sample.args,
        [a for a, d in arrays_in(sample.args) if d],
        lambda a: placed(tinyt.tensor, a).requires_grad_(),
    )
    for result in flat(op.function(tinyt)(*args, **build(tinyt, sample.kwargs))):
        assert not result.requires_grad
