"""Reverse mode: what is recorded, what is kept, what is refused."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinyt
from tinyt import _autograd, autograd


def leaf(*values: float) -> Any:
    return tinyt.tensor(values, requires_grad=True)


# ------------------------------------------------------------------ leaves, flags, accumulation


def test_flags() -> None:
    x = tinyt.ones(2)
    assert (x.requires_grad, x.is_leaf, x.grad, x.grad_fn) == (False, True, None, None)
    y = x.requires_grad_()
    assert y is x
    z = x * 2
    assert (z.requires_grad, z.is_leaf) == (True, False)
    assert z.grad_fn is not None
    assert not (tinyt.ones(2) * 2).requires_grad


def test_backward_accumulates() -> None:
    x = leaf(1.0, 2.0)
    for times in (1, 2, 3):
        (x * 3).sum().backward()
        assert x.grad.tolist() == [3.0 * times] * 2
    x.grad = None
    (x * x).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_gradient_has_shape_and_dtype_of_the_leaf() -> None:
    x = tinyt.ones(3, 1, dtype=tinyt.float64, requires_grad=True)
    (x * tinyt.ones(2, 3, 4)).sum().backward()
    assert tuple(x.grad.shape) == (3, 1)
    assert x.grad.dtype == tinyt.float64
    assert x.grad.tolist() == [[8.0]] * 3


def test_gradient_through_a_cast() -> None:
    x = leaf(1.0, 2.0)
    (x.to(tinyt.float64) * 2).sum().backward()
    assert x.grad.dtype == tinyt.float32


def test_used_twice() -> None:
    x = leaf(3.0)
    y = x * x
    (y + y * x).sum().backward()
    assert x.grad.tolist() == [2 * 3 + 3 * 9.0]


def test_diamond_and_long_chain() -> None:
    """Thousands of nodes: nothing recurses, neither backward nor when it is freed."""
    x = leaf(1.0)
    y = x
    for _ in range(20_000):
        y = y + x
    y.backward(tinyt.ones(1))
    assert x.grad.tolist() == [20_001.0]
    del y


def test_backward_needs_a_scalar() -> None:
    x = leaf(1.0, 2.0)
    y = x * 2
    with pytest.raises(RuntimeError, match=r"scalar"):
        y.backward()
    y.backward(tinyt.tensor([1.0, 10.0]))
    assert x.grad.tolist() == [2.0, 20.0]


def test_wrong_gradient_argument() -> None:
    y = leaf(1.0, 2.0) * 2
    with pytest.raises(RuntimeError, match=r"\(3,\)|\[3\]"):
        y.backward(tinyt.ones(3))


def test_nothing_to_differentiate() -> None:
    with pytest.raises(RuntimeError, match=r"(require|grad)"):
        tinyt.ones(2).sum().backward()


def test_second_backward_through_a_freed_graph() -> None:
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match=r"second time"):
        y.backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_retain_graph() -> None:
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [4.0, 8.0]


# ------------------------------------------------------------------ grad()


def test_grad_leaves_dot_grad_alone() -> None:
    x = leaf(1.0, 2.0)
    (g,) = autograd.grad((x * x).sum(), x)
    assert g.tolist() == [2.0, 4.0]
    assert x.grad is None


def test_grad_of_an_inner_tensor() -> None:
    x = leaf(2.0)
    y = x * 3
    (g,) = autograd.grad((y * y).sum(), [y])
    assert g.tolist() == [12.0]


def test_grad_of_unused() -> None:
    x, y = leaf(1.0), leaf(1.0)
    assert autograd.grad(x.sum(), [y], allow_unused=True) == (None,)
    with pytest.raises(RuntimeError, match=r"unused|not have been used|allow_unused"):
        autograd.grad(x.sum(), [y])


def test_grad_outputs() -> None:
    x = leaf(1.0, 2.0)
    (g,) = autograd.grad(x * x, x, grad_outputs=tinyt.tensor([1.0, 0.5]))
    assert g.tolist() == [2.0, 2.0]


def test_third_derivative() -> None:
    x = leaf(2.0)
    y = x**4
    for want in (32.0, 48.0, 48.0):
        (y,) = autograd.grad(y.sum(), x, create_graph=True)
        assert y.tolist() == [want]


def test_create_graph_in_backward() -> None:
    x = leaf(3.0)
    (x**3).sum().backward(create_graph=True)
    first = x.grad
    assert first.requires_grad
    (second,) = autograd.grad(first.sum(), x)
    assert (first.tolist(), second.tolist()) == ([27.0], [18.0])
    x.grad = None  # x -> x.grad -> graph -> x is a cycle of the user's making


def test_older_name_of_grad_tensors() -> None:
    x = tinyt.ones(2, requires_grad=True)
    seed = tinyt.tensor([1.0, 2.0])
    tinyt.autograd.backward([x * 3], grad_variables=[seed])
    assert x.grad is not None
    assert x.grad.tolist() == [3.0, 6.0]
    with pytest.raises(RuntimeError, match="grad_variables are the same"):
        tinyt.autograd.backward([x * 3], [seed], grad_variables=[seed])


def test_backward_inputs() -> None:
    x, y = leaf(1.0), leaf(2.0)
    (x * y).sum().backward(inputs=[x])
    assert x.grad.tolist() == [2.0]
    assert y.grad is None


# ------------------------------------------------------------------ modes and detach


def test_no_grad() -> None:
    x = leaf(1.0)
    with tinyt.no_grad():
        assert not tinyt.is_grad_enabled()
        assert not (x * 2).requires_grad
        with tinyt.enable_grad():
            assert (x * 2).requires_grad
        assert not (x * 2).requires_grad
    assert tinyt.is_grad_enabled()

    @tinyt.no_grad()
    def double(t: Any) -> Any:
        return t * 2

    assert not double(x).requires_grad


def test_a_grad_mode_block_that_was_not_entered() -> None:
    with pytest.raises(RuntimeError, match="left before it was entered"):
        tinyt.no_grad().__exit__(None, None, None)
    assert tinyt.is_grad_enabled()


def test_no_grad_ends_with_an_error() -> None:
    with pytest.raises(ZeroDivisionError), tinyt.no_grad():
        raise ZeroDivisionError
    assert tinyt.is_grad_enabled()


def test_detach_shares_memory_but_not_the_graph() -> None:
    x = leaf(1.0, 2.0)
    y = (x * 2).detach()
    assert not y.requires_grad
    z = x.detach()
    z[0] = 5
    assert x.tolist() == [5.0, 2.0]


def test_retain_grad_and_hooks() -> None:
    x = leaf(1.0)
    y = x * 2
    y.retain_grad()
    seen: list[list[float]] = []
    handle = x.register_hook(lambda g: seen.append(g.tolist()))
    (y * 3).sum().backward()
    assert y.grad.tolist() == [3.0]
    assert seen == [[6.0]]
    handle.remove()
    (x * 2).sum().backward()
    assert len(seen) == 1


def test_post_accumulate_hook_and_retains_grad() -> None:
    x = leaf(1.0)
    seen: list[Any] = []
    handle = x.register_post_accumulate_grad_hook(lambda p: seen.append((p is x, p.grad.tolist())))
    (x * 3).sum().backward()
    (x * 3).sum().backward()
    handle.remove()
    y = x * 3
    assert (x.retains_grad, y.retains_grad) == (False, False)
    y.retain_grad()
    y.retain_grad()
    y.sum().backward()
    assert (y.retains_grad, y.grad.tolist()) == (True, [1.0])
    assert seen == [(True, [3.0]), (True, [6.0])]


def test_hooks_are_refused() -> None:
    with pytest.raises(RuntimeError, match="doesn't require gradient"):
        tinyt.ones(1).register_hook(print)
    with pytest.raises(RuntimeError, match="doesn't require gradient"):
        tinyt.ones(1).register_post_accumulate_grad_hook(print)
    with pytest.raises(RuntimeError, match="non-leaf tensors"):
        (leaf(1.0) * 2).register_post_accumulate_grad_hook(print)
    with pytest.raises(RuntimeError, match="requires_grad=False"):
        tinyt.ones(1).retain_grad()


def test_modes_as_decorators() -> None:
    x = leaf(1.0)

    @tinyt.no_grad
    def bare(t: Any) -> Any:
        return t * 2

    @tinyt.inference_mode()
    def inferred(t: Any) -> Any:
        assert tinyt.is_inference_mode_enabled()
        return t * 2

    @tinyt.set_grad_enabled(False)
    def off(t: Any) -> Any:
        return t * 2

    @tinyt.no_grad()
    def steps(t: Any) -> Any:
        got = yield (t * 2).requires_grad
        yield got, (t * 2).requires_grad
        return 7

    def outer() -> Any:
        end = yield from steps(x)
        yield end

    assert tinyt.is_grad_enabled()
    assert not bare(x).requires_grad
    assert not inferred(x).requires_grad
    assert not off(x).requires_grad
    assert not tinyt.is_inference_mode_enabled()
    run = outer()
    assert next(run) is False
    assert (x * 2).requires_grad
    assert run.send("got") == ("got", False)
    assert next(run) == 7
    tinyt.set_grad_enabled(False)
    assert not (x * 2).requires_grad
    with tinyt.set_grad_enabled(True):
        assert (x * 2).requires_grad
    assert not tinyt.is_grad_enabled()
    tinyt.set_grad_enabled(True)


def test_second_backward_where_nothing_was_saved() -> None:
    x = leaf(1.0)
    y = (x + 2).sum()
    y.backward()
    y.backward()
    assert x.grad.tolist() == [2.0]


def test_grads_in_batches() -> None:
    x = leaf(1.0, 2.0)
    seeds = tinyt.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    (jacobian,) = autograd.grad(x * x, x, seeds, is_grads_batched=True, create_graph=True)
    assert jacobian.tolist() == [[2.0, 0.0], [0.0, 4.0], [2.0, 4.0]]
    (second,) = autograd.grad(jacobian.sum(), x)
    assert second.tolist() == [4.0, 4.0]
    with pytest.raises(RuntimeError, match="batch dimension"):
        autograd.grad(x * x, x, is_grads_batched=True)


def test_grad_of_a_mapping_and_materialized() -> None:
    x, y = leaf(1.0), leaf(2.0)
    found = autograd.grad((x * 3).sum(), {"x": x, "y": y}, materialize_grads=True)
    assert {k: g.tolist() for k, g in found.items()} == {"x": [3.0], "y": [0.0]}
    with pytest.raises(ValueError, match="allow_unused must not be False"):
        autograd.grad(x.sum(), x, allow_unused=False, materialize_grads=True)
    with pytest.raises(ValueError, match="only_inputs"):
        autograd.grad(x.sum(), x, only_inputs=False)


# ------------------------------------------------------------------ anomaly mode


def test_anomaly_names_the_forward_line() -> None:
    def loss(x: Any) -> Any:
        bad = x.sqrt()  # the line to find
        return (bad * 0).sum()

    x = leaf(0.0)
    with (
        autograd.detect_anomaly(),
        pytest.warns(UserWarning, match=r"(?s)Error detected in Sqrt.*the line to find"),
        pytest.raises(RuntimeError, match=r"Sqrt.*nan values in its 0th.*the line to find"),
    ):
        loss(x).backward()
    assert not tinyt.is_anomaly_enabled()
    loss(x).backward()
    assert np.isnan(x.grad.tolist()).all()


def test_anomaly_switches() -> None:
    x = leaf(0.0)
    with autograd.set_detect_anomaly(True, check_nan=False):
        assert (tinyt.is_anomaly_enabled(), tinyt.is_anomaly_check_nan_enabled()) == (True, False)
        (x.sqrt() * 0).sum().backward()
    autograd.set_detect_anomaly(True)
    assert tinyt.is_anomaly_enabled()
    autograd.set_detect_anomaly(False)
    (x.sqrt() * 0).sum().backward()
    assert not tinyt.is_anomaly_enabled()


@pytest.mark.parametrize("calls", [0, 1, 3])
def test_anomaly_in_a_compiled_step(calls: int) -> None:
    """It runs as it is written, whether or not there is a program."""

    def step(x: Any) -> Any:
        x.grad = None
        (x.sqrt() * 0).sum().backward()  # the line to find
        return x.grad

    x, compiled = leaf(0.0), tinyt.compile(step)
    for _ in range(calls):
        compiled(x)
    with (
        autograd.detect_anomaly(),
        pytest.warns(UserWarning, match=r"(?s)Error detected in Sqrt.*the line to find"),
        pytest.raises(RuntimeError, match=r"Sqrt.*nan values in its 0th.*the line to find"),
    ):
        compiled(x)
    with autograd.detect_anomaly():
        assert tinyt.compile(lambda x: x * 2)(leaf(1.5)).item() == 3.0
    for _ in range(3):
        assert np.isnan(compiled(x).tolist()).all()
    assert len(compiled.entries) == 1


# ------------------------------------------------------------------ in-place


def test_leaf_in_place() -> None:
    x = leaf(1.0)
    with pytest.raises(RuntimeError, match=r"leaf.*in-place|in-place.*leaf"):
        x.add_(1)
    with pytest.raises(RuntimeError, match=r"leaf"):
        x[0] = 2.0
    with pytest.raises(RuntimeError, match=r"leaf"):
        x.view(1).mul_(2)
    assert x.tolist() == [1.0]
    with tinyt.no_grad():
        x.add_(1)
    assert x.tolist() == [2.0]


def test_saved_tensor_was_written() -> None:
    """The error names the operation that saved it, and says what to look for."""
    x = leaf(1.0, 2.0)
    y = x * 2
    z = (y * y).sum()
    y.add_(1)
    with pytest.raises(RuntimeError, match=r"(?s)modified by an in-?place operation"):
        z.backward()


def test_saved_tensor_was_written_names_operation_and_tensor() -> None:
    x = leaf(1.0, 2.0)
    y = tinyt.exp(x)
    z = y.sum()
    y.mul_(2)
    with pytest.raises(RuntimeError, match=r"(?s)(?=.*\bexp\b)(?=.*\(2,\))(?=.*version)"):
        z.backward()


def test_saved_through_a_view() -> None:
    x = leaf(1.0, 2.0)
    y = x * 2
    z = (y * y).sum()
    y[0] = 9.0
    with pytest.raises(RuntimeError, match=r"modified by an in-?place"):
        z.backward()


def test_write_that_hurts_nobody() -> None:
    """Addition saves nothing."""
    x = leaf(1.0, 2.0)
    y = x * 2
    z = (y + 1).sum()
    y.add_(1)
    z.backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_in_place_is_differentiated() -> None:
    x = leaf(1.0, 2.0)
    y = x * 2
    y.mul_(x)
    y.add_(3)
    y.sum().backward()
    assert x.grad.tolist() == [4.0, 8.0]


def test_refused_write_to_a_view_of_strided_memory_writes_nothing() -> None:
    x = tinyt.from_numpy(np.zeros((3, 2), order="F"))
    v = leaf(1.0, 2.0).double().detach().requires_grad_()
    with pytest.raises(NotImplementedError, match=r"contiguous base.*\(3, 2\)"):
        x[1] = v * 2
    assert x.tolist() == [[0.0, 0.0]] * 3
    assert not x.requires_grad


def test_setitem_on_a_non_leaf() -> None:
    x, v = leaf(1.0, 2.0, 3.0), leaf(10.0)
    y = x * 2
    y[1:2] = v * 3
    (y * tinyt.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert x.grad.tolist() == [2.0, 0.0, 6.0]
    assert v.grad.tolist() == [6.0]


def test_setitem_with_a_graph_into_plain_memory() -> None:
    v = leaf(2.0)
    y = tinyt.zeros(3)
    y[1] = v[0] * 5
    assert y.requires_grad
    (y * y).sum().backward()
    assert v.grad.tolist() == [100.0]


def test_write_through_a_view() -> None:
    x = leaf(1.0, 2.0, 3.0, 4.0)
    y = x * 1
    z = y.view(2, 2)
    z[0].mul_(10)
    y.sum().backward()
    assert x.grad.tolist() == [10.0, 10.0, 1.0, 1.0]


def test_view_sees_a_write_to_its_base() -> None:
    x = leaf(1.0, 2.0)
    y = x * 1
    z = y[0:1]
    y.mul_(x)
    z.sum().backward()
    assert x.grad.tolist() == [2.0, 0.0]


def test_write_through_a_transposed_view() -> None:
    x = tinyt.ones(2, 3, requires_grad=True)
    y = x * 2
    y.t()[1].mul_(x[:, 0])
    y.sum().backward()
    assert x.grad.tolist() == [[4.0, 2.0, 2.0], [4.0, 2.0, 2.0]]


def test_write_with_an_index_tensor() -> None:
    x, v = leaf(1.0, 2.0, 3.0), leaf(7.0, 8.0)
    y = x * 1
    y[tinyt.tensor([2, 0])] = v
    (y * tinyt.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert x.grad.tolist() == [0.0, 10.0, 0.0]
    assert v.grad.tolist() == [100.0, 1.0]


def test_write_with_a_mask() -> None:
    x = leaf(1.0, 2.0, 3.0)
    y = x * 2
    y[x > 1.5] = 0.0
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 0.0, 0.0]


# ------------------------------------------------------------------ ties, zeros, conventions


@pytest.mark.parametrize(
    ("function", "at", "want"),
    [
        (tinyt.relu, 0.0, 0.0),
        (tinyt.abs, 0.0, 0.0),
        (tinyt.sign, 0.0, 0.0),
        (lambda x: x.clamp(min=0.0), 0.0, 1.0),
        (lambda x: tinyt.maximum(x, tinyt.zeros(1)), 0.0, 0.5),
        (lambda x: tinyt.minimum(x, x * 1), 2.0, 1.0),
        (lambda x: x**0, 0.0, 0.0),
        (lambda x: x**2, 0.0, 0.0),
        (tinyt.floor, 0.5, 0.0),
    ],
)
def test_conventions_at_kinks(function: Any, at: float, want: float) -> None:
    x = leaf(at)
    function(x).sum().backward()
    assert x.grad.tolist() == [want]


def test_extremes_share_gradients_among_ties() -> None:
    x = leaf(2.0, 1.0, 2.0)
    x.amax().backward()
    assert x.grad.tolist() == [0.5, 0.0, 0.5]


def test_product_with_zeros() -> None:
    for values, want in [
        ((0.0, 2.0, 3.0), [6.0, 0.0, 0.0]),
        ((0.0, 0.0, 3.0), [0.0, 0.0, 0.0]),
    ]:
        x = leaf(*values)
        x.prod().backward()
        assert x.grad.tolist() == want


def test_masked_softmax_row_has_no_nan() -> None:
    x = tinyt.tensor([[1.0, float("-inf"), 2.0]], requires_grad=True)
    tinyt.softmax(x, 1)[0, 0].backward()
    assert np.isfinite(np.array(x.grad.tolist())).all()


@pytest.mark.parametrize(
    ("function", "slope"),
    [
        (lambda x: x ** (1 / 3), lambda x: x ** (1 / 3 - 1) / 3),
        (lambda x: 0.3**x, lambda x: np.log(0.3) * 0.3**x),
        (lambda x: 0.3 / x, lambda x: -0.3 / x**2),
        (lambda x: x / 0.3, lambda x: 1 / 0.3 + 0 * x),
        (lambda x: x * 0.3, lambda x: 0.3 + 0 * x),
    ],
)
def test_saved_number_keeps_its_precision(function: Any, slope: Any) -> None:
    """A Python number beside a float64 tensor is a double in backward too."""
    values = np.array([0.7, 2.0])
    x = tinyt.tensor(values, requires_grad=True)
    function(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), slope(values), rtol=1e-15, atol=0)


# ------------------------------------------------------------------ gradcheck


def test_gradcheck_accepts_and_refuses() -> None:
    x = tinyt.tensor([0.3, -0.7], dtype=tinyt.float64, requires_grad=True)
    assert autograd.gradcheck(lambda t: (tinyt.sin(t) * t).sum(), (x,))
    assert not autograd.gradcheck(lambda t: (t * t.detach()).sum(), (x,), raise_exception=False)
    with pytest.raises(RuntimeError, match=r"(?i)jacobian|numerical"):
        autograd.gradcheck(lambda t: (t * t.detach()).sum(), (x,))


def test_gradgradcheck() -> None:
    x = tinyt.tensor([0.3, -0.7], dtype=tinyt.float64, requires_grad=True)
    assert autograd.gradgradcheck(lambda t: (t**3).sum(), (x,))


# ------------------------------------------------------------------ memory, threads, properties


def test_no_reference_cycles() -> None:
    """Tensors and graphs go with the last reference; the collector is off in every test."""
    assert not gc.isenabled()
    x = leaf(1.0, 2.0)
    y = tinyt.exp(x)  # saves its output
    z = (y * y).sum()
    seen = [weakref.ref(t) for t in (x, y, z)]
    z.backward(retain_graph=True)
    del z, y
    assert [r() is None for r in seen] == [False, True, True]
    del x
    assert seen[0]() is None


def test_graph_is_freed_by_backward() -> None:
    x = leaf(*[0.5] * 1000)
    y = tinyt.exp(x * 2)
    z = y.sum()
    with_graph = tinyt.memory.live_tensors()
    z.backward()
    x.grad = None
    assert tinyt.memory.live_tensors() <= with_graph


def test_error_in_backward_leaks_nothing() -> None:
    x = leaf(1.0, 2.0)
    y = tinyt.exp(x)
    z = (y * 2).sum()
    y.zero_()
    before = tinyt.memory.live_tensors()
    for _ in range(3):
        with pytest.raises(RuntimeError, match=r"modified"):
            z.backward(retain_graph=True)
    assert tinyt.memory.live_tensors() == before
    assert x.grad is None


def test_same_bits_for_any_threads() -> None:
    def step() -> list[bytes]:
        tinyt.manual_seed(3)
        x = tinyt.randn(300, 257, requires_grad=True)
        w = tinyt.randn(257, 129, requires_grad=True)
        h = tinyt.nn.functional.layer_norm(tinyt.nn.functional.gelu(x @ w), (129,))
        loss = tinyt.nn.functional.cross_entropy(h, tinyt.randint(0, 129, (300,)))
        loss.backward()
        return [t.detach().numpy().tobytes() for t in (loss, x.grad, w.grad)]

    found = []
    for n in (1, 2, 3):
        tinyt.set_num_threads(n)
        found.append(step())
    assert found[0] == found[1] == found[2]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12), st.integers(0, 2**31))
def test_random_graphs(steps: list[int], seed: int) -> None:
    """A chain of in-place and plain steps equals the same chain without in-place ones."""
    start = np.random.default_rng(seed).uniform(0.5, 1.5, 4)

    def run(in_place: bool) -> tuple[list[float], list[float]]:
        x = tinyt.tensor(start, requires_grad=True)
        y = x * 1
        for step in steps:
            if step == 0:
                y = y.add_(x) if in_place else y + x
            elif step == 1:
                y = y * x
            elif step == 2:
                y = y.view(2, 2).t().contiguous().view(4)
            elif in_place:
                y = y * 1
                y[1:3].mul_(x[1:3])
            else:
                y = tinyt.cat([y[:1], y[1:3] * x[1:3], y[3:]])
        y.sum().backward()
        return y.tolist(), x.grad.tolist()

    assert run(True) == run(False)


def test_gradients_that_meet_at_a_node_and_at_a_leaf():
    x, y = tinyt.tensor([2.0, 3.0], requires_grad=True), tinyt.tensor(5.0, requires_grad=True)
    middle = x * y
    parts = [middle * float(k) for k in range(200)]  # every one sends to `middle` and none to x
    orders = (range(200), range(199, -1, -1), np.random.default_rng(1).permutation(200))
    for order in orders:  # of the numbers that nodes come in
        x.grad = y.grad = None
        tinyt.stack([parts[k].sum() for k in order]).sum().backward(retain_graph=True)
        assert x.grad.tolist() == [19900.0 * 5.0] * 2
        assert y.grad.item() == 19900.0 * 5.0
    leaves = [tinyt.tensor(float(k), requires_grad=True) for k in range(50)]
    total = leaves[0] * 0.0
    for leaf in leaves:
        total = total + leaf * leaf
    (total + leaves[7]).backward()
    assert [leaf.grad.item() for leaf in leaves] == [2.0 * k + (k == 7) for k in range(50)]


def test_backward_that_fails_runs_once_and_leaves_the_mode():
    runs = []

    def refuse(grad):
        runs.append(tinyt.is_grad_enabled())
        raise ValueError("no gradient today")

    x = tinyt.ones(2, requires_grad=True)
    y = (x * 2.0).sum()
    x.register_hook(refuse)
    with pytest.raises(ValueError, match="no gradient today"):
        y.backward()
    assert runs == [False]
    assert tinyt.is_grad_enabled()
    assert x.grad is None


def test_a_rule_reads_what_has_a_bit():
    for positions in ((62,), (0, 64), (-3,)):
        with pytest.raises(ValueError, match="rule: eq must read"):
            _autograd.register_rule("eq", (None, None), (positions, ()))


def test_hook_must_return_a_tensor():
    x = tinyt.ones(2, requires_grad=True)
    for hooked in (x, x * 1.0):
        handle = hooked.register_hook(lambda g: 3.0)
        with pytest.raises(TypeError):
            (hooked * 2.0).sum().backward()
        handle.remove()


def test_hook_keeps_size_and_type():
    x = tinyt.ones(2, requires_grad=True)
    for hooked in (x, x * 1.0):
        for change, what in ((lambda g: g[:1], "size"), (lambda g: g.double(), "type")):
            with hooked.register_hook(change), pytest.raises(RuntimeError, match=what):
                (hooked * 2.0).sum().backward()
    assert x.grad is None


def test_hook_may_remove_itself():
    x = tinyt.ones(2, requires_grad=True)
    for hooked in (x, x * 1.0):
        runs, handles = [], []

        def once(grad, runs=runs, handles=handles):
            runs.append("once")
            handles[0].remove()

        handles.append(hooked.register_hook(once))
        hooked.register_hook(lambda g, runs=runs: runs.append("always"))
        (hooked * 2.0).sum().backward(retain_graph=True)
        (hooked * 2.0).sum().backward()
        assert runs == ["once", "always", "always"]


def test_gradient_is_taken_over_only_where_nobody_else_sees_it():
    x, y = (tinyt.ones(3, requires_grad=True) for _ in range(2))
    kept = []
    x.register_hook(kept.append)
    (x + y).sum().backward()
    y.grad.mul_(5.0)
    assert x.grad.tolist() == kept[0].tolist() == [1.0, 1.0, 1.0]
    x.grad.add_(1.0)
    assert kept[0].tolist() == [1.0, 1.0, 1.0]
