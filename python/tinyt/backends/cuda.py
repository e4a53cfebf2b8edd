"""CUDA's switches. Results depend on `matmul.allow_tf32` alone; the others are kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tinyt import config
from tinyt.nn.attention import SDPBackend, enabled_backends, sdpa_kernel


class _Matmul:
    """Precision switches of CUDA products; all but `allow_tf32` are kept, without effect."""

    def __init__(self) -> None:
        self.allow_fp16_accumulation = False
        self.allow_fp16_reduced_precision_reduction = True
        self.allow_bf16_reduced_precision_reduction = True
        self.fp32_precision = "none"

    @property
    def allow_tf32(self) -> bool:
        """Whether :func:`tinyt.set_float32_matmul_precision` allows TF32; setting it calls that."""
        return config.get_float32_matmul_precision() != "highest"

    @allow_tf32.setter
    def allow_tf32(self, allowed: bool) -> None:
        config.set_float32_matmul_precision("high" if allowed else "highest")


class _PlanCache:
    """The cache of FFT plans, which is empty."""

    size = 0
    max_size = 0

    def clear(self) -> None:
        """Frees nothing."""

    def __getitem__(self, device: object) -> _PlanCache:
        return self


matmul = _Matmul()
cufft_plan_cache = _PlanCache()


def is_built() -> bool:
    """False."""
    return False


def _is_enabled(backend: SDPBackend) -> bool:
    return backend in enabled_backends.backends


def _enable(backend: SDPBackend, enabled: bool) -> None:
    others = tuple(b for b in enabled_backends.backends if b is not backend)
    enabled_backends.backends = (*others, backend) if enabled else others


def flash_sdp_enabled() -> bool:
    """What `enable_flash_sdp` or `sdpa_kernel` has set."""
    return _is_enabled(SDPBackend.FLASH_ATTENTION)


def enable_flash_sdp(enabled: bool) -> None:
    """Kept, no effect: attention has one kernel."""
    _enable(SDPBackend.FLASH_ATTENTION, enabled)


def mem_efficient_sdp_enabled() -> bool:
    """What `enable_mem_efficient_sdp` or `sdpa_kernel` has set."""
    return _is_enabled(SDPBackend.EFFICIENT_ATTENTION)


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Kept, no effect: attention has one kernel."""
    _enable(SDPBackend.EFFICIENT_ATTENTION, enabled)


def math_sdp_enabled() -> bool:
    """What `enable_math_sdp` or `sdpa_kernel` has set."""
    return _is_enabled(SDPBackend.MATH)


def enable_math_sdp(enabled: bool) -> None:
    """Kept, no effect: attention has one kernel."""
    _enable(SDPBackend.MATH, enabled)


def cudnn_sdp_enabled() -> bool:
    """What `enable_cudnn_sdp` or `sdpa_kernel` has set."""
    return _is_enabled(SDPBackend.CUDNN_ATTENTION)


def enable_cudnn_sdp(enabled: bool) -> None:
    """Kept, no effect: attention has one kernel."""
    _enable(SDPBackend.CUDNN_ATTENTION, enabled)


def is_flash_attention_available() -> bool:
    """False: PyTorch's kernel of that name is not built. (The one that is never holds the
    scores either.)"""
    return False


@contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[None]:
    """The older form of `nn.attention.sdpa_kernel`; no effect either."""
    chosen = (
        (SDPBackend.FLASH_ATTENTION, enable_flash),
        (SDPBackend.MATH, enable_math),
        (SDPBackend.EFFICIENT_ATTENTION, enable_mem_efficient),
        (SDPBackend.CUDNN_ATTENTION, enable_cudnn),
    )
    with sdpa_kernel([backend for backend, enabled in chosen if enabled]):
        yield


def preferred_linalg_library(backend: str | None = None) -> str:
    """ "default": linear algebra has one implementation."""
    return "default"


def preferred_blas_library(backend: str | None = None) -> str:
    """ "default": products have one implementation."""
    return "default"
