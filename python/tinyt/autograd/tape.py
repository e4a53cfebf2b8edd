"""Reverse mode: walks the tape from outputs to inputs.

Nodes carry increasing numbers, so visiting them from the highest down sees every gradient of a
node before the node itself: the order, and with it every sum, is fixed by the program alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, overload

from tinyt._autograd import BackwardPass, GradMode, Node
from tinyt.autograd.hooks import retain_grad
from tinyt.tensor import Tensor, node_of, prim

if TYPE_CHECKING:
    from typing import TypeAlias

    _Edge: TypeAlias = Node | Tensor


# What names a block in a profile, while one is on (profiler.py).
profile_range: Callable[[str], AbstractContextManager[Any]] | None = None


def zeros_like(x: Tensor) -> Tensor:
    """The gradient of what has no influence."""
    return prim.fill(tuple(x.shape), x.dtype, 0.0, 0, device=x.device)


def _seed(output: Tensor, gradient: Tensor | None) -> Tensor:
    """The gradient an output starts with; ones for a scalar."""
    if gradient is None:
        if output.numel() != 1:
            raise RuntimeError(
                "backward: grad can be implicitly created only for scalar outputs, "
                f"got shape {tuple(output.shape)}"
            )
        return prim.fill(tuple(output.shape), output.dtype, 1.0, 1, device=output.device)
    if tuple(gradient.shape) != tuple(output.shape):
        raise RuntimeError(
            f"backward: the gradient has shape {tuple(gradient.shape)}, "
            f"the output {tuple(output.shape)}"
        )
    if gradient.device is not output.device:
        raise RuntimeError(
            f"backward: the gradient is on {gradient.device}, the output on {output.device}"
        )
    return gradient if gradient.dtype is output.dtype else prim.cast(gradient, output.dtype)


def _edge(x: Tensor) -> tuple[_Edge | None, int]:
    node = node_of(x)
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
            if accumulate:
                retain_grad(x)  # no effect on a leaf
    found: list[Tensor | None] = [None] * len(inputs or ())
    backward_pass = BackwardPass(wanted, found)

    def run() -> None:
        with GradMode(create_graph):
            for root, gradient in zip(outputs, gradients, strict=True):
                if not backward_pass.start(root, _seed(root, gradient)):
                    raise RuntimeError(
                        "backward: a tensor does not require grad and does not have a grad_fn, "
                        f"shape {tuple(root.shape)}"
                    )
            backward_pass.run(retain_graph)
            backward_pass.finish(accumulate, create_graph)

    if profile_range is None:
        run()
    else:
        with profile_range("backward"):
            run()
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
    grad_variables: Tensor | Sequence[Tensor | None] | None = None,
    inputs: Tensor | Sequence[Tensor] | None = None,
) -> None:
    """Accumulates the gradients of ``tensors`` into ``.grad`` of the leaves.

    ``grad_tensors`` (of old: ``grad_variables``) start the pass: ones where None, for one-element
    tensors only;
    ``retain_graph`` (default: ``create_graph``) keeps what the tape saved for another pass;
    ``create_graph`` records the pass itself. With ``inputs`` only those get ``.grad``, nothing
    else is computed, and those that are no leaves keep their gradients from then on.
    Raises RuntimeError when a tensor has no graph, was modified in place, or was freed.
    """
    if grad_variables is not None:
        if grad_tensors is not None:
            raise RuntimeError("backward: grad_tensors and grad_variables are the same, got both")
        grad_tensors = grad_variables
    roots = _as_list(tensors)
    seeds = _seeds(roots, grad_tensors)
    keep = create_graph if retain_graph is None else retain_graph
    only = None if inputs is None else _as_list(inputs)
    if only is not None and not only:
        raise RuntimeError("backward: inputs cannot be empty")
    run_backward(roots, seeds, keep, create_graph, only)


@overload
def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]: ...
@overload
def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Mapping[str, Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> dict[str, Tensor | None]: ...
def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor] | Mapping[str, Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...] | dict[str, Tensor | None]:
    """The gradients of ``outputs`` with respect to ``inputs``, as a tuple; ``.grad`` is untouched.

    Only what lies between the two is computed, and freed unless ``retain_graph``; the hooks of
    other tensors do not run. An inner tensor's gradient is what its hooks made of it.
    An input that outputs do not depend on raises RuntimeError, gives None with ``allow_unused``,
    or zeros with ``materialize_grads``. With ``is_grads_batched`` the first dimension of each of
    ``grad_outputs`` counts passes, and that of each result too. ``inputs`` may be a mapping; then
    the result is a dict with its keys. ``only_inputs`` must be True.
    """
    if not only_inputs:
        raise ValueError("grad: only_inputs=False is not supported; use backward()")
    if materialize_grads and allow_unused is False:
        raise ValueError("grad: allow_unused must not be False where materialize_grads=True")
    if isinstance(inputs, Mapping):
        found = _gradients(
            outputs,
            list(inputs.values()),
            grad_outputs,
            retain_graph,
            create_graph,
            is_grads_batched,
        )
        _complete(found, list(inputs.values()), allow_unused, materialize_grads)
        return dict(zip(inputs, found, strict=True))
    wanted = _as_list(inputs)
    found = _gradients(outputs, wanted, grad_outputs, retain_graph, create_graph, is_grads_batched)
    _complete(found, wanted, allow_unused, materialize_grads)
    return tuple(found)


def _gradients(
    outputs: Tensor | Sequence[Tensor],
    wanted: list[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None,
    retain_graph: bool | None,
    create_graph: bool,
    batched: bool,
) -> list[Tensor | None]:
    roots = _as_list(outputs)
    seeds = _seeds(roots, grad_outputs)
    keep = create_graph if retain_graph is None else retain_graph
    if not batched:
        return run_backward(roots, seeds, keep, create_graph, wanted, accumulate=False)
    sizes = {int(s.shape[0]) for s in seeds if s is not None and s.dim() > 0}
    if len(sizes) != 1 or any(s is None for s in seeds):
        raise RuntimeError(
            "grad: with is_grads_batched every output needs a gradient with one batch dimension, "
            f"got shapes {[None if s is None else tuple(s.shape) for s in seeds]}"
        )
    (count,) = sizes
    passes = [
        run_backward(
            roots,
            [
                None if s is None else prim.reshape(prim.slice(s, 0, i, i + 1), tuple(s.shape[1:]))
                for s in seeds
            ],
            keep or i + 1 < count,
            create_graph,
            wanted,
            accumulate=False,
        )
        for i in range(count)
    ]
    return [_stacked(grads) for grads in zip(*passes, strict=True)]


def _stacked(grads: Sequence[Tensor | None]) -> Tensor | None:
    """The gradients of several passes along a new first dimension."""
    rows = [prim.reshape(g, (1, *g.shape)) for g in grads if g is not None]
    return prim.cat(rows, 0) if len(rows) == len(grads) else None


def _complete(
    found: list[Tensor | None], wanted: list[Tensor], allow_unused: bool | None, zeros: bool
) -> None:
    """Fills in or refuses missing gradients."""
    for i, g in enumerate(found):
        if g is None and zeros:
            found[i] = zeros_like(wanted[i])
        elif g is None and not allow_unused:
            raise RuntimeError(
                f"grad: input {i} of shape {tuple(wanted[i].shape)} appears to not have been used "
                "in the graph; set allow_unused=True if this is the desired behavior"
            )


def _seeds(
    roots: list[Tensor], given: Tensor | Sequence[Tensor | None] | None
) -> list[Tensor | None]:
    seeds = [given] * len(roots) if given is None or isinstance(given, Tensor) else list(given)
    if len(seeds) != len(roots):
        raise RuntimeError(f"backward: got {len(roots)} tensors and {len(seeds)} gradients")
    return seeds
