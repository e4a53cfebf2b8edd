"""PyTorch's `torch.utils`: data loading, checkpointing of activations, and what is loaded when it
is first used: `benchmark`, `collect_env`, `model_zoo`, `tensorboard`, `_pytree`."""

from __future__ import annotations

import typing as _typing
from importlib import import_module

from tinyt.utils import checkpoint

if _typing.TYPE_CHECKING:
    from tinyt.utils import (
        _pytree,
        benchmark,
        collect_env,
        data,
        dlpack,
        hooks,
        model_zoo,
        tensorboard,
    )
    from tinyt.utils.swapping import swap_tensors

__all__ = [
    "_pytree",
    "benchmark",
    "checkpoint",
    "collect_env",
    "data",
    "dlpack",
    "hooks",
    "model_zoo",
    "swap_tensors",
    "tensorboard",
]

# Loaded when they are first asked for.
_LAZY = {
    "_contextlib",
    "_foreach_utils",
    "_pytree",
    "benchmark",
    "collect_env",
    "data",
    "dlpack",
    "hooks",
    "model_zoo",
    "tensorboard",
}


def __getattr__(name: str) -> _typing.Any:
    if name in _LAZY:
        return import_module(f"{__name__}.{name}")
    if name == "swap_tensors":
        return import_module(f"{__name__}.swapping").swap_tensors
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_LAZY})
