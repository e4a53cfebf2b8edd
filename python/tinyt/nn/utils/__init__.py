"""Functions over the parameters of a network."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tinyt.nn.utils import rnn
from tinyt.nn.utils.clip_grad import (
    clip_grad_norm,
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
)
from tinyt.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters

# The functions have their modules' names, so the modules are loaded before.
from tinyt.nn.utils.spectral_norm import remove_spectral_norm, spectral_norm
from tinyt.nn.utils.weight_norm import remove_weight_norm, weight_norm

# Loaded when they are first asked for: modules, and functions of them.
_LAZY = {
    "fuse_conv_bn_eval": "fusion",
    "fuse_conv_bn_weights": "fusion",
    "fuse_linear_bn_eval": "fusion",
    "fuse_linear_bn_weights": "fusion",
    "fusion": "",
    "init": "",
    "parametrizations": "",
    "parametrize": "",
    "prune": "",
    "skip_init": "init",
    "stateless": "",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = import_module(f"{__name__}.{_LAZY[name] or name}")
    value = globals()[name] = getattr(found, name) if _LAZY[name] else found
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})


__all__ = [
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
    "parameters_to_vector",
    "remove_spectral_norm",
    "remove_weight_norm",
    "rnn",
    "spectral_norm",
    "vector_to_parameters",
    "weight_norm",
]
