"""What can be called: every public function, class, method and attribute, found in the package."""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import tinyt
from fuzz.calls import odd, planted

# Modules that are no part of the interface, or that work with files and processes by design.
EXCLUDED_MODULES = {
    "tinyt.as_torch": "changes what `import torch` means for the rest of the process",
    "tinyt.autograd.profiler": "a profile that is begun stays on for the rest of the process",
    "tinyt.autograd.rules": "the table of derivatives, read by the tape alone",
    "tinyt.cli": "the command: it trains, downloads nothing, but writes runs and waits for input",
    "tinyt.hub": "runs the code of folders, reads and writes files",
    "tinyt.multiprocessing": "starts processes",
    "tinyt.nn.global_hooks": "hooks of all modules stay for the rest of the process",
    "tinyt.ops": "its functions are exported by tinyt and nn.functional",
    "tinyt.profiler": "as tinyt.autograd.profiler; writes files",
    "tinyt.stand_in": "as tinyt.as_torch",
    "tinyt.tensor": "how methods are attached to the class",
    "tinyt.testing.reference": "the reference of verification, called with what was captured",
    "tinyt.utils.benchmark": "runs texts as programs, for as long as it takes to time them",
    "tinyt.utils.model_zoo": "as tinyt.hub",
    "tinyt.utils.tensorboard": "writes files, by a package that may be missing",
}
EXCLUDED = {
    "tinyt.compiler.rewrite": "registers a rewrite for the rest of the process",
    "tinyt.library.custom_op": "registers an operation for the rest of the process",
    "tinyt.memory.fail_nth_allocation": "makes a later, unrelated call fail",
    "tinyt.memory.set_limit": "bounds later, unrelated calls",
    "tinyt.set_num_interop_threads": "starts threads without end under the limit of addresses",
    "tinyt.set_num_threads": "starts threads without end under the limit of addresses",
    "tinyt.use_deterministic_algorithms": "makes later, unrelated calls fail",
}
# Special methods that Python itself calls, or that are `object`'s.
EXCLUDED_METHODS = """
    __abstractmethods__ __annotations__ __class__ __class_getitem__ __dataclass_fields__
    __dataclass_params__ __del__ __dict__ __dir__ __doc__ __getattr__ __getattribute__
    __init_subclass__ __match_args__ __module__ __new__ __orig_bases__ __parameters__
    __pyx_vtable__ __reduce_cython__ __setstate_cython__ __sizeof__ __slots__ __subclasshook__
    __weakref__
"""
EMPTY = inspect.Parameter.empty


@dataclass(frozen=True)
class Target:
    """`kind`: "function", "class", "method" or "attribute"; `owner` is the path of the class."""

    path: str
    kind: str
    value: Any
    owner: str = ""

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]


def modules() -> Iterator[ModuleType]:
    """The public modules: those with `__all__`, and those that `tinyt.__all__` names."""
    yield tinyt
    for found in pkgutil.walk_packages(tinyt.__path__, "tinyt."):
        name = found.name
        if any(part.startswith("_") for part in name.split(".")) or "libtinyt" in name:
            continue
        if any(f"{name}.".startswith(f"{excluded}.") for excluded in EXCLUDED_MODULES):
            continue
        module = importlib.import_module(name)
        if hasattr(module, "__all__") or name.removeprefix("tinyt.") in tinyt.__all__:
            yield module


def exported(module: ModuleType) -> list[str]:
    """The public names of a module."""
    if hasattr(module, "__all__"):
        return sorted(module.__all__)
    return sorted(
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
    )


def find_targets() -> list[Target]:
    """All targets in the order of their paths; what has several names is there once."""
    found: dict[str, Target] = {}
    seen: set[int] = set()
    public = sorted(exports().items())
    for path, value in public:
        if not isinstance(value, type) and id(value) not in seen and path not in EXCLUDED:
            seen.add(id(value))
            found[path] = Target(path, "function", value)
    classes = {path: value for path, value in public if isinstance(value, type)}
    classes |= hidden_types()
    # Bases first: a method is named after the class that defines it.
    for path, kind in sorted(classes.items(), key=lambda item: (len(item[1].__mro__), item[0])):
        if id(kind) not in seen and path not in EXCLUDED:
            seen.add(id(kind))
            found[path] = Target(path, "class", kind)
            found |= {target.path: target for target in find_members(path, kind, seen)}
    return sorted(found.values(), key=lambda target: target.path)


def planted_targets() -> list[Target]:
    """The functions with planted faults, instead of the library."""
    return [Target(f"planted.{f.__name__}", "function", f) for f in planted.FUNCTIONS]


def exports() -> dict[str, Any]:
    """The callables of the public modules by path."""
    found = {}
    for module in sorted(modules(), key=lambda m: (m.__name__.count("."), m.__name__)):
        for name in exported(module):
            path, value = f"{module.__name__}.{name}", getattr(module, name)
            defined = getattr(value, "__module__", None) or "tinyt"
            if not callable(value) or not defined.startswith("tinyt"):
                continue  # also what is of typing, collections, ...
            if isinstance(value, type) and issubclass(value, BaseException):
                continue
            try:
                named = functools.reduce(getattr, path.split(".")[1:], tinyt)
            except AttributeError:  # a module hidden by a function of its name
                continue
            if named is value:
                found[path] = value
    return found


# Types without a public name, by the text of one of their instances.
HIDDEN = (
    "T((2,), 'float32', 'result').grad_fn",
    "tinyt.compile(identity)",
    "tinyt.compile(tinyt.nn.Linear(2, 2))",
    "tinyt.compile(identity).cache_info()",
    "tinyt.nn.Linear(2, 2).register_forward_hook(identity)",
)


def hidden_types() -> dict[str, type]:
    return {f"type({text})": type(evaluated(text)) for text in HIDDEN}


def namespace() -> dict[str, Any]:
    """The names that the text of a call may use."""
    return {name: getattr(odd, name) for name in odd.__all__}


def evaluated(text: str) -> Any:
    """The value of the text of a call."""
    # Only texts that this package has written get here: a text can be printed, made smaller and
    # evaluated in another process, which a tree of constructors with such objects cannot.
    return eval(compile(text, "<call>", "eval"), namespace())


def find_members(path: str, kind: type, seen: set[int]) -> Iterator[Target]:
    """Methods and attributes that a class of tinyt defines, or inherits from one without a name."""
    for base in kind.__mro__:
        if not base.__module__.startswith("tinyt"):
            continue
        for name, value in sorted(vars(base).items()):
            if name in EXCLUDED_METHODS.split() or id(value) in seen:
                continue
            if name.startswith("_") and not name.endswith("__"):
                continue
            member = f"{path}.{name}"
            if member in EXCLUDED:
                continue
            seen.add(id(value))
            if callable(value) or isinstance(value, (staticmethod, classmethod)):
                yield Target(member, "method", getattr(kind, name, value), path)
            elif hasattr(type(value), "__get__"):
                yield Target(member, "attribute", value, path)


def parameters(value: Any) -> list[inspect.Parameter] | None:
    """The parameters, None where the callable does not tell them."""
    try:
        return list(inspect.signature(value).parameters.values())
    except (TypeError, ValueError):
        return None
