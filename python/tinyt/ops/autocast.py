"""Which operations change precision inside `autocast`, and the casting.

The lists are PyTorch's for the CPU: those that gain from a lower precision, those that lose too
much in it, and those whose operands must agree. What is in no list computes in the dtype it is
given. `torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCPU")` names PyTorch's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tinyt._autograd import is_grad_enabled
from tinyt._tensor import TensorBase, autocast_state, dtype, set_autocast_state
from tinyt.dtypes import float32, float64
from tinyt.tensor import Tensor, prim

Composite = Callable[..., Any]
Args = tuple[Any, ...]
Kwargs = dict[str, Any]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# The last line of FULL: composites of others in PyTorch. Those that only call a product are in no
# list: they call it as users do.
LOWER = _names(
    """
    addbmm addmm baddbmm bmm conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d
    conv_transpose3d linear matmul mm prelu scaled_dot_product_attention vecdot
    """
)
FULL = _names(
    """
    adaptive_avg_pool3d adaptive_max_pool3d avg_pool3d binary_cross_entropy
    binary_cross_entropy_with_logits cdist cosine_embedding_loss cross_entropy ctc_loss grid_sample
    hinge_embedding_loss huber_loss kl_div l1_loss margin_ranking_loss max_pool3d max_unpool2d
    max_unpool3d mse_loss multi_margin_loss multilabel_margin_loss nanquantile nll_loss
    poisson_nll_loss polar prod quantile smooth_l1_loss soft_margin_loss trace triplet_margin_loss
    view_as_complex cholesky cholesky_inverse cholesky_solve linalg_cholesky linalg_cholesky_ex
    fractional_max_pool2d fractional_max_pool2d_with_indices fractional_max_pool3d
    fractional_max_pool3d_with_indices lp_pool3d max_unpool1d
    """
)
WIDEST = _names("cat index_copy stack")


class _Casts(threading.local):
    """Parameters in the lower precision, by identity, until the outermost block ends."""

    def __init__(self) -> None:
        self.kept: dict[int, tuple[Tensor, int, Tensor]] = {}


_casts = _Casts()


def clear_autocast_cache() -> None:
    """Forgets the lower-precision copies of parameters that this thread keeps."""
    _casts.kept.clear()


@contextmanager
def own_casts() -> Iterator[None]:
    """For a block, which finds no copies and leaves none."""
    before, _casts.kept = _casts.kept, {}
    try:
        yield
    finally:
        _casts.kept = before


def _is_castable(x: object) -> bool:
    return isinstance(x, TensorBase) and x.dtype.is_floating_point and x.dtype is not float64


def _cast(x: Tensor, to: dtype, keep: bool) -> Tensor:
    """A copy in another dtype; a parameter's may be kept, so that all its uses share one."""
    if x.dtype is to:
        return x
    if not (keep and x.dtype is float32 and x.requires_grad and x.is_leaf and is_grad_enabled()):
        return prim.cast(x, to)
    kept = _casts.kept.get(id(x))
    if kept is None or kept[1] != x._writes or kept[2].dtype is not to:
        kept = _casts.kept[id(x)] = (x, x._writes, prim.cast(x, to))
    return kept[2]


def _mapped(change: Callable[[Tensor], Tensor], value: Any) -> Any:
    """An argument with its castable tensors changed, those of a list or tuple too."""
    if _is_castable(value):
        return change(value)
    if type(value) in (list, tuple) and any(map(_is_castable, value)):
        return type(value)(_mapped(change, item) for item in value)
    return value


def _alone(composite: Composite, args: Args, kwargs: Kwargs) -> Any:
    """The call; what it calls casts nothing."""
    _, lower, cache = autocast_state()
    try:
        set_autocast_state(False, lower, cache)
        return composite(*args, **kwargs)
    finally:
        set_autocast_state(True, lower, cache)


def _call(composite: Composite, to: dtype, args: Args, kwargs: Kwargs) -> Any:
    """:func:`_alone` with its tensors in one dtype; one given twice is cast once."""
    _, lower, cache = autocast_state()
    done: dict[int, Tensor] = {}

    def change(x: Tensor) -> Tensor:
        if id(x) not in done:
            done[id(x)] = _cast(x, to, cache and to is lower)
        return done[id(x)]

    if kwargs.get("out") is None:  # PyTorch has no policy for what writes to a given tensor
        args = tuple(_mapped(change, value) for value in args)
        kwargs = {name: _mapped(change, value) for name, value in kwargs.items()}
    return _alone(composite, args, kwargs)


def _lower(composite: Composite, args: Args, kwargs: Kwargs) -> Any:
    return _call(composite, autocast_state()[1], args, kwargs)


def _full(composite: Composite, args: Args, kwargs: Kwargs) -> Any:
    return _call(composite, float32, args, kwargs)


def _full_without_indices(composite: Composite, args: Args, kwargs: Kwargs) -> Any:
    """`max_pool3d`, which with ``return_indices`` is an operation without a policy."""
    indices = args[6] if len(args) > 6 else kwargs.get("return_indices", False)
    return (_alone if indices else _full)(composite, args, kwargs)


def _widest(composite: Composite, args: Args, kwargs: Kwargs) -> Any:
    """In the lower precision where all tensors have it, else in float32."""
    lower = autocast_state()[1]
    dtypes = set()

    def note(x: Tensor) -> Tensor:
        dtypes.add(x.dtype)
        return x

    for value in (*args, *kwargs.values()):
        _mapped(note, value)
    return _call(composite, lower if dtypes == {lower} else float32, args, kwargs)


def in_lower(x: Tensor) -> Tensor:
    """A tensor as an operation in the lower precision gets it."""
    active, lower, _ = autocast_state()
    return _cast(x, lower, False) if active and _is_castable(x) else x


def in_full(x: Tensor) -> Tensor:
    """A tensor as an operation in float32 gets it."""
    return _cast(x, float32, False) if autocast_state()[0] and _is_castable(x) else x


def policy_of(name: str) -> Callable[[Composite, Args, Kwargs], Any] | None:
    """How a composite is called inside `autocast`; None for as it is."""
    if name in LOWER:
        return _lower
    if name == "max_pool3d":
        return _full_without_indices
    return _full if name in FULL else _widest if name in WIDEST else None
