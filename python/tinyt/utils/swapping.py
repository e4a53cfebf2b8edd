"""`swap_tensors`: two tensors exchange what they are."""

from __future__ import annotations

import weakref

from tinyt.tensor import Tensor

__all__ = ["swap_tensors"]


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Gives each of two tensors the values, dtype, class, gradient and attributes of the other.

    Who holds one of them finds the other's content in it from then on. What was computed from them
    before keeps the memory that it was computed from.

    Raises:
        RuntimeError: for a tensor that was computed, whose gradient leads elsewhere, and for one
            with weak references.

    >>> import tinyt
    >>> a, b = tinyt.tensor([1.0]), tinyt.nn.Parameter(tinyt.tensor([2.0, 3.0]))
    >>> tinyt.utils.swap_tensors(a, b)
    >>> a.tolist(), type(a).__name__, b.tolist()
    ([2.0, 3.0], 'Parameter', [1.0])
    """
    for x in (t1, t2):
        if not isinstance(x, Tensor):
            raise TypeError(f"swap_tensors: expected tensors, got {type(x).__name__}")
        if not x.is_leaf:
            raise RuntimeError("swap_tensors: cannot swap a tensor that was computed")
        if weakref.getweakrefs(x):
            raise RuntimeError("swap_tensors: cannot swap a tensor that has weak references")
    contents = [(x.detach(), x.requires_grad, x.grad, type(x), dict(vars(x))) for x in (t1, t2)]
    for x, content in zip((t2, t1), contents, strict=True):
        values, requires_grad, grad, kind, attributes = content
        x.grad = None
        x.requires_grad_(False)
        x.data = values
        x.__class__ = kind
        x.__dict__ = attributes
        x.requires_grad_(requires_grad)
        x.grad = grad
