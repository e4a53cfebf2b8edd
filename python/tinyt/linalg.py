"""`tinyt.linalg`: linear algebra under PyTorch's names."""

from __future__ import annotations

from tinyt.ops import matmul, matrix_power
from tinyt.ops.matrix import linalg_cross as cross
from tinyt.ops.matrix import linalg_diagonal as diagonal
from tinyt.ops.matrix import linalg_norm as norm
from tinyt.ops.matrix import matrix_norm, multi_dot, vecdot, vector_norm

__all__ = [
    "cross",
    "diagonal",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "multi_dot",
    "norm",
    "vecdot",
    "vector_norm",
]
