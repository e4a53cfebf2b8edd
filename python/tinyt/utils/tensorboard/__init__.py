"""PyTorch's `torch.utils.tensorboard`: values of a program in files that TensorBoard shows.

Needs the package `tensorboard` (``pip install tensorboard``), which writes and reads the files.

>>> from tinyt.utils.tensorboard import SummaryWriter
>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder, SummaryWriter(folder) as writer:
...     for step in range(3):
...         writer.add_scalar("loss", 1 / (step + 1), step)
"""

from __future__ import annotations

import importlib.util

if importlib.util.find_spec("tensorboard") is None:
    raise ImportError(
        "tinyt.utils.tensorboard: the package tensorboard is not installed; pip install tensorboard"
    )

from tinyt.utils.tensorboard.files import FileWriter
from tinyt.utils.tensorboard.writer import SummaryWriter

__all__ = ["FileWriter", "SummaryWriter"]
