"""`torch.backends`: switches that scripts set; results here do not depend on them."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from tinyt.backends import cpu, cuda, cudnn, mkldnn, mps, openmp

_LAZY = ("mha", "mkl", "opt_einsum")


def __getattr__(name: str) -> ModuleType:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})


__all__ = ["cpu", "cuda", "cudnn", "mkldnn", "mps", "openmp"]
