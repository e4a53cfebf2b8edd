"""``torch`` as a module: tinyt's names, with the version of the PyTorch that they follow."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import sys
from collections.abc import Iterable, Sequence
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import tinyt
from tinyt.stand_in.version import VERSION

# What PyTorch has nothing of, or something else.
_OWN = {"tinyt._core", "tinyt._tensor", "tinyt.stand_in", "tinyt.as_torch"}
WHY = "tinyt stands for PyTorch here and does not have it"


def is_torch(name: str) -> bool:
    """Whether a module's name is ``torch`` or begins with ``torch.``."""
    return name == "torch" or name.startswith("torch.")


def _missing(module: str, name: str, error: AttributeError) -> NoReturn:
    hint = str(error).partition(": ")[2]
    raise AttributeError(
        f"module '{module}' has no attribute '{name}': {WHY}" + (f" ({hint})" if hint else ""),
        name=name,
    ) from None


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
            _missing("torch", name, error)
        if isinstance(found, ModuleType):
            share_modules()
        self.__dict__[name] = found
        return found

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(tinyt)})


def _version_module() -> ModuleType:
    """``torch.version``: PyTorch's, and what it was built for as tinyt's own says."""
    module = ModuleType("torch.version", tinyt.version.__doc__)
    of_build = {k: v for k, v in vars(tinyt.version).items() if not k.startswith("_")}
    module.__dict__.update(of_build, __version__=VERSION)
    module.__file__ = tinyt.version.__file__
    return module


def share_modules() -> None:
    """Gives every module of tinyt that is loaded its name under ``torch``, too."""
    for name, module in list(sys.modules.items()):
        if name.startswith("tinyt.") and name not in _OWN:
            sys.modules.setdefault("torch" + name.removeprefix("tinyt"), module)


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
        """Where tinyt's module for the name is; ModuleNotFoundError where it has none."""
        if self.steps_aside or not is_torch(name):
            return None
        module = load(name)
        is_package = hasattr(module, "__path__")
        return ModuleSpec(name, _TorchLoader(), origin=module.__file__, is_package=is_package)

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
