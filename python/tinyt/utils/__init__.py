"""PyTorch's `torch.utils`: data loading, checkpointing of activations, and what is loaded when it
is first used: `benchmark`, `model_zoo`, `tensorboard`, `_pytree`."""

from __future__ import annotations

import typing as _typing
from importlib import import_module

from tinyt.utils import checkpoint, data

if _typing.TYPE_CHECKING:
    from tinyt.utils import _pytree, benchmark, dlpack, hooks, model_zoo, tensorboard

__all__ = [
    "_pytree",
    "benchmark",
    "checkpoint",
    "data",
    "dlpack",
    "hooks",
    "model_zoo",
    "tensorboard",
]

# Loaded when they are first asked for.
_LAZY = {
    "_contextlib",
    "_foreach_utils",
    "_pytree",
    "benchmark",
    "dlpack",
    "hooks",
    "model_zoo",
    "tensorboard",
}


def __getattr__(name: str) -> _typing.Any:
    if name in _LAZY:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
