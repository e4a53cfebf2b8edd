"""`torch.types`: names for annotations."""

from __future__ import annotations

import builtins
import os
from typing import IO, Any, TypeAlias

from tinyt._tensor import Size, device, dtype
from tinyt.formats import layout
from tinyt.random import Generator
from tinyt.storage import UntypedStorage
from tinyt.tensor import Tensor

Number: TypeAlias = builtins.int | builtins.float | builtins.bool
Device: TypeAlias = device | str | builtins.int | None
FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]
Storage: TypeAlias = UntypedStorage
BoolLikeType: TypeAlias = builtins.bool
IntLikeType: TypeAlias = builtins.int
FloatLikeType: TypeAlias = builtins.float
PySymType: TypeAlias = Any

__all__ = [
    "BoolLikeType",
    "Device",
    "FileLike",
    "FloatLikeType",
    "Generator",
    "IntLikeType",
    "Number",
    "PySymType",
    "Size",
    "Storage",
    "Tensor",
    "device",
    "dtype",
    "layout",
]
