"""Draws whose parameters are tensors: gamma, Dirichlet, Poisson, binomial, von Mises.

Element i of a draw has words of the stream of its own, so it is the same for any number of threads;
the stream and its rules are in :mod:`tinyt.ops.random.draws`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinyt._autograd import zero_gradient
from tinyt._core import is_recording
from tinyt.ops.common import need_tensor
from tinyt.ops.random.draws import need_floats
from tinyt.random import Generator, default_generator
from tinyt.tensor import Tensor, prim


def _drawn(
    primitive: Callable[..., Tensor], generator: Generator | None, *parameters: Tensor
) -> Tensor:
    def make(seed: int, offset: int) -> Tensor:
        return primitive(*parameters, seed, offset)

    return (generator or default_generator).draw(parameters[0].numel(), make)


def _check_least(op: str, x: Tensor, message: str) -> None:
    """RuntimeError for a negative entry; while a program is recorded there is no look at values."""
    if not is_recording() and x.numel() and prim.amin(x.detach(), (), False).item() < 0:
        raise RuntimeError(f"{op}: {message}")


def _standard_gamma(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Draws of density ``x**(a - 1) exp(-x) / Gamma(a)`` for each a of ``input``, of a float dtype;
    with implicit gradients. Marsaglia and Tsang, "A simple method for generating gamma variables",
    2000. NaN where a is negative."""
    need_floats("_standard_gamma", need_tensor("_standard_gamma", input))
    return _drawn(prim.standard_gamma, generator, input)


def _sample_dirichlet(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Points of the simplex with the concentrations in the last dimension of ``input``, of a float
    dtype; with implicit gradients."""
    need_floats("_sample_dirichlet", need_tensor("_sample_dirichlet", input))
    return _drawn(prim.dirichlet, generator, input)


def _sample_von_mises(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Angles in [-pi, pi] of density proportional to ``exp(k cos(x))`` for each k of ``input``."""
    need_floats("_sample_von_mises", need_tensor("_sample_von_mises", input))
    return _drawn(prim.von_mises, generator, input.detach())


def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Counts of the Poisson distribution for each rate of ``input``, in its float dtype.

    RuntimeError for a negative rate; in a program its count is NaN.
    """
    need_floats("poisson", need_tensor("poisson", input))
    _check_least("poisson", input, "invalid Poisson rate, expected rate to be non-negative")
    return zero_gradient(_drawn(prim.poisson, generator, input.detach()), input)


def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """How many of ``count`` trials of probability ``prob`` succeed; both broadcast and have one
    float dtype, which the result has.

    RuntimeError for a negative count; in a program, and of a probability outside [0, 1], NaN.
    """
    need_floats("binomial", need_tensor("binomial", count))
    need_floats("binomial", need_tensor("binomial", prob))
    _check_least("binomial", count, "count must not be negative")
    shape = tuple(prim.add(count.detach(), prob.detach()).shape)
    n, p = prim.expand(count.detach(), shape), prim.expand(prob.detach(), shape)
    return zero_gradient(_drawn(prim.binomial, generator, n, p), count)


EXPORTS: dict[str, Any] = {
    f.__name__: f
    for f in (_standard_gamma, _sample_dirichlet, _sample_von_mises, poisson, binomial)
}
