"""In-place methods as functions: ``exp_(x)`` is ``x.exp_()``.

PyTorch has only some of its in-place methods as functions too, mostly those of one tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType

from tinyt._tensor import Composite
from tinyt.ops.common import OP_TABLE, need_tensor
from tinyt.tensor import Tensor

NAMES = (
    "abs_", "acos_", "acosh_", "addmv_", "arccos_", "arccosh_", "arcsin_", "arcsinh_",
    "arctan_", "arctanh_", "as_strided_", "asin_", "asinh_", "atan_", "atanh_", "ceil_",
    "clamp_", "clamp_max_", "clamp_min_", "clip_", "conj_physical_", "cos_", "cosh_",
    "deg2rad_", "detach_", "erf_", "erfc_", "exp2_", "exp_", "expm1_", "fill_", "fix_",
    "floor_", "frac_", "gcd_", "i0_", "index_put_", "lcm_", "ldexp_", "log10_", "log1p_",
    "log2_", "log_", "logit_", "nan_to_num_", "neg_", "negative_", "rad2deg_", "reciprocal_",
    "resize_as_", "round_", "rsqrt_", "sigmoid_", "sin_", "sinc_", "sinh_", "sqrt_", "square_",
    "tan_", "tanh_", "trunc_", "xlogy_", "zero_",
)  # fmt: skip
Function = Callable[..., Tensor]
_OPERANDS = {row["name"]: row["inputs"] for row in OP_TABLE}


def _unary(name: str, method: Function) -> Function:
    def call(input: Tensor) -> Tensor:
        return method(need_tensor(name, input))

    return call


def _binary(name: str, method: Function) -> Function:
    def call(input: Tensor, other: Tensor) -> Tensor:
        return method(need_tensor(name, input), other)

    return call


def in_place_functions() -> dict[str, Function]:
    """The functions by name, to be called when Tensor has its methods.

    A method that is a Python function is one already; a compiled one is called by a new function.
    """
    functions: dict[str, Function] = {}
    for name in NAMES:
        method = getattr(Tensor, name)
        if not isinstance(method, (FunctionType, Composite)):
            make = _binary if _OPERANDS.get(name[:-1]) == 2 else _unary
            method = make(name, method)
            method.__name__ = method.__qualname__ = name
            method.__doc__ = f"In-place form of :func:`{name[:-1]}`: overwrites ``input``."
        functions[name] = method
    return functions
