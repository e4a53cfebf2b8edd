"""``compile``: a function whose calls are captured once and then run as planned programs.

What does so is loaded at the first use: most programs that import tinyt compile nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tinyt.compiler.switches import is_disabled, is_off
from tinyt.compiler.types import CacheInfo, MemoryLimitError, VerificationError

if TYPE_CHECKING:
    from tinyt.compiler.compiled import Compiled

__all__ = ["CacheInfo", "MemoryLimitError", "VerificationError", "compile"]


_UNITS = {"": 0, "b": 0, "kb": 3, "mb": 6, "gb": 9, "tb": 12}
_BINARY_UNITS = {"kib": 10, "mib": 20, "gib": 30, "tib": 40}


# PyTorch's; all of them are the one way of compiling that there is.
_MODES = ("default", "lite", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
_BACKENDS = ("inductor", "eager", "aot_eager", "cudagraphs")


def _check_choices(mode: object, backend: Any, options: object) -> None:
    """Errors for values of PyTorch's arguments that PyTorch does not know, either, and for those
    that ask for what is not done."""
    if mode is not None and mode not in _MODES:
        raise RuntimeError(f"compile: mode must be one of {', '.join(_MODES)}, got {mode!r}")
    if callable(backend):
        raise NotImplementedError(
            "compile: backend must be a name, got a function, which would not be called; "
            "tinyt.compiler.rewrite adds simplifications"
        )
    if backend is not None and backend not in _BACKENDS:
        known = ", ".join(_BACKENDS)
        raise RuntimeError(
            f"compile: backend must be one of {known}, which all are the same, got {backend!r}"
        )
    if options is not None and not isinstance(options, dict):
        raise TypeError(f"compile: options must be a dict or None, got {type(options).__name__}")
    if options is not None and mode is not None:
        raise RuntimeError("compile: mode and options cannot both be given; leave one out")


def _bytes_of(size: int | str) -> int:
    """A number of bytes, or one with a unit as in ``"1.5 GiB"``."""
    if isinstance(size, str):
        number = size.strip().rstrip("abegikmtABEGIKMT")
        unit = size.strip()[len(number) :].lower()
        try:
            factor = 2 ** _BINARY_UNITS[unit] if "i" in unit else 10 ** _UNITS[unit]
            found = int(float(number) * factor)
        except (KeyError, ValueError, OverflowError):
            raise ValueError(
                f'compile: max_memory must be bytes, or as in "200 MiB", got {size!r}'
            ) from None
    elif isinstance(size, bool) or not isinstance(size, int):
        raise TypeError(f"compile: max_memory must be an int or str, got {type(size).__name__}")
    else:
        found = size
    if found < 0:
        raise ValueError(f"compile: max_memory must be at least 0, got {size!r}")
    return found


def compiled_type() -> type[Compiled]:
    """The class of compiled functions."""
    found: type[Compiled] = import_module(f"{__package__}.compiled").Compiled
    return found


Wrap = Callable[[Any, "Compiled"], Any]
_wrappers: dict[type[Any], Wrap] = {}


def wrap_compiled(class_: type, wrap: Wrap) -> None:
    """Makes `compile` of an instance of ``class_`` return ``wrap(instance, compiled call)``."""
    _wrappers[class_] = wrap


def compile(
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes_spec: object = None,
    verify: bool = False,
    max_memory: int | str | None = None,
) -> Any:
    """A function or module that runs as a planned program from its second call on.

    The results have eager's bits. ``model`` may be any function of tensors, numbers, containers and
    modules, a whole training step included (the result is a :class:`Compiled`), or a module (an
    :class:`OptimizedModule`); without it, a decorator is returned. What cannot be captured is a
    CaptureError: the graph is always whole, whatever ``fullgraph`` says.

    ``recompile_limit`` (64) bounds the programs that are kept, for arguments of other shapes and
    the like: the one that was used longest ago goes. ``verify`` compares every program, when it is
    captured and before its first run, with the function, an interpreter and float64, and raises a
    VerificationError that names the first culprit; `Compiled.verifications` tells what was
    compared. That takes the time of some eager calls, and memory for all values. ``max_memory``
    (bytes, or text as ``"200 MiB"``) bounds what a run may hold at once beside arguments and
    captured tensors: values that are cheap to compute are computed again rather than kept, with the
    same bits, until `Compiled.peak_bytes` fits; where it cannot, a MemoryLimitError lists what is
    held at the peak. ``name`` is the
    function's in messages. ``disable`` returns ``model`` as it is, and so does a ``model`` of
    `tinyt.compiler.disable`, and any where the environment has ``TINYT_COMPILE_DISABLE=1``,
    PyTorch's ``TORCH_COMPILE_DISABLE=1`` or ``TORCHDYNAMO_DISABLE=1``. ``backend``, ``mode``,
    ``options`` and ``isolate_recompiles`` are PyTorch's and change nothing; a name of a backend or
    mode that is not PyTorch's is a RuntimeError, a function as backend and ``shapes_spec`` are a
    NotImplementedError. ``dynamic=True``: a call whose arguments differ from an earlier call's in
    sizes alone is not captured, as long as what the function decided by sizes stays as it was;
    None: only where `tinyt.compiler.mark_dynamic` has marked the sizes; False: never.
    """
    if shapes_spec is not None:
        raise NotImplementedError("compile: shapes_spec; use tinyt.compiler.mark_dynamic")
    _check_choices(mode, backend, options)
    if not isinstance(dynamic, bool | None):
        raise TypeError(f"compile: dynamic must be a bool or None, got {dynamic!r}")
    limit = 64 if recompile_limit is None else recompile_limit
    if limit < 1:
        raise ValueError(f"compile: recompile_limit must be at least 1, got {limit}")
    nbytes = None if max_memory is None else _bytes_of(max_memory)

    kind = compiled_type()

    def decorate(function: Callable[..., Any]) -> Any:
        if not callable(function):
            what = type(function).__name__
            raise TypeError(f"compile: expected a function or module, got {what}")
        if disable or is_disabled(function) or is_off():
            return function
        for class_, wrap in _wrappers.items():
            if isinstance(function, class_):
                known_as = name or type(function).__name__
                call = kind(function.__call__, limit, known_as, verify, nbytes, dynamic)
                return wrap(function, call)
        return kind(function, limit, name, verify, nbytes, dynamic)

    return decorate if model is None else decorate(model)
