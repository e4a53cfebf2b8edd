"""`torch.testing` for the tests of users: `assert_close`, tensors of random values, and how many
steps a program has. `reference`: what each operation means, in NumPy.

Loaded when asked for: `tinyt.compiler` loads `reference` alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tinyt.testing.assertions import (
        assert_allclose,
        assert_close,
        assert_kernels,
        make_tensor,
    )

__all__ = ["assert_allclose", "assert_close", "assert_kernels", "make_tensor"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = getattr(import_module(f"{__name__}.assertions"), name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
