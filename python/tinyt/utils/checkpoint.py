"""Checkpointing of activations (Chen et al. 2016): less memory for a second forward.

What the operations of a checkpointed function save for backward is dropped; when backward first
needs a part of it, the function runs again, from the same random state and with the same autocast,
and fills all of it in.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import Enum
from threading import get_ident
from typing import Any, NoReturn
from weakref import ref

from tinyt._tensor import autocast_state
from tinyt.amp import autocast
from tinyt.autograd import Function, backward, enable_grad, is_grad_enabled
from tinyt.autograd.graph import saved_tensors_hooks
from tinyt.nesting import deeper
from tinyt.random import drawing_from, stream_position
from tinyt.tensor import Tensor

__all__ = [
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]

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


def _tensors_in(value: Any, depth: int = 0) -> Iterator[Tensor]:
    """The tensors in nested containers."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        depth = deeper("checkpoint", depth)
        for item in value.values() if isinstance(value, dict) else value:
            yield from _tensors_in(item, depth)


def _off_the_tape(value: Any, depth: int = 0) -> Any:
    """Nested arguments with leaves in place of computed tensors, over the same memory.

    One that is written to later would hold the node that holds the arguments, a cycle.
    """
    if isinstance(value, Tensor):
        return value if value.is_leaf else value.detach().requires_grad_()
    if type(value) in (list, tuple):
        depth = deeper("checkpoint", depth)
        return type(value)(_off_the_tape(item, depth) for item in value)
    if type(value) is dict:
        depth = deeper("checkpoint", depth)
        return {key: _off_the_tape(item, depth) for key, item in value.items()}
    return value


def _modified(what: str, x: Tensor, version: int) -> RuntimeError:
    return RuntimeError(
        "checkpoint: one of the variables needed for gradient computation has been modified by an "
        f"inplace operation: [{x.dtype.name} {tuple(x.shape)}], which is {what} of the "
        f"checkpointed function, is at version {x._version}; expected version {version} instead; "
        "write out of place, or pass a clone"
    )


@contextmanager
def _once(running: set[int]) -> Iterator[None]:
    """The second run, in each of the threads; RuntimeError inside of itself, which has no end."""
    thread = get_ident()
    if thread in running:
        raise RuntimeError(
            "checkpoint: the second run of the function needs itself: the function takes gradients "
            "through what it has returned before, or writes to a tensor from outside and returns "
            "it; compute without it, or write out of place"
        )
    running.add(thread)
    try:
        yield
    finally:
        running.discard(thread)


class _Slot:
    """The place of one saved tensor; it lives as long as the tape node that saved it."""

    __slots__ = ("__weakref__", "frame", "memory", "meta", "value")

    def __init__(self, frame: _Frame, meta: tuple[Any, ...], memory: tuple[int, int]) -> None:
        self.frame = frame
        self.meta = meta
        self.memory = memory  # which one, and its version
        self.value: Tensor | None = None


class _Frame:
    """One call of a checkpointed function, and how to run it again."""

    def __init__(
        self, run: Callable[[], Any], preserve_rng_state: bool, check: bool, given: Any
    ) -> None:
        self._run = run
        self._given = [(x, x._version) for x in _tensors_in(given)]
        self._state = stream_position() if preserve_rng_state else None
        self._precision = _same_precision()
        self._check = check
        self._slots: list[ref[_Slot]] = []
        self._running: set[int] = set()

    def pack(self, x: Tensor) -> _Slot:
        """Forgets a tensor of the first run."""
        slot = _Slot(self, (tuple(x.shape), x.dtype), (x._storage_id, x._version))
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
        for x, version in self._given:
            if x._version != version:
                raise _modified("an argument", x, version)
        count = 0
        errors: list[Exception] = []

        def keep(x: Tensor) -> Tensor:
            nonlocal count
            slot = self._slots[count]() if count < len(self._slots) else None
            if slot is not None:
                errors.extend(self._differences(count, slot, x))
                slot.value = x
            count += 1
            return x

        with (
            _once(self._running),
            enable_grad(),
            drawing_from(self._state),
            self._precision(),
            saved_tensors_hooks(keep, lambda x: x),
        ):
            self._run()
        if count > len(self._slots):
            errors.append(
                CheckpointError(
                    "checkpoint: the second run saved more tensors for backward than the first "
                    f"({len(self._slots)}); the function must do the same each time"
                )
            )
        # Not inside of the run, which may catch it; nor held here, which would be a cycle.
        if errors:
            errors.reverse()
            raise errors.pop()

    def _differences(self, number: int, slot: _Slot, x: Tensor) -> Iterator[Exception]:
        """The errors where the second run saved something else than the first."""
        meta = (tuple(x.shape), x.dtype)
        if self._check and meta != slot.meta:
            yield CheckpointError(
                f"checkpoint: saved tensor {number} has shape and dtype {slot.meta} in "
                f"the first run and {meta} in the second"
            )
        # The same memory in both runs is what the function reads from outside.
        memory, version = slot.memory
        if memory == x._storage_id and version != x._version:
            yield _modified("a tensor that the function reads", x, version)


class CheckpointFunction(Function):
    """A checkpoint whose backward runs a backward pass of its own: what
    ``checkpoint(use_reentrant=True)`` applies, to the function, whether the second run draws the
    same random numbers, and the arguments."""

    @staticmethod
    def forward(ctx: Any, run: Callable[..., Any], preserve: bool, *args: Any) -> Any:
        """The first run."""
        ctx.run = run
        ctx.state = stream_position() if preserve else None
        ctx.precision = _same_precision()
        ctx.running = set()
        ctx.others = [None if isinstance(x, Tensor) else x for x in args]
        ctx.positions = [i for i, x in enumerate(args) if isinstance(x, Tensor)]
        ctx.save_for_backward(*(args[i] for i in ctx.positions))
        return run(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """The second run, and the backward pass of it."""
        args = list(ctx.others)
        for i, saved in zip(ctx.positions, ctx.saved_tensors, strict=True):
            args[i] = saved.detach().requires_grad_(saved.requires_grad)
        with _once(ctx.running):
            return CheckpointFunction._again(ctx, args, grads)

    @staticmethod
    def _again(ctx: Any, args: list[Any], grads: tuple[Any, ...]) -> Any:
        """The second run, and the backward pass of it."""
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
        RuntimeError: in backward, where what the function reads was written to in between.
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
        return CheckpointFunction.apply(function, preserve, *args)
    first, second = context_fn()
    if not is_grad_enabled():
        with first:
            return function(*args, **kwargs)
    held_args, held_kwargs = _off_the_tape(args), _off_the_tape(kwargs)

    def again() -> Any:
        with second:
            return function(*held_args, **held_kwargs)

    frame = _Frame(again, preserve, determinism_check == "default", (held_args, held_kwargs))
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


# ---- names of PyTorch's implementation


def check_backward_validity(inputs: Any) -> None:
    """Warns where no tensor among `inputs` requires grad: nothing would get gradients."""
    if not any(isinstance(x, Tensor) and x.requires_grad for x in inputs):
        warnings.warn(
            "None of the inputs have requires_grad=True. Gradients will be None",
            UserWarning,
            stacklevel=2,
        )


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """A tuple with leaves in place of its tensors, over the same memory."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(
            f"detach_variable: expected a tuple of tensors, got {type(inputs).__name__}"
        )
    return tuple(
        x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in inputs
    )


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """([], []): states of the random numbers of devices other than the CPU, of which none exist."""
    return [], []


def set_device_states(devices: Any, states: Any, *, device_type: str | None = None) -> None:
    """Sets nothing; RuntimeError for a state, as there is no device to set it on."""
    if any(True for _ in zip(devices, states, strict=False)):
        raise RuntimeError(f"set_device_states: no device but the CPU is available, got {devices}")


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """A block with PyTorch's setting of its own implementation; no effect, as in `checkpoint`."""
    yield


@contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """A block with PyTorch's setting of its own implementation; no effect, as in `checkpoint`."""
    yield


class CheckpointPolicy(Enum):
    """What a selective checkpoint would do with a result; see
    `create_selective_checkpoint_contexts`."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Any,
    allow_cache_entry_mutation: bool = False,
    **kwargs: Any,
) -> NoReturn:
    """NotImplementedError: a checkpoint computes all of its function again.

    PyTorch asks the policy about each operation as it is called; here operations run in C, and
    nobody is asked. Put `checkpoint` around the parts that are to be computed again;
    `tinyt.compile(max_memory=)` chooses values to compute again by itself.
    """
    raise NotImplementedError(
        "create_selective_checkpoint_contexts: policies for single operations do not exist; put "
        "checkpoint around the parts to compute again, or use tinyt.compile(max_memory=)"
    )
