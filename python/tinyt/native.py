"""Functions of `torch` that are called through `torch.nn.functional` elsewhere, and some older and
inner ones that programs name: with the arguments of PyTorch's own kernels, by position.

A reduction is a number here: 0 for none (the default), 1 for the mean, 2 for the sum; the argument
``cudnn_enabled`` has no effect. `EXPORTS` are names of the package.

>>> import tinyt
>>> tinyt.embedding(tinyt.tensor([[1.0, 2.0], [3.0, 4.0]]), tinyt.tensor([1]))
tensor([[3., 4.]])
"""

from __future__ import annotations

import builtins
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

from tinyt import _tensor, ops
from tinyt._tensor import dtype as DType
from tinyt.amp import get_autocast_dtype, set_autocast_dtype, set_autocast_enabled
from tinyt.autograd.anomaly import set_anomaly_enabled
from tinyt.dtypes import bfloat16, float16
from tinyt.nn import functional as F
from tinyt.nn.rnn_cells import Weights, next_state
from tinyt.tensor import Tensor

_REDUCTIONS = ("none", "mean", "sum")
Pair = tuple[Tensor, Tensor]


def _reduction(number: int) -> str:
    """The name of a reduction; numbers beyond the three mean none, as in PyTorch's kernels."""
    if not isinstance(number, int):
        raise TypeError(
            f"reduction must be a number (0 none, 1 mean, 2 sum), got {number!r}; the functions of "
            "nn.functional take names"
        )
    return _REDUCTIONS[number] if 0 <= number < 3 else "none"


# ---- layers


def batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """`nn.functional.batch_norm`."""
    return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """`nn.functional.instance_norm`."""
    return F.instance_norm(
        input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps
    )


def embedding(
    weight: Tensor,
    indices: Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """`nn.functional.embedding`; a negative ``padding_idx`` is none."""
    padding = padding_idx if padding_idx >= 0 else None
    return F.embedding(indices, weight, padding, scale_grad_by_freq=scale_grad_by_freq)


def adaptive_max_pool1d(input: Tensor, output_size: int | Sequence[int]) -> Pair:
    """`nn.functional.adaptive_max_pool1d` with indices."""
    found: Pair = F.adaptive_max_pool1d(input, output_size, return_indices=True)
    return found


def max_pool1d_with_indices(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Pair:
    """`nn.functional.max_pool1d` with indices."""
    found: Pair = F.max_pool1d(
        input, kernel_size, stride or None, padding, dilation, ceil_mode, return_indices=True
    )
    return found


def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """`nn.functional.grid_sample`: modes are 0 bilinear, 1 nearest, 2 bicubic; paddings 0 zeros,
    1 border, 2 reflection."""
    mode = ("bilinear", "nearest", "bicubic")[interpolation_mode]
    padding = ("zeros", "border", "reflection")[padding_mode]
    return F.grid_sample(input, grid, mode, padding, align_corners)


grid_sampler_2d = grid_sampler_3d = grid_sampler


def affine_grid_generator(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    """`nn.functional.affine_grid`."""
    return F.affine_grid(theta, size, align_corners)


def native_layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """(layer norm, mean, 1 / √(variance + eps)); the last two with dimensions of size 1."""
    dims = tuple(range(-len(normalized_shape), 0))
    mean = input.mean(dims, keepdim=True)
    scale = (input.var(dims, correction=0, keepdim=True) + eps).rsqrt()
    return F.layer_norm(input, normalized_shape, weight, bias, eps), mean, scale


def native_dropout(input: Tensor, p: float, train: bool | None) -> Pair:
    """(dropout, which elements it kept)."""
    if train is False or p == 0:
        return input.clone(), ops.ones_like(input, dtype=_tensor.dtype_by_name("bool"))
    kept = ops.rand_like(input.detach(), dtype=_tensor.dtype_by_name("float32")) >= p
    scale = 0.0 if p == 1 else 1 / (1 - p)
    return ops.where(kept, input * scale, 0), kept


def native_channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """`nn.functional.channel_shuffle`."""
    return F.channel_shuffle(input, groups)


# ---- losses


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    pos_weight: Tensor | None = None,
    reduction: int = 0,
) -> Tensor:
    """`nn.functional.binary_cross_entropy_with_logits`."""
    return F.binary_cross_entropy_with_logits(
        input, target, weight, reduction=_reduction(reduction), pos_weight=pos_weight
    )


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0
) -> Tensor:
    """`nn.functional.cosine_embedding_loss`."""
    return F.cosine_embedding_loss(input1, input2, target, margin, reduction=_reduction(reduction))


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: int = 0,
    zero_infinity: bool = False,
) -> Tensor:
    """`nn.functional.ctc_loss`."""
    return F.ctc_loss(
        log_probs,
        targets,
        input_lengths,
        target_lengths,
        blank,
        _reduction(reduction),
        zero_infinity,
    )


def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 0
) -> Tensor:
    """`nn.functional.hinge_embedding_loss`."""
    return F.hinge_embedding_loss(input, target, margin, reduction=_reduction(reduction))


def kl_div(
    input: Tensor, target: Tensor, reduction: int = 0, *, log_target: bool = False
) -> Tensor:
    """`nn.functional.kl_div`."""
    return F.kl_div(input, target, reduction=_reduction(reduction), log_target=log_target)


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0
) -> Tensor:
    """`nn.functional.margin_ranking_loss`."""
    return F.margin_ranking_loss(input1, input2, target, margin, reduction=_reduction(reduction))


def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int
) -> Tensor:
    """`nn.functional.poisson_nll_loss`."""
    return F.poisson_nll_loss(
        input, target, log_input, full, eps=eps, reduction=_reduction(reduction)
    )


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: int = 0,
) -> Tensor:
    """`nn.functional.triplet_margin_loss`."""
    return F.triplet_margin_loss(
        anchor, positive, negative, margin, p, eps, swap, reduction=_reduction(reduction)
    )


# ---- one step of recurrent layers


def _cell(mode: str, input: Tensor, state: tuple[Tensor, ...], weights: Weights) -> Any:
    return next_state(mode, F.linear(input, weights[0], weights[2]), state, weights)


def lstm_cell(
    input: Tensor,
    hx: Sequence[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Pair:
    """The next (hidden, cell) of `nn.LSTMCell`."""
    found: Pair = _cell("LSTM", input, tuple(hx), (w_ih, w_hh, b_ih, b_hh, None))
    return found


def _cell_function(mode: str, layer: str) -> Callable[..., Tensor]:
    def cell(
        input: Tensor,
        hx: Tensor,
        w_ih: Tensor,
        w_hh: Tensor,
        b_ih: Tensor | None = None,
        b_hh: Tensor | None = None,
    ) -> Tensor:
        hidden: Tensor = _cell(mode, input, (hx,), (w_ih, w_hh, b_ih, b_hh, None))[0]
        return hidden

    cell.__name__ = cell.__qualname__ = f"{mode.lower()}_cell"
    cell.__doc__ = f"The next hidden state of `nn.{layer}`."
    return cell


gru_cell = _cell_function("GRU", "GRUCell")
rnn_tanh_cell = _cell_function("RNN_TANH", "RNNCell")
rnn_relu_cell = _cell_function("RNN_RELU", "RNNCell")

# ---- views as copies


def _copying(name: str, view: str) -> Callable[..., Any]:
    def copy(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        shown: Any = self if view == "alias" else getattr(Tensor, view, None)
        if shown is None:
            shown = ops.EXPORTS[view]
        found: Any = shown if shown is self else shown(self, *args, **kwargs)
        return found.clone() if isinstance(found, Tensor) else tuple(x.clone() for x in found)

    copy.__name__ = copy.__qualname__ = name
    copy.__doc__ = f"`{view}`, as a copy."
    return copy


alias_copy = _copying("alias_copy", "alias")
as_strided_copy = _copying("as_strided_copy", "as_strided")
detach_copy = _copying("detach_copy", "detach")
diagonal_copy = _copying("diagonal_copy", "diagonal")
expand_copy = _copying("expand_copy", "expand")
permute_copy = _copying("permute_copy", "permute")
select_copy = _copying("select_copy", "select")
split_copy = _copying("split_copy", "split")
split_with_sizes_copy = _copying("split_with_sizes_copy", "split_with_sizes")
squeeze_copy = _copying("squeeze_copy", "squeeze")
t_copy = _copying("t_copy", "t")
transpose_copy = _copying("transpose_copy", "transpose")
unbind_copy = _copying("unbind_copy", "unbind")
unfold_copy = _copying("unfold_copy", "unfold")
unsqueeze_copy = _copying("unsqueeze_copy", "unsqueeze")
view_as_complex_copy = _copying("view_as_complex_copy", "view_as_complex")
view_as_real_copy = _copying("view_as_real_copy", "view_as_real")
view_copy = _copying("view_copy", "view")

# ---- checks


def _message(message: Any) -> str:
    return str(message() if callable(message) else message)


def _assert(condition: Any, message: Any) -> None:
    """AssertionError with the message unless the condition is true."""
    assert condition, message


def _assert_async(self: Tensor, assert_msg: str = "") -> None:
    """RuntimeError for a tensor of one element that is zero."""
    if not self:
        raise RuntimeError(assert_msg or "expected a tensor with one nonzero value, got zero")


def _checking(name: str, kind: type[Exception]) -> Callable[..., None]:
    def check(cond: Any, message: Any = None) -> None:
        if not cond:
            raise kind(
                "expected cond to be True, got False" if message is None else _message(message)
            )

    check.__name__ = check.__qualname__ = name
    check.__doc__ = f"{kind.__name__} with what ``message()`` returns unless ``cond`` is true."
    return check


_check = _checking("_check", RuntimeError)
_check_index = _checking("_check_index", IndexError)
_check_not_implemented = _checking("_check_not_implemented", NotImplementedError)
_check_type = _checking("_check_type", TypeError)
_check_value = _checking("_check_value", ValueError)


def _check_is_size(i: Any, message: Any = None, *, max: Any = None) -> None:
    """RuntimeError for a negative size, and one above ``max``."""
    _check(i >= 0, message)
    if max is not None:
        _check(i <= max, message)


def _check_with(error_type: type[Exception], cond: Any, message: Any) -> None:
    """An error of that type unless ``cond`` is true."""
    if not cond:
        raise error_type(_message(message))


def _check_tensor_all(cond: Tensor, message: Any = None) -> None:
    """RuntimeError unless all elements are true."""
    _check(cond.all().item(), message)


# ---- numbers that PyTorch's tracers stand for


def sym_int(a: float) -> int:
    """The number without its fraction."""
    return math.trunc(a)


def sym_float(a: Any) -> float:
    """The number as a float."""
    return float(a)


def sym_not(a: Any) -> bool:
    """Whether it is false."""
    return not a


def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """``t`` where ``b`` is true, else ``f``."""
    return t if b else f


def sym_max(a: Any, b: Any) -> Any:
    """The larger number; a float where one of them is."""
    found = builtins.max(a, b)
    return float(found) if isinstance(a, float) or isinstance(b, float) else found


def sym_min(a: Any, b: Any) -> Any:
    """The smaller number; a float where one of them is."""
    found = builtins.min(a, b)
    return float(found) if isinstance(a, float) or isinstance(b, float) else found


def sym_sum(args: Sequence[Any]) -> Any:
    """The sum."""
    return builtins.sum(args)


# ---- autocast, under older names


def get_autocast_gpu_dtype() -> DType:
    """`get_autocast_dtype("cuda")`."""
    return get_autocast_dtype("cuda")


def get_autocast_ipu_dtype() -> DType:
    """float16: there is no such device."""
    return float16


def get_autocast_xla_dtype() -> DType:
    """bfloat16: there is no such device."""
    return bfloat16


def set_autocast_cpu_dtype(dtype: DType) -> None:
    """`set_autocast_dtype("cpu", dtype)`."""
    set_autocast_dtype("cpu", dtype)


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """`set_autocast_enabled("cpu", enabled)`."""
    set_autocast_enabled("cpu", enabled)


def set_autocast_gpu_dtype(dtype: DType) -> None:
    """`set_autocast_dtype("cuda", dtype)`."""
    set_autocast_dtype("cuda", dtype)


def is_autocast_ipu_enabled() -> bool:
    """False."""
    return False


def is_autocast_xla_enabled() -> bool:
    """False."""
    return False


# ---- the rest


def frobenius_norm(input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """The root of the sum of squares over dimensions."""
    found: Tensor = ops.EXPORTS["norm"](input, 2, dim or None, keepdim)
    return found


def get_device_module(device: Any = None) -> Any:
    """The module of a device: `cpu`, `cuda`, …; RuntimeError for a device without one."""
    kind = "cpu" if device is None else _tensor.device(device).type
    found = getattr(sys.modules[__package__], kind, None)
    if found is None:
        raise RuntimeError(f"get_device_module: there is no module tinyt.{kind}")
    return found


def to_dlpack(tensor: Tensor) -> Any:
    """A capsule with the memory of a tensor, which `from_dlpack` takes once."""
    return tensor.__dlpack__()


def _shape_as_tensor(self: Tensor) -> Tensor:
    """The sizes as an int64 tensor."""
    return ops.tensor(list(self.shape), dtype=_tensor.dtype_by_name("int64"))


def _softmax(self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """`softmax`."""
    return F.softmax(self, dim)


def _log_softmax(self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """`log_softmax`."""
    return F.log_softmax(self, dim)


def _is_all_true(self: Tensor) -> Tensor:
    """Whether all elements are true."""
    return self.all()


def _is_any_true(self: Tensor) -> Tensor:
    """Whether one element is true."""
    return self.any()


class SymInt:
    """PyTorch's traced sizes, of which there are none: sizes are numbers."""


class SymFloat:
    """PyTorch's traced numbers, of which there are none."""


class SymBool:
    """PyTorch's traced conditions, of which there are none."""


class AcceleratorError(RuntimeError):
    """What a GPU's kernels raise; there are none."""


_HELPERS = ("_cell", "_cell_function", "_checking", "_copying", "_message", "_reduction")
EXPORTS: dict[str, Any] = {
    name: value
    for name, value in globals().items()
    if getattr(value, "__module__", None) == __name__ and name not in _HELPERS
}
EXPORTS["set_anomaly_enabled"] = set_anomaly_enabled

__all__ = ["EXPORTS"]
