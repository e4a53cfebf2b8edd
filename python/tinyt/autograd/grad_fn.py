"""`Tensor.grad_fn` as users see it: the graph that backward walks, to look at and to hook into.

The tape's own nodes (`tinyt._autograd.Node`) stay as they are; a `GradFn` is made when one is asked
for, and the same one comes back as long as somebody keeps it. Its class has the node's name, and
leaves are `AccumulateGrad`, so that programs that draw graphs find what they expect.

>>> import tinyt
>>> x = tinyt.ones(2, requires_grad=True)
>>> y = (2 * x).sum()
>>> y.grad_fn, y.grad_fn.next_functions[0][0].next_functions[1][0].variable is x
(<SumBackward0>, True)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary, finalize

from tinyt._autograd import Node
from tinyt.autograd import anomaly
from tinyt.autograd.hooks import LastHook, RemovableHandle, add_hook, add_leaf_hook
from tinyt.tensor import Tensor, attach, node_of

__all__ = ["AccumulateGrad", "GradFn"]

Grads = tuple[Tensor | None, ...]
Prehook = Callable[[Grads], Any]
Posthook = Callable[[Grads, Grads], Any]

# By id of a node or leaf, which a view keeps alive: the view that somebody has of it.
_views: WeakValueDictionary[int, GradFn] = WeakValueDictionary()
_classes: dict[str, type[GradFn]] = {}
_with_posthooks = 0  # nodes that are alive and have had one


def _replaced(hook: Any, given: Grads, *others: Any) -> Grads:
    """What a hook of several gradients makes of them."""
    changed = hook(given, *others)
    if changed is None:
        return given
    found = changed if isinstance(changed, tuple) else (changed,)
    if len(found) != len(given):
        raise RuntimeError(
            f"a hook of a graph's node returned {len(found)} gradients for {len(given)}"
        )
    return found


class _Extras:
    """What users attach to a node; on the tape as a hook of its output, or its function."""

    def __init__(self) -> None:
        self.metadata: dict[Any, Any] = {}
        self.before: dict[int, Prehook] = {}
        self.after: dict[int, Posthook] = {}
        self.grads: Grads = ()
        self.is_observed = False

    def __call__(self, grad: Tensor) -> Tensor | None:
        """The hook of the one output."""
        (found,) = grads = self.start((grad,))
        self.grads = grads if self.after else ()
        return found

    def start(self, grads: Grads) -> Grads:
        """The gradients of the outputs as the hooks leave them."""
        for hook in tuple(self.before.values()):
            grads = _replaced(hook, grads)
        return grads

    def end(self, results: list[Tensor | None], grads: Grads) -> None:
        """Changes the gradients of the inputs as the hooks do."""
        for hook in tuple(self.after.values()):
            results[:] = _replaced(hook, tuple(results), grads)


class _Hooked:
    """The function of a node with hooks around it."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.extras = _Extras()
        self.__name__ = getattr(function, "__name__", "Function")

    def release(self) -> None:
        """Frees what the function saved."""
        self.function.release()

    def __call__(self, node: Node, grads: list[Tensor | None]) -> list[Tensor | None]:
        started = self.extras.start(tuple(grads))
        results: list[Tensor | None] = list(self.function(node, list(started)))
        self.extras.end(results, started)
        return results


def _extras_of(node: Node) -> _Extras:
    """What is attached to a node, from now on."""
    if node.function is not None:
        if not isinstance(node.function, _Hooked):
            node.function = _Hooked(node.function)
        extras: _Extras = node.function.extras
        return extras
    for _, hook in (node.hooks or {}).values():
        if isinstance(hook, _Extras):
            return hook
    extras = _Extras()
    if node.hooks is None:
        node.hooks = {}
    add_hook(node.hooks, (0, extras))
    return extras


def _observe(node: Node, results: Any) -> None:
    """Runs the hooks of a node that has passed."""
    for _, hook in (node.hooks or {}).values():
        if isinstance(hook, _Extras) and hook.after:
            grads, hook.grads = hook.grads, ()
            hook.end(results, grads)


def _count_posthooks(change: int) -> None:
    """Has backward call `_observe` as long as a node is alive that asks for it."""
    global _with_posthooks
    _with_posthooks += change
    anomaly.set_observer(_observe if _with_posthooks else None)


class GradFn:
    """A node of the graph of a tensor: an operation, to which gradients of its outputs come."""

    __slots__ = ("__weakref__", "_node")

    _node: Any

    def __init__(self, node: Any) -> None:
        self._node = node

    def name(self) -> str:
        """PyTorch's style of name: ``MulBackward0``, ``MyFunctionBackward``."""
        text: str = self._node.name()
        return text

    @property
    def next_functions(self) -> tuple[tuple[GradFn | None, int], ...]:
        """(node or None, output number) that each input's gradient goes to."""
        numbers = (number for _, number in self._node.next_functions)
        return tuple(zip(map(_view, self._node.edges), numbers, strict=True))

    @property
    def metadata(self) -> dict[Any, Any]:
        """For users to write to."""
        return _extras_of(self._node).metadata

    @property
    def requires_grad(self) -> bool:
        """True."""
        return True

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """What a `Function` saved; AttributeError of other operations."""
        context = self._context()
        if context is None:
            raise AttributeError(f"{self.name()!r} object has no attribute 'saved_tensors'")
        if context._saved is None:
            raise RuntimeError(f"{self.name()}: its saved tensors have been freed")
        return tuple(None if s is None else s.unpack(self._node) for s in context._saved)

    def register_prehook(self, hook: Prehook) -> RemovableHandle:
        """Calls ``hook(grad_outputs)`` before the gradient is computed; it may return others."""
        return add_hook(_extras_of(self._node).before, hook)

    def register_hook(self, hook: Posthook) -> RemovableHandle:
        """Calls ``hook(grad_inputs, grad_outputs)`` after the gradient is computed; it may return
        other ``grad_inputs``. They are tuples; of inputs without gradient, None."""
        extras = _extras_of(self._node)
        if self._node.function is None and not extras.is_observed:
            extras.is_observed = True
            _count_posthooks(1)
            finalize(extras, _count_posthooks, -1).atexit = False
        return add_hook(extras.after, hook)

    def __getattr__(self, name: str) -> Any:
        # What a tape's node has, such as `op_name`, and the context of a function. `_node` is
        # missing where `__init__` has not run.
        if name != "_node" and not name.startswith("__"):
            for owner in (self._node, self._context()):
                if hasattr(owner, name):
                    return getattr(owner, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _context(self) -> Any:
        """What the forward of a `Function` left; None of other operations."""
        function = self._node.function
        function = function.function if isinstance(function, _Hooked) else function
        return getattr(function, "_ctx", None)

    def __repr__(self) -> str:
        return f"<{self.name()}>"


class AccumulateGrad(GradFn):
    """Where the gradient of a leaf arrives; `variable` is the leaf."""

    __slots__ = ()

    @property
    def variable(self) -> Tensor:
        """The leaf."""
        leaf: Tensor = self._node
        return leaf

    def name(self) -> str:
        """The name, PyTorch's."""
        return "torch::autograd::AccumulateGrad"

    @property
    def next_functions(self) -> tuple[tuple[GradFn | None, int], ...]:
        """None."""
        return ()

    @property
    def metadata(self) -> dict[Any, Any]:
        """For users to write to."""
        found: dict[Any, Any] = self._node.__dict__.setdefault("_grad_fn_metadata", {})
        return found

    def register_prehook(self, hook: Prehook) -> RemovableHandle:
        """Calls ``hook((grad,))`` before it is added to ``.grad``; it may return another."""
        return add_leaf_hook(self._node, lambda grad: _replaced(hook, (grad,))[0])

    def register_hook(self, hook: Posthook) -> RemovableHandle:
        """Calls ``hook((), (grad,))`` after backward added to ``.grad``."""
        leaf = self._node
        if leaf._post_hooks is None:
            leaf._post_hooks = {}
        hooks, arrived = leaf._post_hooks, list[Grads]()
        handle = add_hook(hooks, lambda leaf: hook((), arrived.pop()))

        def keep(grad: Tensor) -> None:
            if handle.id in hooks:
                arrived[:] = [(grad,)]

        add_leaf_hook(leaf, LastHook(keep))
        return handle

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"'AccumulateGrad' object has no attribute {name!r}")

    def __repr__(self) -> str:
        return "<AccumulateGrad>"


def _view(edge: Node | Tensor | None) -> GradFn | None:
    """The view of a node, of a leaf, or of nothing."""
    if edge is None:
        return None
    found = _views.get(id(edge))
    if found is None:
        if isinstance(edge, Tensor):
            found = AccumulateGrad(edge)
        else:
            name = edge.name()
            kind = _classes.get(name)
            if kind is None:
                members = {"__slots__": (), "__module__": __name__}
                kind = _classes[name] = type(name, (GradFn,), members)
            found = kind(edge)
        _views[id(edge)] = found
    return found


def _grad_fn(self: Tensor) -> GradFn | None:
    """The node of the graph that made the tensor; None for a leaf."""
    return _view(node_of(self))


attach(grad_fn=property(_grad_fn))
