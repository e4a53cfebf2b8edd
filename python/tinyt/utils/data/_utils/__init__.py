"""What PyTorch's loader is made of, under its paths: programs import `collate` and `worker`."""

from __future__ import annotations

from tinyt.utils.data._utils import collate, fetch, pin_memory, worker

__all__ = ["collate", "fetch", "pin_memory", "worker"]
