"""Jacobians, Hessians and their products with vectors, by passes over the tape.

Inputs and outputs are a tensor or a tuple of tensors; the nesting of a result follows them:
outputs outside, inputs inside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinyt._autograd import GradMode
from tinyt.autograd.tape import grad, zeros_like
from tinyt.tensor import Tensor, prim

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Tensors = Tensor | tuple[Tensor, ...]


def _tuple(values: Any, what: str, function: str) -> tuple[Tensor, ...]:
    listed = tuple(values) if isinstance(values, (tuple, list)) else (values,)
    for i, x in enumerate(listed):
        if not isinstance(x, Tensor):
            raise TypeError(
                f"{function}: {what} must be a Tensor or a tuple of Tensors, "
                f"got {type(x).__name__} at {i}"
            )
    return listed


def _like(values: tuple[Tensor, ...], single: bool) -> Any:
    return values[0] if single else values


def _prepared(inputs: tuple[Tensor, ...], create_graph: bool) -> tuple[Tensor, ...]:
    """The inputs as tensors that want gradients, still on the caller's tape if asked for."""
    if create_graph:
        return tuple(
            prim.reshape(x, tuple(x.shape)) if x.requires_grad else x.detach().requires_grad_()
            for x in inputs
        )
    return tuple(x.detach().requires_grad_() for x in inputs)


def _finished(values: tuple[Tensor, ...], create_graph: bool) -> tuple[Tensor, ...]:
    return values if create_graph else tuple(x.detach() for x in values)


def _gradients(
    outputs: tuple[Tensor, ...],
    inputs: tuple[Tensor, ...],
    seeds: tuple[Tensor, ...],
    create_graph: bool,
    strict: bool,
    function: str,
) -> tuple[Tensor, ...]:
    """One backward pass; zeros, or with `strict` an error, for what does not depend."""
    pairs = [(o, s) for o, s in zip(outputs, seeds, strict=True) if o.requires_grad]
    found: tuple[Tensor | None, ...] = (None,) * len(inputs)
    if pairs:
        found = grad(
            [o for o, _ in pairs],
            inputs,
            [s for _, s in pairs],
            retain_graph=True,
            create_graph=create_graph,
            allow_unused=True,
        )
    for i, g in enumerate(found):
        if g is None and strict:
            raise RuntimeError(f"{function}: the outputs do not depend on input {i}")
    return tuple(zeros_like(x) if g is None else g for g, x in zip(found, inputs, strict=True))


def _check_vector(
    v: Any, values: tuple[Tensor, ...], function: str, scalar: bool
) -> tuple[Tensor, ...]:
    if v is None:
        if scalar and len(values) == 1 and values[0].numel() == 1:
            one = values[0]
            return (prim.fill(tuple(one.shape), one.dtype, 1.0, 1, device=one.device),)
        raise RuntimeError(
            f"{function}: the vector v can only be None if there is one tensor of one element, "
            f"got shapes {[tuple(x.shape) for x in values]}"
        )
    listed = _tuple(v, "v", function)
    if [tuple(x.shape) for x in listed] != [tuple(x.shape) for x in values]:
        raise RuntimeError(
            f"{function}: v must have the shapes {[tuple(x.shape) for x in values]}, "
            f"got {[tuple(x.shape) for x in listed]}"
        )
    return listed


def vjp(
    func: Callable[..., Tensors],
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Tensors, Tensors]:
    """``(func(*inputs), vᵀ J)``: the outputs, and v times the Jacobian; v as the outputs."""
    with GradMode(True):
        xs = _prepared(_tuple(inputs, "inputs", "vjp"), create_graph)
        result = func(*xs)
        ys = _tuple(result, "the result of func", "vjp")
        seeds = _check_vector(v, ys, "vjp", scalar=True)
        product = _gradients(ys, xs, seeds, create_graph, strict, "vjp")
    return (
        _like(_finished(ys, create_graph), isinstance(result, Tensor)),
        _like(_finished(product, create_graph), isinstance(inputs, Tensor)),
    )


def jvp(
    func: Callable[..., Tensors],
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Tensors, Tensors]:
    """``(func(*inputs), J v)``: the outputs, and the Jacobian times v; v as the inputs.

    J v is the derivative of uᵀ J by u: backward twice.
    """
    with GradMode(True):
        xs = _prepared(_tuple(inputs, "inputs", "jvp"), create_graph)
        vector = _check_vector(v, xs, "jvp", scalar=True)
        result = func(*xs)
        ys = _tuple(result, "the result of func", "jvp")
        us = tuple(zeros_like(y).requires_grad_() for y in ys)
        rows = _gradients(ys, xs, us, True, strict, "jvp")
        product = _gradients(rows, us, vector, create_graph, False, "jvp")
    return (
        _like(_finished(ys, create_graph), isinstance(result, Tensor)),
        _like(_finished(product, create_graph), isinstance(result, Tensor)),
    )


def jacobian(
    func: Callable[..., Tensors],
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The derivatives of all outputs by all inputs, of shape ``(*output, *input)`` each.

    ``create_graph`` makes them differentiable; ``strict`` refuses outputs that do not depend on an
    input; ``vectorize`` has no effect; ``strategy`` must be "reverse-mode".
    """
    if strategy != "reverse-mode":
        raise NotImplementedError(f"jacobian: only strategy='reverse-mode', got {strategy!r}")
    with GradMode(True):
        xs = _prepared(_tuple(inputs, "inputs", "jacobian"), create_graph)
        result = func(*xs)
        ys = _tuple(result, "the result of func", "jacobian")
        rows = tuple(
            _like(_jacobian_of(y, xs, create_graph, strict), isinstance(inputs, Tensor)) for y in ys
        )
    return _like(rows, isinstance(result, Tensor))


def _jacobian_of(
    y: Tensor, xs: tuple[Tensor, ...], create_graph: bool, strict: bool
) -> tuple[Tensor, ...]:
    """One output's derivatives by every input."""
    count = y.numel()
    parts: list[list[Tensor]] = [[] for _ in xs]
    for k in range(count):
        seed = prim.fill((count,), y.dtype, 0.0, 0, device=y.device)
        prim.slice(seed, 0, k, k + 1)._assign(1)
        row = _gradients(
            (y,), xs, (prim.reshape(seed, tuple(y.shape)),), create_graph, strict, "jacobian"
        )
        for part, g in zip(parts, row, strict=True):
            part.append(prim.reshape(g, (1, *g.shape)))
    full = (
        prim.reshape(prim.cat(part, 0), (*y.shape, *x.shape))
        if part
        else prim.fill((*y.shape, *x.shape), x.dtype, 0.0, 0, device=x.device)
        for part, x in zip(parts, xs, strict=True)
    )
    return _finished(tuple(full), create_graph)


def _scalar(func: Callable[..., Tensors], function: str) -> Callable[..., Tensor]:
    def checked(*xs: Tensor) -> Tensor:
        (y,) = _tuple(func(*xs), "the result of func", function)
        if y.numel() != 1:
            raise RuntimeError(
                f"{function}: func must return one tensor of one element, "
                f"got shape {tuple(y.shape)}"
            )
        return prim.reshape(y, ())

    return checked


def hessian(
    func: Callable[..., Tensors],
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The second derivatives of a scalar function, of shape ``(*input, *input)`` each."""
    checked = _scalar(func, "hessian")

    def gradient(*xs: Tensor) -> Any:
        (row,) = (jacobian(checked, xs, create_graph=True, strict=strict),)
        return _like(row, isinstance(inputs, Tensor))

    return jacobian(gradient, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)


def vhp(
    func: Callable[..., Tensors],
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Tensor, Tensors]:
    """``(func(*inputs), vᵀ H)`` of a scalar function: backward twice; v as the inputs."""
    checked = _scalar(func, "vhp")
    with GradMode(True):
        xs = _prepared(_tuple(inputs, "inputs", "vhp"), create_graph)
        vector = _check_vector(v, xs, "vhp", scalar=True)
        y = checked(*xs)
        one = prim.fill((), y.dtype, 1.0, 1, device=y.device)
        first = _gradients((y,), xs, (one,), True, strict, "vhp")
        product = _gradients(first, xs, vector, create_graph, strict, "vhp")
    return (
        _finished((y,), create_graph)[0],
        _like(_finished(product, create_graph), isinstance(inputs, Tensor)),
    )


def hvp(
    func: Callable[..., Tensors],
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Tensor, Tensors]:
    """``(func(*inputs), H v)`` of a scalar function; H is symmetric, so this is :func:`vhp`."""
    return vhp(func, inputs, v, create_graph, strict)
