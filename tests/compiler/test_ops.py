"""Every operation and every layer, compiled: the same bits as eager, in results, gradients, what is
written in place and the state of the generator."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import tinyt
import tinyt.nn.functional as F
from layer_samples import LAYERS, Row
from op_rows import Op
from op_samples import OPS
from sampling import CONTIGUOUS, STRIDED, Layout, Sample, assert_same_bits, build, flat, map_arrays
from tinyt import Tensor, nn, optim
from tinyt.compiler.api import compile

Call = tuple[Any, Any]  # positional and named arguments

# Operations with samples that no program can stand for, and what of them depends on data.
REFUSED = {
    "argwhere": "size",
    "bincount": "size",
    "cov": "check",
    "getitem_boolean": "size",
    "getitem_integer": "view",
    "histc": "range",
    "histogram": "range",
    "histogramdd": "range",
    "index_put": "size",
    "masked_select": "size",
    "nonzero": "size",
    "repeat_interleave": "size",
    "unique": "size",
    "unique_consecutive": "size",
}
REASONS = "depends on data|value is not known while recording"


# ---- comparison


def assert_same(got: Any, want: Any, what: str) -> None:
    """Type, dtype, shape, strides, requires_grad and bits."""
    for x, y in zip(flat(got), flat(want), strict=True):
        assert type(x) is type(y), what
        if not isinstance(y, Tensor):
            assert x == y, what
            continue
        assert (x.dtype, x.shape, x.requires_grad) == (y.dtype, y.shape, y.requires_grad), what
        # Of a dimension of one element they do not matter; eager's depend on the tape, too.
        strides = zip(x.stride(), y.stride(), y.shape, strict=True)
        assert all(s == t for s, t, size in strides if size > 1), what
        if y.dtype is tinyt.bfloat16:  # NumPy has none
            x, y = x.float(), y.float()
        if x.numpy(force=True).tobytes() != y.numpy(force=True).tobytes():
            assert_same_bits(x, y, what)


def programs(compiled: Any) -> int:
    return len(compiled.entries)


def check(
    function: Callable[..., Any], make: Callable[[Any], Call], samples: list[Any], what: str
) -> bool:
    """Compares one call for each sample, with arguments made anew; one program must do for all of
    them. False where the function cannot be compiled."""
    compiled = compile(function)
    for number, sample in enumerate(samples):
        (args, kwargs), (own_args, own_kwargs) = make(sample), make(sample)
        tinyt.manual_seed(number)
        want = function(*args, **kwargs)
        state = tinyt.get_rng_state()
        tinyt.manual_seed(number)
        try:
            got = compiled(*own_args, **own_kwargs)
        except tinyt.CaptureError as error:
            if re.search(REASONS, str(error)):
                return False
            raise
        where = f"{what}, call {number}"
        assert_same(got, want, where)
        assert_same([own_args, *own_kwargs.values()], [args, *kwargs.values()], where)
        assert_same(tinyt.get_rng_state(), state, where)
    assert programs(compiled) == 1, what
    return True


# ---- results


def form(sample: Sample) -> str:
    """What of a sample a program is made for."""
    return repr(map_arrays((sample.args, sample.kwargs), lambda a, _: (a.shape, a.dtype), str))


def drawn(op: Op, rng: np.random.Generator, dtypes: int = 1) -> Iterator[tuple[list[Sample], str]]:
    """Three calls each: one sample twice, then one with other values in its arrays."""
    for dtype in op.dtypes[:dtypes]:
        pairs = zip(op.samples(rng, dtype), op.samples(rng, dtype), strict=True)
        for number, (sample, other) in enumerate(pairs):
            third = other if form(other) == form(sample) else sample
            yield [sample, sample, third], f"{op.name} {dtype} sample {number}"


def arguments(sample: Sample, layout: Layout = CONTIGUOUS) -> Call:
    args, kwargs = build(tinyt, (sample.args, sample.kwargs), layout)
    return args, kwargs


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_operation(op: Op, rng: np.random.Generator) -> None:
    refused = 0
    for samples, what in drawn(op, rng, len(op.dtypes)):
        refused += not check(op.function(tinyt), arguments, samples, what)
    assert bool(refused) == (op.name in REFUSED)


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_strided_arguments(op: Op, rng: np.random.Generator) -> None:
    if op.name == "view":
        pytest.skip("asks for fitting strides")
    for samples, what in drawn(op, rng):
        layout = STRIDED[rng.integers(len(STRIDED))]
        make = partial(arguments, layout=layout)
        done = check(op.function(tinyt), make, samples, f"{what} {layout.name}")
        assert done or op.name in REFUSED


def test_one_value_where_a_mask_is() -> None:
    """No place needs to be known."""

    def function(x: Tensor) -> Tensor:
        y = x * 2
        y[y > 1] = 1
        y[:, y[0] < 0] = y[0, 0]
        y[1, None, ..., y[1] > 0.5] = 0.5
        return y

    compiled = compile(function)
    for _ in range(3):
        x = tinyt.randn(3, 7)
        assert_same(compiled(x), function(x), "mask")
    assert programs(compiled) == 1


def one_tensor(sample: Sample) -> Call:
    """The same tensor for all arrays of one shape and dtype."""
    known: dict[Any, Tensor] = {}

    def tensor(array: np.ndarray, _: bool) -> Tensor:
        return known.setdefault((array.shape, array.dtype), tinyt.tensor(array))

    args, kwargs = map_arrays((sample.args, sample.kwargs), tensor, partial(getattr, tinyt))
    return args, kwargs


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_one_tensor_for_several_arguments(op: Op, rng: np.random.Generator) -> None:
    for samples, what in drawn(op, rng):
        args, kwargs = one_tensor(samples[0])
        try:
            op.function(tinyt)(*args, **kwargs)
        except (RuntimeError, ValueError, IndexError):
            continue  # not a value for both of them
        check(op.function(tinyt), one_tensor, samples[:2], what)


@pytest.mark.parametrize("op", [op for op in OPS if op.inplace], ids=lambda op: op.name + "_")
def test_in_place(op: Op, rng: np.random.Generator) -> None:
    for samples, what in drawn(op, rng, len(op.dtypes)):
        args, kwargs = arguments(samples[0])
        result = op.function(tinyt)(*args, **kwargs)
        if (result.shape, result.dtype) == (args[0].shape, args[0].dtype):
            done = check(getattr(Tensor, op.name + "_"), arguments, samples, what)
            assert done or op.name in REFUSED


@pytest.mark.parametrize("op", [op for op in OPS if op.out], ids=lambda op: op.name)
def test_out(op: Op, rng: np.random.Generator) -> None:
    def make(sample: Sample) -> Call:
        args, kwargs = arguments(sample)
        out = tuple(map(tinyt.zeros_like, flat(op.function(tinyt)(*args, **kwargs))))
        return args, {**kwargs, "out": out if len(out) > 1 else out[0]}

    for samples, what in drawn(op, rng):
        assert check(op.function(tinyt), make, samples, what) or op.name in REFUSED


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """The nested value with every part changed."""
    if isinstance(value, (tuple, list)):
        return [mapped(part, change) for part in value]
    if isinstance(value, dict):
        return {key: mapped(part, change) for key, part in value.items()}
    return change(value)


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_other_floats(op: Op, rng: np.random.Generator) -> None:
    """Floats among the arguments are read at every call."""
    for samples, what in drawn(op, rng):
        args, kwargs = arguments(samples[0])
        compiled = compile(op.function(tinyt))
        for factor in (1.0, 1.0, 0.75, 0.5):
            scaled = partial(times, factor=factor)
            own_args, own_kwargs = mapped((args, kwargs), scaled)
            results = []
            for call in (op.function(tinyt), compiled):
                tinyt.manual_seed(0)
                try:
                    results.append(call(*own_args, **own_kwargs))
                except (RuntimeError, ValueError) as error:
                    results.append(type(error))
            want, got = results
            if isinstance(want, type):
                assert want is got
            elif got is tinyt.CaptureError:
                assert op.name in REFUSED
            else:
                assert_same(got, want, f"{what} times {factor}")


def times(x: Any, factor: float) -> Any:
    return x * factor if isinstance(x, float) else x


RANDOM: dict[str, Callable[[Tensor], Any]] = {
    "rand": lambda x: tinyt.rand(3, 5),
    "randn": lambda x: tinyt.randn(3, 5, dtype=tinyt.float64),
    "randint": lambda x: tinyt.randint(0, 9, (3, 5)),
    "randperm": lambda x: tinyt.randperm(9),
    "rand_like": tinyt.rand_like,
    "randn_like": tinyt.randn_like,
    "randint_like": lambda x: tinyt.randint_like(x, 2, 7),
    "normal": lambda x: tinyt.normal(2.0, x),
    "bernoulli": tinyt.bernoulli,
    "multinomial": lambda x: tinyt.multinomial(x, 3),
    "multinomial with replacement": lambda x: tinyt.multinomial(x, 7, replacement=True),
    "uniform_": lambda x: x.uniform_(-1.0, 2.0),
    "normal_": lambda x: x.normal_(1.0, 0.5),
    "random_": lambda x: x.random_(3, 9),
    "bernoulli_": lambda x: x.bernoulli_(0.3),
    "cauchy_": Tensor.cauchy_,
    "exponential_": Tensor.exponential_,
    "geometric_": lambda x: x.geometric_(0.3),
    "log_normal_": Tensor.log_normal_,
    "dropout": lambda x: F.dropout(x, 0.3),
    "dropout1d": lambda x: F.dropout1d(x, 0.3),
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.3, training=True),
    "feature_alpha_dropout": lambda x: F.feature_alpha_dropout(x, 0.3, training=True),
    "gumbel_softmax": lambda x: F.gumbel_softmax(x, hard=True),
    "rrelu": lambda x: F.rrelu(-x, training=True),
}


@pytest.mark.parametrize("name", RANDOM)
def test_random_numbers(name: str) -> None:
    def make(shape: tuple[int, int]) -> Call:
        return [tinyt.linspace(0.01, 0.99, shape[0] * shape[1]).reshape(shape)], {}

    for shape in [(3, 5), (6, 70)]:
        assert check(RANDOM[name], make, [shape] * 3, str(shape))


# ---- memory


@pytest.mark.tiles
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_kernels_say_what_they_take(op: Op, threads: int, rng: np.random.Generator) -> None:
    """Scratch memory is planned to the byte, before the first run."""
    layouts = [CONTIGUOUS, STRIDED[rng.integers(len(STRIDED))]]
    with tinyt.num_threads(threads):
        for samples, what in drawn(op, rng):
            for layout in layouts[: 1 if op.name == "view" else 2]:
                args, kwargs = arguments(samples[0], layout)
                compiled = compile(op.function(tinyt))
                try:
                    compiled(*args, **kwargs)
                except tinyt.CaptureError:
                    assert op.name in REFUSED
                    continue
                planned = compiled.entries[0].program_object.scratch_bytes()
                peak = compiled.peak_bytes
                compiled(*args, **kwargs)
                compiled.measure(*args, **kwargs)
                measures = compiled.entries[0].profile.call
                taken = [scratch for *_, scratch, _ in measures.steps()]
                assert planned == taken, f"{what} {layout.name}"
                assert peak == measures.peak_bytes


# ---- gradients


def loss_of(results: Any) -> Tensor:
    """A weighted sum of all elements that ask for a gradient."""
    total = tinyt.zeros(())
    for y in flat(results):
        if isinstance(y, Tensor) and y.requires_grad:
            y = tinyt.view_as_real(y) if y.dtype.is_complex else y
            weights = tinyt.linspace(0.5, 1.5, y.numel(), dtype=tinyt.float64)
            total = total + (y * weights.to(y.dtype).reshape(y.shape)).sum()
    return total


def backward(loss: Tensor) -> None:
    if loss.requires_grad:
        loss.backward()


def detached(x: Any) -> Any:
    return x.detach() if isinstance(x, Tensor) else x


def inner_leaf(x: Any) -> Any:
    return x.detach().requires_grad_() if isinstance(x, Tensor) and x.requires_grad else x


def computed(x: Any) -> Any:
    """What asks for a gradient as no leaf."""
    return x * 1 if isinstance(x, Tensor) and x.requires_grad else x


def gradient_of(x: Any) -> Any:
    return x.grad if isinstance(x, Tensor) and x.is_leaf else None


def leaves_of(value: Any) -> list[Tensor]:
    nested = value.values() if isinstance(value, dict) else value
    if not isinstance(value, (tuple, list, dict)):
        return [value] if isinstance(value, Tensor) and value.requires_grad else []
    return [leaf for part in nested for leaf in leaves_of(part)]


class Of:
    """An operation with a backward pass in several places; its arguments ask for gradients."""

    def __init__(self, op: Op) -> None:
        self.function = op.function(tinyt)

    def arguments(self, *args: Any, **kwargs: Any) -> Any:
        results = self.function(*args, **kwargs)
        backward(loss_of(results))
        return mapped(results, detached)

    def inner_leaves(self, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = mapped((args, kwargs), inner_leaf)
        results = self.arguments(*args, **kwargs)
        return results, mapped((args, list(kwargs.values())), gradient_of)

    def gradients(self, *args: Any, **kwargs: Any) -> Any:
        """The second gradient, to leaves that are made inside."""
        args, kwargs = mapped((args, kwargs), inner_leaf)
        leaves = leaves_of((args, kwargs))
        loss = loss_of(self.function(*args, **kwargs))
        if loss.requires_grad:
            found = tinyt.autograd.grad(loss, leaves, create_graph=True, allow_unused=True)
            backward(loss_of([g.square() for g in found if g is not None]))
        return [x.grad for x in leaves]


def asking(sample: Sample) -> Call:
    """Arguments that ask for a gradient where they are differentiable."""

    def leaf(array: np.ndarray, differentiable: bool) -> Tensor:
        return tinyt.tensor(array).requires_grad_(differentiable)

    args, kwargs = map_arrays((sample.args, sample.kwargs), leaf, partial(getattr, tinyt))
    return args, kwargs


def calls(call: Callable[..., Any], samples: list[Sample], fixed: bool, outside: bool) -> Any:
    """The results and gradients of each call; with ``fixed``, all calls get the same leaves."""
    leaves = asking(samples[0])
    for sample in samples:
        leaves = leaves if fixed else asking(sample)
        args, kwargs = leaves if fixed else mapped(leaves, computed)
        results = call(*args, **kwargs)
        if outside:
            backward(loss_of(results))
        yield results, [x.grad for x in leaves_of(leaves)]


@pytest.mark.parametrize("outside", [False, True], ids=["inside", "outside"])
@pytest.mark.parametrize("op", [op for op in OPS if op.grad], ids=lambda op: op.name)
def test_gradients(op: Op, outside: bool, rng: np.random.Generator) -> None:
    """Of a backward pass in the compiled function, or outside of it."""
    of = Of(op)
    for samples, what in drawn(op, rng):
        if not leaves_of(asking(samples[0])):
            continue
        twice = op.grad2 and samples[0].grad  # else too large, or not smooth
        inside = [of.arguments, of.inner_leaves, of.gradients][: 3 if twice else 2]
        step = op.function(tinyt) if outside else inside[rng.integers(len(inside))]
        fixed = bool(rng.integers(2)) if outside else step == of.arguments
        compiled = compile(step)
        sides = [calls(call, samples, fixed, outside) for call in (step, compiled)]
        for want in sides[0]:
            try:
                got = next(sides[1])
            except tinyt.CaptureError:
                assert op.name in REFUSED
                break
            assert_same(got, want, what)
        else:
            assert programs(compiled) == 1, what


# ---- layers

# Those that draw, those of further shapes, and some large enough for several threads.
FURTHER: list[Row] = [
    ("Dropout", (0.4,), {}, (3, 4)),
    ("Dropout1d", (0.4,), {}, (3, 4)),
    ("Dropout2d", (0.4,), {}, (2, 3, 2, 2)),
    ("Dropout3d", (0.4,), {}, (3, 2, 2, 2)),
    ("AlphaDropout", (0.4,), {}, (3, 4)),
    ("FeatureAlphaDropout", (0.4,), {}, (3, 4)),
    ("RReLU", (), {}, (3, 4)),
    ("ReLU", (), {"inplace": True}, (3, 4)),
    ("RNN", (4, 3), {"batch_first": True}, (2, 5, 4)),
    ("LSTM", (4, 3, 2), {"dropout": 0.3, "bidirectional": True}, (5, 2, 4)),
    ("GRU", (4, 3), {}, (5, 2, 4)),
    ("TransformerEncoderLayer", (8, 2, 16), {"batch_first": True}, (2, 5, 8)),
    ("Linear", (130, 190), {}, (257, 130)),
    ("Conv2d", (6, 10, 3), {"padding": 1}, (9, 6, 20, 19)),
    ("BatchNorm2d", (30,), {}, (8, 30, 33, 9)),
    ("LayerNorm", (401,), {}, (300, 401)),
    ("Softmax", (-1,), {}, (300, 401)),
    ("Dropout", (0.3,), {}, (300, 401)),
    ("GELU", (), {}, (300, 401)),
]


class Training:
    """A layer, its optimiser and a loop over them."""

    def __init__(self, row: Row, training: bool, lower: bool) -> None:
        name, args, kwargs, self.shape = row
        tinyt.manual_seed(0)
        self.layer = getattr(nn, name)(*args, **kwargs).train(training)
        parameters = list(self.layer.parameters())
        for param in parameters:  # ones and zeros would hide a missing weight
            nn.init.uniform_(param, 0.5, 1.5)
        self.optimizer = optim.SGD(parameters, lr=0.1, momentum=0.9) if parameters else None
        self.lower = lower

    def forward(self, x: Tensor) -> Any:
        with tinyt.autocast("cpu", dtype=tinyt.bfloat16, enabled=self.lower):
            return self.layer(x)

    def step(self, x: Tensor) -> Any:
        """One step; the gradient of the input, too."""
        if self.optimizer is not None:
            self.optimizer.zero_grad()
        if x.dtype.is_floating_point:
            x = x.detach().requires_grad_()
        results = self.forward(x * 1)
        backward(loss_of(results))
        if self.optimizer is not None:
            self.optimizer.step()
        return mapped(results, detached), x.grad

    def run(self, call: Callable[[Tensor], Any]) -> Iterator[Any]:
        """What each call returns, and the state after it."""
        for number in range(4):
            tinyt.manual_seed(number)
            integers = isinstance(self.shape, int)
            x = tinyt.randint(self.shape, (4, 3)) if integers else tinyt.randn(self.shape)
            yield call(x)
            yield list(self.layer.state_dict().values())
            yield [p.grad for p in self.layer.parameters()]
            yield tinyt.get_rng_state()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("lower", [False, True], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("row", [*LAYERS, *FURTHER], ids=lambda row: row[0])
def test_layer(row: Row, training: bool, lower: bool, threads: int) -> None:
    tinyt.set_num_threads(threads)
    for method in ("forward", "step"):
        eager, own = Training(row, training, lower), Training(row, training, lower)
        compiled = compile(getattr(own, method))
        sides = eager.run(getattr(eager, method)), own.run(compiled)
        for want, got in zip(*sides, strict=True):
            assert_same(got, want, method)
        assert programs(compiled) == 1
