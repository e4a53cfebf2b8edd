"""Names of `torch.optim.optimizer` that optimisers of other packages import from there.

Helpers of PyTorch's own optimisers: what chooses between its kernels answers that there is one way
of computing here, and texts for docstrings are short.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from tinyt._tensor import dtype as DType
from tinyt.autograd import set_grad_enabled
from tinyt.dtypes import float32, float64, get_default_dtype
from tinyt.ops import view_as_real
from tinyt.tensor import Tensor

_foreach_doc = "foreach (bool, optional): kept, no effect."
_fused_doc = "fused (bool, optional): kept, no effect."
_capturable_doc = "capturable (bool, optional): kept, no effect."
_differentiable_doc = "differentiable (bool, optional): whether the step is recorded."
_maximize_doc = "maximize (bool, optional): ascends instead of descends."
_params_doc = "params (iterable): parameters, named parameters, or dicts that define groups."


def _use_grad_for_differentiable(func: Callable[..., Any]) -> Callable[..., Any]:
    """A step that autograd records where the optimiser's default "differentiable" is true."""

    @wraps(func)
    def use_grad(self: Any, *args: Any, **kwargs: Any) -> Any:
        with set_grad_enabled(bool(self.defaults.get("differentiable", False))):
            return func(self, *args, **kwargs)

    return use_grad


def _disable_dynamo_if_unsupported(
    single_tensor_fn: Callable[..., object] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that changes nothing."""
    return lambda func: func


def _get_value(x: Any) -> Any:
    """The number in a tensor of one element."""
    return x.item() if isinstance(x, Tensor) else x


def _to_scalar(x: Any) -> Any:
    """A tensor of one element with no dimensions; other values as they are."""
    return x.squeeze() if isinstance(x, Tensor) and x.dim() != 0 else x


def _stack_if_compiling(x: Any) -> Any:
    """``x`` itself."""
    return x


def _dispatch_sqrt(x: Any) -> Any:
    """The square root of a number or tensor."""
    return x.sqrt() if isinstance(x, Tensor) else x**0.5


def _get_scalar_dtype(is_fused: bool | None = None) -> DType:
    """The dtype of a state's numbers: float64 where that is the default, else float32."""
    return float64 if not is_fused and get_default_dtype() is float64 else float32


def _default_to_fused_or_foreach(
    params: list[Tensor], differentiable: bool, use_fused: bool = False
) -> tuple[bool, bool]:
    """(fused, foreach): neither is of use on the CPU."""
    return False, False


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """Devices with graphs to capture: none of them is here."""
    return []


def _view_as_real(params: list[Tensor], *state_and_grads: list[Tensor]) -> None:
    """Replaces complex parameters, and what belongs to them, by their real views in the lists."""
    for i, param in enumerate(params):
        if param.is_complex():
            for values in (params, *state_and_grads):
                values[i] = view_as_real(values[i])


def _group_tensors_by_device_and_dtype(
    tensorlistlist: list[list[Any]], with_indices: bool = False
) -> dict[tuple[Any, DType], tuple[list[list[Any]], list[int]]]:
    """Entries of parallel lists, grouped by device and dtype of those in the first list, with
    their positions where these are asked for."""
    groups: dict[tuple[Any, DType], tuple[list[list[Any]], list[int]]] = {}
    for i, entries in enumerate(zip(*tensorlistlist, strict=True)):
        key = entries[0].device, entries[0].dtype
        lists, indices = groups.setdefault(key, ([[] for _ in tensorlistlist], []))
        for values, entry in zip(lists, entries, strict=True):
            values.append(entry)
        if with_indices:
            indices.append(i)
    return groups
