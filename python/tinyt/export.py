"""PyTorch's `torch.export`, to be imported: there are no exported programs.

What there is instead: `tinyt.compile` for a program that runs, `compile(...).graph()` for one that
is looked at, and `tinyt.save` for the state.
"""

from __future__ import annotations

from collections.abc import Iterator

from tinyt.absent import refusing, refusing_class
from tinyt.utils._pytree import register_dataclass

_HINT = (
    "there are no exported programs; tinyt.compile(model) makes one that runs, its graph() shows "
    "it, and tinyt.save(model.state_dict(), path) keeps the state"
)


class Dim:
    """The name of a size that may change, as programs declare it before an export.

    Args:
        name: of the size.
        min, max: its limits.
    """

    AUTO = DYNAMIC = -1
    STATIC = 0

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        if not name.isidentifier():
            raise AssertionError(f"Dim name must be a valid identifier, got {name}")
        self.__name__ = name
        self.min, self.max = min, max

    def __repr__(self) -> str:
        return f"Dim({self.__name__!r}, min={self.min}, max={self.max})"


def dims(*names: str, min: int | None = None, max: int | None = None) -> Iterator[Dim]:
    """Several `Dim`."""
    return (Dim(name, min=min, max=max) for name in names)


export = refusing("export", "export", _HINT)
export_for_training = refusing("export", "export_for_training", _HINT)
draft_export = refusing("export", "draft_export", _HINT)
save = refusing("export", "save", _HINT)
load = refusing("export", "load", _HINT)
unflatten = refusing("export", "unflatten", _HINT)
ExportedProgram = refusing_class("export", "ExportedProgram", _HINT)

__all__ = [
    "Dim",
    "ExportedProgram",
    "dims",
    "draft_export",
    "export",
    "export_for_training",
    "load",
    "register_dataclass",
    "save",
    "unflatten",
]
