"""The table of operations: every public operation has one row, which gives it all tests of
backend/, compiler/ and peers/. Not a test itself.

To add an operation, add a row to the list of its family in op_rows/ and its meaning to
tinyt.testing.reference.
"""

from __future__ import annotations

from op_rows import Op
from op_rows.activation import ACTIVATION
from op_rows.binary import BINARY
from op_rows.complex import COMPLEX_ROWS, with_complex
from op_rows.contract import CONTRACT
from op_rows.convolution import CONVOLUTION
from op_rows.creation import CREATION
from op_rows.functions import FUNCTIONS
from op_rows.index import INDEX
from op_rows.linalg import LINALG
from op_rows.loss import LOSSES
from op_rows.network import NETWORKS
from op_rows.order import ORDER
from op_rows.patches import PATCHES
from op_rows.pointwise import POINTWISE
from op_rows.pooling import POOLING
from op_rows.reduce import REDUCE
from op_rows.resample import RESAMPLE
from op_rows.scan import SCAN
from op_rows.scatter import SCATTER
from op_rows.search import SEARCH
from op_rows.shape import SHAPE
from op_rows.triangular import TRIANGULAR
from op_rows.unary import UNARY
from op_rows.views import VIEWS

# One section of docs/operations.md each.
FAMILIES: dict[str, list[Op]] = {
    "Unary": UNARY,
    "Functions": FUNCTIONS,
    "Binary": BINARY,
    "Pointwise": POINTWISE,
    "Activations": ACTIVATION,
    "Reductions": REDUCE,
    "Scans": SCAN,
    "Order": ORDER,
    "Search and sets": SEARCH,
    "Shape": SHAPE,
    "Views, joins and cuts": VIEWS,
    "Padding and patches": PATCHES,
    "Indexing": INDEX,
    "Scatter and masks": SCATTER,
    "Products": CONTRACT,
    "Linear algebra": LINALG,
    "Factors of matrices": TRIANGULAR,
    "Convolution": CONVOLUTION,
    "Pooling": POOLING,
    "Resampling": RESAMPLE,
    "Networks": NETWORKS,
    "Losses": LOSSES,
    "Creation": CREATION,
    "Complex": COMPLEX_ROWS,
}
FAMILIES = {name: list(map(with_complex, rows)) for name, rows in FAMILIES.items()}
OPS: tuple[Op, ...] = tuple(op for ops in FAMILIES.values() for op in ops)
BY_NAME = {op.name: op for op in OPS}
assert len(BY_NAME) == len(OPS), "an operation has two rows"
# Further names of operations; they have no row of their own.
ALIASES = {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "clip": "clamp",
    "concat": "cat",
    "concatenate": "cat",
    "divide": "div",
    "fix": "trunc",
    "ger": "outer",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "moveaxis": "movedim",
    "multiply": "mul",
    "negative": "neg",
    "not_equal": "ne",
    "row_stack": "vstack",
    "subtract": "sub",
    "swapdims": "transpose",
    "trapz": "trapezoid",
    "true_divide": "div",
}
