"""Devices of this build's kinds, looked for without making one the accelerator."""

from __future__ import annotations

from typing import NoReturn

from tinyt import _core, _tensor
from tinyt._core import DeviceError

# Kinds that have a module with PyTorch's functions, and how messages call them.
NAMES = {"cuda": "CUDA", "mps": "Metal"}

# Of a kind that was looked for: how many there are, and why there is none.
_found: dict[str, tuple[int, str]] = {}


def _look(kind: str) -> tuple[int, str]:
    here = _tensor.device_count(kind)
    if here:
        return here, ""
    if kind not in _found:
        _tensor.find_libraries()
        try:
            _found[kind] = len(_core.look_for_devices(kind)), ""
        except Exception as error:  # a driver may fail in any way
            _found[kind] = 0, str(error).removeprefix("device: ")
    return _found[kind]


def count(kind: str) -> int:
    """How many devices of a kind of this build there are; raises nothing. Its library is opened
    when it is asked for first, and what that gave is kept."""
    return _look(kind)[0]


def why_missing(kind: str) -> str:
    """Why there is none, and what to do; empty where there is one."""
    return _look(kind)[1]


def refuse(kind: str, name: str, instead: str = "") -> NoReturn:
    """DeviceError where there is no device of a kind, NotImplementedError where there is one, of a
    function of the module of that kind; each with the way out."""
    if count(kind):
        raise NotImplementedError(f"{kind}.{name}: is not there{instead and '; '}{instead}")
    raise DeviceError(
        f"{kind}.{name}: there is no {NAMES[kind]} device: {why_missing(kind)}; check "
        f"{kind}.is_available() first"
    )


__all__ = ["NAMES", "count", "refuse", "why_missing"]
