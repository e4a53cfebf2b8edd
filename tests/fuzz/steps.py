"""What the steps of a drawn graph call, beside operations. Programs that `case.text` prints import
it, too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import tinyt
import tinyt.nn.functional as F
from op_samples import BY_NAME
from sampling import LAYOUTS, flat
from tinyt import Tensor, nn, optim

FUNCTIONS = {name: BY_NAME[name].function(tinyt) for name in BY_NAME}


def row(name: str) -> Callable[..., Any]:
    """The operation of a row of the op table."""
    return FUNCTIONS[name]


def tensor(values: Any, dtype: str, layout: str = "contiguous", grad: bool = False) -> Tensor:
    """An input."""
    wide = "float32" if dtype in ("float16", "bfloat16") else dtype
    x = LAYOUTS[layout].build(tinyt, LAYOUTS[layout].values(np.array(values, wide)))
    if wide != dtype:
        x = x.to(getattr(tinyt, dtype))
    return x.detach().requires_grad_() if grad else x


def varied(values: Any, call: int) -> Any:
    """An argument's values in a call: floats change with the third, sizes with the fourth."""
    if call >= 2 and values.dtype.kind == "f":
        values = np.flip(values).copy() * 0.75
    return np.concatenate([values, values[:1]]) if call >= 3 and values.ndim else values


def same(x: Tensor) -> Tensor:
    """The tensor itself, in a second argument."""
    return x


def part(x: Tensor) -> Tensor:
    """A view of the same memory."""
    return x[1:] if x.dim() and x.shape[0] > 1 else x.detach()


def fit(x: Tensor, shape: Sequence[int], dtype: str) -> Tensor:
    """Any tensor in another shape and dtype: its elements over and over."""
    wanted = getattr(tinyt, dtype)
    if x.dtype.is_complex and not wanted.is_complex:
        x = tinyt.view_as_real(x)
    x = x.to(wanted)
    size = int(np.prod(shape))
    if tuple(x.shape) == tuple(shape):
        return x
    if x.numel() == 0:
        return tinyt.full(tuple(shape), 1, dtype=wanted)
    x = x.reshape(-1)
    if x.numel() < size:
        x = x.repeat(-(-size // x.numel()))
    return x[:size].reshape(tuple(shape))


def item(values: Any, number: int) -> Any:
    """One of several results."""
    return list(flat(values))[number]


def assign(x: Tensor, index: Any, value: Any) -> Tensor:
    """x[index] = value."""
    x[index] = value
    return x


def index(x: Tensor, where: Any) -> Tensor:
    """x[where]."""
    return x[where]


def gradient(name: str, *args: Any, **kwargs: Any) -> Any:
    """The gradients of an operation by its float arguments, from a backward pass inside."""
    leaves, total = total_of(row(name), args, kwargs)
    if total.requires_grad:
        total.backward()
    return [x.grad for x in leaves if _is_float(x) and x.grad is not None]


def gradients(function: Any, *args: Any, **kwargs: Any) -> Any:
    """The same without ``.grad``, of any function or of the operation of that name."""
    function = row(function) if isinstance(function, str) else function
    leaves, total = total_of(function, args, kwargs)
    leaves = [x for x in leaves if _is_float(x)]
    if not total.requires_grad:
        return []
    found = tinyt.autograd.grad(total, leaves, allow_unused=True)
    return [g for g in found if g is not None]


def total_of(function: Callable[..., Any], args: Any, kwargs: Any) -> tuple[list[Any], Tensor]:
    """Leaves in the places of float arguments, and one number of all results."""
    leaves = [x.detach().requires_grad_() if _is_float(x) else x for x in args]
    total = tinyt.zeros(())
    for y in flat(function(*leaves, **kwargs)):
        if isinstance(y, Tensor) and y.requires_grad:
            total = total + (y * y * 0.5 + y).sum().to(tinyt.float32)
    return leaves, total


def is_true(x: Tensor) -> Tensor:
    """A condition that depends on data: whether the first element is larger than the last one."""
    if x.numel() == 0:
        return tinyt.tensor(True)
    x = (tinyt.view_as_real(x) if x.dtype.is_complex else x).detach().reshape(-1)
    return (x[0].to(tinyt.float64) > x[-1].to(tinyt.float64)).reshape(())


def cond(x: Tensor, when_true: Any, when_false: Any, *operands: Any) -> Any:
    """One of two functions, as data says."""
    return tinyt.cond(is_true(x), when_true, when_false, operands)


def scan(step: Any, carries: int, reverse: bool, *values: Tensor) -> Any:
    """A function step by step: of that many carries, and of slices of the other values."""

    def combine(carry: Any, x: Any) -> Any:
        made = step(*carry, *x)
        return tuple(made[:carries]), made[carries:]

    carry, ys = tinyt.scan(combine, values[:carries], values[carries:], reverse=reverse)
    return [*carry, *ys]


def while_loop(step: Any, until: Tensor, *values: Tensor) -> Any:
    """A function of its own results: once, or three times, as data says."""
    times = tinyt.where(is_true(until), 1, 3)
    with tinyt.no_grad():
        _, *made = tinyt.while_loop(
            lambda i, *_: i < times,
            lambda i, *carry: (i + 1, *step(*carry)),
            (tinyt.tensor(0), *(x.detach() for x in values)),
        )
    return made


def _is_float(x: Any) -> bool:
    return isinstance(x, Tensor) and x.dtype.is_floating_point


class Net:
    """Parameters, and an optimiser that steps inside the graph."""

    def __init__(self, optimizer: str, autocast: bool = False) -> None:
        tinyt.manual_seed(5)
        self.model = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Dropout(0.25))
        parameters = list(self.model.parameters())
        self.optimizer = getattr(optim, optimizer)(parameters, lr=0.05)
        self.autocast = autocast

    def state(self) -> list[Any]:
        """All that a step changes."""
        states = [x for s in self.optimizer.state.values() for x in s.values()]
        grads = [p.grad for p in self.model.parameters()]
        return [*self.model.state_dict().values(), *states, *grads]


def train(net: Net, x: Tensor) -> Tensor:
    """A step of the net on any tensor."""
    net.optimizer.zero_grad()
    with tinyt.autocast("cpu", dtype=tinyt.bfloat16, enabled=net.autocast):
        y = net.model(fit(x.detach(), (4, 6), "float32").nan_to_num(0.0, 1.0, -1.0).clamp(-3, 3))
        loss = F.mse_loss(y.float(), tinyt.ones(4, 5))
    loss.backward()
    net.optimizer.step()
    return loss.detach()
