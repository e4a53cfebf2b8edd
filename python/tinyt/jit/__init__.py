"""PyTorch's `torch.jit` where there is no TorchScript: modules and functions stay what they are.

`script`, `trace` and the decorators return what they were given, which runs as Python, with the
same results. What only TorchScript has, a file of a program (`save`, `load`) above all, is an error
that says what to do. For speed there is `tinyt.compile`.

>>> import tinyt
>>> @tinyt.jit.script
... def double(x: tinyt.Tensor) -> tinyt.Tensor:
...     return 2 * x
>>> double(tinyt.ones(2))
tensor([2., 2.])
>>> tinyt.jit.save(double, "double.pt")
Traceback (most recent call last):
...
NotImplementedError: jit.save: there is no TorchScript; save the state with \
tinyt.save(module.state_dict(), path) and make the module again by its class
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import UnionType
from typing import Any, Final, Generic, NamedTuple, NoReturn, TypeVar, Union, get_args, get_origin

from tinyt.nn import Module

T = TypeVar("T")

__all__ = [
    "Attribute",
    "CompilationUnit",
    "Error",
    "Final",
    "Future",
    "RecursiveScriptModule",
    "ScriptFunction",
    "ScriptModule",
    "TopLevelTracedModule",
    "TracerWarning",
    "TracingCheckError",
    "annotate",
    "enable_onednn_fusion",
    "export",
    "export_opnames",
    "fork",
    "freeze",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "load",
    "onednn_fusion_enabled",
    "optimize_for_inference",
    "optimized_execution",
    "run_frozen_optimizations",
    "save",
    "script",
    "script_if_tracing",
    "script_method",
    "set_fusion_strategy",
    "set_module",
    "strict_fusion",
    "trace",
    "trace_module",
    "unused",
    "wait",
]

_SAVE = (
    "there is no TorchScript; save the state with tinyt.save(module.state_dict(), path) and make "
    "the module again by its class"
)
_LOAD = (
    "there is no TorchScript, and a file of it holds a program; save the state_dict with PyTorch "
    "and read that with tinyt.load"
)
_is = isinstance  # of Python; this module has one of its own


class Error(RuntimeError):
    """PyTorch's error of a scripted program; nothing raises it."""


class TracerWarning(Warning):
    """PyTorch's warning of a trace; nothing gives it."""


class TracingCheckError(Error):
    """PyTorch's error of a trace that differs from its function; nothing raises it."""


class Attribute(NamedTuple):
    """A value and its type for TorchScript."""

    value: Any
    type: Any


class ScriptFunction:
    """PyTorch's class of scripted functions; `script` makes none."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse("ScriptFunction", "there is no TorchScript; use the function itself")


class CompilationUnit:
    """PyTorch's class of source text; there is no compiler of it."""

    def __init__(self, lang: str | None = None, _frames_up: int = 0) -> None:
        if lang is not None:
            _refuse("CompilationUnit", "there is no TorchScript; write the functions in Python")


class ScriptModule(Module):
    """A `Module`: base of classes that were written for TorchScript, with `script_method`.

    `save` and what shows the program raise NotImplementedError.
    """

    def save(self, f: Any, **kwargs: Any) -> NoReturn:
        """NotImplementedError: there is no program to save."""
        _refuse("save", _SAVE)

    def save_to_buffer(self, *args: Any, **kwargs: Any) -> NoReturn:
        """NotImplementedError: there is no program to save."""
        _refuse("save", _SAVE)

    @property
    def code(self) -> str:
        """NotImplementedError: there is no program."""
        _refuse("code", "there is no TorchScript; the source is the class's own")

    @property
    def graph(self) -> Any:
        """NotImplementedError: there is no program."""
        _refuse("graph", "there is no TorchScript; tinyt.compile(module).graph() shows a program")


class RecursiveScriptModule(ScriptModule):
    """PyTorch's class of scripted modules; `script` makes none."""


class TopLevelTracedModule(ScriptModule):
    """PyTorch's class of traced modules; `trace` makes none."""


def _refuse(name: str, hint: str) -> NoReturn:
    raise NotImplementedError(f"jit.{name}: {hint}")


def script(
    obj: T,
    optimize: Any = None,
    _frames_up: int = 0,
    _rcb: Any = None,
    example_inputs: Any = None,
) -> T:
    """The module, function or class itself."""
    return obj


def trace(
    func: T,
    example_inputs: Any = None,
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_kwarg_inputs: Any = None,
    _store_inputs: bool = True,
) -> T:
    """The module or function itself, which is not called.

    RuntimeError without example inputs, as PyTorch has it.
    """
    if example_inputs is None and example_kwarg_inputs is None:
        raise RuntimeError(
            "jit.trace: example_inputs, or example_kwarg_inputs as a dict, must be given"
        )
    return func


def trace_module(mod: T, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> T:
    """The module itself, whose methods are not called; AttributeError for one that it lacks."""
    for name in inputs:
        getattr(mod, name)
    return mod


def script_method(fn: T) -> T:
    """The method itself."""
    return fn


def script_if_tracing(fn: T) -> T:
    """The function itself."""
    return fn


def unused(fn: T) -> T:
    """The method or property itself."""
    return fn


def export(fn: T) -> T:
    """The method itself."""
    return fn


def interface(obj: T) -> T:
    """The class itself."""
    return obj


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """The function itself; ``@ignore`` and ``@ignore()`` alike."""
    if callable(drop):
        return drop
    if not _is(drop, bool):
        raise RuntimeError(f"Argument to @jit.ignore must be a bool or a function but got {drop!r}")
    return lambda fn: fn


def is_scripting() -> bool:
    """False: Python runs."""
    return False


def is_tracing() -> bool:
    """False: Python runs."""
    return False


def annotate(the_type: Any, the_value: T) -> T:
    """The value itself."""
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:
    """`isinstance` that looks into containers: of lists, tuples, dicts, Optional and Union.

    >>> from typing import Dict, List
    >>> from tinyt import jit
    >>> jit.isinstance([1, 2], List[int]), jit.isinstance({"a": 1.0}, Dict[str, int])
    (True, False)
    """
    if _is(target_type, tuple):
        return any(isinstance(obj, one) for one in target_type)
    origin, parts = get_origin(target_type), get_args(target_type)
    if target_type is Any:
        return True
    if target_type is None:
        return obj is None
    if origin is Union or origin is UnionType:
        return any(isinstance(obj, one) for one in parts)
    if origin is None or not parts:
        return _is(obj, origin or target_type)
    if not _is(obj, origin):
        return False
    if origin is tuple:
        if len(parts) == 2 and parts[1] is ...:
            return all(isinstance(x, parts[0]) for x in obj)
        return len(obj) == len(parts) and all(map(isinstance, obj, parts))
    if origin is dict:
        return all(isinstance(k, parts[0]) and isinstance(v, parts[1]) for k, v in obj.items())
    return all(isinstance(x, parts[0]) for x in obj)


def freeze(mod: T, preserved_attrs: Any = None, optimize_numerics: bool = True) -> T:
    """The module itself; RuntimeError in training mode, as PyTorch has it."""
    if getattr(mod, "training", False):
        raise RuntimeError(
            "Freezing is currently only implemented for modules in eval mode. "
            "Please call .eval() on your module before freezing."
        )
    return mod


def optimize_for_inference(mod: T, other_methods: Any = None) -> T:
    """The module itself."""
    return mod


def run_frozen_optimizations(
    mod: Any, optimize_numerics: bool = True, preserved_methods: Any = None
) -> None:
    """Does nothing."""


def set_fusion_strategy(strategy: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Changes nothing; PyTorch's default."""
    return [("STATIC", 2), ("DYNAMIC", 10)]


def enable_onednn_fusion(enabled: bool) -> None:
    """Changes nothing."""


def onednn_fusion_enabled() -> bool:
    """False."""
    return False


def set_module(obj: Any, mod: str) -> None:
    """Sets the module that an object says it is of."""
    obj.__module__ = mod


@contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """A block in which nothing changes."""
    yield


class strict_fusion:
    """A block in which nothing changes."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *args: object) -> None:
        return None


class Future(Generic[T]):
    """The result of `fork`, which ran at once."""

    def __init__(self, value: T) -> None:
        self._value = value

    def wait(self) -> T:
        """The result."""
        return self._value

    value = wait

    def done(self) -> bool:
        """True."""
        return True


def fork(func: Callable[..., T], *args: Any, **kwargs: Any) -> Future[T]:
    """Calls the function now; a `Future` of its result, for `wait`."""
    return Future(func(*args, **kwargs))


def wait(future: Future[T]) -> T:
    """The result of a `fork`."""
    return future.wait()


def save(m: Any, f: Any, _extra_files: Any = None) -> NoReturn:
    """NotImplementedError: there is no program to save."""
    _refuse("save", _SAVE)


def load(
    f: Any, map_location: Any = None, _extra_files: Any = None, _restore_shapes: bool = False
) -> NoReturn:
    """NotImplementedError: a file of TorchScript holds a program."""
    _refuse("load", _LOAD)


def export_opnames(m: Any) -> NoReturn:
    """NotImplementedError: there is no program."""
    _refuse("export_opnames", "there is no TorchScript; module.modules() lists what is in a module")


def _unique_state_dict(module: Any, keep_vars: bool = False) -> dict[str, Any]:
    """The state dict with each tensor once."""
    seen: set[int] = set()
    state = module.state_dict(keep_vars=True)
    found = {k: v for k, v in state.items() if not (id(v) in seen or seen.add(id(v)))}  # type: ignore[func-returns-value]
    return found if keep_vars else {k: v.detach() for k, v in found.items()}


# Names that programs use though they are PyTorch's own.
_overload = _overload_method = script_method
_script_if_tracing = script_if_tracing
