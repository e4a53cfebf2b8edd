"""Memory formats (the order of the dimensions in memory) and layouts, under PyTorch's names."""

from __future__ import annotations

from tinyt._tensor import shown_as


class _Constant:
    """One of a few named objects, which nothing changes; compare with ``is``."""

    __slots__ = ("name",)
    name: str

    def __init__(self, name: str) -> None:
        if hasattr(self, "name"):
            raise AttributeError(f"{type(self).__name__}: {self!r} cannot be made anew")
        object.__setattr__(self, "name", name)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__}: {self!r} cannot be changed")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__}: {self!r} cannot be changed")

    def __repr__(self) -> str:
        return f"{shown_as()}.{self.name}"

    def __reduce__(self) -> str:
        return self.name


class memory_format(_Constant):
    """How a tensor lies in memory: ``contiguous_format``, ``channels_last``, …

    There is one object for each; compare with ``is``.
    """

    __slots__ = ()


class layout(_Constant):
    """How a tensor stores its elements: ``strided`` is the only one."""

    __slots__ = ()


strided = layout("strided")
contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")

# The order of the dimensions from the slowest to the fastest.
ORDERS = {channels_last: (0, 2, 3, 1), channels_last_3d: (0, 2, 3, 4, 1)}
