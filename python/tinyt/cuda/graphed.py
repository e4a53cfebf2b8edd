"""`torch.cuda.make_graphed_callables`: functions and modules whose forward and backward passes are
captured graphs, as single nodes of autograd's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

from tinyt.amp.autocast_mode import is_autocast_cache_enabled, is_autocast_enabled
from tinyt.autograd import grad
from tinyt.autograd.function import Function, once_differentiable
from tinyt.cuda.graphs import CUDAGraph, graph, graph_pool_handle
from tinyt.cuda.places import place_of
from tinyt.cuda.streams import Stream, current_stream, stream
from tinyt.nn import Module
from tinyt.ops import empty_like
from tinyt.tensor import Tensor
from tinyt.utils._pytree import TreeSpec, tree_flatten, tree_leaves, tree_unflatten

__all__ = ["make_graphed_callables"]

Tensors = tuple[Tensor, ...]


class _Graphed:
    """A callable, its graphs, and the tensors that these read and write."""

    outputs: Tensors
    description: TreeSpec
    grads: tuple[Tensor | None, ...]  # of the outputs, which the backward graph reads
    input_grads: tuple[Tensor | None, ...]

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        if isinstance(function, Module):
            _check_module(function)
        given = tuple(tree_leaves(arguments))
        if not all(isinstance(x, Tensor) for x in given):
            raise AssertionError(
                "In the beta API, sample_args for each callable must contain only Tensors. Other "
                "types are not allowed."
            )
        self.function, self.arguments, self.given = function, arguments, given
        parameters = tuple(function.parameters()) if isinstance(function, Module) else ()
        self.parameters: Tensors = parameters
        self.inputs = given + parameters
        self.forward_graph, self.backward_graph = CUDAGraph(), CUDAGraph()
        for each in (self.forward_graph, self.backward_graph):
            each._may_be_empty = True  # as the gradient of a sum is

    def warm_up(self, allow_unused: bool) -> None:
        """Runs both passes."""
        outputs = tuple(tree_leaves(self.function(*self.arguments)))
        self._backward(outputs, _places_for(outputs), allow_unused)

    def capture_forward(self, pool: tuple[int, int]) -> None:
        with graph(self.forward_graph, pool=pool):
            result = self.function(*self.arguments)
        leaves, self.description = tree_flatten(result)
        if not all(isinstance(x, Tensor) for x in leaves):
            raise TypeError(
                "make_graphed_callables: a callable must return tensors only, in any containers"
            )
        self.outputs = tuple(leaves)

    def capture_backward(self, pool: tuple[int, int], allow_unused: bool) -> None:
        self.grads = _places_for(self.outputs)
        self.input_grads = (None,) * len(self.inputs)
        if any(g is not None for g in self.grads):
            with graph(self.backward_graph, pool=pool):
                self.input_grads = self._backward(self.outputs, self.grads, allow_unused)

    def _backward(
        self, outputs: Tensors, grads: tuple[Tensor | None, ...], allow_unused: bool
    ) -> tuple[Tensor | None, ...]:
        """The gradients of all inputs, None where one wants none."""
        wanted = [x for x in self.inputs if x.requires_grad]
        made: tuple[Tensor | None, ...] = ()
        if wanted and any(g is not None for g in grads):
            made = grad(
                [x for x in outputs if x.requires_grad],
                wanted,
                [g for g in grads if g is not None],
                allow_unused=allow_unused,
            )
        found = iter(made)
        return tuple(next(found, None) if x.requires_grad else None for x in self.inputs)

    def replay_forward(self, given: Tensors) -> Tensors:
        if len(given) != len(self.given):
            raise ValueError(
                f"make_graphed_callables: expected {len(self.given)} tensors, got {len(given)}"
            )
        for static, x in zip(self.given, given, strict=True):
            if static.shape != x.shape or static.dtype != x.dtype:
                raise ValueError(
                    f"make_graphed_callables: expected {tuple(static.shape)} of {static.dtype}, as "
                    f"in sample_args, got {tuple(x.shape)} of {x.dtype}"
                )
            _put(static, x)
        self.forward_graph.replay()
        return tuple(x.detach() for x in self.outputs)

    def replay_backward(self, grads: tuple[Tensor, ...], leaves: Tensors) -> tuple[Any, ...]:
        # Gradients that were left in the graph's memory are about to be overwritten, and added to.
        made = {g.data_ptr() for g in self.input_grads if g is not None}
        for x in leaves:
            if x.grad is not None and x.grad.data_ptr() in made:
                x.grad = x.grad.clone()
        for static, g in zip(self.grads, grads, strict=True):
            if static is not None:
                _put(static, g)
        self.backward_graph.replay()
        return tuple(None if g is None else g.detach() for g in self.input_grads)

    def call(self, *arguments: Any) -> Any:
        """What stands for the callable."""
        outputs = _Passes.apply(self, *tree_leaves(arguments), *self.parameters)
        return tree_unflatten(outputs, self.description)


class _Passes(Function):
    """Both passes of a graphed callable, which is the first argument."""

    @staticmethod
    def forward(ctx: Any, graphed: _Graphed, *inputs: Tensor) -> Tensors:
        ctx.graphed = graphed
        ctx.leaves = tuple(x for x in inputs if x.requires_grad and x.is_leaf)
        outputs = graphed.replay_forward(inputs[: len(inputs) - len(graphed.parameters)])
        constant = [x for x, g in zip(outputs, graphed.grads, strict=True) if g is None]
        ctx.mark_non_differentiable(*constant)
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        return None, *ctx.graphed.replay_backward(grads, ctx.leaves)


def _check_module(module: Module) -> None:
    if module._forward_hooks or module._forward_pre_hooks or module._backward_hooks:
        raise AssertionError(
            "Modules must not have hooks registered at the time they are passed. However, "
            "registering hooks on modules after passing them through make_graphed_callables is "
            "allowed."
        )
    if any(b.requires_grad for b in module.buffers()):
        raise AssertionError(
            "In any Module passed to make_graphed_callables(), only parameters may be trainable. "
            "All buffers must have requires_grad=False."
        )


def _places_for(outputs: Tensors) -> tuple[Tensor | None, ...]:
    return tuple(empty_like(x.detach()) if x.requires_grad else None for x in outputs)


def _put(static: Tensor, x: Tensor) -> None:
    """Writes a value where a graph reads it, unless it is there."""
    if static is not x and static.data_ptr() != x.data_ptr():
        static.detach().copy_(x.detach())


def _as_module(module: Module, graphed: _Graphed) -> Module:
    """The module, whose forward is the graphs' in the mode of the capture."""
    plain, mode, there = type(module).forward, module.training, ref(module)

    def forward(*arguments: Any, **options: Any) -> Any:
        of: Any = there()
        if of.training == mode:
            return graphed.call(*arguments, **options)
        return plain(of, *arguments, **options)

    module.forward = forward
    return module


def _finished(graphed: _Graphed) -> Any:
    """What is returned for a callable, which the graphs need no more."""
    function = graphed.function
    del graphed.function, graphed.arguments
    return _as_module(function, graphed) if isinstance(function, Module) else graphed.call


def make_graphed_callables(
    callables: Any,
    sample_args: Any,
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: tuple[int, int] | None = None,
) -> Any:
    """Functions and modules whose passes are launched as one graph each, forward and backward.

    What one returns, and gradients, lie in memory of its graphs, which its next call overwrites;
    a backward pass belongs to the last forward pass. Higher derivatives are not there.

    Args:
        callables: a function or module, which keeps its identity, or a tuple of them, in the order
            in which they run.
        sample_args: the arguments of the one, a tuple of tensors, or a tuple of these of each; of
            the shapes, dtypes and `requires_grad` of all calls.
        num_warmup_iters: how often each is run before the capture.
        allow_unused_input: whether inputs may have no part in the outputs.
        pool: a handle of `graph_pool_handle()`.

    Raises:
        AssertionError: a module has hooks, or buffers with gradients; an argument is no tensor.
        RuntimeError: something waits or reads values (`cuda.graph`).

    >>> import tinyt
    >>> if tinyt.cuda.is_available():
    ...     layer = tinyt.nn.Linear(2, 3, device="cuda")
    ...     x = tinyt.ones(4, 2, device="cuda")
    ...     layer = tinyt.cuda.make_graphed_callables(layer, (x,))
    ...     layer(x * 2).sum().backward()
    """
    place_of("make_graphed_callables")
    if is_autocast_enabled() and is_autocast_cache_enabled():
        raise RuntimeError(
            "make_graphed_callables does not support the autocast caching. Please set "
            "`cache_enabled=False`."
        )
    is_one = not isinstance(callables, tuple)
    functions = (callables,) if is_one else callables
    arguments = (sample_args,) if is_one else sample_args
    if not all(isinstance(given, tuple) for given in (arguments, *arguments)):
        raise TypeError("make_graphed_callables: sample_args must be a tuple of each one's tensors")
    if len(functions) != len(arguments):
        raise ValueError(
            f"make_graphed_callables: {len(functions)} callables have sample_args of "
            f"{len(arguments)}"
        )
    all_graphed = [_Graphed(f, given) for f, given in zip(functions, arguments, strict=True)]
    handle = graph_pool_handle() if pool is None else pool
    side = Stream()
    side.wait_stream(current_stream())
    with stream(side):
        for graphed in all_graphed:
            for _ in range(num_warmup_iters):
                graphed.warm_up(allow_unused_input)
    # In the order in which they will run, as memory is shared.
    for graphed in all_graphed:
        graphed.capture_forward(handle)
    for graphed in reversed(all_graphed):
        graphed.capture_backward(handle, allow_unused_input)
    made = [_finished(graphed) for graphed in all_graphed]
    return made[0] if is_one else tuple(made)
