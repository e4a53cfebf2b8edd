"""`torch.torch_version`: the class of `torch.__version__`."""

from __future__ import annotations

from tinyt.stand_in.version import VERSION as __version__
from tinyt.stand_in.version import TorchVersion

__all__ = ["TorchVersion", "__version__"]
