"""The update rows of the operation table: steps of optimisers over several parameters. A device
without such a row makes them of elementwise operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tinyt import Tensor, _core
from tinyt._core import DTypeError
from tinyt.cli.backends.calls import Draw
from tinyt.optim import SGD, Adagrad, AdamW, Optimizer, RMSprop

SHAPES = ((7, 5), (300,))

# How a row is used: optimisers of parameters that have gradients.
_OPTIMISERS: dict[str, Callable[[list[Tensor]], Optimizer]] = {
    "sgd_step": lambda p: SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True),
    "adam_step": lambda p: AdamW(p, lr=0.01, amsgrad=True),
    "rmsprop_step": lambda p: RMSprop(p, lr=0.01, momentum=0.9, centered=True),
    "adagrad_step": lambda p: Adagrad(p, lr=0.01, lr_decay=0.1, weight_decay=0.01),
}
NAMES = (*_OPTIMISERS, "scale_step")


def operands_of(draw: Draw) -> list[Tensor]:
    """Parameters, then their gradients at each of two steps."""
    return [draw(*shape) for _ in range(3) for shape in SHAPES]


def run(name: str, operands: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Parameters and their states after two steps from copies of the operands. DTypeError but for
    floats."""
    count = len(SHAPES)
    params = [x.clone() for x in operands[:count]]
    if not params[0].is_floating_point():
        raise DTypeError(f"{name}: none in {params[0].dtype}")
    if name == "scale_step":
        left = _core.scale_all(params, 0.75)
        return tuple(x.mul_(0.75) if i in left else x for i, x in enumerate(params))
    optimiser = _OPTIMISERS[name](params)
    for turn in (1, 2):
        for x, grad in zip(params, operands[turn * count :], strict=False):
            x.grad = grad
        optimiser.step()
    states = [state for x in params for state in optimiser.state[x].values()]
    kept = [x for x in states if isinstance(x, Tensor) and x.dim() > 0]
    return (*params, *kept)
