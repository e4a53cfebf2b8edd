"""What programs that copy parts of PyTorch's functional file find in it besides the functions.

`tinyt.nn.functional` has these names; they are loaded when one of them is asked for. Each is what
PyTorch 2.13 has under its name.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NoReturn

from tinyt._tensor import dtype as DType
from tinyt.autograd import no_grad
from tinyt.dtypes import bool as bool_type
from tinyt.nn import _reduction as _Reduction
from tinyt.nn import grad
from tinyt.nn.modules.utils import _list_with_default, _pair, _single, _triple
from tinyt.ops import (
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
    conv1d,
    linear,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    threshold,
    zeros_like,
)
from tinyt.ops.nn.embedding import embedding_renorm_
from tinyt.ops.nn.fractional_pooling import (
    fractional_max_pool2d,
    fractional_max_pool2d_with_indices,
    fractional_max_pool3d,
    fractional_max_pool3d_with_indices,
)
from tinyt.tensor import Tensor

__all__ = [
    "Tensor",
    "_Reduction",
    "_list_with_default",
    "_pair",
    "_single",
    "_triple",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d_with_indices",
    "conv_tbc",
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
    "grad",
    "max_pool1d_with_indices",
    "max_pool2d_with_indices",
    "max_pool3d_with_indices",
]

# Functions with and without the positions of the maxima ------------------------------------------


def _both(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, return_indices: bool = False, **kwargs: Any) -> Any:
        # PyTorch takes the flag here, too, and does not look at it.
        return function(*args, return_indices=True, **kwargs)

    call.__name__ = call.__qualname__ = f"{function.__name__}_with_indices"
    call.__doc__ = f"`{function.__name__}` and the positions of the maxima; its arguments."
    return call


max_pool1d_with_indices = _both(max_pool1d)
max_pool2d_with_indices = _both(max_pool2d)
max_pool3d_with_indices = _both(max_pool3d)
adaptive_max_pool1d_with_indices = _both(adaptive_max_pool1d)
adaptive_max_pool2d_with_indices = _both(adaptive_max_pool2d)
adaptive_max_pool3d_with_indices = _both(adaptive_max_pool3d)

_max_pool1d, _max_pool2d, _max_pool3d = (
    partial(f, return_indices=False) for f in (max_pool1d, max_pool2d, max_pool3d)
)
_adaptive_max_pool1d, _adaptive_max_pool2d, _adaptive_max_pool3d = (
    partial(f, return_indices=False)
    for f in (adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d)
)
_fractional_max_pool2d, _fractional_max_pool3d = (
    partial(f, return_indices=False) for f in (fractional_max_pool2d, fractional_max_pool3d)
)


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """Convolution over time of (time, batch, channels).

    Args:
        input: (T, N, C).
        weight: (kernel, C, O).
        bias: (O,).
        pad: zeros at both ends.

    Returns:
        (T + 2 pad - kernel + 1, N, O).

    >>> import tinyt
    >>> conv_tbc(tinyt.ones(4, 1, 2), tinyt.ones(3, 2, 1), tinyt.zeros(1), 1).flatten().tolist()
    [4.0, 6.0, 6.0, 4.0]
    """
    if input.dim() != 3 or weight.dim() != 3:
        raise RuntimeError(
            "conv_tbc: input and weight must have 3 dims: time, batch, in_channels and kernel, "
            f"in_channels, out_channels, got {tuple(input.shape)} and {tuple(weight.shape)}"
        )
    out = conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    return out.permute(2, 0, 1).contiguous()


# Attention -------------------------------------------------------------------------------------


def _in_projection_packed(
    q: Tensor, k: Tensor, v: Tensor, w: Tensor, b: Tensor | None = None
) -> tuple[Tensor, ...]:
    """Query, key and value times the parts of one weight (3 E, E)."""
    size = q.shape[-1]
    if k is not v:
        weights, biases = w.chunk(3), (None,) * 3 if b is None else b.chunk(3)
        return tuple(map(linear, (q, k, v), weights, biases))
    if q is k:
        return linear(q, w, b).chunk(3, -1)
    first, rest = (None, None) if b is None else b.split([size, 2 * size])
    weight, others = w.split([size, 2 * size])
    return (linear(q, weight, first), *linear(k, others, rest).chunk(2, -1))


def _in_projection(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    w_q: Tensor,
    w_k: Tensor,
    w_v: Tensor,
    b_q: Tensor | None = None,
    b_k: Tensor | None = None,
    b_v: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value times a weight (E, ...) each."""
    size = q.shape[-1]
    for name, x, weight, bias in (
        ("query", q, w_q, b_q), ("key", k, w_k, b_k), ("value", v, w_v, b_v)
    ):  # fmt: skip
        shape = (size, x.shape[-1])
        if tuple(weight.shape) != shape:
            raise AssertionError(
                f"expecting {name} weights shape of {shape}, but got {tuple(weight.shape)}"
            )
        if bias is not None and tuple(bias.shape) != (size,):
            raise AssertionError(
                f"expecting {name} bias shape of {(size,)}, but got {tuple(bias.shape)}"
            )
    return linear(q, w_q, b_q), linear(k, w_k, b_k), linear(v, w_v, b_v)


def _mha_shape_check(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
    num_heads: int,
) -> bool:
    """Whether there is a batch; AssertionError where ranks do not fit."""
    rank = query.dim()
    if rank not in (2, 3):
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {rank}-D query tensor"
        )
    kind = f"For {'batched' if rank == 3 else 'unbatched'} ({rank}-D) `query`, expected"
    if key.dim() != rank or value.dim() != rank:
        raise AssertionError(
            f"{kind} `key` and `value` to be {rank}-D but found {key.dim()}-D and "
            f"{value.dim()}-D tensors respectively"
        )
    if key_padding_mask is not None and key_padding_mask.dim() != rank - 1:
        raise AssertionError(
            f"{kind} `key_padding_mask` to be `None` or {rank - 1}-D but found "
            f"{key_padding_mask.dim()}-D tensor instead"
        )
    if attn_mask is None:
        return rank == 3
    if attn_mask.dim() not in (2, 3):
        raise AssertionError(
            f"{kind} `attn_mask` to be `None`, 2-D or 3-D but found {attn_mask.dim()}-D tensor "
            "instead"
        )
    shape = (num_heads, query.shape[0], key.shape[0])
    if rank == 2 and attn_mask.dim() == 3 and tuple(attn_mask.shape) != shape:
        raise AssertionError(
            f"Expected `attn_mask` shape to be {shape} but got {tuple(attn_mask.shape)}"
        )
    return rank == 3


def _canonical_mask(
    mask: Tensor | None,
    mask_name: str,
    other_type: DType | None,
    other_name: str,
    target_type: DType,
    check_other: bool = True,
) -> Tensor | None:
    """A mask as numbers that are added: -inf where a Boolean one is True."""
    if mask is None:
        return None
    if mask.dtype is not bool_type and not mask.dtype.is_floating_point:
        raise AssertionError(f"only bool and floating types of {mask_name} are supported")
    if check_other and other_type is not None and mask.dtype is not other_type:
        warnings.warn(
            f"Support for mismatched {mask_name} and {other_name} is deprecated. Use same type "
            "for both instead.",
            stacklevel=2,
        )
    if mask.dtype.is_floating_point:
        return mask
    return zeros_like(mask, dtype=target_type).masked_fill(mask, float("-inf"))


def _none_or_dtype(input: Tensor | None) -> DType | None:
    """The dtype of a tensor, None of None."""
    if input is None or isinstance(input, Tensor):
        return None if input is None else input.dtype
    raise RuntimeError("input to _none_or_dtype() must be None or torch.Tensor")


def _check_key_padding_mask(key_padding_mask: Tensor, src_len: int, bsz: int) -> None:
    for dim, size in enumerate((bsz, src_len)):
        if key_padding_mask.shape[dim] != size:
            raise AssertionError(
                f"Expected key_padded_mask.shape[{dim}] to be {size}, but got "
                f"{key_padding_mask.shape[dim]}"
            )


# Checks and small parts ------------------------------------------------------------------------


def _verify_batch_size(size: Sequence[int]) -> None:
    """ValueError where there is one value per channel."""
    count = size[0]
    for n in size[2:]:
        count *= n
    if count == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {size}"
        )


def _verify_spatial_size(size: Sequence[int]) -> None:
    """ValueError where there is one element per channel and sample."""
    if all(n == 1 for n in size[2:]):
        raise ValueError(
            f"Expected more than 1 spatial element when training, got input size {size}"
        )


def _get_softmax_dim(name: str, ndim: int, stacklevel: int) -> int:
    """The dimension that PyTorch chose where none was given."""
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
        "dim=X as an argument.",
        stacklevel=stacklevel,
    )
    return 0 if ndim in (0, 1, 3) else 1


def _is_integer(x: Any) -> bool:
    """Whether a number, of Python, NumPy or in a tensor, is an integer."""
    if isinstance(x, Tensor):
        return not x.dtype.is_floating_point
    return hasattr(x, "__index__")


def assert_int_or_pair(arg: Any, arg_name: str, message: str) -> None:
    """AssertionError for what is neither a number nor two."""
    if not (isinstance(arg, int) or len(arg) == 2):
        raise AssertionError(message.format(arg_name))


def _unpool_output_size(
    input: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    output_size: Sequence[int] | None,
) -> list[int]:
    """The spatial sizes that `max_unpool` gives."""
    n = len(kernel_size)
    sizes = zip(input.shape[-n:], kernel_size, stride, padding, strict=True)
    usual = [(size - 1) * s + k - 2 * p for size, k, s, p in sizes]
    if output_size is None:
        return usual
    wanted = list(output_size[2:] if len(output_size) == n + 2 else output_size)
    if len(wanted) != n:
        raise ValueError(
            f"output_size should be a sequence containing {n} or {n + 2} elements, but it has a "
            f"length of '{len(wanted)}'"
        )
    for d, (size, default, step) in enumerate(zip(wanted, usual, stride, strict=True)):
        if not default - step < size < default + step:
            raise ValueError(
                f'invalid output_size "{wanted}" (dim {d} must be between {default - step} and '
                f"{default + step})"
            )
    return wanted


def _no_grad_embedding_renorm_(
    weight: Tensor, input: Tensor, max_norm: float, norm_type: float
) -> None:
    """Shortens the rows of a table that are looked up, in place."""
    with no_grad():
        embedding_renorm_(weight, input, max_norm, norm_type)


def _threshold(input: Tensor, threshold_: float, value: float, inplace: bool = False) -> Tensor:
    return threshold(input, threshold_, value, inplace)


def _list_or_empty(values: Sequence[Any] | None) -> Sequence[Any]:
    """The values, an empty list for None."""
    return values or []


def _expand_single_value(value: Any) -> list[Any]:
    """A list as it is, one value in a list, an empty list for None."""
    return [] if value is None else value if isinstance(value, list) else [value]


def boolean_dispatch(
    arg_name: str,
    arg_index: int,
    default: bool,
    if_true: Callable[..., Any],
    if_false: Callable[..., Any],
    module_name: str,
    func_name: str,
) -> Callable[..., Any]:
    """A function that calls one of two, by one of its arguments."""

    def call(*args: Any, **kwargs: Any) -> Any:
        given = args[arg_index] if len(args) > arg_index else kwargs.get(arg_name, default)
        return (if_true if given else if_false)(*args, **kwargs)

    call.__name__, call.__module__ = func_name, module_name
    call.__doc__ = if_false.__doc__ if if_true.__doc__ is None else if_true.__doc__
    return call


# Classes derived from tensors: their `__torch_function__` is never called.


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """False: `__torch_function__` is not called here."""
    return False


def has_torch_function_unary(x: Any) -> bool:
    """False: `__torch_function__` is not called here."""
    return False


def has_torch_function_variadic(*args: Any) -> bool:
    """False: `__torch_function__` is not called here."""
    return False


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> NoReturn:
    """NotImplementedError: `__torch_function__` is not called here."""
    raise NotImplementedError(
        "handle_torch_function: __torch_function__ is not called; wrap the tensor in a class of "
        "your own"
    )
