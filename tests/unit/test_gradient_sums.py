"""Gradients that arrive at one place from several: sums, slices, and who else sees them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyt
from tinyt import Tensor

SHAPE = (6, 5, 4)
# Functions of a tensor that cut it into pieces and use those.
CUTS: dict[str, Callable[[Any], Any]] = {
    "rows": lambda x: [row * (i + 1) for i, row in enumerate(x)],
    "some rows": lambda x: [x[1], x[-1] * 2, x[1] * 3],
    "chunks": lambda x: [a * b for a, b in zip(x.chunk(3, 0), x.chunk(3), strict=True)],
    "columns": lambda x: [c * (i - 1) for i, c in enumerate(x.unbind(2))],
    "overlapping": lambda x: [x[:4] * 2, x[1:], x[2:5, 1:, ::2] * 3],
    "steps": lambda x: [x[::2] * 2, x[1::3], x[:, ::5]],
    "everything": lambda x: [x[:], x[0:6] * 2, x[:, :, :4]],
    "nothing": lambda x: [x[2:2], x[6:], x[1:] * 2],
    "slices of slices": lambda x: [x[1:][1:, 2:], x[1:][::2] * 2],
    "beside a sum": lambda x: [x + x, x[1:], x * 2, x[:1]],
    "slice first": lambda x: [x * 2, x[:1], x[1:]],
    "of a view": lambda x: [x.permute(2, 0, 1)[1:], x.reshape(30, 4)[3:20:2]],
    "one element": lambda x: [x[0, 0, 0], x[5, 4, 3] * 2],
}


def total(pieces: list[Tensor]) -> Tensor:
    """A sum in which every element of every piece has a weight of its own."""
    parts = []
    for i, piece in enumerate(pieces):
        weight = tinyt.arange(piece.numel(), dtype=tinyt.float64).reshape(piece.shape)
        parts.append((piece * (weight + i + 1)).sum())
    return sum(parts[1:], parts[0])


def slopes(cut: Callable[[Any], Any], data: np.ndarray) -> np.ndarray:
    """The gradient of a linear function of x, element by element."""
    out = np.zeros_like(data)
    for at in np.ndindex(data.shape):
        unit = np.zeros_like(data)
        unit[at] = 1
        out[at] = total(cut(tinyt.tensor(unit))).item()
    return out


LINEAR = [name for name in CUTS if name != "chunks"]


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("inner", [False, True], ids=["leaf", "inner"])
def test_gradients_of_pieces(name: str, inner: bool, rng: np.random.Generator) -> None:
    data = rng.standard_normal(SHAPE)
    x = tinyt.tensor(data, requires_grad=True)
    total(CUTS[name](x * 1.0 if inner else x)).backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), slopes(CUTS[name], data), rtol=1e-12)


@pytest.mark.parametrize("name", CUTS)
def test_the_recorded_pass_agrees(name: str, rng: np.random.Generator) -> None:
    x = tinyt.tensor(rng.standard_normal(SHAPE), requires_grad=True)
    (plain,) = tinyt.autograd.grad(total(CUTS[name](x)), x)
    (recorded,) = tinyt.autograd.grad(total(CUTS[name](x)), x, create_graph=True)
    np.testing.assert_allclose(plain.numpy(), recorded.detach().numpy(), rtol=1e-13)


def test_halves_are_summed_in_their_dtype() -> None:
    x = tinyt.ones(4, 3, dtype=tinyt.bfloat16).requires_grad_()
    sum(row.sum() for row in x).backward()
    assert x.grad is not None
    assert x.grad.dtype is tinyt.bfloat16
    assert x.grad.tolist() == [[1.0] * 3] * 4


def test_a_gradient_that_somebody_keeps_is_not_written_to() -> None:
    kept: list[Tensor] = []
    x = tinyt.ones(3).requires_grad_()
    y = x * 2
    y.register_hook(kept.append)
    z = y + 0.0
    z.register_hook(kept.append)
    (z.sum() + (y * 3).sum() + y[1:].sum() + x.sum()).backward()
    assert [g.tolist() for g in kept] == [[1.0, 1.0, 1.0], [4.0, 5.0, 5.0]]
    assert x.grad is not None
    assert x.grad.tolist() == [9.0, 11.0, 11.0]


def test_a_gradient_for_two_inputs_is_not_written_to() -> None:
    a, b = tinyt.zeros(3).requires_grad_(), tinyt.zeros(3).requires_grad_()
    (a * 3).sum().backward()
    ((a + b).square() + a * 2 + b[:1].sum() + a.view(3, 1).sum()).sum().backward()
    assert a.grad is not None
    assert b.grad is not None
    assert a.grad.tolist() == [8.0] * 3
    assert b.grad.tolist() == [3.0, 0.0, 0.0]


@pytest.mark.parametrize("make", [tinyt.ones, lambda n: tinyt.from_numpy(np.ones(n, np.float32))])
def test_the_gradient_that_a_pass_starts_with_stays(make: Callable[[int], Tensor]) -> None:
    x = tinyt.zeros(3).requires_grad_()
    start = make(3)
    (x + x).backward(start)
    (x + x[:]).backward(start.view(3))
    assert start.tolist() == [1.0] * 3
    assert x.grad is not None
    assert x.grad.tolist() == [4.0] * 3


def test_gradients_that_are_asked_for_stay() -> None:
    x = tinyt.ones(3).requires_grad_()
    y = x * 1.0
    z = y + 0.0
    of_x, of_y, of_z = tinyt.autograd.grad((z + y[:2].sum() + x).sum(), [x, y, z])
    assert of_z.tolist() == [1.0, 1.0, 1.0]
    assert of_y.tolist() == [4.0, 4.0, 1.0]
    assert of_x.tolist() == [5.0, 5.0, 2.0]


def test_an_output_of_a_function_that_is_sliced() -> None:
    class Two(tinyt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
            return x * 2, x * 3

        @staticmethod
        def backward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
            return a * 2 + b * 3

    x = tinyt.ones(4).requires_grad_()
    a, b = Two.apply(x)
    (a[:2].sum() + a[1:].sum() + b[3:].sum()).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 4.0, 2.0, 5.0]
