"""Checkpointing of activations (Chen et al. 2016): less memory for a second forward.

What the operations of a checkpointed function save for backward is dropped; when backward first
needs a part of it, the function runs again, from the same random state and with the same autocast,
and fills all of it in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from weakref import ref

from tinyt._tensor import autocast_state
from tinyt.amp import autocast
from tinyt.autograd import Function, backward, enable_grad, is_grad_enabled
from tinyt.autograd.graph import saved_tensors_hooks
from tinyt.random import drawing_from, stream_position
from tinyt.tensor import Tensor

__all__ = ["CheckpointError", "checkpoint", "checkpoint_sequential", "noop_context_fn"]

Contexts = Callable[[], tuple[AbstractContextManager[Any], AbstractContextManager[Any]]]


class CheckpointError(RuntimeError):
    """The second run of a checkpointed function saved other tensors than the first."""


def noop_context_fn() -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    """Two blocks that do nothing: around the first run and around the second."""
    return nullcontext(), nullcontext()


def _same_precision() -> Callable[[], autocast]:
    """Makes blocks with the `autocast` of now."""
    active, lower, cache = autocast_state()
    return lambda: autocast("cpu", lower, active, cache)


class _Slot:
    """The place of one saved tensor; it lives as long as the tape node that saved it."""

    __slots__ = ("__weakref__", "frame", "meta", "value")

    def __init__(self, frame: _Frame, meta: tuple[Any, ...]) -> None:
        self.frame = frame
        self.meta = meta
        self.value: Tensor | None = None


class _Frame:
    """One call of a checkpointed function, and how to run it again."""

    def __init__(self, run: Callable[[], Any], preserve_rng_state: bool, check: bool) -> None:
        self._run = run
        self._state = stream_position() if preserve_rng_state else None
        self._precision = _same_precision()
        self._check = check
        self._slots: list[ref[_Slot]] = []

    def pack(self, x: Tensor) -> _Slot:
        """Forgets a tensor of the first run."""
        slot = _Slot(self, (tuple(x.shape), x.dtype))
        self._slots.append(ref(slot))
        return slot

    @staticmethod
    def unpack(slot: _Slot) -> Tensor:
        """A tensor of the first run, from the second."""
        if slot.value is None:
            slot.frame._again()
        if slot.value is None:
            raise CheckpointError(
                "checkpoint: the second run saved fewer tensors for backward than the first; the "
                "function must do the same each time"
            )
        return slot.value

    def _again(self) -> None:
        count = 0

        def keep(x: Tensor) -> Tensor:
            nonlocal count
            if count >= len(self._slots):
                raise CheckpointError(
                    "checkpoint: the second run saved more tensors for backward than the first "
                    f"({len(self._slots)}); the function must do the same each time"
                )
            slot = self._slots[count]()
            count += 1
            meta = (tuple(x.shape), x.dtype)
            if slot is not None:
                if self._check and meta != slot.meta:
                    raise CheckpointError(
                        f"checkpoint: saved tensor {count - 1} has shape and dtype {slot.meta} in "
                        f"the first run and {meta} in the second"
                    )
                slot.value = x
            return x

        with (
            enable_grad(),
            drawing_from(self._state),
            self._precision(),
            saved_tensors_hooks(keep, lambda x: x),
        ):
            self._run()


class _Reentrant(Function):
    """A checkpoint whose backward runs a backward pass of its own."""

    @staticmethod
    def forward(ctx: Any, run: Callable[..., Any], preserve: bool, *args: Any) -> Any:
        ctx.run = run
        ctx.state = stream_position() if preserve else None
        ctx.precision = _same_precision()
        ctx.others = [None if isinstance(x, Tensor) else x for x in args]
        ctx.positions = [i for i, x in enumerate(args) if isinstance(x, Tensor)]
        ctx.save_for_backward(*(args[i] for i in ctx.positions))
        return run(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        args = list(ctx.others)
        for i, saved in zip(ctx.positions, ctx.saved_tensors, strict=True):
            args[i] = saved.detach().requires_grad_(saved.requires_grad)
        with enable_grad(), drawing_from(ctx.state), ctx.precision():
            result = ctx.run(*args)
        outputs = result if isinstance(result, tuple) else (result,)
        pairs = [
            (out, grad)
            for out, grad in zip(outputs, grads, strict=True)
            if isinstance(out, Tensor) and out.requires_grad
        ]
        if not pairs:
            raise RuntimeError(
                "none of output has requires_grad=True, this checkpoint() is not necessary"
            )
        backward([out for out, _ in pairs], [grad for _, grad in pairs])
        return (None, None, *(x.grad if isinstance(x, Tensor) else None for x in args))


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Contexts = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """`function(*args, **kwargs)` that keeps nothing for backward but its arguments.

    Args:
        function: what to call; it must do the same when it is called again.
        use_reentrant: None or False: every use of the tape works as without a checkpoint. True:
            PyTorch's older way: a tensor among `args` must require grad, keyword arguments are
            refused, and only `backward()` without `inputs` reaches what the function uses besides.
        preserve_rng_state: keyword; whether the second run draws the same random numbers
            (default True).
        context_fn: gives two blocks, around the first and around the second run.
        determinism_check: "default" compares shapes and dtypes of the two runs, "none" does not.
        debug, early_stop: PyTorch's settings of its own implementation; accepted, no effect.

    Raises:
        CheckpointError: in backward, where the second run saved other tensors than the first.
    """
    preserve = bool(kwargs.pop("preserve_rng_state", True))
    if determinism_check not in ("default", "none"):
        raise ValueError(
            f"checkpoint: determinism_check must be 'default' or 'none', got {determinism_check!r}"
        )
    if use_reentrant:
        if kwargs or context_fn is not noop_context_fn:
            raise ValueError(
                "checkpoint: keyword arguments and context_fn need use_reentrant=False, "
                f"got {sorted(kwargs)}"
            )
        return _Reentrant.apply(function, preserve, *args)
    first, second = context_fn()

    def again() -> Any:
        with second:
            return function(*args, **kwargs)

    if not is_grad_enabled():
        with first:
            return function(*args, **kwargs)
    frame = _Frame(again, preserve, determinism_check == "default")
    with saved_tensors_hooks(frame.pack, _Frame.unpack), first:
        return function(*args, **kwargs)


def checkpoint_sequential(
    functions: Any,
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    **kwargs: Any,
) -> Any:
    """Calls modules one after another, each of the first `segments - 1` parts as a checkpoint.

    Args:
        functions: a `Sequential` or a sequence of callables.
        segments: into how many parts to divide them.
        input: what the first gets.
        use_reentrant, preserve_rng_state: as in `checkpoint`.
    """
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError(f"Unexpected keyword arguments: {', '.join(kwargs)}")
    steps: Sequence[Callable[[Any], Any]] = list(functions)
    size = len(steps) // segments

    def part(start: int, end: int) -> Callable[[Any], Any]:
        def run(x: Any) -> Any:
            for step in steps[start:end]:
                x = step(x)
            return x

        return run

    last = size * (segments - 1)
    for start in range(0, last, size or 1):
        input = checkpoint(
            part(start, start + size),
            input,
            use_reentrant=use_reentrant,
            preserve_rng_state=preserve,
        )
    return part(last, len(steps))(input)
