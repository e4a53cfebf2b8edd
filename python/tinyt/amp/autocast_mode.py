"""`autocast`: a block in which some operations compute in a lower precision."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, TypeVar

from tinyt._tensor import autocast_state, device_count, kinds_of_build, set_autocast_state
from tinyt._tensor import dtype as DType
from tinyt.drivers import NAMES, count
from tinyt.dtypes import bfloat16, float16, float64
from tinyt.nesting import deeper
from tinyt.ops.autocast import clear_autocast_cache
from tinyt.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])


class _Outer(threading.local):
    """What was set outside each block that this thread is in."""

    def __init__(self) -> None:
        self.states: list[tuple[bool, DType, bool]] = []
        # What `autocast("cuda")` and the like compute in unless they are told otherwise.
        self.defaults = {kind: float16 for kind in NAMES}


_outer = _Outer()


# Of PyTorch's kinds of device, those whose `autocast` is in float16 unless it is told otherwise.
OTHER_DEVICES = ("cuda", "mps", "xpu", "mtia", "maia", "ipu")


def _kind(device_type: str) -> str:
    """The kind of a device with or without a number; RuntimeError for none of PyTorch's."""
    if not isinstance(device_type, str):
        raise TypeError(f"autocast: device_type must be a str, got {type(device_type).__name__}")
    kind = device_type.partition(":")[0]
    ours = kind in kinds_of_build() and kind not in OTHER_DEVICES
    if device_count(kind) or ours or (kind in NAMES and count(kind)):
        return "cpu"  # one state for it and the other devices that this build and libraries bring
    if kind != "cpu" and kind not in OTHER_DEVICES:
        raise RuntimeError(
            f"autocast: unsupported autocast device_type {device_type!r}, expected one of cpu, "
            f"{', '.join(OTHER_DEVICES)}"
        )
    return kind


def _own_default(device_type: str) -> DType | None:
    """The default that a kind of device has for itself."""
    return _outer.defaults.get(device_type.partition(":")[0])


def is_autocast_available(device_type: str) -> bool:
    """Whether `autocast` does something on the kind of device: "cpu", or one that a library has
    brought."""
    return device_type != "meta" and _kind(device_type) == "cpu"


class autocast:
    """A block, or decorator, whose products and convolutions compute in bfloat16 or float16.

    Which operations do, and which are raised to float32, is in `tinyt.ops.autocast`; the others
    compute in the dtype they are given. float64 stays. Backward computes each operation in the
    dtype its forward had; parameters keep theirs, and so do their gradients.

    Args:
        device_type: "cpu" or "cpu:0", or the name of another device, which means the same:
            operations on either are in the block; "cuda" and "mps" warn and are off without such a
            device.
        dtype: bfloat16 (the default; of "cuda" and "mps" float16 is) or float16; with another the
            block warns and is off.
        enabled: False turns autocast off inside another block.
        cache_enabled: whether all uses of a parameter in the block share one copy (default True).

    Raises:
        RuntimeError: for another kind of device.
    """

    def __init__(
        self,
        device_type: str,
        dtype: DType | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"autocast: device_type must be a str, got {device_type!r}")
        kind = _kind(device_type)
        if kind != "cpu" and kind not in NAMES:
            raise RuntimeError(
                f"autocast: unsupported autocast device_type {device_type!r}; this build has: cpu"
            )
        if dtype is None:
            dtype = _own_default(device_type) or get_autocast_dtype(kind)
        self.fast_dtype = dtype
        if enabled and kind == "cpu" and self.fast_dtype not in (bfloat16, float16):
            warnings.warn(
                "autocast: on the CPU only bfloat16 and float16 are lower precisions; disabling",
                UserWarning,
                stacklevel=2,
            )
            enabled = False
        if kind in NAMES and enabled:
            warnings.warn(
                f"User provided device_type of {kind!r}, but {NAMES[kind]} is not available. "
                "Disabling",
                UserWarning,
                stacklevel=2,
            )
            enabled = False
        self.device = device_type
        self._enabled = enabled
        self._cache = cache_enabled

    def __enter__(self) -> autocast:
        before, depth = autocast_state(), len(_outer.states)
        try:
            _outer.states.append(before)
            if _kind(self.device) == "cpu":
                cache = is_autocast_cache_enabled() if self._cache is None else self._cache
                set_autocast_state(self._enabled, self.fast_dtype, cache)
            return self
        except BaseException:  # an interrupt: no block ends what has begun
            set_autocast_state(*before)
            del _outer.states[depth:]
            raise

    def __exit__(self, *exc: object) -> None:
        try:
            set_autocast_state(*_outer.states[-1])
        finally:
            _outer.states.pop()
        if not _outer.states:
            clear_autocast_cache()

    def __call__(self, function: F) -> F:  # noqa: D102
        @wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return wrapped  # type: ignore[return-value]


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Whether this thread is inside `autocast`; no argument means "cuda", as in PyTorch."""
    if device_type is None:
        return autocast_state()[0] and _kind("cuda") == "cpu"
    return _kind(device_type) == "cpu" and autocast_state()[0]


def get_autocast_dtype(device_type: str) -> DType:
    """The lower precision of this thread's `autocast` on a kind of device; of "cuda" and "mps"
    outside of a block, what one is in by default."""
    active, dtype, _ = autocast_state()
    kind, own = _kind(device_type), _own_default(device_type)
    if own is not None and not active:
        return own
    return dtype if kind == "cpu" else float16


def set_autocast_enabled(device_type: str, enabled: bool) -> None:
    """Turns this thread's `autocast` on or off; a block is the usual way."""
    if _kind(device_type) == "cpu":
        _, dtype, cache = autocast_state()
        dtype = get_autocast_dtype(device_type) if enabled else dtype
        set_autocast_state(enabled, dtype, cache)


def set_autocast_dtype(device_type: str, dtype: DType) -> None:
    """Sets the lower precision of this thread's `autocast`; a block refuses others than halves."""
    if not isinstance(dtype, DType):
        raise TypeError(f"set_autocast_dtype: expected a dtype, got {type(dtype).__name__}")
    if _kind(device_type) != "cpu":
        return
    active, _, cache = autocast_state()
    has_own = _own_default(device_type) is not None
    if has_own:
        _outer.defaults[device_type.partition(":")[0]] = dtype
    if active or not has_own:
        set_autocast_state(active, dtype, cache)


def is_autocast_cache_enabled() -> bool:
    """Whether all uses of a parameter inside `autocast` share one copy."""
    return autocast_state()[2]


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Sets what `is_autocast_cache_enabled` gives."""
    set_autocast_state(*autocast_state()[:2], enabled)


def is_autocast_cpu_enabled() -> bool:
    """`is_autocast_enabled("cpu")`."""
    return is_autocast_enabled("cpu")


def get_autocast_cpu_dtype() -> DType:
    """`get_autocast_dtype("cpu")`."""
    return get_autocast_dtype("cpu")


def _in(to: DType, value: Any, depth: int = 0) -> Any:
    """Arguments of a `Function` in another dtype, inside dictionaries and sequences too."""
    if isinstance(value, Tensor):
        return value.to(to) if value.is_floating_point() and value.dtype is not float64 else value
    if isinstance(value, dict):
        depth = deeper("custom_fwd", depth)
        return {name: _in(to, item, depth) for name, item in value.items()}
    if type(value) in (list, tuple):
        depth = deeper("custom_fwd", depth)
        return type(value)(_in(to, x, depth) for x in value)
    return value


def custom_fwd(
    fwd: F | None = None, *, device_type: str = "cpu", cast_inputs: DType | None = None
) -> Any:
    """Decorates the forward of a `Function` for `autocast`.

    Args:
        fwd: the forward; without it, the decorator is returned.
        device_type: the kind of device whose `autocast` is meant.
        cast_inputs: where `autocast` is on, floating-point tensors among the arguments are cast to
            this, and the forward runs without it. None: it runs as it is called.
    """
    if fwd is None:
        return partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @wraps(fwd)
    def decorated(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        ctx._dtype = get_autocast_dtype(device_type)
        ctx._fwd_used_autocast = is_autocast_enabled(device_type)
        if cast_inputs is None or not ctx._fwd_used_autocast:
            return fwd(ctx, *args, **kwargs)
        ctx._fwd_used_autocast = False
        with autocast(device_type, enabled=False):
            return fwd(ctx, *_in(cast_inputs, args), **_in(cast_inputs, kwargs))

    return decorated


def custom_bwd(bwd: F | None = None, *, device_type: str = "cpu") -> Any:
    """Decorates the backward of a `Function`: it runs with the `autocast` its forward had."""
    if bwd is None:
        return partial(custom_bwd, device_type=device_type)

    @wraps(bwd)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        ctx = args[0]
        with autocast(device_type, dtype=ctx._dtype, enabled=ctx._fwd_used_autocast):
            return bwd(*args, **kwargs)

    return decorated
