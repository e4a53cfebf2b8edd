"""Hooks on the gradients of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

from tinyt.tensor import Tensor, prim


class RemovableHandle:
    """Removes a hook; also a context manager that does so at its end."""

    def __init__(self, hooks: list[Any], hook: object) -> None:
        self._hooks = hooks
        self._hook = hook

    def remove(self) -> None:
        """Takes the hook out; harmless when it is gone."""
        if self._hook in self._hooks:
            self._hooks.remove(self._hook)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


class _Keep:
    """The hook that fills ``.grad`` of a tensor that is not a leaf."""

    def __init__(self, x: Tensor) -> None:
        self.target = ref(x)

    def __call__(self, grad: Tensor) -> None:
        x = self.target()
        if x is not None:
            x._grad = prim.copy(grad) if x._grad is None else x._grad + grad


def register_hook(x: Tensor, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
    """Calls ``hook(grad)`` whenever the gradient of ``x`` is computed; it may return another."""
    if not x.requires_grad:
        raise RuntimeError(
            "register_hook: cannot register a hook on a tensor that doesn't require gradient"
        )
    node = x.grad_fn
    if node is None:
        if x._hooks is None:
            x._hooks = []
        x._hooks.append(hook)
        return RemovableHandle(x._hooks, hook)
    if node.hooks is None:
        node.hooks = []
    entry = (x.output_nr, hook)
    # What keeps the gradient sees what the hooks made of it.
    kept = [i for i, (_, other) in enumerate(node.hooks) if isinstance(other, _Keep)]
    node.hooks.insert(kept[0] if kept else len(node.hooks), entry)
    return RemovableHandle(node.hooks, entry)


def register_post_accumulate_grad_hook(
    x: Tensor, hook: Callable[[Tensor], None]
) -> RemovableHandle:
    """Calls ``hook(x)`` after backward added to ``x.grad``."""
    if not x.requires_grad:
        raise RuntimeError(
            "register_post_accumulate_grad_hook: cannot register a hook on a tensor that doesn't "
            "require gradient"
        )
    if not x.is_leaf:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    if x._post_hooks is None:
        x._post_hooks = []
    x._post_hooks.append(hook)
    return RemovableHandle(x._post_hooks, hook)


def retain_grad(x: Tensor) -> None:
    """Makes backward keep ``.grad`` of a tensor that is not a leaf."""
    if not x.requires_grad:
        raise RuntimeError("retain_grad: can't retain_grad on Tensor that has requires_grad=False")
    if x.is_leaf or x.retains_grad:
        return
    register_hook(x, _Keep(x))
    x.__dict__["_retains_grad"] = True
