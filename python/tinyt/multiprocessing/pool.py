"""Python's `multiprocessing.pool`, whose pools send tensors in shared memory."""

from __future__ import annotations

from multiprocessing.pool import Pool, ThreadPool

__all__ = ["Pool", "ThreadPool"]
