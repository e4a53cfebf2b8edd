"""Gradient rules of activations: one kernel, or operations where these are differentiated again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tinyt._autograd import compiled_vjp, is_grad_enabled
from tinyt.autograd.rules.common import OUT, rule
from tinyt.decompositions.activation import backward
from tinyt.decompositions.common import widen
from tinyt.tensor import prim

if TYPE_CHECKING:
    from tinyt._autograd import Node
    from tinyt.tensor import Tensor


def gradient_of(name: str) -> Callable[..., Tensor]:
    """The kernel of ``name_backward``, or its composite where that is recorded on the tape."""
    fused, composed = getattr(prim, name + "_backward"), backward(name)

    def gradient(g: Tensor, *args: Tensor) -> Tensor:
        result: Tensor = (composed if is_grad_enabled() else fused)(g, *args)
        return result

    return gradient


def from_output(name: str) -> None:
    """Registers an activation whose gradient is computed from its output."""
    gradient = gradient_of(name)
    rule(name, (compiled_vjp("from_output", lambda g, n: gradient(g, n.output())), OUT))


def from_input(name: str) -> None:
    """Registers an activation of one input."""
    gradient = gradient_of(name)
    rule(name, (compiled_vjp("from_input", lambda g, n: gradient(g, n.input(0))), 0))


for _name in ("relu", "sigmoid", "tanh"):
    from_output(_name)
for _name in ("gelu", "gelu_tanh", "silu", "mish", "logsigmoid", "hardsigmoid", "hardswish"):
    from_input(_name)

_leaky_relu, _elu, _softplus, _sigmoid_nll = (
    gradient_of(name) for name in ("leaky_relu", "elu", "softplus", "sigmoid_nll")
)


def softplus_grad(g: Tensor, n: Node) -> Tensor:
    """The slope is a function of beta x."""
    return _softplus(g, widen(n.input(0)) * n.input(1), n.input(2))


rule(
    "leaky_relu",
    (lambda g, n: _leaky_relu(g, n.input(0), n.input(1)), 0, 1),
    (lambda g, n: prim.where(n.input(0) > 0.0, 0.0, g * n.input(0)), 0),
)
rule("elu", (lambda g, n: _elu(g, n.input(0), n.input(1)), 0, 1), None)
rule("softplus", (softplus_grad, 0, 1, 2), None, None)
rule(
    "sigmoid_nll",
    (lambda g, n: _sigmoid_nll(g, n.input(0), n.input(1)), 0, 1),
    (lambda g, n: -g * n.input(0), 0),
)
