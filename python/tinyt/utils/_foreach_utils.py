"""`torch.utils._foreach_utils`: tensors of lists by device and dtype."""

from __future__ import annotations

from tinyt.optim.subclassing import _group_tensors_by_device_and_dtype

__all__ = [
    "_get_foreach_kernels_supported_devices",
    "_get_fused_kernels_supported_devices",
    "_group_tensors_by_device_and_dtype",
    "_has_foreach_support",
]


def _get_foreach_kernels_supported_devices() -> list[str]:
    """Devices where one kernel runs over a list: none, `_foreach_*` are loops."""
    return []


def _get_fused_kernels_supported_devices() -> list[str]:
    """Devices of fused optimisers: the CPU, where one call steps all parameters anyway."""
    return ["cpu"]


def _has_foreach_support(tensors: object, device: object) -> bool:
    """False: `_foreach_*` are loops."""
    return False
