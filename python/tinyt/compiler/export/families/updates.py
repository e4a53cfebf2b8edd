"""Steps of optimisers, which work where parameters and states lie."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tinyt import dtypes
from tinyt.compiler.export.calls import emits
from tinyt.compiler.export.source import c_type
from tinyt.compiler.export.values import Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tinyt.compiler.export.calls import Call

_NAMES = ("SGD", "Adam", "RMSprop", "Adagrad", "mul_")  # of the rules of core/ops/optim_terms.h
_SGD, _ADAM, _RMSPROP, _ADAGRAD, _SCALE = range(5)
_STATES = {_SGD: 1, _ADAM: 3, _RMSPROP: 3, _ADAGRAD: 1, _SCALE: 0}  # that a rule may have
_COUNTED = (_ADAM, _RMSPROP, _ADAGRAD)
_HALVES = (dtypes.float16, dtypes.bfloat16)


class _Settings(NamedTuple):
    """What a recorded step knows; see ``OptimNode`` of core/graph/step_node.cpp."""

    rule: int
    has_condition: int
    params: int  # how many
    states: int  # which there are, as bits
    maximize: int
    nesterov: int
    decoupled: int
    firsts: int  # how many numbers follow: whose momentum begins with this gradient


class _Operands(NamedTuple):
    """The tensors of one parameter's update; the first ones are written."""

    written: list[Value]  # the parameter, and its states that are there
    step: Value | None
    grad: Value | None


@emits(*_NAMES)
def _update(call: Call) -> None:
    numbers = call.numbers
    settings = _Settings(*numbers[:8])
    first = numbers[8:] or (0,) * settings.params
    inputs = list(call.x)
    condition = inputs.pop() if settings.has_condition else None
    for x, y in zip(inputs, call.y, strict=False):
        if str(x) != str(y):
            call.copy(x, y)
    if condition is not None:
        call.out.statements.append(f"if (*{condition} != 0) {{")
    items, cells = _operands(settings, inputs, call.y)
    wide = _Wide(call, items)
    for item, begins in zip(items, first, strict=True):
        if item.step is not None:
            call.run("updates", "tt_count", item.step)
        _update_one(call, settings, wide.of(item), cells, begins)
        wide.back(item)
    if condition is not None:
        call.out.statements.append("}")


def _operands(
    settings: _Settings, inputs: Sequence[Value], outputs: Sequence[Value]
) -> tuple[list[_Operands], list[str]]:
    """Those of each parameter, and the numbers of the step as expressions."""
    count = settings.params
    kinds = 1 + settings.states.bit_count()
    at = kinds * count
    steps = outputs[at : at + count] if settings.rule in _COUNTED else []
    at += len(steps)
    grads = inputs[at : at + count] if settings.rule != _SCALE else []
    cells = [f"({x})[{i}]" for x in inputs[at + len(grads) :] for i in range(x.numel)]
    items = [
        _Operands(
            [outputs[k * count + i] for k in range(kinds)],
            steps[i] if steps else None,
            grads[i] if grads else None,
        )
        for i in range(count)
    ]
    return items, cells


class _Wide:
    """Halves are computed with as float32, in memory that all parameters share."""

    def __init__(self, call: Call, items: Sequence[_Operands]) -> None:
        self._call, self._memory = call, list[Value]()
        if items[0].written[0].dtype in _HALVES:
            most = max(item.written[0].numel for item in items)
            for _ in range(len(items[0].written) + 1):
                self._memory.append(call.scratch((most,), dtypes.float32))

    def of(self, item: _Operands) -> _Operands:
        """What is computed with."""
        if not self._memory:
            grad = item.grad and self._call.dense(item.grad)
            return _Operands(item.written, item.step, grad)
        written = [self._widened(x, i) for i, x in enumerate(item.written)]
        grad = item.grad and self._widened(item.grad, len(written))
        return _Operands(written, item.step, grad)

    def _widened(self, x: Value, number: int) -> Value:
        made = Value((x.numel,), (1,), dtypes.float32, self._memory[number].at)
        self._call.cast(_flat(self._call.dense(x)), made)
        return made

    def back(self, item: _Operands) -> None:
        """Rounds to what is written."""
        for x, made in zip(item.written, self._memory, strict=False):
            wide = Value((x.numel,), (1,), dtypes.float32, made.at)
            self._call.cast(wide, _flat(x))


def _flat(x: Value) -> Value:
    return Value((x.numel,), (1,), x.dtype, x.at)


def _update_one(
    call: Call, settings: _Settings, item: _Operands, cells: Sequence[str], begins: int
) -> None:
    rule = settings.rule
    param, *there = item.written
    n = param.numel
    held = iter(there)
    states: list[object] = [
        next(held) if settings.states >> s & 1 else "0" for s in range(_STATES[rule])
    ]
    maximize = settings.maximize
    arguments: list[object]
    if rule == _SGD:
        arguments = [param, *states, item.grad, n, *cells, maximize, settings.nesterov, begins]
    elif rule == _ADAM:
        arguments = [param, *states, item.grad, n, item.step, *cells, maximize, settings.decoupled]
    elif rule == _RMSPROP:
        arguments = [param, *states, item.grad, n, *cells, maximize]
    elif rule == _ADAGRAD:
        arguments = [param, *states, item.grad, n, item.step, *cells, maximize]
    else:
        arguments = [param, n, *cells]
    name = ("sgd", "adam", "rmsprop", "adagrad", "scale")[rule]
    kept = call.y[0].dtype
    rounded = kept.name if kept in _HALVES else c_type(kept)
    call.run("updates", f"tt_{name}_step_T_R", *arguments, T=c_type(param.dtype), R=rounded)
