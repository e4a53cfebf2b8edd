"""What the driver and the compiler say of CUDA devices; asking makes none the accelerator."""

from __future__ import annotations

import uuid
from typing import Any

from tinyt import _core
from tinyt.cuda.places import count, index_of

__all__ = [
    "can_device_access_peer",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_gencode_flags",
    "is_bf16_supported",
    "is_tf32_supported",
]


class _CudaDeviceProperties:
    """A device's facts by PyTorch's names; those that its driver does not say are no attributes.

    Sizes are in bytes, clock rates in kHz.
    """

    name: str
    total_memory: int
    uuid: uuid.UUID
    major: int
    minor: int
    multi_processor_count: int
    warp_size: int
    max_threads_per_block: int
    max_threads_per_multi_processor: int
    shared_memory_per_block: int
    shared_memory_per_block_optin: int
    shared_memory_per_multiprocessor: int
    regs_per_block: int
    regs_per_multiprocessor: int
    L2_cache_size: int
    clock_rate: int
    memory_clock_rate: int
    memory_bus_width: int
    is_integrated: int
    is_multi_gpu_board: int
    pci_bus_id: int
    pci_device_id: int
    pci_domain_id: int

    def __init__(self, facts: dict[str, Any]) -> None:
        self.__dict__.update(facts)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"get_device_properties: the driver does not say {name!r}")

    def __repr__(self) -> str:
        return (
            f"_CudaDeviceProperties(name={self.name!r}, major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory >> 20}MB, "
            f"multi_processor_count={self.multi_processor_count}, uuid={self.uuid})"
        )


def get_device_properties(device: Any = None) -> _CudaDeviceProperties:
    """Name, memory, compute capability, processors and limits of a device.

    Args:
        device: a number, a name or a device; by default the current one.

    Raises:
        DeviceError: there is no CUDA device, or its driver fails.
        RuntimeError: there is none of that index.
    """
    index = index_of("get_device_properties", device)
    hardware, nbytes, _ = _core.look_for_devices("cuda")[index]
    facts: dict[str, Any] = dict(_core.cuda_attributes(index))
    facts["name"], facts["total_memory"] = hardware, nbytes
    facts["uuid"] = uuid.UUID(bytes=_core.cuda_uuid(index))
    return _CudaDeviceProperties(facts)


def get_device_name(device: Any = None) -> str:
    """The name of a device's hardware."""
    index = index_of("get_device_name", device)
    return _core.look_for_devices("cuda")[index][0]


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """Major and minor number of a device's compute capability."""
    facts = _core.cuda_attributes(index_of("get_device_capability", device))
    return facts["major"], facts["minor"]


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Whether a device can read and write another one's memory directly."""
    name = "can_device_access_peer"
    return _core.cuda_can_access_peer(index_of(name, device), index_of(name, peer_device))


def get_arch_list() -> list[str]:
    """Architectures that NVRTC makes code for, as "sm_90"; none without a device."""
    return [f"sm_{number}" for number in _core.cuda_architectures()] if count() else []


def get_gencode_flags() -> str:
    """The same as flags of NVIDIA's compiler."""
    numbers = _core.cuda_architectures() if count() else []
    return " ".join(f"-gencode compute=compute_{n},code=sm_{n}" for n in numbers)


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether the current device has bfloat16: all compute with it, those of compute capability 8.0
    and later have instructions for it."""
    return count() > 0 and (including_emulation or get_device_capability()[0] >= 8)


def is_tf32_supported() -> bool:
    """Whether the current device has TF32: compute capability 8.0 and later."""
    return count() > 0 and get_device_capability()[0] >= 8
