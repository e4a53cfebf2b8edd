"""PyTorch's module of a loader's workers, which are threads here."""

from __future__ import annotations

from tinyt.data.workers import WorkerInfo, get_worker_info

__all__ = ["WorkerInfo", "get_worker_info"]
