"""`torch.nn.modules`: PyTorch's module paths for the layers of `tinyt.nn`.

`nn.modules.batchnorm._BatchNorm` and its like are how scripts ask for a kind of layer.
"""

from __future__ import annotations

import sys
from types import ModuleType

from tinyt.nn import *  # noqa: F403
from tinyt.nn.module import Module

# PyTorch's module -> where its layers are here.
_HOMES = {
    "activation": ("activation", "attention"),
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


def _module(name: str, homes: tuple[str, ...]) -> ModuleType:
    module = ModuleType(f"{__name__}.{name}", f"PyTorch's module of {name}.")
    for home in homes:
        for key, value in vars(sys.modules[f"tinyt.nn.{home}"]).items():
            if isinstance(value, type) and issubclass(value, Module):
                setattr(module, key, value)
                if key.endswith("Nd"):
                    setattr(module, f"_{key}", value)  # PyTorch's name of the common class
    sys.modules[module.__name__] = module
    return module


globals().update({name: _module(name, homes) for name, homes in _HOMES.items()})
