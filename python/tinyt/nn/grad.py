"""`torch.nn.grad`: gradients of convolutions to their inputs and weights, as functions.

They are one operation each and have gradients themselves. Each takes the size of what it returns,
since several sizes fit one gradient of an output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tinyt._core import ShapeError
from tinyt.ops.common import need_tensor, tuple_of
from tinyt.tensor import Tensor, prim

__all__ = [
    "conv1d_input",
    "conv1d_weight",
    "conv2d_input",
    "conv2d_weight",
    "conv3d_input",
    "conv3d_weight",
]

Sizes = int | Sequence[int]


def _options(
    op: str, spatial: int, stride: Sizes, padding: Sizes, dilation: Sizes
) -> tuple[tuple[int, ...], ...]:
    return tuple(
        tuple_of(op, name, value, spatial)
        for name, value in (("stride", stride), ("padding", padding), ("dilation", dilation))
    )


def _check_rank(op: str, spatial: int, *shapes: Sequence[int]) -> None:
    if any(len(shape) != spatial + 2 for shape in shapes):
        raise ShapeError(
            f"{op}: sizes of rank {spatial + 2} are expected, got "
            + " and ".join(str(tuple(shape)) for shape in shapes)
        )


def _input_form(spatial: int) -> Callable[..., Tensor]:
    op = f"conv{spatial}d_input"

    def function(
        input_size: Sequence[int],
        weight: Tensor,
        grad_output: Tensor,
        stride: Sizes = 1,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
    ) -> Tensor:
        _check_rank(op, spatial, input_size, need_tensor(op, weight).shape, grad_output.shape)
        steps, pads, spread = _options(op, spatial, stride, padding, dilation)
        return prim.conv_backward_input(
            grad_output, weight, tuple(input_size), steps, pads, spread, groups
        )

    function.__name__ = function.__qualname__ = op
    function.__doc__ = f"""The gradient of `conv{spatial}d` to its input, of `input_size`.

    Args:
        input_size: of the input, with batch and channels.
        weight: of the convolution.
        grad_output: the gradient of its output.
        stride, padding, dilation, groups: as of the convolution.

    Raises:
        ShapeError: where the sizes do not fit each other.
    """
    return function


def _weight_form(spatial: int) -> Callable[..., Tensor]:
    op = f"conv{spatial}d_weight"

    def function(
        input: Tensor,
        weight_size: Sequence[int],
        grad_output: Tensor,
        stride: Sizes = 1,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
    ) -> Tensor:
        _check_rank(op, spatial, need_tensor(op, input).shape, weight_size, grad_output.shape)
        steps, pads, spread = _options(op, spatial, stride, padding, dilation)
        return prim.conv_backward_weight(
            grad_output, input, tuple(weight_size), steps, pads, spread, groups
        )

    function.__name__ = function.__qualname__ = op
    function.__doc__ = f"""The gradient of `conv{spatial}d` to its weight, of `weight_size`.

    Args:
        input: of the convolution.
        weight_size: of the weight.
        grad_output: the gradient of its output.
        stride, padding, dilation, groups: as of the convolution.

    Raises:
        ShapeError: where the sizes do not fit each other.
    """
    return function


conv1d_input, conv2d_input, conv3d_input = map(_input_form, (1, 2, 3))
conv1d_weight, conv2d_weight, conv3d_weight = map(_weight_form, (1, 2, 3))
