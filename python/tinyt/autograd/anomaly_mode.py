"""`torch.autograd.anomaly_mode`: anomaly mode under PyTorch's module path."""

from __future__ import annotations

from tinyt.autograd.anomaly import detect_anomaly, set_detect_anomaly

__all__ = ["detect_anomaly", "set_detect_anomaly"]
