"""The tape's entry points as methods of Tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tinyt.autograd import tape
from tinyt.tensor import Tensor, method


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
    tape.backward(self, gradient, retain_graph, create_graph, inputs)


@method
def register_hook(self: Tensor, hook: Callable[[Tensor], Tensor | None]) -> tape.RemovableHandle:
    """Calls ``hook(grad)`` whenever the gradient is computed; it may return a replacement."""
    return tape.register_hook(self, hook)


@method
def retain_grad(self: Tensor) -> None:
    """Keeps ``.grad`` of a tensor that is not a leaf."""
    tape.retain_grad(self)
