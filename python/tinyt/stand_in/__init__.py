"""tinyt in the place of PyTorch, for one process; see `tinyt.as_torch`."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from types import ModuleType

from tinyt._tensor import show_as
from tinyt.stand_in import children, pytorch
from tinyt.stand_in.modules import TorchFinder, explain, forget_modules, is_torch
from tinyt.stand_in.version import TorchVersion

__all__ = ["TorchVersion", "explain", "install", "is_installed", "remove"]

_finder = TorchFinder()
_pytorch: dict[str, ModuleType] = {}  # what was imported before


def is_installed() -> bool:
    """Whether ``import torch`` serves tinyt."""
    return _finder in sys.meta_path


def install(pytorch_for: Iterable[str] = ()) -> None:
    """Has ``import torch`` serve tinyt; importing `tinyt.as_torch` does it.

    Packages named in ``pytorch_for`` (their top names, such as ``"torchvision"``) get the installed
    PyTorch from their own imports of it. Their tensors are PyTorch's; ``torch.as_tensor(theirs)``
    shares memory with them. Warns where PyTorch was imported before: modules that hold it keep it.

    >>> import tinyt.as_torch
    >>> tinyt.as_torch.install(pytorch_for=["torchvision"])
    >>> tinyt.as_torch.is_installed()
    True
    """
    serve(pytorch_for)


def serve(pytorch_for: Iterable[str] = ()) -> None:
    """As `install`; a warning names what called its caller."""
    names = [pytorch_for] if isinstance(pytorch_for, str) else list(pytorch_for)
    if not is_installed():
        if "torch" in sys.modules:
            warnings.warn(
                "as_torch: PyTorch was imported before; modules that hold it keep it. Import "
                "tinyt.as_torch first, or start the program with `tinyt run`",
                stacklevel=3,
            )
            _pytorch.update(_taken_out())
        sys.meta_path.insert(0, _finder)
        children.start_alike(install)
        show_as("torch")
    if pytorch.serve(names) and not _finder.steps_aside:
        _taken_out()
        sys.modules.update(_pytorch)
        _finder.steps_aside = True


def _taken_out() -> dict[str, ModuleType]:
    """The modules called ``torch`` and ``torch.…``, which are forgotten."""
    return {name: sys.modules.pop(name) for name in list(sys.modules) if is_torch(name)}


def remove() -> None:
    """Undoes :func:`install`: from now on ``import torch`` finds PyTorch, if it is installed.

    Modules that hold what they imported keep it.
    """
    if not is_installed():
        return
    sys.meta_path.remove(_finder)
    if not _finder.steps_aside:
        _taken_out()
        sys.modules.update(_pytorch)
    _finder.steps_aside = False
    _pytorch.clear()
    forget_modules()
    pytorch.stop()
    children.start_as_before()
    show_as("tinyt")
