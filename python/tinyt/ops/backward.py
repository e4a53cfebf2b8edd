"""The tape's entry points as methods of Tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tinyt.autograd import RemovableHandle, hooks, tape
from tinyt.tensor import Tensor, attach, method


@method
def backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensor | Sequence[Tensor] | None = None,
) -> None:
    """Accumulates the gradients of this tensor into ``.grad`` of the leaves.

    ``gradient`` (of this tensor's shape) starts the pass; it may be left out for one element.
    """
    tape.backward(self, gradient, retain_graph, create_graph, inputs=inputs)


@method
def register_hook(self: Tensor, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
    """Calls ``hook(grad)`` whenever the gradient is computed; it may return a replacement."""
    return hooks.register_hook(self, hook)


@method
def register_post_accumulate_grad_hook(
    self: Tensor, hook: Callable[[Tensor], None]
) -> RemovableHandle:
    """Calls ``hook(tensor)`` after backward added to ``.grad`` of this leaf."""
    return hooks.register_post_accumulate_grad_hook(self, hook)


@method
def retain_grad(self: Tensor) -> None:
    """Keeps ``.grad`` of a tensor that is not a leaf."""
    hooks.retain_grad(self)


def _retains_grad(self: Tensor) -> bool:
    """Whether :meth:`retain_grad` was called on a tensor that is not a leaf."""
    return bool(self.__dict__.get("_retains_grad", False))


attach(retains_grad=property(_retains_grad))
