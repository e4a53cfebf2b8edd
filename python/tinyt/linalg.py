"""`tinyt.linalg`: linear algebra under PyTorch's names."""

from __future__ import annotations

from tinyt.ops import matmul, matrix_power
from tinyt.ops.linalg.matrix import linalg_cross as cross
from tinyt.ops.linalg.matrix import linalg_diagonal as diagonal
from tinyt.ops.linalg.matrix import linalg_norm as norm
from tinyt.ops.linalg.matrix import linalg_vander as vander
from tinyt.ops.linalg.matrix import matrix_norm, multi_dot, vecdot, vector_norm
from tinyt.ops.linalg.triangular import LinAlgError
from tinyt.ops.linalg.triangular import linalg_cholesky as cholesky
from tinyt.ops.linalg.triangular import linalg_cholesky_ex as cholesky_ex
from tinyt.ops.linalg.triangular import linalg_solve_triangular as solve_triangular

__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "cross",
    "diagonal",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "multi_dot",
    "norm",
    "solve_triangular",
    "vander",
    "vecdot",
    "vector_norm",
]
