"""`Function`: an operation with a forward and a backward of one's own.

The tape keeps the context, and the context keeps handles of memory with versions (`Saved`), never
the tensors themselves, so a function that saves its own output makes no reference cycle.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any

from tinyt._autograd import (
    GradMode,
    Node,
    Saved,
    is_grad_enabled,
    make_function_node,
    set_node,
    set_written,
)
from tinyt.tensor import Tensor, prim


class FunctionCtx:
    """What the forward of a `Function` leaves for its backward; further attributes are free."""

    needs_input_grad: tuple[bool, ...] = ()

    def __init__(self) -> None:
        self._to_save: tuple[Tensor | None, ...] = ()
        self._dirty: tuple[Tensor, ...] = ()
        self._constant: tuple[Tensor, ...] = ()
        self._materialize = True
        self._saved: list[Saved | None] | None = []
        self._node: Node | None = None

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keeps inputs or outputs (or None) for `saved_tensors`; called once, in forward."""
        for i, x in enumerate(tensors):
            if x is not None and not isinstance(x, Tensor):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument {i} is of type "
                    f"{type(x).__name__}"
                )
        self._to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """For forward mode, which functions do not have here; accepted, no effect."""

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """What `save_for_backward` got; RuntimeError where it was written to since."""
        if self._node is None:
            return self._to_save
        if self._saved is None:
            raise RuntimeError(
                "backward: trying to backward through the graph a second time (at "
                f"{self._node.name()}), but its saved tensors have been freed; pass "
                "retain_graph=True to the first call"
            )
        return tuple(None if s is None else s.unpack(self._node) for s in self._saved)

    def mark_dirty(self, *args: Tensor) -> None:
        """Says which inputs forward wrote to; each of them must be an output too."""
        self._dirty = args

    def mark_non_differentiable(self, *args: Tensor) -> None:
        """Says which outputs have no gradient."""
        self._constant = args

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward gets zeros (the default) or None for outputs without gradient."""
        self._materialize = value


class _Backward:
    """A context as a tape node's function."""

    def __init__(self, function: type[Function], ctx: FunctionCtx, inputs: tuple[Any, ...]) -> None:
        self.__name__ = function.__name__
        self._function = function
        self._ctx = ctx
        # Of every argument, its number among the tensors; None for what is no tensor.
        numbers = iter(range(len(inputs)))
        self._slots = [next(numbers) if isinstance(x, Tensor) else None for x in inputs]
        self.outputs: list[tuple[tuple[int, ...], Any, Any] | None] = []

    def release(self) -> None:
        """Frees what was saved."""
        if self._ctx._saved:
            self._ctx._saved = None

    def __call__(self, node: Node, grads: list[Tensor | None]) -> list[Tensor | None]:
        ctx = self._ctx
        if ctx._materialize:
            grads = [
                prim.fill(meta[0], meta[1], 0.0, 0, device=meta[2])
                if g is None and meta is not None
                else g
                for g, meta in zip(grads, self.outputs, strict=True)
            ]
        ctx._node = node
        try:
            result = _backward_of(self._function)(ctx, *grads)
        finally:
            ctx._node = None
        return self._place(node, result if isinstance(result, tuple) else (result,))

    def _place(self, node: Node, result: tuple[Any, ...]) -> list[Tensor | None]:
        """The gradients of the tensors among the inputs, checked and fitted."""
        slots = self._slots
        extra = result[len(slots) :]
        if len(result) < len(slots) or any(g is not None for g in extra):
            raise RuntimeError(
                f"function {node.name()} returned an incorrect number of gradients "
                f"(expected {len(slots)}, got {len(result)})"
            )
        placed: list[Tensor | None] = [None] * len(node.edges)
        for i, (slot, grad) in enumerate(zip(slots, result, strict=False)):
            if grad is None:
                continue
            if slot is None:
                raise RuntimeError(
                    f"function {node.name()} returned a gradient different than None at position "
                    f"{i + 1}, but the corresponding forward input was not a Variable"
                )
            if not isinstance(grad, Tensor):
                raise TypeError(
                    f"function {node.name()}: expected a Tensor or None at position {i + 1}, got "
                    f"{type(grad).__name__}"
                )
            if node.needs_input(slot):
                placed[slot] = node.fit(slot, grad)
        return placed


class Function:
    """Base class: a subclass defines static methods and is called by `apply`.

    Either `forward(ctx, *args)`, or `forward(*args)` with `setup_context(ctx, inputs, output)`;
    and `backward(ctx, *grad_outputs)`, which returns a gradient or None for each argument.
    Operations in forward are not recorded; those in backward are, for higher derivatives.
    """

    def __init__(self) -> None:
        raise RuntimeError(
            f"{type(self).__name__}: functions have static methods and are not instantiated; "
            f"call {type(self).__name__}.apply(...)"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Computes the output."""
        raise NotImplementedError("You must implement the forward function of a Function.")

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple[Any, ...], output: Any) -> None:
        """Saves what backward needs, where forward takes no ctx."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: FunctionCtx, *grad_outputs: Any) -> Any:
        """Turns the gradients of the outputs into those of the arguments."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom "
            "autograd.Function to use it with backward mode AD."
        )

    vjp = backward

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Calls forward and, where an argument wants gradients, records backward."""
        ctx = FunctionCtx()
        tensors = [x for x in args if isinstance(x, Tensor)]
        ctx.needs_input_grad = tuple(isinstance(x, Tensor) and x.requires_grad for x in args)
        recorded = is_grad_enabled() and any(ctx.needs_input_grad)
        with GradMode(False):
            if cls.setup_context is Function.setup_context:
                output = cls.forward(ctx, *args)
            else:
                output = cls.forward(*args)
                cls.setup_context(ctx, args, output)
        if recorded:
            output = _record(_Backward(cls, ctx, args), ctx, tensors, output)
        # The tape keeps the context, which must not keep tensors that are on the tape.
        ctx._to_save = ctx._dirty = ctx._constant = ()
        return output


class InplaceFunction(Function):
    """A function that may write to its first argument; `mark_dirty` says so, as in any other."""


class NestedIOFunction(Function):
    """The base of functions of nested tensors before PyTorch 0.4: calling one is an error."""

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """NotImplementedError: a `Function` takes nested arguments flat."""
        raise NotImplementedError(
            f"{cls.__name__}: functions of nested tensors are not there; derive from "
            "autograd.Function and pass the tensors one by one"
        )


def _backward_of(function: type[Function]) -> Callable[..., Any]:
    backward: Callable[..., Any] = function.backward
    return function.vjp if backward is Function.backward else backward


def _record(backward: _Backward, ctx: FunctionCtx, tensors: list[Tensor], output: Any) -> Any:
    """Makes the outputs those of a new node."""
    single = not isinstance(output, (tuple, list))
    outputs = [output] if single else list(output)
    node = make_function_node(backward, tensors, len(outputs))
    for x in ctx._dirty:
        if not _contains(outputs, x):
            warnings.warn(
                f"{node.name()}: a tensor given to mark_dirty is no output",
                UserWarning,
                stacklevel=3,
            )
    # Outputs are told by identity, before they get their node.
    number = {
        id(x): i
        for i, x in enumerate(outputs)
        if isinstance(x, Tensor) and (_contains(ctx._dirty, x) or not _contains(tensors, x))
    }
    ctx._saved = [None if x is None else Saved(x, number.get(id(x), -1)) for x in ctx._to_save]
    results = []
    for i, x in enumerate(outputs):
        if not isinstance(x, Tensor):
            backward.outputs.append(None)
            results.append(x)
            continue
        backward.outputs.append((tuple(x.shape), x.dtype, x.device))
        differentiable = x.dtype.is_floating_point or x.dtype.is_complex
        if _contains(ctx._dirty, x):
            set_written(x, node, i)
        elif _contains(ctx._constant, x) or not differentiable:
            x = x.detach() if x.requires_grad else x
        else:
            # An input, a view or a tensor with a graph of its own stays what it is.
            if _contains(tensors, x) or x._base is not None or x.requires_grad:
                x = x.detach()
            set_node(x, node, i)
        results.append(x)
    return results[0] if single else tuple(results)


def _contains(tensors: Any, x: object) -> bool:
    return any(x is y for y in tensors)


class _Once:
    """The backward of what a once-differentiable backward returned: an error."""

    __name__ = "Once"

    def release(self) -> None:
        """Nothing is saved."""

    def __call__(self, node: Node, grads: list[Tensor | None]) -> list[Tensor | None]:
        raise RuntimeError(
            "trying to differentiate twice a function that was marked with @once_differentiable"
        )


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a backward whose operations must not be differentiated: doing so is an error."""

    @wraps(backward)
    def wrapped(ctx: FunctionCtx, *grads: Any) -> Any:
        with GradMode(False):
            result = backward(ctx, *grads)
        wanted = [g for g in grads if isinstance(g, Tensor) and g.requires_grad]
        if not is_grad_enabled() or not wanted:
            return result
        items = result if isinstance(result, tuple) else (result,)
        marked = tuple(_forbidden(x, wanted) if isinstance(x, Tensor) else x for x in items)
        return marked if isinstance(result, tuple) else marked[0]

    return wrapped


def _forbidden(x: Tensor, sources: list[Tensor]) -> Tensor:
    x = x.detach()
    set_node(x, make_function_node(_Once(), sources, 1), 0)
    return x
