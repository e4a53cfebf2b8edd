"""Checks gradients against central finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tinyt._autograd import GradMode
from tinyt.autograd.tape import grad, zeros_like
from tinyt.tensor import Tensor, prim


class GradcheckError(RuntimeError):
    """Raised where an analytic gradient differs from the numerical one."""


def _outputs(result: Any) -> list[Tensor]:
    items = [result] if isinstance(result, Tensor) else list(result)
    return [x for x in items if isinstance(x, Tensor) and x.dtype.is_floating_point]


def _numerical(
    function: Callable[..., Any], inputs: Sequence[Any], which: int, output: int, eps: float
) -> list[list[float]]:
    """Rows: elements of the input; columns: elements of the output."""
    x = inputs[which].detach()
    values = prim.reshape(prim.copy(x), (-1,) if x.numel() else (0,)).tolist()
    rows = []
    with GradMode(True):  # the function may differentiate inside
        for i, value in enumerate(values):
            sides = []
            for step in (eps, -eps):
                moved = list(values)
                moved[i] = value + step
                flat = prim.fill((len(values),), x.dtype, 0.0, 0, device=x.device)
                for k, v in enumerate(moved):
                    prim.slice(flat, 0, k, k + 1)._assign(v)
                args = list(inputs)
                args[which] = prim.reshape(flat, tuple(x.shape)).detach().requires_grad_()
                out = _outputs(function(*args))[output]
                sides.append(prim.reshape(out.detach(), (out.numel(),)).tolist())
            rows.append([(a - b) / (2 * eps) for a, b in zip(*sides, strict=True)])
    return rows


def _analytic(
    function: Callable[..., Any], inputs: Sequence[Any], which: int, output: int
) -> list[list[float]]:
    x = inputs[which]
    out = _outputs(function(*inputs))[output]
    columns = []
    for k in range(out.numel()):
        seed = prim.fill((out.numel(),), out.dtype, 0.0, 0, device=out.device)
        prim.slice(seed, 0, k, k + 1)._assign(1.0)
        seed = prim.reshape(seed, tuple(out.shape))
        (g,) = grad(out, x, seed, retain_graph=True, allow_unused=True)
        flat = zeros_like(x) if g is None else prim.copy(g)
        columns.append(prim.reshape(flat, (x.numel(),)).tolist())
    return [[column[i] for column in columns] for i in range(x.numel())]


def gradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compares the gradients of ``func`` with finite differences for float64 inputs.

    Returns True, or raises GradcheckError (returns False) naming input, output and element. Of
    PyTorch's further arguments, those that only widen its own checks have no effect; forward mode
    raises NotImplementedError.
    """
    if check_forward_ad or check_batched_forward_grad or not check_backward_ad:
        raise NotImplementedError("gradcheck: only backward mode can be checked")
    args = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    checked = [i for i, x in enumerate(args) if isinstance(x, Tensor) and x.requires_grad]
    if not checked:
        raise ValueError("gradcheck: at least one input must require grad")
    for output, out in enumerate(_outputs(func(*args))):
        if not out.requires_grad:
            continue
        for which in checked:
            numerical = _numerical(func, args, which, output, eps)
            analytic = _analytic(func, args, which, output)
            for i, (row_n, row_a) in enumerate(zip(numerical, analytic, strict=True)):
                for k, (n, a) in enumerate(zip(row_n, row_a, strict=True)):
                    if abs(n - a) <= atol + rtol * abs(n):
                        continue
                    if not raise_exception:
                        return False
                    raise GradcheckError(
                        f"gradcheck: input {which} element {i}, output {output} element {k}: "
                        f"numerical {n}, analytic {a}"
                    )
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    grad_outputs: Tensor | Sequence[Tensor] | None = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Checks second derivatives: gradcheck of the gradient of ``func`` for ``grad_outputs``
    (fixed uneven ones by default). Further arguments as in :func:`gradcheck`."""
    if check_fwd_over_rev or not check_rev_over_rev:
        raise NotImplementedError("gradgradcheck: only backward mode can be checked")
    given = [grad_outputs] if isinstance(grad_outputs, Tensor) else grad_outputs
    args = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    wanted = [i for i, x in enumerate(args) if isinstance(x, Tensor) and x.requires_grad]

    def gradients(*values: Any) -> tuple[Tensor, ...]:
        with GradMode(True):
            tracked = [
                v if i not in wanted or v.requires_grad else v.detach().requires_grad_()
                for i, v in enumerate(values)
            ]
            outs = [o for o in _outputs(func(*tracked)) if o.requires_grad]
            # Uneven weights, so that errors of different outputs cannot cancel.
            seeds = list(given or ()) or [
                prim.reshape(
                    prim.iota(o.numel(), o.dtype, 0.5, 0.25, 0, 0, device=o.device), tuple(o.shape)
                )
                for o in outs
            ]
            found = grad(
                outs, [tracked[i] for i in wanted], seeds, create_graph=True, allow_unused=True
            )
        return tuple(
            zeros_like(args[i]) if g is None else g for i, g in zip(wanted, found, strict=True)
        )

    return gradcheck(
        gradients, args, eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception
    )
