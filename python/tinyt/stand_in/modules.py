"""``torch`` as a module: tinyt's names, with the version of the PyTorch that they follow."""

from __future__ import annotations

import importlib
import importlib.metadata
import opcode
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, NoReturn

import tinyt
from tinyt.stand_in.version import VERSION

# What PyTorch has nothing of, or something else.
_OWN = {
    "tinyt._core",
    "tinyt._tensor",
    "tinyt._autograd",
    "tinyt._capture",
    "tinyt.stand_in",
    "tinyt.as_torch",
}
WHY = "tinyt stands for PyTorch here and does not have it"


def is_torch(name: str) -> bool:
    """Whether a module's name is ``torch`` or begins with ``torch.``."""
    return name == "torch" or name.startswith("torch.")


def _missing(module: str, name: str, hint: str, asks: FrameType) -> NoReturn:
    """Raises what ``module.name``, or ``from module import name``, is to raise in a frame."""
    why = WHY + (f" ({hint})" if hint else "")
    if asks.f_code.co_code[asks.f_lasti] == _IMPORT_FROM:
        text = f"cannot import name '{name}' from '{module}': {why}"
        raise ImportError(text, name=module) from None
    text = f"module '{module}' has no attribute '{name}': {why}"
    raise AttributeError(text, name=name) from None


_IMPORT_FROM = opcode.opmap["IMPORT_FROM"]


def _hint(error: AttributeError) -> str:
    return str(error).partition(": ")[2]


def explain(error: BaseException) -> None:
    """Says in a note of an error that it may be about a method of PyTorch's tensors."""
    if sys.version_info < (3, 11) or not isinstance(error, AttributeError):  # no notes before
        return
    kind = error.obj if isinstance(error.obj, type) else type(error.obj)
    if issubclass(kind, tinyt.Tensor):
        error.add_note(f"Tensor.{error.name}: {WHY}")


class TorchModule(ModuleType):
    """``torch``: what tinyt has, and what programs set here themselves."""

    def __init__(self, name: str) -> None:
        super().__init__(name, tinyt.__doc__)
        self.__file__, self.__path__ = tinyt.__file__, tinyt.__path__
        shown = {k: v for k, v in vars(tinyt).items() if not k.startswith("_")}
        self.__dict__.update(shown, __version__=VERSION, version=_version_module())
        self.__dict__["__all__"] = sorted({*tinyt.__all__, "version"})

    def __getattr__(self, name: str) -> Any:
        try:
            found = getattr(tinyt, name)
        except AttributeError as error:
            _missing("torch", name, _hint(error), sys._getframe(1))
        if isinstance(found, ModuleType):
            share_modules()
        self.__dict__[name] = found
        return found

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(tinyt)})

    def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
        """By name, for what pickles functions with the modules that they use (cloudpickle); tinyt
        in the other process, too."""
        return load, (self.__name__,)


def _version_module() -> ModuleType:
    """``torch.version``: PyTorch's, and what it was built for as tinyt's own says."""
    module = ModuleType("torch.version", tinyt.version.__doc__)
    of_build = {k: v for k, v in vars(tinyt.version).items() if not k.startswith("_")}
    module.__dict__.update(of_build, __version__=VERSION)
    module.__file__ = tinyt.version.__file__
    return module


def share_modules() -> None:
    """Gives every module of tinyt that is loaded its name under ``torch``, too, and has it say
    what stands there when a name is missing."""
    for name, module in list(sys.modules.items()):
        if name.startswith("tinyt.") and name not in _OWN:
            shared = "torch" + name.removeprefix("tinyt")
            if sys.modules.setdefault(shared, module) is module and name not in _shared:
                own = vars(module).get("__getattr__")
                _shared[name] = module, own
                vars(module)["__getattr__"] = _lookup(shared, own or _of_class(module))


def _of_class(module: ModuleType) -> Callable[[str], Any] | None:
    """The ``__getattr__`` that the class of a module has."""
    found = getattr(type(module), "__getattr__", None)
    return None if found is None else partial(found, module)


# name -> module, and its own function for names that it lacks
_shared: dict[str, tuple[ModuleType, Callable[[str], Any] | None]] = {}


def _lookup(module: str, own: Callable[[str], Any] | None) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module of tinyt that is shared."""

    def __getattr__(name: str) -> Any:
        hint = ""
        if own is not None:
            try:
                return own(name)
            except AttributeError as error:
                hint = _hint(error)
        _missing(module, name, hint, sys._getframe(1))

    return __getattr__


def forget_modules() -> None:
    """Undoes what `share_modules` has done to the modules themselves."""
    for module, own in _shared.values():
        if own is None:
            vars(module).pop("__getattr__", None)
        else:
            vars(module)["__getattr__"] = own
    _shared.clear()


_torch: TorchModule | None = None


class _TorchLoader(Loader):
    """Makes ``torch`` and ``torch.…`` of tinyt's modules, which stay the same objects."""

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return load("torch") if spec.name == "torch" else None

    def exec_module(self, module: ModuleType) -> None:
        # The import system takes what lies here in the place of the module that it made.
        sys.modules[module.__name__] = load(module.__name__)
        sys.modules.setdefault("torch.version", load("torch.version"))
        share_modules()


def load(name: str) -> ModuleType:
    """The module that stands for ``torch`` or ``torch.…``; ModuleNotFoundError without one."""
    global _torch
    if name in ("torch", "torch.version"):
        if _torch is None:
            _torch = TorchModule("torch")
        return _torch if name == "torch" else _torch.version
    if _ours(name) in _OWN or importlib.util.find_spec(_ours(name)) is None:
        raise ModuleNotFoundError(f"No module named '{name}': {WHY}", name=name)
    return importlib.import_module(_ours(name))


def _ours(name: str) -> str:
    return "tinyt" + name.removeprefix("torch")


class TorchFinder(importlib.metadata.DistributionFinder):
    """Serves ``torch`` in this process, and says that it is installed."""

    def __init__(self) -> None:
        self.steps_aside = False  # where PyTorch itself lies in `sys.modules`

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Where tinyt's module for the name is; ModuleNotFoundError where it has none, and None
        for `importlib.util.find_spec`."""
        if self.steps_aside or not is_torch(name):
            return None
        try:
            module = load(name)
        except ModuleNotFoundError:
            if sys._getframe(2).f_code is importlib.util.find_spec.__code__:
                return None  # only asked whether it is there
            raise
        spec = ModuleSpec(name, _TorchLoader(), origin=module.__file__)
        spec.submodule_search_locations = getattr(module, "__path__", None)
        return spec

    def find_distributions(
        self,
        context: importlib.metadata.DistributionFinder.Context | None = None,
    ) -> Iterable[importlib.metadata.Distribution]:
        """``torch``, where that is asked for."""
        if context is not None and context.name is not None and context.name.lower() == "torch":
            yield _TorchDistribution()


class _TorchDistribution(importlib.metadata.Distribution):
    """What ``importlib.metadata`` says of ``torch``."""

    def read_text(self, filename: str) -> str | None:
        if filename in ("METADATA", "PKG-INFO"):
            return (
                f"Metadata-Version: 2.1\nName: torch\nVersion: {VERSION}\n"
                "Summary: tinyt in the place of PyTorch\n"
            )
        return None

    def locate_file(self, path: str | os.PathLike[str]) -> Path:
        return Path(tinyt.__file__).parent.parent / path
