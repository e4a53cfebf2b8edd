"""Draws a graph, step by step; what eager refuses is left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import tinyt
from fuzz.case import Body, Case, DType, Input, NetRef, Ref, Step, nets_of, run_step
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
DEEPEST = 2  # control flow in control flow


class Drawing:
    """A graph that grows, and the values that eager gives to its steps."""

    depth = 0

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.inputs: list[Input] = []
        self.nets: list[tuple[str, bool]] = []
        self.live: list[Net] = []
        self.steps: list[Step] = []
        # Numbers of inputs and steps are known at the end only: a value is (is a step, number).
        self.given: list[Any] = []
        self.values: list[Any] = []

    def size(self) -> tuple[int, ...]:
        """How far it has grown."""
        return len(self.steps), len(self.given)

    def cut(self, size: tuple[int, ...]) -> None:
        """Makes it as small as it was."""
        del self.steps[size[0] :], self.values[size[0] :]
        del self.inputs[size[1] :], self.given[size[1] :]

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

    def writable(self) -> Ref:
        """A tensor to write into."""
        return self.any_tensor()

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


class Inner(Drawing):
    """A function that is drawn inside of another drawing. It has the values that it is given, and
    reads others of what is around it; it writes into clones only."""

    def __init__(self, around: Drawing, given: Sequence[Any], kinds: Sequence[Kind]) -> None:
        super().__init__(around.rng)
        self.around, self.depth = around, around.depth + 1
        self.given = list(given)
        self.outer: list[Ref] = []
        self.clones: list[Ref] = []
        for _ in range(int(self.rng.integers(1, 4))):
            grow(self, kinds)

    def size(self) -> tuple[int, ...]:
        return *super().size(), len(self.outer), len(self.clones)

    def cut(self, size: tuple[int, ...]) -> None:
        super().cut(size[:2])
        del self.outer[size[2] :], self.clones[size[3] :]

    def read(self, ref: Ref) -> Ref:
        """A value of the drawing around."""
        self.outer.append(ref)
        self.given.append(self.around.value(ref))
        return Ref(-len(self.given))

    def add_input(self, x: Input) -> Ref:
        return self.read(self.around.add_input(x))

    def any_tensor(self) -> Ref:
        if self.rng.random() < 0.15 or not self.tensors():
            return self.read(self.around.any_tensor())
        return super().any_tensor()

    def writable(self) -> Ref:
        if not self.clones or self.rng.random() < 0.5:
            self.clones.append(self.add("Tensor.clone", self.any_tensor()))
        return self.clones[-1]

    def body(self, outputs: Sequence[Ref]) -> Body:
        """The function; gives its values of these numbers."""
        count = len(self.given)
        found = renumbered(tuple(outputs), count)
        return Body(
            count - len(self.outer),
            tuple(self.outer),
            tuple(renumbered_step(step, count) for step in self.steps),
            tuple(ref.number for ref in found),
        )


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
    pick_one(d, d.add("gradients" if d.depth else "gradient", op.name, *args, **kwargs))


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
    ref = d.writable()
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


# ---- control flow


def last_tensors(d: Drawing, count: int) -> list[Ref]:
    """What a body returns: its last values that are tensors, at least one."""
    return (d.tensors()[-count:] or [d.any_tensor()])[::-1]


def fitted(d: Drawing, like: Any) -> Ref:
    """A value of a body in the form of another one."""
    return d.add("fit", last_tensors(d, 1)[0], tuple(like.shape), like.dtype.name)


def branches(d: Drawing) -> None:
    operands = [d.any_tensor() for _ in range(int(d.rng.integers(0, 3)))]
    given = [d.value(ref) for ref in operands]
    one, other = (Inner(d, given, BRANCH_KINDS) for _ in range(2))
    made = last_tensors(one, int(d.rng.integers(1, 3)))
    same = [fitted(other, one.value(ref)) for ref in made]
    pick_one(d, d.add("cond", d.any_tensor(), one.body(made), other.body(same), *operands))


def steps_of_scan(d: Drawing) -> None:
    carries = [d.any_tensor() for _ in range(int(d.rng.integers(1, 3)))]
    xs = d.any_tensor()
    if not 1 <= len_of(d.value(xs)) <= 5:
        shape = int(d.rng.integers(1, 5)), *d.pick(SHAPES)
        xs = d.add("fit", xs, shape, d.pick(["float32", "float64", "int64"]))
    start = [d.value(ref) for ref in carries]
    step = Inner(d, [*start, d.value(xs)[0]], STEP_KINDS)
    made = last_tensors(step, int(d.rng.integers(1, 3)))
    body = step.body([*(fitted(step, x) for x in start), *made])
    is_reversed = bool(d.rng.integers(2))
    pick_one(d, d.add("scan", body, len(carries), is_reversed, *carries, xs))


def loop(d: Drawing) -> None:
    carried = [d.any_tensor() for _ in range(int(d.rng.integers(1, 3)))]
    start = [d.value(ref).detach() for ref in carried]
    step = Inner(d, start, LOOP_KINDS)
    body = step.body([fitted(step, x) for x in start])
    pick_one(d, d.add("while_loop", body, d.any_tensor(), *carried))


def flow(d: Drawing) -> None:
    """A branch or loop, which may have others in it."""
    if d.depth >= DEEPEST:
        raise ValueError("too deep")
    d.pick([branches, steps_of_scan, loop])(d)


def flow_gradient(d: Drawing) -> None:
    """The gradients of branches and scans."""
    if d.depth >= DEEPEST:
        raise ValueError("too deep")
    found = [ref for ref in d.tensors() if d.value(ref).dtype.is_floating_point]
    leaves = [d.pick(found) for _ in range(int(d.rng.integers(1, 3)))]
    inner = Inner(d, [d.value(ref).detach() for ref in leaves], [(d.pick(FLOW_WITH_GRADIENT), 1.0)])
    pick_one(d, d.add("gradients", inner.body(last_tensors(inner, 2)), *leaves))


FLOW_WITH_GRADIENT: list[Callable[[Drawing], None]] = [branches, steps_of_scan]
# How often each is drawn: in a graph, in a branch, in a step of a scan, in a loop.
Kind = tuple[Callable[[Drawing], None], float]
KINDS: list[Kind] = [
    (operation, 0.44),
    (view, 0.15),
    (in_place, 0.13),
    (gradient, 0.09),
    (random, 0.05),
    (train, 0.04),
    (flow, 0.06),
    (flow_gradient, 0.04),
]
LOOP_KINDS: list[Kind] = [(operation, 0.6), (view, 0.2), (in_place, 0.1), (flow, 0.1)]
BRANCH_KINDS: list[Kind] = [
    *((operation, 0.5), (view, 0.18), (in_place, 0.1)),
    *((gradient, 0.1), (flow, 0.07), (flow_gradient, 0.05)),
]
STEP_KINDS: list[Kind] = [
    *((operation, 0.5), (view, 0.18), (in_place, 0.1)),
    *((gradient, 0.05), (random, 0.05), (flow, 0.07), (flow_gradient, 0.05)),
]


def grow(d: Drawing, kinds: Sequence[Kind]) -> None:
    """Adds what one kind draws; nothing where eager refuses it."""
    functions, weights = zip(*kinds, strict=True)
    before = d.size()
    try:
        functions[int(d.rng.choice(len(kinds), p=weights))](d)
    except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError):
        d.cut(before)  # what a failed in-place write has changed counts no more


def drawn(rng: np.random.Generator) -> Case:
    """A graph of some twenty steps at most."""
    d = Drawing(rng)
    tinyt.manual_seed(0)
    for _ in range(int(rng.integers(1, 4))):
        d.new_input()
    if rng.random() < 0.25:
        d.alias()
    for _ in range(int(rng.integers(2, 12))):
        grow(d, KINDS)
    return finished(d)


def renumbered(value: Any, count: int) -> Any:
    """References to inputs were negative."""
    if isinstance(value, Ref):
        return Ref(-value.number - 1 if value.number < 0 else count + value.number)
    if isinstance(value, (tuple, list)):
        return type(value)(renumbered(x, count) for x in value)
    if isinstance(value, Body):
        return replace(value, outer=renumbered(value.outer, count))
    return value


def renumbered_step(step: Step, count: int) -> Step:
    return Step(step.call, renumbered(step.args, count), renumbered(step.kwargs, count))


def finished(d: Drawing) -> Case:
    """With the numbers as they are in the end."""
    count = len(d.inputs)

    steps = tuple(renumbered_step(step, count) for step in d.steps)
    last = [count + i for i in range(len(steps))]
    outputs = [i for i in last[:-1] if d.rng.random() < 0.3] + last[-1:]
    return Case(tuple(d.inputs), tuple(d.nets), steps, tuple(outputs))
