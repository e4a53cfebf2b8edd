"""CUDA: not built."""

from __future__ import annotations


class _Matmul:
    """Precision switches of CUDA products; kept, no effect."""

    def __init__(self) -> None:
        self.allow_tf32 = False
        self.allow_fp16_reduced_precision_reduction = True
        self.allow_bf16_reduced_precision_reduction = True


matmul = _Matmul()


def is_built() -> bool:
    """False."""
    return False
