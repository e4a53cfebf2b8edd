"""Draws a graph, step by step; what eager refuses is left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tinyt
from fuzz.case import Case, DType, Input, NetRef, Ref, Step, nets_of, run_step
from fuzz.steps import Net, tensor
from op_samples import OPS
from sampling import Array, Const, DTypeName, draw, flat
from tinyt import Tensor

SHAPES = [(), (0,), (1,), (3,), (67,), (4, 5), (2, 0, 3), (2, 3, 4), (1, 6), (5, 1), (3, 2, 2, 2)]
DTYPES = [*["float32"] * 6, "float64", "float16", "bfloat16", "int64", "int32", "bool"]
LAYOUTS = [*["contiguous"] * 5, "transposed", "stepped", "shifted", "expanded"]
LARGEST = 3000  # elements of an operand
UNARY_ = [
    "neg_",
    "abs_",
    "relu_",
    "exp_",
    "tanh_",
    "sigmoid_",
    "zero_",
    "square_",
    "sin_",
    "floor_",
    "erf_",
    "clamp_min_",
]
BINARY_ = ["add_", "mul_", "sub_", "copy_"]
RANDOM = ["tinyt.rand_like", "tinyt.randn_like", "F.dropout", "Tensor.normal_", "Tensor.uniform_"]
OPTIMIZERS = ["SGD", "AdamW", "Adam", "RMSprop", "Adagrad"]


class Drawing:
    """A graph that grows, and the values that eager gives to its steps."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.inputs: list[Input] = []
        self.nets: list[tuple[str, bool]] = []
        self.live: list[Net] = []
        self.steps: list[Step] = []
        # Numbers of inputs and steps are known at the end only: a value is (is a step, number).
        self.given: list[Any] = []
        self.values: list[Any] = []

    # ---- values

    def pick(self, of: list[Any]) -> Any:
        return of[int(self.rng.integers(len(of)))]

    def add_input(self, x: Input) -> Ref:
        assert x.values is not None
        self.inputs.append(x)
        self.given.append(tensor(x.values, x.dtype, x.layout, x.grad))
        return Ref(-len(self.inputs))

    def new_input(self) -> Ref:
        dtype = self.pick(DTYPES)
        wide = "float32" if dtype in ("float16", "bfloat16") else dtype
        values = draw(self.rng, self.pick(SHAPES), wide)
        grad = "float" in dtype and self.rng.random() < 0.15
        return self.add_input(Input(values, dtype, self.pick(LAYOUTS), grad))

    def alias(self) -> None:
        """A second argument in the memory of one."""
        of, how = int(self.rng.integers(len(self.inputs))), self.pick(["same", "part"])
        if self.inputs[of].layout != "expanded" and not self.inputs[of].grad:
            self.inputs.append(Input(None, of=of, how=how))
            base = self.given[of]
            self.given.append(base if how == "same" else base[1:] if len_of(base) > 1 else base)

    def value(self, ref: Ref) -> Any:
        return self.given[-ref.number - 1] if ref.number < 0 else self.values[ref.number]

    def tensors(self) -> list[Ref]:
        found = [Ref(-i - 1) for i in range(len(self.given))]
        found += [Ref(i) for i in range(len(self.values))]
        return [ref for ref in found if isinstance(self.value(ref), Tensor)]

    def any_tensor(self) -> Ref:
        found = self.tensors()
        return self.pick(found[-6:] if self.rng.random() < 0.7 else found)

    # ---- steps

    def add(self, call: Any, *args: Any, **kwargs: Any) -> Ref:
        """Runs and keeps a step; its error where eager has one."""
        step = Step(call, args, tuple(kwargs.items()))
        merged = [*self.values, *reversed(self.given)]  # negative numbers count from the end
        made = run_step(step, merged, self.live)
        for x in flat(made):
            if isinstance(x, Tensor) and x.numel() > 20 * LARGEST:
                raise ValueError("too large")
        self.steps.append(step)
        self.values.append(made)
        return Ref(len(self.values) - 1)

    def operand(self, array: Array, differentiable: bool) -> Ref:
        """For an array of a sample: a value of the graph in its form, or the array as an input."""
        name = array.dtype.name
        if differentiable and self.rng.random() < 0.7:
            return self.add("fit", self.any_tensor(), tuple(array.shape), name)
        return self.add_input(Input(array, name, self.pick(LAYOUTS[:-1])))


def len_of(x: Tensor) -> int:
    return int(x.shape[0]) if x.dim() else 0


# ---- kinds of steps


def converted(d: Drawing, value: Any) -> Any:
    """Arguments of a sample with values of the graph in them."""
    if isinstance(value, Const):
        return d.add_input(Input(value.array, value.array.dtype.name))
    if isinstance(value, np.ndarray):
        if value.size > LARGEST:
            raise ValueError("too large")
        return d.operand(value, value.dtype.kind == "f")
    if isinstance(value, DTypeName):
        return DType(str(value))
    if isinstance(value, (tuple, list)):
        return type(value)(converted(d, x) for x in value)
    return value


def sample_of(d: Drawing) -> tuple[Any, Any, Any]:
    """An operation, and operands in the form of one of its samples."""
    op = d.pick(list(OPS))
    samples = op.samples(d.rng, d.pick(list(op.dtypes)))
    sample = d.pick(samples)
    args = tuple(converted(d, x) for x in sample.args)
    return op, args, {key: converted(d, x) for key, x in sample.kwargs.items()}


def operation(d: Drawing) -> None:
    """A row of the op table; in a lower precision now and then."""
    op, args, kwargs = sample_of(d)
    if d.rng.random() < 0.2:
        lower = d.pick(["float16", "bfloat16"])
        args = tuple(
            d.add("Tensor.to", x, DType(lower))
            if isinstance(x, Ref) and d.value(x).dtype is tinyt.float32
            else x
            for x in args
        )
    made = d.add(("row", op.name), *args, **kwargs)
    pick_one(d, made)


def pick_one(d: Drawing, made: Ref) -> None:
    if not isinstance(d.value(made), Tensor):
        several = list(flat(d.value(made)))
        if several:
            d.add("item", made, int(d.rng.integers(len(several))))


def gradient(d: Drawing) -> None:
    op, args, kwargs = sample_of(d)
    if not op.grad:
        raise ValueError("not differentiable")
    pick_one(d, d.add("gradient", op.name, *args, **kwargs))


def view(d: Drawing) -> None:
    ref = d.any_tensor()
    x = d.value(ref)
    n = x.dim()
    dim = int(d.rng.integers(n)) if n else 0
    choices: list[tuple[Any, ...]] = [("Tensor.detach",), ("Tensor.unsqueeze", -1)]
    if n:
        size = x.shape[dim]
        choices += [
            ("Tensor.transpose", dim, int(d.rng.integers(n))),
            ("Tensor.narrow", dim, size // 2, size - size // 2),
            ("Tensor.flip", (dim,)),
            ("Tensor.flatten",),
            ("index", (..., None)),
            ("index", (slice(None, None, 2),)),
            ("index", (slice(1, None),)),
        ]
        if size == 1:
            choices.append(("Tensor.expand", *(3 if i == dim else -1 for i in range(n))))
        if size:
            choices += [("Tensor.select", dim, -1), ("Tensor.unfold", dim, (size + 1) // 2, 1)]
        if n > 1:
            choices.append(("Tensor.diagonal",))
    else:
        choices.append(("Tensor.expand", 2, 3))
    name, *args = d.pick(choices)
    d.add(name, ref, *args)


def in_place(d: Drawing) -> None:
    """A write into a value, which its views see."""
    ref = d.any_tensor()
    x = d.value(ref)
    name = x.dtype.name
    kind = int(d.rng.integers(4))
    if kind == 0:
        d.add(f"Tensor.{d.pick(UNARY_)}", ref)
    elif kind == 1:
        shape = tuple(n if d.rng.random() < 0.7 else 1 for n in x.shape)
        other = d.add("fit", d.any_tensor(), shape, name)
        d.add(f"Tensor.{d.pick(BINARY_)}", ref, other)
    elif kind == 2 and x.dim():
        where = d.pick([slice(None, None, 2), slice(1, None), 0, ...])
        d.add("assign", ref, where, d.pick([2, 0.5, -1]) if name != "bool" else True)
    else:
        d.add("Tensor.clamp_", ref, -1, 1)


def random(d: Drawing) -> None:
    d.add(d.pick(RANDOM), d.any_tensor())


def train(d: Drawing) -> None:
    if not d.nets:
        d.nets.append((d.pick(OPTIMIZERS), bool(d.rng.integers(2))))
        case = Case((), tuple(d.nets), (), ())
        d.live = nets_of(case)
    d.add("train", NetRef(0), d.any_tensor())


# How often each is drawn.
KINDS: list[tuple[Callable[[Drawing], None], float]] = [
    (operation, 0.50),
    (view, 0.17),
    (in_place, 0.14),
    (gradient, 0.10),
    (random, 0.05),
    (train, 0.04),
]


def drawn(rng: np.random.Generator) -> Case:
    """A graph of some twenty steps at most."""
    d = Drawing(rng)
    tinyt.manual_seed(0)
    for _ in range(int(rng.integers(1, 4))):
        d.new_input()
    if rng.random() < 0.25:
        d.alias()
    kinds, weights = zip(*KINDS, strict=True)
    for _ in range(int(rng.integers(2, 12))):
        kind = kinds[int(rng.choice(len(kinds), p=weights))]
        before = len(d.steps), len(d.inputs)
        try:
            kind(d)
        except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError):
            # What a failed in-place write has changed counts no more.
            del d.steps[before[0] :], d.values[before[0] :]
            del d.inputs[before[1] :], d.given[before[1] :]
    return finished(d)


def renumbered(value: Any, count: int) -> Any:
    """References to inputs were negative."""
    if isinstance(value, Ref):
        return Ref(-value.number - 1 if value.number < 0 else count + value.number)
    if isinstance(value, (tuple, list)):
        return type(value)(renumbered(x, count) for x in value)
    return value


def finished(d: Drawing) -> Case:
    """With the numbers as they are in the end."""
    count = len(d.inputs)

    steps = tuple(
        Step(s.call, renumbered(s.args, count), renumbered(s.kwargs, count)) for s in d.steps
    )
    last = [count + i for i in range(len(steps))]
    outputs = [i for i in last[:-1] if d.rng.random() < 0.3] + last[-1:]
    return Case(tuple(d.inputs), tuple(d.nets), steps, tuple(outputs))
