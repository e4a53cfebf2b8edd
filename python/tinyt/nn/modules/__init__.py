"""`torch.nn.modules`: PyTorch's module paths for the layers of `tinyt.nn`.

`nn.modules.batchnorm._BatchNorm` and its like are how scripts ask for a kind of layer, and how
copied files import what PyTorch's own files have beside the layers.
"""

from __future__ import annotations

import sys
import typing as _typing
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

from tinyt import nn
from tinyt.nn import *  # noqa: F403

# PyTorch's module -> where its names are here; the first file is the one that it stands for.
_HOMES = {
    "activation": ("activation", "attention", "linear", "init"),
    "adaptive": ("adaptive",),
    "batchnorm": ("norm", "uninitialized", "lazy"),
    "channelshuffle": ("patches",),
    "container": ("containers", "parameter_containers", "module"),
    "conv": ("conv", "modules.utils", "uninitialized", "lazy"),
    "distance": ("distance",),
    "dropout": ("dropout",),
    "flatten": ("flatten",),
    "fold": ("patches",),
    "instancenorm": ("norm", "lazy"),
    "lazy": ("lazy",),
    "linear": ("linear", "uninitialized", "lazy"),
    "loss": ("loss", "functional_parts"),
    "module": ("module", "state", "hooks", "global_hooks"),
    "normalization": ("norm", "local_response"),
    "padding": ("padding", "modules.utils"),
    "pixelshuffle": ("patches",),
    "pooling": ("pooling", "fractional_pooling", "modules.utils"),
    "rnn": ("rnn", "rnn_cells"),
    "sparse": ("embedding",),
    "transformer": ("transformer", "init"),
    "upsampling": ("upsampling",),
}
# What every file of PyTorch's imports.
_COMMON = {"F": "functional", "init": "init"}


def _path(home: str) -> str:
    return f"{nn.__name__}.{home}"


class _Names(ModuleType):
    """One of PyTorch's modules: its names are found in the files here when they are asked for."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{__name__}.{name}", f"`torch.nn.modules.{name}`.")
        self.__dict__["_homes"] = _HOMES[name]
        self.__spec__ = ModuleSpec(self.__name__, None)
        self.__file__ = f"{nn.__path__[0]}/{_HOMES[name][0]}.py"

    def __getattr__(self, name: str) -> _typing.Any:
        if name == "__all__":
            return [key for key in dir(self) if not key.startswith("_")]
        found = None if name.startswith("__") else self._find(name)
        if found is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        self.__dict__[name] = found
        return found

    def _find(self, name: str) -> _typing.Any:
        if name in _COMMON:
            return getattr(nn, _COMMON[name])
        # `_MaxPoolNd` and its like, of which some have no underscore here.
        names = (name, name[1:]) if name.startswith("_") and name.endswith("Nd") else (name,)
        for home in self._homes:
            module = import_module(_path(home))
            for key in names:
                if key in vars(module):
                    return vars(module)[key]
        return getattr(nn, name) if name in ("Parameter", "Module") else None

    def __dir__(self) -> list[str]:
        own = set(map(_path, self._homes))
        names = set(self.__dict__)
        for home in own:
            names |= {
                key
                for key, value in vars(import_module(home)).items()
                if getattr(value, "__module__", "") == home
            }
        return sorted(names)


def _module(name: str) -> ModuleType:
    module = sys.modules[f"{__name__}.{name}"] = _Names(name)
    return module


globals().update({name: _module(name) for name in _HOMES})
import_module(f"{__name__}.utils")  # in the place of `nn.utils`, a name of the star import


def __getattr__(name: str) -> _typing.Any:
    if name in nn.__all__ or name in nn._LAZY:
        return getattr(nn, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [name for name in nn.__all__ if name[0].isupper()]
