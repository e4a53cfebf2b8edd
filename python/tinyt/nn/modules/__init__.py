"""`torch.nn.modules`: PyTorch's module paths for the layers of `tinyt.nn`.

`nn.modules.batchnorm._BatchNorm` and its like are how scripts ask for a kind of layer.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from tinyt import nn
from tinyt.nn import *  # noqa: F403
from tinyt.nn import _LAZY
from tinyt.nn.module import Module

# PyTorch's module -> where its layers are here.
_HOMES = {
    "activation": ("activation", "attention"),
    "adaptive": (),
    "batchnorm": ("norm",),
    "channelshuffle": ("patches",),
    "container": ("containers", "parameter_containers"),
    "conv": ("conv",),
    "distance": ("distance",),
    "dropout": ("dropout",),
    "flatten": ("flatten",),
    "fold": ("patches",),
    "instancenorm": ("norm",),
    "linear": ("linear",),
    "loss": ("loss",),
    "module": ("module",),
    "normalization": ("norm", "pooling"),
    "padding": ("padding",),
    "pixelshuffle": ("patches",),
    "pooling": ("pooling",),
    "rnn": ("rnn", "rnn_cells"),
    "sparse": ("embedding",),
    "transformer": ("transformer",),
    "upsampling": ("upsampling",),
}

# Names of PyTorch's for what has another one here.
_ALIASES = {
    "dropout": {"_DropoutNd": "Dropout"},
    "linear": {"NonDynamicallyQuantizableLinear": "Linear"},
}


def _module(name: str, homes: tuple[str, ...]) -> ModuleType:
    module = ModuleType(f"{__name__}.{name}", f"PyTorch's module of {name}.")
    for home in homes:
        for key, value in vars(sys.modules[f"tinyt.nn.{home}"]).items():
            if isinstance(value, type) and issubclass(value, Module):
                setattr(module, key, value)
                if key.endswith("Nd"):
                    setattr(module, f"_{key}", value)  # PyTorch's name of the common class
    for alias, of in _ALIASES.get(name, {}).items():
        setattr(module, alias, getattr(module, of))
    lazy = [key for key in _LAZY if _home_of(key) == name]

    def get(key: str) -> Any:
        if key in lazy:
            return getattr(nn, key)
        raise AttributeError(f"module {module.__name__!r} has no attribute {key!r}", name=key)

    module.__dict__["__getattr__"] = get
    sys.modules[module.__name__] = module
    return module


def _home_of(name: str) -> str:
    """PyTorch's module of a layer that is loaded when it is first asked for."""
    kinds = {"BatchNorm": "batchnorm", "Conv": "conv", "InstanceNorm": "instancenorm"}
    kinds |= {"Linear": "linear", "Adaptive": "adaptive"}
    name = name.removeprefix("Lazy")
    return next((home for kind, home in kinds.items() if name.startswith(kind)), "")


globals().update({name: _module(name, homes) for name, homes in _HOMES.items()})


def __getattr__(name: str) -> ModuleType:
    if name != "lazy":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.lazy")
