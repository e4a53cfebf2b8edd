"""``import torch`` serves tinyt, in this process and in those that it starts.

Importing this module is all that a program needs; `tinyt run script.py` does it for a script that
is not changed:

>>> import tinyt.as_torch
>>> import torch.nn as nn
>>> import torch, tinyt
>>> torch.__version__, nn is tinyt.nn
('2.13.0+tinyt', True)

Every form of import works, of submodules, too: they are tinyt's own modules, so that
``isinstance(x, torch.Tensor)`` holds for tensors of tinyt. ``importlib.metadata.version("torch")``
answers, pickles that name ``torch.…`` are found, and processes of ``multiprocessing`` serve tinyt
like the one that starts them. A name that tinyt lacks is an AttributeError, a submodule that it
lacks a ModuleNotFoundError; an installed PyTorch is never taken in its place. Other packages,
``torch_utils`` or ``torchvision``, are left alone.

PyTorch itself stays reachable for packages that are named: see :func:`install`.
"""

from __future__ import annotations

from tinyt.stand_in import TorchVersion, install, is_installed, remove, serve

__all__ = ["TorchVersion", "install", "is_installed", "remove"]

serve()
