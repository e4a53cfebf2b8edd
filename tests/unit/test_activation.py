"""Activations beyond their rows: in place, at the kinks, in half precision, drawn slopes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import tinyt
from sampling import assert_same_bits
from tinyt import nn
from tinyt.nn import functional as F

VALUES = [-9.0, -3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0, 6.0, 9.0]
# Name, further arguments, and whether `name_` exists beside `inplace=True`.
IN_PLACE: list[tuple[str, tuple[Any, ...], bool]] = [
    ("relu", (), True),
    ("relu6", (), False),
    ("threshold", (0.1, 2.0), True),
    ("hardtanh", (-2.0, 2.0), True),
    ("leaky_relu", (0.2,), True),
    ("rrelu", (0.2, 0.4), True),
    ("elu", (0.5,), True),
    ("celu", (0.5,), True),
    ("selu", (), True),
    ("silu", (), False),
    ("mish", (), False),
    ("hardsigmoid", (), False),
    ("hardswish", (), False),
]
FORMS = [
    (name, args, form)
    for name, args, underscore in IN_PLACE
    for form in ("inplace", "underscore")
    if form == "inplace" or underscore
]


def run(name: str, args: tuple[Any, ...], form: str, x: Any) -> Any:
    if form == "inplace":
        return getattr(F, name)(x, *args, inplace=True)
    return getattr(F, name + "_")(x, *args)


@pytest.mark.parametrize(("name", "args", "form"), FORMS)
def test_in_place(name: str, args: tuple[Any, ...], form: str) -> None:
    """Writes over its input, returns it, and differentiates as the other form does."""
    x = tinyt.tensor(VALUES)
    want = getattr(F, name)(x, *args)
    assert run(name, args, form, x) is x
    assert_same_bits(x, want)
    leaves = [tinyt.tensor(VALUES, requires_grad=True) for _ in range(2)]
    for leaf, out in (
        (leaves[0], getattr(F, name)(leaves[0] * 1, *args)),
        (leaves[1], run(name, args, form, leaves[1] * 1)),
    ):
        (out * out).sum().backward()
        assert leaf.grad is not None
    assert_same_bits(leaves[1].grad, leaves[0].grad)
    with pytest.raises(RuntimeError, match="leaf"):
        run(name, args, form, leaves[0])
    assert leaves[0].tolist() == VALUES


@pytest.mark.parametrize("name", ["relu_", "celu_", "selu_", "threshold_", "rrelu_"])
def test_in_place_functions_of_the_package(name: str) -> None:
    assert getattr(tinyt, name) is getattr(F, name)


# The gradient where a function bends: (argument, gradient), as in PyTorch.
KINKS: dict[str, list[tuple[float, float]]] = {
    "relu": [(0, 0)],
    "relu6": [(0, 0), (6, 0)],
    "hardtanh": [(-1, 0), (1, 0)],
    "leaky_relu": [(0, 0.01)],
    "elu": [(0, 1)],
    "celu": [(0, 1)],
    "hardsigmoid": [(-3, 0), (3, 0)],
    "hardshrink": [(-0.5, 0), (0.5, 0)],
    "softshrink": [(-0.5, 0), (0.5, 0)],
    "logsigmoid": [(0, 0.5)],
    "softsign": [(0, 1)],
}


@pytest.mark.parametrize("name", KINKS)
def test_gradient_at_kinks(name: str) -> None:
    at, want = zip(*KINKS[name], strict=True)
    x = tinyt.tensor([float(v) for v in at], requires_grad=True)
    getattr(F, name)(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), want, rtol=1e-6)


@pytest.mark.parametrize("name", ["elu", "celu", "selu", "softplus", "logsigmoid", "mish", "silu"])
def test_gradient_far_out_is_finite(name: str) -> None:
    """No exponential of a large argument is multiplied by zero."""
    x = tinyt.tensor([-1e4, 1e4], requires_grad=True)
    getattr(F, name)(x).sum().backward()
    assert bool(tinyt.isfinite(x.grad).all())


@pytest.mark.parametrize("dtype", [tinyt.float16, tinyt.bfloat16])
@pytest.mark.parametrize("name", ["gelu", "silu", "mish", "elu", "selu", "softplus", "hardswish"])
def test_halves_are_rounded_once(name: str, dtype: tinyt.dtype) -> None:
    x = tinyt.linspace(-6, 6, 101).to(dtype)
    assert_same_bits(getattr(F, name)(x).float(), getattr(F, name)(x.float()).to(dtype).float())


def test_rrelu_draws_slopes_in_training() -> None:
    tinyt.manual_seed(4)
    layer = nn.RReLU(0.2, 0.4)
    x = -tinyt.ones(1000, requires_grad=True)
    out = layer(x)
    slopes = -out.detach().numpy()
    assert slopes.min() >= 0.2 - 1e-7
    assert slopes.max() < 0.4
    assert abs(slopes.mean() - 0.3) < 0.01
    tinyt.manual_seed(4)
    assert_same_bits(F.rrelu(x, 0.2, 0.4, training=True), out)
    assert_same_bits(layer.eval()(x), x * ((0.2 + 0.4) / 2))


def test_layers_in_place() -> None:
    for layer in (nn.ReLU(True), nn.ELU(inplace=True), nn.SiLU(True), nn.Hardswish(True)):
        x = tinyt.tensor(VALUES)
        assert layer(x) is x
    with pytest.raises(ValueError, match=r"Hardtanh.*2.*1"):
        nn.Hardtanh(2.0, 1.0)
    with pytest.raises(ValueError, match=r"Softmax2d.*\(2, 3\)"):
        nn.Softmax2d()(tinyt.ones(2, 3))


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
@pytest.mark.parametrize(
    ("shape", "dim"), [((3,), 0), ((2, 3), 1), ((2, 3, 4), 0), ((1, 2, 2, 2), 1)]
)
def test_implicit_dim(name: str, shape: tuple[int, ...], dim: int) -> None:
    """PyTorch's choice, with its warning."""
    x = tinyt.randn(shape)
    with pytest.warns(UserWarning, match=f"{name}.*dim={dim}"):
        got = getattr(F, name)(x)
    assert_same_bits(got, getattr(F, name)(x, dim))
    double = getattr(F, name)(x, dim, dtype=tinyt.float64)
    assert_same_bits(double, getattr(F, name)(x.double(), dim))


def test_gumbel_softmax() -> None:
    tinyt.manual_seed(0)
    p = np.array([0.1, 0.2, 0.7])
    logits = tinyt.tensor(np.log(p)).expand(20_000, 3)
    soft = F.gumbel_softmax(logits, tau=0.5)
    np.testing.assert_allclose(soft.sum(-1).numpy(), 1, rtol=1e-12)
    counts = np.bincount(soft.argmax(-1).numpy())
    assert stats.chisquare(counts, p * 20_000).pvalue > 1e-3


def test_hard_gumbel_softmax() -> None:
    """One-hot, with the gradient of the soft sample."""
    grads = []
    for hard in (False, True):
        tinyt.manual_seed(0)
        logits = tinyt.linspace(-1, 1, 12).reshape(3, 4).requires_grad_()
        out = F.gumbel_softmax(logits, hard=hard, dim=0)
        (out * tinyt.arange(12.0).reshape(3, 4)).sum().backward()
        grads.append(logits.grad)
    assert_same_bits(*grads)
    np.testing.assert_allclose(
        np.sort(out.detach().numpy(), 0), [[0] * 4, [0] * 4, [1] * 4], atol=1e-6
    )
