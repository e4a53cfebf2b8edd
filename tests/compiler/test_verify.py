"""compile(verify=True): what it compares, that it changes nothing, and whom it blames."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tinyt
import tinyt.nn.functional as F
from op_rows import Op
from op_samples import OPS
from sampling import Sample, flat, map_arrays
from tinyt import Tensor, VerificationError, _core, memory, nn, optim
from tinyt.compiler import backward as backward_module
from tinyt.compiler import compiled as compiled_module
from tinyt.compiler import passes
from tinyt.compiler.api import compile
from tinyt.compiler.compiled import Compiled
from tinyt.compiler.graph.graph import Graph
from tinyt.testing.reference import table
from unseen import unseen

# Rows of the op table that float64 has no form of.
UNKNOWN = {
    "binomial",
    "cholesky",
    "dirichlet",
    "dirichlet_grad",
    "erfcx",
    "gammainc",
    "gammaincc",
    "log_ndtr",
    "lstm",
    "lstm_backward",
    "masked_select",  # not in graphs
    "nextafter",  # one step of the dtype itself
    "ndtri",
    "nonzero",  # not in graphs
    "poisson",
    "solve_triangular",
    "standard_gamma",
    "standard_gamma_grad",
    "von_mises",
    "zeta",
}


def test_every_operation_has_a_meaning_or_is_named() -> None:
    names = {row["name"] for row in _core.op_table()}
    assert names - table().keys() == UNKNOWN
    assert table().keys() <= names


# ---- every row of the op table, forward and backward


def asking(sample: Sample, differentiable: bool) -> tuple[Any, Any]:
    def leaf(array: np.ndarray, is_float: bool) -> Tensor:
        return tinyt.tensor(array).requires_grad_(is_float and differentiable)

    args, kwargs = map_arrays((sample.args, sample.kwargs), leaf, partial(getattr, tinyt))
    return args, kwargs


def halved(value: Any, dtype: Any) -> Any:
    if isinstance(value, Tensor):
        return value.to(dtype) if value.dtype is tinyt.float32 else value
    if isinstance(value, (tuple, list)):
        return type(value)(halved(x, dtype) for x in value)
    return value


def with_gradients(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function and the gradients of its results."""

    def step(*args: Any, **kwargs: Any) -> Any:
        leaves = [x.detach().requires_grad_() if wants(x) else x for x in args]
        results = list(flat(function(*leaves, **kwargs)))
        roots = [y for y in results if isinstance(y, Tensor) and y.requires_grad]
        if roots:
            total = sum((y.abs() if y.dtype.is_complex else y * 0.75).sum() for y in roots)
            total.backward()
        return [getattr(x, "grad", None) for x in leaves]

    return step


def wants(x: Any) -> bool:
    return isinstance(x, Tensor) and x.requires_grad


def unknown_in(compiled: Compiled) -> Counter[str]:
    found: Counter[str] = Counter()
    for verification in compiled.verifications():
        found.update(verification.unknown)
    return found


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_operation(op: Op, rng: np.random.Generator) -> None:
    """Forward in three dtypes and backward: equal in all ways, and near float64."""
    for number, sample in enumerate(op.samples(rng, op.dtypes[0])):
        if any(a.size > 5000 for a in flat_arrays(sample)):
            continue
        half = tinyt.float16 if number % 2 else tinyt.bfloat16
        for lower in (None, half):
            args, kwargs = asking(sample, op.grad)
            args = halved(args, lower) if lower else args
            steps = [op.function(tinyt)]
            if op.grad and not lower and number < 4:
                steps.append(with_gradients(op.function(tinyt)))
            for step in steps:
                verified(step, args, kwargs)


@pytest.mark.parametrize("dtype", [tinyt.float32, tinyt.bfloat16, tinyt.float64])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.softmax(-1),
        lambda x: F.cross_entropy(x, tinyt.arange(40), reduction="sum"),
        F.gelu,
    ],
)
def test_far_tails(function: Callable[[Tensor], Tensor], dtype: Any) -> None:
    """Exponentials that float32 has no normal number for; squares that rounding shows in."""
    x = tinyt.linspace(-120, 3, 1600).reshape(40, 40).t().to(dtype)
    verified(with_gradients(function), (x.requires_grad_(),), {})


@pytest.mark.parametrize("dtype", [tinyt.float32, tinyt.bfloat16, tinyt.float64])
@pytest.mark.parametrize("name", ["i0", "i0e", "i1", "i1e"])
def test_far_bessel_functions(name: str, dtype: Any) -> None:
    """Beyond what e^x is finite for, where the scaled ones still are."""
    far = [1e-30, 700.0, 713.0, 99.0, 101.0, 8000.0, 1e6, 1e30, math.inf, math.nan]
    x = tinyt.tensor([*far, *(-n for n in far)]).to(dtype).requires_grad_()
    verified(with_gradients(getattr(tinyt.special, name)), (x,), {})


def flat_arrays(sample: Sample) -> Iterator[np.ndarray]:
    found: list[np.ndarray] = []
    map_arrays((sample.args, sample.kwargs), lambda a, _: found.append(a), str)
    yield from found


def verified(step: Callable[..., Any], args: Any, kwargs: Any) -> None:
    try:
        step(*args, **kwargs)
    except (RuntimeError, ValueError, IndexError, TypeError):
        return  # not for this dtype
    compiled = compile(step, verify=True)
    try:
        compiled(*args, **kwargs)
    except tinyt.CaptureError:
        return
    assert unknown_in(compiled).keys() <= UNKNOWN
    assert len(compiled.verifications()) == 1


# ---- a training step is as it would be without


class Net:
    def __init__(self) -> None:
        tinyt.manual_seed(0)
        self.model = nn.Sequential(
            nn.Linear(6, 12), nn.BatchNorm1d(12), nn.GELU(), nn.Dropout(0.3), nn.Linear(12, 4)
        )
        self.optimizer = optim.AdamW(self.model.parameters(), lr=1e-2)

    def step(self, x: Tensor, target: Tensor) -> Tensor:
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(x), target)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def state(self) -> list[Any]:
        tensors = [*self.model.state_dict().values()]
        tensors += [p.grad for p in self.model.parameters()]
        for state in self.optimizer.state.values():
            tensors += state.values()
        found = [x.tolist() if isinstance(x, Tensor) else x for x in tensors]
        return [*found, tinyt.get_rng_state().tolist()]


@pytest.mark.parametrize("n", [1, 2, 3])
def test_pools_of_no_windows(n: int) -> None:
    pool = getattr(F, f"adaptive_max_pool{n}d")
    compiled = compile(lambda x: pool(x, 0, return_indices=True), verify=True)
    for _ in range(2):
        assert compiled(tinyt.ones(3, *[4] * n))[0].shape == (3, *[0] * n)


@pytest.mark.parametrize("value", [1.0, math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("ignored", [[0], [0, 1]])
def test_ignored_rows_of_cross_entropy(value: float, ignored: list[int]) -> None:
    """Their gradient is 0, whatever they hold; also where none is left."""
    x = tinyt.ones(2, 3)
    x[0, 1] = value
    target = tinyt.tensor([-100 if i in ignored else 1 for i in range(2)])
    for reduction in ("mean", "sum", "none"):
        compiled = compile(partial(F.cross_entropy, reduction=reduction), verify=True)
        for _ in range(2):
            leaf = x.clone().requires_grad_()
            compiled(leaf, target).sum().backward()
            assert leaf.grad is not None
            assert leaf.grad[0].tolist() == [0.0] * 3


def test_a_training_step_is_left_alone() -> None:
    x = tinyt.linspace(-1, 1, 48).reshape(8, 6)
    target = tinyt.tensor([0, 1, 2, 3, 3, 2, 1, 0])
    runs = []
    for options in (None, {"verify": True}):
        net = Net()
        step = net.step if options is None else compile(net.step, **options)
        seen = []
        for _ in range(4):
            seen.append(step(x, target).item())
            seen.append(net.state())
        runs.append(seen)
    assert runs[0] == runs[1]
    first, second = step.verifications()
    assert (first.when, second.when) == ("captured", "first run")
    assert "first run: " in str(second)
    assert second.unknown == {"Adam": 1}
    assert second.nodes > 30
    assert second.compared > 30


def test_versions_and_memory_are_left_alone() -> None:
    x = tinyt.ones(3)
    weight = tinyt.tensor([1.0, 2.0, 3.0]).requires_grad_()
    outside = (weight * weight).sum()  # its tape needs the weight as it is
    versions = []
    for verify in (False, True):
        y = x.clone()
        compiled = compile(lambda y: y.add_(weight.detach()), verify=verify)
        for _ in range(3):
            assert compiled(y) is y
        versions.append(y._version)
        assert y.tolist() == [4.0, 7.0, 10.0]
    assert versions[0] == versions[1]
    outside.backward()
    assert weight.grad.tolist() == [2.0, 4.0, 6.0]


def test_gradients_through_results_are_compared() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
    compiled = compile(model, verify=True)
    x = tinyt.randn(5, 3).requires_grad_()
    for _ in range(3):
        compiled(x).sum().backward()
    assert {v.compared >= 4 for v in compiled.compiled.verifications()} == {True}
    assert x.grad is not None


def test_an_error_of_the_function_is_its_own() -> None:
    index = tinyt.tensor([0, 1])
    compiled = compile(lambda x: x[index] * 2.0, verify=True)
    x = tinyt.ones(3)
    compiled(x)
    index[0] = 7
    with pytest.raises(IndexError, match="7"):
        compiled(x)
    index[0] = 2
    assert compiled(x).tolist() == [2.0, 2.0]


def test_causes_of_errors_are_not_kept() -> None:
    """Their frames hold tensors."""
    compiled = compile(lambda x, n: x.repeat_interleave(n, output_size=3), verify=True)
    x = tinyt.ones(2)
    assert compiled(x, tinyt.tensor([1, 2])).tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(IndexError, match="add up to output_size 3"):
        compiled(x, tinyt.tensor([1, 0, 3, 0])[::2])  # of a new program


@pytest.mark.host
@pytest.mark.parametrize("verify", [True, False])
def test_no_memory_for_a_capture_or_check_blames_nobody(verify: bool) -> None:
    """At whichever allocation; the next calls and their backward passes are right, and checked."""
    x = tinyt.ones(70, 30).requires_grad_()
    want = [[70 * math.exp(2)] * 30, [[2 * math.exp(2)] * 30] * 70]
    failures = 0
    for calls in (0, 1):  # while it is captured, and before the first run of the program
        for n in range(1, 60):
            compiled = compile(lambda x: (x * 2.0).exp().sum(0), verify=verify)
            for _ in range(calls):
                compiled(x)
            memory.fail_nth_allocation(n)
            try:
                compiled(x)
            except tinyt.OutOfMemoryError:
                failures += 1
            finally:
                memory.fail_nth_allocation(0)
            for _ in range(3):
                x.grad = None
                y = compiled(x)
                y.sum().backward()
                assert x.grad is not None
                for got, wanted in zip((y, x.grad), want, strict=True):
                    np.testing.assert_allclose(got.detach().numpy(force=True), wanted, rtol=1e-6)
            assert [v.when for v in compiled.verifications()][-1:] == ["first run"] * verify
    assert failures > 5


def test_verify_can_be_copied_and_cleared() -> None:
    compiled = compile(lambda x: x + 1, verify=True)
    compiled(tinyt.ones(2))
    assert len(compiled.verifications()) == 1
    compiled.cache_clear()
    assert compiled.verifications() == ()
    copied = compiled.__reduce__()
    assert copied[0](*copied[1])._verifier is not None


# ---- planted errors


def planned_from(function: Callable[..., Any], *args: Any) -> Any:
    """A stand-in for the core whose programs are those of another function."""
    other = compile(function)
    other(*args)
    core = other.entries[0].capture.core

    def program(_: Any, part: int = 0) -> Any:
        return _core.Program(core, part)

    return SimpleNamespace(Program=program, Graph=_core.Graph)


def blamed(function: Callable[..., Any], *args: Any) -> VerificationError:
    compiled = compile(function, verify=True)
    try:
        compiled(*args)
    except VerificationError as error:
        return error.with_traceback(None)
    raise AssertionError("nobody noticed")


def test_a_wrong_pass_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that takes every sum for a difference, among the right ones."""

    def wrong(graph: Graph) -> Graph:
        nodes = [
            node._replace(op="sub", origin=-1) if node.op == "add" else node for node in graph.nodes
        ]
        return graph._replace(nodes=nodes) if nodes != graph.nodes else graph

    pipeline = (*passes.PASSES[:2], ("planted", wrong), *passes.PASSES[2:])
    monkeypatch.setattr(passes, "PASSES", pipeline)
    x, y = tinyt.tensor([1.0, 2.0, 3.0]), tinyt.tensor([0.0, 0.5, 0.0])
    error = blamed(lambda x, y: (x * 2.0 + y).exp() - (x + 0.0), x, y)
    assert (error.stage, error.name, error.number) == ("pass", "planted", 2)
    assert error.position == (1,)
    assert "after pass 2 (planted)" in str(error)


def test_a_wrong_region_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    x = tinyt.linspace(0.5, 2.0, 6).reshape(2, 3)

    def step(x: Tensor) -> Tensor:
        return ((x @ x.T).sum(1) * 2.0).exp() - 1.0

    def wrong(x: Tensor) -> Tensor:
        return ((x @ x.T).sum(1) * 2.0).expm1() - 1.0

    monkeypatch.setattr(compiled_module, "_core", planned_from(wrong, x))
    error = blamed(step, x)
    assert error.stage == "region"
    assert "expm1" in error.name
    assert "matmul" not in error.name
    assert error.position == (0,)
    assert error.number > 0
    assert "from right operands" in str(error)


def test_a_wrong_backward_program_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    x = tinyt.linspace(0.5, 2.0, 6).requires_grad_()
    wrong = compile(lambda x: (x * x).cos() * 1.0)
    wrong(x)
    other = wrong.entries[0].capture.core

    def program(core: Any, part: int = 0) -> Any:
        return _core.Program(other if part == 2 else core, part)

    monkeypatch.setattr(backward_module, "_core", SimpleNamespace(Program=program))
    error = blamed(lambda x: (x * x).sin() * 1.0, x)
    assert error.stage in ("region", "plan")
    assert "gradient through the result" in str(error)


def test_a_wrong_capture_is_named() -> None:
    """What a function draws of Python's own cannot be seen: the next value is another."""
    value = unseen(range(100))

    def step(x: Tensor) -> Tensor:
        return x + value()

    error = blamed(step, tinyt.ones(2))
    assert error.stage == "capture"
    assert error.position == (0,)


def test_a_wrong_kernel_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against float64: here that is the one which is wrong."""
    row = table()["exp"]
    monkeypatch.setitem(
        table(), "exp", row._replace(function=lambda x: np.exp(x) * np.where(x > 1, 1 + 1e-5, 1))
    )
    error = blamed(lambda x: (x * 2.0).exp() + 1.0, tinyt.tensor([0.25, 0.75, 0.125]))
    assert (error.stage, error.name, error.position) == ("node", "exp", (1,))
    assert "node 1 (exp)" in str(error)


def test_an_error_of_the_program_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    x = tinyt.ones(4)
    wrong = planned_from(lambda x, i: x.gather(0, i + 3), x, tinyt.tensor([0]))
    monkeypatch.setattr(compiled_module, "_core", wrong)
    error = blamed(lambda x, i: x.gather(0, i + 1), x, tinyt.tensor([2]))
    assert error.stage == "region"
    assert error.name == "add"  # the index
    assert "gather: index 5 is out of range" in str(error)


def test_writes_that_are_lost_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    state, other = tinyt.zeros(3), tinyt.zeros(3)
    wrong = planned_from(lambda x: other.add_(x) * 1.0, tinyt.ones(3))
    monkeypatch.setattr(compiled_module, "_core", wrong)
    error = blamed(lambda x: state.add_(x) * 1.0, tinyt.ones(3))
    assert "memory of float32 [3]" in str(error)
    assert state.tolist() == [1.0, 1.0, 1.0]  # as after the one call


def test_it_is_a_runtime_error() -> None:
    assert issubclass(VerificationError, RuntimeError)


def test_gradients_that_add_up_are_compared_by_value() -> None:
    weight = tinyt.tensor([1.0, 2.0]).requires_grad_()

    def step(x: Tensor) -> Tensor:
        loss = (weight * x).sum()
        loss.backward()
        return loss.detach()

    compiled = compile(step, verify=True)
    for _ in range(4):
        compiled(tinyt.tensor([3.0, 4.0]))
    assert weight.grad.tolist() == [12.0, 16.0]
    assert len(compiled.verifications()) >= 2


# ---- what verifying found


def test_a_leaf_of_captured_memory_is_made_in_the_function() -> None:
    """Its gradient is no state that lasts: one program does."""
    x = tinyt.tensor([1.0, 2.0]).requires_grad_()

    def function() -> Tensor:
        y = x.detach().requires_grad_()
        (y * y).sum().backward()
        return y.grad

    compiled = compile(function)
    for _ in range(4):
        assert compiled().tolist() == [2.0, 4.0]
        x.data.mul_(1.0)
    assert compiled.cache_info().currsize == 1
    assert x.grad is None


def test_a_view_of_an_argument_is_one_of_this_call() -> None:
    """A program that reads nothing stands for the leaf it was captured with, too."""
    compiled = compile(lambda x: x.unfold(0, 2, 1))
    for value in (1.0, 2.0, 3.0, 4.0):
        x = tinyt.full((3,), value).requires_grad_()
        found = compiled(x)
        assert found.tolist() == [[value] * 2] * 2
        found.sum().backward()
        assert x.grad.tolist() == [1.0, 2.0, 1.0]


def test_a_leaf_of_captured_memory_is_not_returned() -> None:
    x = tinyt.tensor([1.0, 2.0]).requires_grad_()

    def function() -> Tensor:
        y = x.detach().requires_grad_()
        (y * y).sum().backward()
        return y

    with pytest.raises(tinyt.CaptureError, match="make it outside"):
        compile(function)()


def test_a_result_whose_backward_fails_is_compared() -> None:
    weight = tinyt.ones(3).requires_grad_()

    def step(x: Tensor) -> Tensor:
        y = (weight * x).tanh()
        z = y + 0.0
        y.mul_(2.0)  # which the gradient of tanh needs
        return z

    compiled = compile(step, verify=True)
    for _ in range(2):
        result = compiled(tinyt.ones(3))
    with pytest.raises(RuntimeError, match="inplace"):
        result.sum().backward()
    assert len(compiled.verifications()) == 2


def test_strides_of_nothing_do_not_matter() -> None:
    compiled = compile(lambda x: x[..., None], verify=True)
    compiled(tinyt.zeros(3, 0, 2).permute(2, 1, 0))


def test_the_gradient_of_hardsigmoid_is_zero_outside_whatever_arrives() -> None:
    """Of NaN, too, as the definition has it."""
    nan = float("nan")

    def run(x: Tensor, g: Tensor) -> Any:
        leaf = x.detach().requires_grad_()
        return tinyt.autograd.grad(F.hardsigmoid(leaf), [leaf], [g])[0]

    args = tinyt.tensor([nan, -9.0, 9.0, 1.0]), tinyt.tensor([nan, nan, 2.0, 3.0])
    assert compile(run, verify=True)(*args).tolist() == [0.0, 0.0, 0.0, 0.5]


@pytest.mark.parametrize("wild", [float("nan"), float("inf")])
def test_other_channels_of_a_norm_are_still_looked_at(wild: float) -> None:
    x, g = tinyt.randn(4, 3, 5), tinyt.randn(4, 3, 5)
    x[:, 0] = wild

    @compile(verify=True)
    def step(x: Tensor, g: Tensor, mean: Tensor, var: Tensor) -> Any:
        x = x.detach().requires_grad_()
        w = tinyt.ones(3, requires_grad=True)
        y = F.batch_norm(x, mean, var, w) + F.batch_norm(x, None, None, w, training=True)
        return tinyt.autograd.grad(y, [x, w], g)

    slopes = step(x, g, tinyt.zeros(3), tinyt.ones(3))
    assert slopes[0][:, 1:].isfinite().all()


@pytest.mark.parametrize("wild", [float("nan"), float("inf")])
@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 3), (3, 1)])
def test_zeros_around_a_gradient_may_meet_what_is_not_finite(
    wild: float, stride: int, dilation: int
) -> None:
    x, w = tinyt.randn(2, 4, 6), tinyt.randn(4, 3, 2)
    w[1, 0, 1] = wild
    x[0, 2, 3] = wild

    @compile(verify=True)
    def step(x: Tensor, w: Tensor) -> Any:
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        options = {"stride": stride, "dilation": dilation, "groups": 2}
        y = F.conv_transpose1d(x, w, **options)
        z = F.conv1d(x, w.reshape(4, 2, 3)[:, :, :2], **options)
        return y.detach(), tinyt.autograd.grad([y, z], [x, w], [y.detach() * 0 + 1, z.detach()])

    y = step(x, w)[0]
    assert y[:, 1:3].isfinite().any()


def attending(mask: Tensor | None, causal: bool) -> Callable[..., Any]:
    """Attention, and its gradients."""

    def step(*tensors: Tensor) -> Any:
        leaves = [x.detach().requires_grad_() for x in tensors]
        y = F.scaled_dot_product_attention(*leaves, mask, is_causal=causal)
        return y.detach(), tinyt.autograd.grad(y.sum(), leaves)

    return step


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("wild", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("mask", [None, "causal", "bool", "float"])
def test_rows_of_attention_that_are_not_finite(mask: str | None, wild: float, which: int) -> None:
    """The others are still looked at, and so are those of all keys that are not."""
    seen = tinyt.ones(3, 3).tril() > 0
    masks = {"bool": seen, "float": tinyt.where(seen, 0.0, -float("inf"))}
    step = attending(masks.get(mask), mask == "causal")
    # From 205 on there are rows whose infinite scores have one sign.
    for seed in (0, 1, 2, 205, 213, 222, 223, 226, 242, 243):
        tinyt.manual_seed(seed)
        tensors = [tinyt.randn(2, 2, 3, 4) for _ in range(3)]
        tensors[which][0, :, 1] = wild
        tensors[which][1, 0] = wild
        assert compile(step, verify=True)(*tensors)[0][1, 1].isfinite().all()


def with_infinite_row(tall: int, row: int, which: int) -> list[Tensor]:
    tensors = [tinyt.linspace(-1, 1, tall * 4).cos().reshape(1, 1, tall, 4) for _ in range(3)]
    tensors[which][0, 0, row] = math.inf
    return tensors


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize(("tall", "row"), [(3, 1), (20, 7), (150, 5), (150, 140)])
def test_a_row_of_attention_that_is_infinite(tall: int, row: int, which: int, causal: bool) -> None:
    """A query, or a key or value that queries see from theirs on, or none does. A weight of 0 is a
    term of a sum only where its block has others."""
    step = attending(None if causal else tinyt.arange(tall) != row, causal)
    compile(step, verify=True)(*with_infinite_row(tall, row, which))


@pytest.mark.parametrize(
    ("which", "part", "at"),
    [(0, 0, (0, 0, 9, 1)), (0, 2, (0, 0, 9, 0)), (1, 1, (0, 0, 9, 0)), (1, 2, (0, 0, 9, 0))],
)
@pytest.mark.parametrize("planted", [1e-2, math.nan])
def test_errors_beside_an_infinite_row_of_attention_are_seen(
    monkeypatch: pytest.MonkeyPatch, planted: float, which: int, part: int, at: tuple[int, ...]
) -> None:
    """In gradients of other queries, and of values that it does not see; of keys and values beside
    one that no query sees. Here float64 is wrong."""
    row = table()["attention_backward"]

    def wrong(*args: Any) -> Any:
        found = row.function(*args)
        found[part].want[at] += planted
        return found

    step = attending(tinyt.arange(20) != 7 if which else None, which == 0)
    tensors = with_infinite_row(20, 7, which)
    monkeypatch.setitem(table(), "attention_backward", row._replace(function=wrong))
    error = blamed(step, *tensors)
    assert (error.stage, error.name, error.position) == ("node", "attention_backward", at)


@pytest.mark.parametrize("dtype", [tinyt.float32, tinyt.float64])
def test_steps_of_nan_are_the_tables(dtype: Any) -> None:
    """heaviside of NaN is 0, as in PyTorch; NumPy's is NaN."""
    step = compile(lambda x, y: tinyt.heaviside(x, y), verify=True)
    x = tinyt.tensor([math.nan, -1.0, 0.0, 2.0], dtype=dtype)
    for _ in range(3):
        assert step(x, tinyt.full((4,), 0.5, dtype=dtype)).tolist() == [0.0, 0.0, 0.5, 1.0]


def test_units_take_subnormal_numbers_for_zero() -> None:
    small = tinyt.full((4, 6), 1e-39).bfloat16()
    thin = tinyt.full((2, 6, 5), 2e-20).bfloat16()

    @compile(verify=True)
    def step(a: Tensor, b: Tensor, row: Tensor) -> Any:
        weight = a.reshape(4, 6, 1) * 1
        return a @ b[0], b.mT @ (b * 0.5), tinyt.addmm(row, a, b[0]), F.conv1d(b, weight)

    step(small, thin, tinyt.full((5,), 1e-39).bfloat16())
