"""What this build is and how it runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from tinyt import _capture, _core, _tensor

if os.environ.get("TINYT_NUM_THREADS"):
    _core.num_threads()  # a bad one is an error now, not at the first operation


def get_num_threads() -> int:
    """Threads that kernels use."""
    _capture.refuse_recording("get_num_threads")
    return _core.num_threads()


def set_num_threads(n: int) -> None:
    """Threads that kernels use; results do not depend on it. ValueError below 1."""
    _capture.refuse_recording("set_num_threads")
    _core.set_num_threads(n)


@contextmanager
def num_threads(n: int) -> Iterator[None]:
    """Uses ``n`` threads inside the block."""
    before = _core.num_threads()
    try:
        _core.set_num_threads(n)
        yield
    finally:
        _core.set_num_threads(before)


_deterministic = {"mode": False, "warn_only": False}
_precision = {"matmul": "highest"}
_interop = {"threads": 1}


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Remembers the switch; results here are deterministic in any case."""
    _deterministic.update(mode=bool(mode), warn_only=warn_only)


def are_deterministic_algorithms_enabled() -> bool:
    """The switch of :func:`use_deterministic_algorithms`."""
    return _deterministic["mode"]


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Its ``warn_only``."""
    return _deterministic["mode"] and _deterministic["warn_only"]


def set_float32_matmul_precision(precision: str) -> None:
    """How exact products and convolutions of float32 are: "highest", "high" or "medium".

    With "highest", as long as nobody calls this, they are computed in float32. With one of the
    others a CUDA device may round the operands to TF32, with ten bits behind the point, and add up
    products in float32: errors of about one in a thousand of each product. Other devices compute in
    float32 in any case. ValueError for another word; RuntimeError in a function that is compiled.

    >>> tinyt.set_float32_matmul_precision("high")
    >>> tinyt.get_float32_matmul_precision()
    'high'
    >>> tinyt.set_float32_matmul_precision("highest")
    """
    _capture.refuse_recording("set_float32_matmul_precision")
    if precision not in ("highest", "high", "medium"):
        raise ValueError(
            "set_float32_matmul_precision: must be 'highest', 'high' or 'medium', "
            f"got {precision!r}"
        )
    _precision["matmul"] = precision
    _core.allow_rounded_products(precision != "highest")


def get_float32_matmul_precision() -> str:
    """What :func:`set_float32_matmul_precision` set."""
    return _precision["matmul"]


def set_num_interop_threads(n: int) -> None:
    """Remembers ``n``; operations run one after another, each on all threads."""
    if n < 1:
        raise RuntimeError(f"set_num_interop_threads: expected a positive number, got {n}")
    _interop["threads"] = n


def get_num_interop_threads() -> int:
    """What :func:`set_num_interop_threads` set."""
    return _interop["threads"]


def set_default_device(device: str | _tensor.device | None) -> None:
    """Where this thread makes tensors from now on (None: on the CPU), unless it is told otherwise;
    RuntimeError for a device that is not there."""
    _tensor.set_creation_device(_tensor.device("cpu" if device is None else device))


def get_default_device() -> _tensor.device:
    """Where this thread makes tensors, unless it is told otherwise."""
    return _tensor.creation_device()


def show_config() -> str:
    """Instruction-set level (and which exist), threads, compiler and flags, as text."""
    info = _core.build_info()
    levels = ", ".join(
        f"{name}{'' if usable else ' (not on this machine)'}"
        for name, usable in info["levels"].items()
    )
    lines = [
        f"instruction set: {info['isa']}",
        f"levels built:    {levels}",
        f"threads:         {info['threads']}",
        f"compiler:        {info['build']}",
    ]
    if info["sanitizers"]:
        lines.append(f"sanitizers:      {info['sanitizers']}")
    return "\n".join(lines)


# ---- switches of PyTorch's that change nothing here

# Libraries that PyTorch may be built with: none of them.
has_lapack = has_mkl = has_openmp = has_spectral = False
_warn_always = False


def set_warn_always(b: bool, /) -> None:
    """Kept, no effect: warnings go through Python's `warnings`, whose filters say how often."""
    global _warn_always
    if not isinstance(b, bool):
        raise TypeError(f"set_warn_always: expected a bool, got {type(b).__name__}")
    _warn_always = b


def is_warn_always_enabled() -> bool:
    """What `set_warn_always` was given."""
    return _warn_always


def set_flush_denormal(mode: bool) -> bool:
    """Whether it is so: subnormal numbers are always kept, so True for False."""
    return not mode


_MODES = ("default", "warn", "error")


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """`use_deterministic_algorithms` by a level: 0 or "default", 1 or "warn", 2 or "error"."""
    level = _MODES.index(debug_mode) if debug_mode in _MODES else debug_mode
    if level not in (0, 1, 2):
        raise RuntimeError(f"set_deterministic_debug_mode: expected one of {_MODES} or 0 to 2")
    use_deterministic_algorithms(level != 0, warn_only=level == 1)


def get_deterministic_debug_mode() -> int:
    """0, 1 or 2, as in `set_deterministic_debug_mode`."""
    if not are_deterministic_algorithms_enabled():
        return 0
    return 1 if is_deterministic_algorithms_warn_only_enabled() else 2


def compiled_with_cxx11_abi() -> bool:
    """True: no other is built."""
    return True
