"""Mixed precision on CUDA, under its older name: off, as there is none."""

from __future__ import annotations

from typing import Any

from tinyt import amp
from tinyt._tensor import dtype as DType
from tinyt.dtypes import float16

__all__ = ["GradScaler", "autocast"]


class autocast(amp.autocast):
    """`tinyt.amp.autocast("cuda")`."""

    def __init__(
        self, enabled: bool = True, dtype: DType = float16, cache_enabled: bool = True
    ) -> None:
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(amp.GradScaler):
    """`tinyt.amp.GradScaler("cuda")`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("cuda", *args, **kwargs)
