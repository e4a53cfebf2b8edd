"""`torch.distributed.optim` in one process."""

from __future__ import annotations

from typing import Any

__all__ = ["ZeroRedundancyOptimizer"]


class ZeroRedundancyOptimizer:
    """The optimiser itself: its states are not shared out over processes, for there is one.

    Args:
        params: the parameters.
        optimizer_class: makes the optimiser of them.
        process_group, parameters_as_bucket_view, overlap_with_ddp: PyTorch's; no effect.
        defaults: further arguments of the optimiser.

    >>> import tinyt
    >>> from tinyt.distributed.optim import ZeroRedundancyOptimizer
    >>> layer = tinyt.nn.Linear(1, 1)
    >>> type(ZeroRedundancyOptimizer(layer.parameters(), tinyt.optim.SGD, lr=0.1)).__name__
    'SGD'
    """

    def __new__(
        cls,
        params: Any,
        optimizer_class: type[Any],
        process_group: Any = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> Any:
        """The optimiser."""
        return optimizer_class(params, **defaults)
