"""Hooks on the gradients of tensors."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any
from weakref import ref

from tinyt.tensor import Tensor, node_of, prim


class RemovableHandle:
    """Removes a hook; also a context manager that does so at its end.

    ``hooks`` maps ids of handles to hooks, so that a function registered twice is two hooks.
    """

    _ids = count()

    def __init__(self, hooks: dict[int, Any]) -> None:
        self._hooks = hooks
        # Hooks from a file have the ids of another process.
        self.id = next(number for number in self._ids if number not in hooks)

    def remove(self) -> None:
        """Takes the hook out; harmless when it is gone."""
        self._hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def add_hook(hooks: dict[int, Any], hook: Any, prepend: bool = False) -> RemovableHandle:
    """Adds a hook behind the others, or before them."""
    handle = RemovableHandle(hooks)
    others = dict(hooks) if prepend else {}
    if prepend:
        hooks.clear()
    hooks[handle.id] = hook
    hooks.update(others)
    return handle


class LastHook:
    """A hook of a leaf that sees what the others made of the gradient."""

    def __init__(self, look: Callable[[Tensor], None]) -> None:
        self._look = look

    def __call__(self, grad: Tensor) -> None:  # noqa: D102
        self._look(grad)


def add_leaf_hook(x: Tensor, hook: Any) -> RemovableHandle:
    """Adds a hook to a leaf, before those that are to be last."""
    if x._hooks is None:
        x._hooks = {}
    last = [number for number, other in x._hooks.items() if isinstance(other, LastHook)]
    handle = add_hook(x._hooks, hook)
    for number in last:
        x._hooks[number] = x._hooks.pop(number)
    return handle


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
    node = node_of(x)
    if node is None:
        return add_leaf_hook(x, hook)
    if node.hooks is None:
        node.hooks = {}
    kept = [number for number, (_, other) in node.hooks.items() if isinstance(other, _Keep)]
    handle = add_hook(node.hooks, (x.output_nr, hook))
    # What keeps the gradient sees what the hooks made of it.
    for number in kept:
        node.hooks[number] = node.hooks.pop(number)
    return handle


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
        x._post_hooks = {}
    return add_hook(x._post_hooks, hook)


def retain_grad(x: Tensor) -> None:
    """Makes backward keep ``.grad`` of a tensor that is not a leaf."""
    if not x.requires_grad:
        raise RuntimeError("retain_grad: can't retain_grad on Tensor that has requires_grad=False")
    if x.is_leaf or x.retains_grad:
        return
    register_hook(x, _Keep(x))
    x.__dict__["_retains_grad"] = True
