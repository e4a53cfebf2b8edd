"""Reverse mode: walks the tape from outputs to inputs.

Nodes carry increasing numbers, so visiting them from the highest down sees every gradient of a
node before the node itself: the order, and with it every sum, is fixed by the program alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import ref

from tinyt._tensor import GradMode, Node, Walk, accumulate_grad
from tinyt.tensor import Tensor, prim

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    _Edge: TypeAlias = Node | Tensor


def _seed(output: Tensor, gradient: Tensor | None) -> Tensor:
    """The gradient an output starts with; ones for a scalar."""
    if gradient is None:
        if output.numel() != 1:
            raise RuntimeError(
                "backward: grad can be implicitly created only for scalar outputs, "
                f"got shape {tuple(output.shape)}"
            )
        return prim.fill(tuple(output.shape), output.dtype, 1.0, 1)
    if tuple(gradient.shape) != tuple(output.shape):
        raise RuntimeError(
            f"backward: the gradient has shape {tuple(gradient.shape)}, "
            f"the output {tuple(output.shape)}"
        )
    return gradient if gradient.dtype is output.dtype else prim.cast(gradient, output.dtype)


def _edge(x: Tensor) -> tuple[_Edge | None, int]:
    node = x.grad_fn
    if node is not None:
        return node, x.output_nr
    return (x if x.requires_grad else None), 0


def run_backward(
    outputs: Sequence[Tensor],
    gradients: Sequence[Tensor | None],
    retain_graph: bool,
    create_graph: bool,
    inputs: Sequence[Tensor] | None = None,
    accumulate: bool = True,
) -> list[Tensor | None]:
    """Runs one pass; with ``accumulate`` into ``.grad``, else returns the gradients of inputs."""
    wanted: dict[tuple[int, int], int] | None = None
    if inputs is not None:
        wanted = {}
        for i, x in enumerate(inputs):
            edge, output = _edge(x)
            if edge is None:
                raise RuntimeError(
                    f"grad: input {i} of shape {tuple(x.shape)} does not require grad"
                )
            wanted.setdefault((id(edge), output), i)
    found: list[Tensor | None] = [None] * len(inputs or ())
    walk = Walk(wanted, found)
    with GradMode(create_graph):
        for root, gradient in zip(outputs, gradients, strict=True):
            if not walk.start(root, _seed(root, gradient)):
                raise RuntimeError(
                    "backward: a tensor does not require grad and does not have a grad_fn, "
                    f"shape {tuple(root.shape)}"
                )
        walk.run(retain_graph)
        walk.finish(accumulate, create_graph)
        if accumulate and inputs is not None:
            for x, grad in zip(inputs, found, strict=True):
                if grad is not None and not x.is_leaf:
                    accumulate_grad(x, grad, create_graph)
    if inputs is not None:
        # The same tensor asked for twice gets the same gradient.
        for i, x in enumerate(inputs):
            edge, output = _edge(x)
            found[i] = found[wanted[(id(edge), output)]] if wanted else None
    return found


def _as_list(x: Tensor | Iterable[Tensor] | None) -> list[Tensor]:
    if x is None:
        return []
    return [x] if isinstance(x, Tensor) else list(x)


def backward(
    tensors: Tensor | Sequence[Tensor],
    grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensor | Sequence[Tensor] | None = None,
) -> None:
    """Accumulates the gradients of ``tensors`` into ``.grad`` of the leaves.

    ``grad_tensors`` start the pass (ones where None, for one-element tensors only);
    ``retain_graph`` (default: ``create_graph``) keeps what the tape saved for another pass;
    ``create_graph`` records the pass itself; ``inputs`` limits which tensors get ``.grad``.
    Raises RuntimeError when a tensor has no graph, was modified in place, or was freed.
    """
    roots = _as_list(tensors)
    seeds: list[Tensor | None]
    if grad_tensors is None or isinstance(grad_tensors, Tensor):
        seeds = [grad_tensors] * len(roots)
    else:
        seeds = list(grad_tensors)
    if len(seeds) != len(roots):
        raise RuntimeError(f"backward: got {len(roots)} tensors and {len(seeds)} gradients")
    keep = create_graph if retain_graph is None else retain_graph
    only = None if inputs is None else _as_list(inputs)
    if only is not None and not only:
        raise RuntimeError("backward: inputs cannot be empty")
    run_backward(roots, seeds, keep, create_graph, only)


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """The gradients of ``outputs`` with respect to ``inputs``, as a tuple; ``.grad`` is untouched.

    An input that outputs do not depend on raises RuntimeError, gives None with ``allow_unused``,
    or zeros with ``materialize_grads``.
    """
    roots, wanted = _as_list(outputs), _as_list(inputs)
    seeds: list[Tensor | None]
    if grad_outputs is None or isinstance(grad_outputs, Tensor):
        seeds = [grad_outputs] * len(roots)
    else:
        seeds = list(grad_outputs)
    keep = create_graph if retain_graph is None else retain_graph
    found = run_backward(roots, seeds, keep, create_graph, wanted, accumulate=False)
    for i, g in enumerate(found):
        if g is None and materialize_grads:
            found[i] = prim.fill(tuple(wanted[i].shape), wanted[i].dtype, 0.0, 0)
        elif g is None and not allow_unused:
            raise RuntimeError(
                f"grad: input {i} of shape {tuple(wanted[i].shape)} appears to not have been used "
                "in the graph; set allow_unused=True if this is the desired behavior"
            )
    return tuple(found)


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


def register_hook(x: Tensor, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
    """Calls ``hook(grad)`` whenever the gradient of ``x`` is computed; it may return another."""
    if not x.requires_grad:
        raise RuntimeError("register_hook: the tensor does not require gradient")
    node = x.grad_fn
    if node is None:
        if x._hooks is None:
            x._hooks = []
        x._hooks.append(hook)
        return RemovableHandle(x._hooks, hook)
    if node.hooks is None:
        node.hooks = []
    entry = (x.output_nr, hook)
    node.hooks.append(entry)
    return RemovableHandle(node.hooks, entry)


def retain_grad(x: Tensor) -> None:
    """Makes backward keep ``.grad`` of a tensor that is not a leaf."""
    if x.is_leaf:
        if not x.requires_grad:
            raise RuntimeError("retain_grad: the tensor does not require gradient")
        return
    target = ref(x)

    def keep(grad: Tensor) -> None:
        alive = target()
        if alive is not None:
            alive._grad = grad if alive._grad is None else alive._grad + grad

    register_hook(x, keep)
