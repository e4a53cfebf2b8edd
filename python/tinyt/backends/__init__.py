"""`torch.backends`: switches that scripts set; results here do not depend on them."""

from __future__ import annotations

from importlib import import_module
from os import PathLike, fspath
from types import ModuleType

from tinyt import _core
from tinyt.backends import cpu, cuda, cudnn, mkldnn, mps, openmp


def load(path: str | PathLike[str]) -> str:
    """Loads a shared library, whose code runs, that brings a device; the name of the device.

    How such a library is made: `docs/adding-a-backend.md`. ``tinyt.zeros(3, device=name)`` makes a
    tensor there.

    Raises:
        RuntimeError: if it cannot be loaded, brings no device, or is for another version.
        ValueError: if there is a device of its name.
    """
    return _core.load_backend(fspath(path))


_LAZY = ("mha", "mkl", "opt_einsum")


def __getattr__(name: str) -> ModuleType:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})


__all__ = ["cpu", "cuda", "cudnn", "load", "mkldnn", "mps", "openmp"]
