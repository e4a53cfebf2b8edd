"""Functions over the parameters of a network."""

from __future__ import annotations

import sys
import typing as _typing
from importlib import import_module
from types import ModuleType

from tinyt.nn.utils import rnn
from tinyt.nn.utils.clip_grad import (
    clip_grad_norm,
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
)
from tinyt.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters

if _typing.TYPE_CHECKING:
    from tinyt.nn.utils.fusion import (
        fuse_conv_bn_eval,
        fuse_conv_bn_weights,
        fuse_linear_bn_eval,
        fuse_linear_bn_weights,
    )
    from tinyt.nn.utils.init import skip_init
    from tinyt.nn.utils.memory_format import (
        convert_conv2d_weight_memory_format,
        convert_conv3d_weight_memory_format,
    )
    from tinyt.nn.utils.spectral_norm import remove_spectral_norm, spectral_norm
    from tinyt.nn.utils.weight_norm import remove_weight_norm, weight_norm

# Loaded when they are first asked for: functions, of which some have their modules' names.
_LAZY = {
    "convert_conv2d_weight_memory_format": "memory_format",
    "convert_conv3d_weight_memory_format": "memory_format",
    "fuse_conv_bn_eval": "fusion",
    "fuse_conv_bn_weights": "fusion",
    "fuse_linear_bn_eval": "fusion",
    "fuse_linear_bn_weights": "fusion",
    "remove_spectral_norm": "spectral_norm",
    "remove_weight_norm": "weight_norm",
    "skip_init": "init",
    "spectral_norm": "spectral_norm",
    "weight_norm": "weight_norm",
}
# And modules.
_MODULES = {
    "fusion",
    "init",
    "memory_format",
    "parametrizations",
    "parametrize",
    "prune",
    "stateless",
}


def __getattr__(name: str) -> _typing.Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_MODULES})


class _Package(ModuleType):
    """This package: an import of `weight_norm.py` leaves the function of that name in it."""

    def __setattr__(self, name: str, value: _typing.Any) -> None:
        if isinstance(value, ModuleType) and name in _LAZY:
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package

__all__ = [
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "convert_conv2d_weight_memory_format",
    "convert_conv3d_weight_memory_format",
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
    "get_total_norm",
    "parameters_to_vector",
    "remove_spectral_norm",
    "remove_weight_norm",
    "rnn",
    "skip_init",
    "spectral_norm",
    "vector_to_parameters",
    "weight_norm",
]
