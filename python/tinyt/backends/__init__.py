"""`torch.backends`: switches that scripts set; results here do not depend on them."""

from __future__ import annotations

from tinyt.backends import cpu, cuda, cudnn, mkldnn, mps, openmp

__all__ = ["cpu", "cuda", "cudnn", "mkldnn", "mps", "openmp"]
