"""`torch.storage`: the memory that tensors are views of."""

from __future__ import annotations

from tinyt.legacy import TypedStorage, UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]
