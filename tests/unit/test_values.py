"""Single values and dtypes at the edges of what functions of construction and order take."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest

import tinyt
from tinyt import nn, optim
from tinyt.nn import functional as F
from tinyt.nn.utils import clip_grad_norm_, get_total_norm

NAN = math.nan


# ------------------------------------------------------------------ construction


def test_tensors_of_one_element_in_lists_are_numbers() -> None:
    a = tinyt.tensor([1.0])
    b = tinyt.tensor([[2.0]])
    assert tinyt.tensor([[a], [a]]).tolist() == [[1.0], [1.0]]
    assert tinyt.tensor([a, b]).tolist() == [1.0, 2.0]
    assert tinyt.tensor([b, 3.0]).tolist() == [2.0, 3.0]
    assert tinyt.tensor([[b, 3.0]]).tolist() == [[2.0, 3.0]]
    assert tinyt.tensor([3.0, b]).tolist() == [3.0, 2.0]
    assert tinyt.tensor([np.array([1.0]), np.array([2.0])]).tolist() == [[1.0], [2.0]]


def test_a_size_given_to_a_class_is_a_shape() -> None:
    size = tinyt.Size([2, 3])
    for cls in (tinyt.FloatTensor, tinyt.LongTensor, tinyt.Tensor):
        assert tuple(cls(size).shape) == (2, 3)
        assert cls([2, 3]).tolist() == [2, 3]
        assert cls((2, 3)).tolist() == [2, 3]
    assert tuple(tinyt.Tensor(np.int64(2), 3).shape) == (2, 3)


def test_tensor_of_an_array_or_a_tensor() -> None:
    for dtype in (np.float32, np.float64, np.int64, bool):
        made = tinyt.Tensor(np.array([[1, 0]], dtype))
        assert (made.dtype, made.tolist()) == (tinyt.float32, [[1.0, 0.0]])
    assert tinyt.Tensor(np.arange(4.0)[::-2]).tolist() == [3.0, 1.0]
    array = np.ones(2, np.float32)
    tinyt.Tensor(array).add_(1)
    assert array.tolist() == [1.0, 1.0]
    x = tinyt.tensor([1, 2])
    assert (tinyt.Tensor(x).tolist(), tinyt.Tensor(x).data_ptr()) == ([1, 2], x.data_ptr())


@pytest.mark.parametrize(
    ("args", "want"),
    [
        ((0, 5, 1.5), [0, 1, 2, 3, 4]),
        ((5, 0, -1.5), [5, 4, 3, 2, 1]),
        ((-1.5, 3), [-1, 0, 1, 2]),
        ((0.5, 5.5), [0, 1, 2, 3, 4]),
        ((2.5,), [0, 1]),
    ],
)
def test_arange_of_int64_counts_in_integers(args: Any, want: list[int]) -> None:
    assert tinyt.arange(*args, dtype=tinyt.int64).tolist() == want


def test_linspace_of_integers() -> None:
    assert tinyt.linspace(0.5, 9.7, 5, dtype=tinyt.int64).tolist() == [0, 2, 4, 6, 9]
    assert tinyt.linspace(0, 10, 4, dtype=tinyt.int64).tolist() == [0, 3, 6, 10]
    assert tinyt.linspace(-5, 5, 4, dtype=tinyt.int32).tolist() == [-5, -1, 1, 5]
    for steps in range(2, 40):
        for end in (1, 3, 7, 10, 50, 255):
            step = end / (steps - 1)
            want = [
                int(step * i) if i < steps // 2 else int(end - step * (steps - 1 - i))
                for i in range(steps)
            ]
            assert tinyt.linspace(0, end, steps, dtype=tinyt.int64).tolist() == want


def test_histogram_of_one_value() -> None:
    hist, edges = tinyt.histogram(tinyt.tensor([3.0, 3.0]), bins=4)
    want, want_edges = np.histogram([3.0, 3.0], bins=4)
    assert (hist.tolist(), edges.tolist()) == (want.tolist(), want_edges.tolist())
    hist, edges = tinyt.histogram(tinyt.tensor([]), bins=4)
    assert (hist.tolist(), edges.tolist()) == ([0.0] * 4, [0.0, 0.25, 0.5, 0.75, 1.0])
    _, ends = tinyt.histogramdd(tinyt.tensor([[3.0, 1.0], [3.0, 2.0]]), 2)
    assert [e.tolist() for e in ends] == [[2.5, 3.0, 3.5], [1.0, 1.5, 2.0]]
    assert tinyt.histc(tinyt.tensor([3.0]), 3).tolist() == [0.0, 1.0, 0.0]


def test_ravel_is_contiguous() -> None:
    x = tinyt.arange(6)
    assert x[::2].ravel().stride() == (1,)
    assert x[::2].ravel().tolist() == [0, 2, 4]
    assert x.ravel().data_ptr() == x.data_ptr()
    assert tinyt.tensor(3).expand(4).ravel().stride() == (1,)


# ------------------------------------------------------------------ modules and optimisers


def test_module_list_keeps_none() -> None:
    m = nn.ReLU()
    modules = nn.ModuleList([None, m])
    assert (len(modules), modules[0], modules[1], list(modules)) == (2, None, m, [None, m])
    assert repr(modules) == "ModuleList(\n  (0): None\n  (1): ReLU()\n)"
    modules.insert(0, m)
    assert list(modules) == [m, None, m]
    del modules[0]
    assert (list(modules), list(modules[:1])) == ([None, m], [None])
    assert nn.ModuleDict({"a": None})["a"] is None
    assert list(modules.children()) == [m]


def test_deepcopy_keeps_views_together() -> None:
    x = tinyt.arange(6.0)
    a, b, c = copy.deepcopy((x, x[1:3], x[::2]))
    b.add_(10)
    assert (a.tolist(), c.tolist()) == ([0.0, 11.0, 12.0, 3.0, 4.0, 5.0], [0.0, 12.0, 4.0])
    assert (c.stride(), x.tolist()) == ((2,), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    bits, whole = copy.deepcopy((x.view(tinyt.int32), x))
    whole.zero_()
    assert bits.tolist() == [0] * 6
    assert tuple(copy.deepcopy(tinyt.ones(0, 3)).shape) == (0, 3)
    assert copy.deepcopy(tinyt.tensor(2).expand(3)).tolist() == [2, 2, 2]


def test_deepcopy_of_gradients_and_attributes() -> None:
    """Gradients may be parts of one buffer; what attributes hold is copied, too."""
    flat = tinyt.zeros(4)
    x, y = (tinyt.ones(2, requires_grad=True) for _ in range(2))
    x.grad, y.grad, x.names = flat[:2], flat[2:], ["a"]  # type: ignore[attr-defined]
    x.partner = y  # type: ignore[attr-defined]
    a, whole = copy.deepcopy((x, flat))
    whole.fill_(3)
    assert a.grad.tolist() == a.partner.grad.tolist() == [3, 3]
    a.names.append("b")
    assert (x.names, flat.tolist()) == (["a"], [0, 0, 0, 0])  # type: ignore[attr-defined]


def test_deepcopy_keeps_tied_weights_and_their_views() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.flat = nn.Parameter(tinyt.ones(6))
            self.part = self.flat.data[2:4]

    net = copy.deepcopy(Net())
    net.flat.data.fill_(3)
    assert net.part.tolist() == [3.0, 3.0]
    assert net.flat.requires_grad


@pytest.mark.parametrize("kind", [optim.NAdam, optim.ASGD])
def test_numbers_in_the_state_keep_their_dtype(kind: Any) -> None:
    def trained(steps: int, state: Any = None, values: Any = None) -> Any:
        p = nn.Parameter(tinyt.ones(3, dtype=tinyt.bfloat16) if values is None else values.clone())
        o = kind([p])
        if state is not None:
            o.load_state_dict(state)
        for _ in range(steps):
            p.grad = tinyt.full((3,), 0.3, dtype=tinyt.bfloat16)
            o.step()
        return p.detach(), o.state_dict()

    whole, want = trained(7)
    half, state = trained(4)
    resumed, got = trained(3, copy.deepcopy(state), half)
    assert resumed.tolist() == whole.tolist()
    assert {k: (v.dtype, v.tolist()) for k, v in got["state"][0].items()} == {
        k: (v.dtype, v.tolist()) for k, v in want["state"][0].items()
    }


@pytest.mark.parametrize(
    ("order", "want"), [(0, 2.0), (0.0, 2.0), (-math.inf, 0.0), (math.inf, 3.0), (-1, 0.0)]
)
def test_norm_types_of_clipping(order: float, want: float) -> None:
    x, y = (tinyt.zeros(n, requires_grad=True) for n in (3, 1))
    x.grad, y.grad = tinyt.tensor([1.0, 0.0, -3.0]), tinyt.tensor([2.0])
    assert get_total_norm([x.grad, y.grad], order).item() == want
    assert clip_grad_norm_([x, y], 1.0, norm_type=order).item() == want
    factor = min(1.0, 1.0 / (want + 1e-6))
    np.testing.assert_allclose(x.grad.tolist(), [factor, 0.0, -3 * factor], rtol=1e-6)


# ------------------------------------------------------------------ order


def test_quantile_beyond_the_integers_of_float32() -> None:
    x = tinyt.zeros(2**24 + 2)
    x[-1] = 1.0
    assert tinyt.quantile(x, 1.0).item() == 1.0
    assert tinyt.quantile(x, 0.5).item() == 0.0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted_orders_nan_last(side: str, dtype: str) -> None:
    values = np.array([0.0, 1.0, 1.5, 3.0, math.inf, NAN, -math.inf] * 5, dtype)
    for length in range(9):
        for nans in range(length + 1):
            line = [*range(length - nans), *[NAN] * nans]
            want = np.searchsorted(np.array(line, dtype), values, side).tolist()
            kind = getattr(tinyt, dtype)
            edges, x = tinyt.tensor(line, dtype=kind), tinyt.tensor(values)
            assert tinyt.searchsorted(edges, x, side=side).tolist() == want


@pytest.mark.parametrize("dtype", [tinyt.uint8, tinyt.int8, tinyt.int64])
def test_unravel_index_of_narrow_integers(dtype: Any) -> None:
    found = tinyt.unravel_index(tinyt.tensor([7, 100], dtype=dtype), (3, 300))
    assert [f.dtype for f in found] == [tinyt.int64] * 2
    assert [f.tolist() for f in found] == [[0, 0], [7, 100]]


# ------------------------------------------------------------------ promotion


@pytest.mark.filterwarnings("ignore:.*broadcast")
@pytest.mark.parametrize("loss", [F.mse_loss, F.l1_loss, F.smooth_l1_loss])
def test_losses_promote_after_broadcasting(loss: Any) -> None:
    x = tinyt.ones(2, requires_grad=True)
    target = tinyt.tensor(3.0, dtype=tinyt.float64)
    assert loss(x, target).dtype is tinyt.float64
    assert loss(target, x).dtype is tinyt.float64
    assert loss(x[0], target).dtype is tinyt.float64
    loss(x, target).backward()
    assert x.grad.dtype is tinyt.float32


def test_square_of_bools_is_an_integer() -> None:
    b = tinyt.tensor([True, False])
    squared = b.square()
    assert (squared.dtype, squared.tolist()) == (tinyt.int64, [1, 0])
    with pytest.raises(RuntimeError, match=r"square.*int64.*bool"):
        b.square_()


def test_scaled_additions_of_bools() -> None:
    b, i = tinyt.tensor([True, False]), tinyt.ones(2, dtype=tinyt.int64)
    for alpha in (2, True, -1):
        total = tinyt.add(b, b, alpha=alpha)
        assert (total.dtype, total.tolist()) == (tinyt.bool, [True, False])
    assert tinyt.add(b, ~b, alpha=0).tolist() == [True, False]
    assert b.clone().add_(b, alpha=2).tolist() == [True, False]
    assert tinyt.add(i, b, alpha=2).tolist() == [3, 1]
    for call in (
        lambda: tinyt.add(b, b, alpha=2.5),
        lambda: tinyt.add(i, i, alpha=1.5),
        lambda: tinyt.ones(2).sub(b, alpha=2),
        lambda: tinyt.rsub(tinyt.ones(2), b, alpha=2),
        lambda: i.clone().sub_(b, alpha=2),
        lambda: i.clone().add_(i, alpha=0.5),
    ):
        with pytest.raises(RuntimeError, match=r"alpha must be an integer|not defined for bool"):
            call()


@pytest.mark.parametrize("beta", [0, 1, 3])
@pytest.mark.parametrize("alpha", [0, 1, 2, -1])
def test_outer_products_of_bools_stay_bool(alpha: int, beta: int) -> None:
    b = tinyt.tensor([True, False])
    found = tinyt.addr(b[:, None], b, b, alpha=alpha, beta=beta)
    assert found.dtype is tinyt.bool
    want = np.array([[True], [False]]) * bool(beta) + np.outer([1, 0], [1, 0]) * bool(alpha)
    assert found.tolist() == want.astype(bool).tolist()


# ------------------------------------------------------------------ one rounding


@pytest.mark.parametrize("dtype", [tinyt.float16, tinyt.bfloat16])
@pytest.mark.parametrize("op", ["addmm", "addmv", "baddbmm", "addbmm", "addr"])
@pytest.mark.parametrize(("beta", "alpha"), [(1, 1), (1, -0.5), (0.25, 1), (0, 3), (-2, 0.375)])
def test_scaled_sums_of_halves_are_rounded_once(
    rng: np.random.Generator, op: str, dtype: Any, beta: float, alpha: float
) -> None:
    """Of small integers, of which float32 holds all sums exactly."""
    shapes = {
        "addmm": ((5, 7), (5, 9), (9, 7)),
        "addmv": ((5,), (5, 9), (9,)),
        "baddbmm": ((2, 5, 7), (2, 5, 9), (2, 9, 7)),
        "addbmm": ((5, 7), (2, 5, 9), (2, 9, 7)),
        "addr": ((5, 7), (5,), (7,)),
    }[op]
    input, a, b = (rng.integers(-60, 60, shape).astype(np.float64) for shape in shapes)
    product = np.outer(a, b) if op == "addr" else a @ b
    want = beta * input + alpha * (product.sum(0) if op == "addbmm" else product)
    given = [tinyt.from_numpy(x).to(dtype) for x in (input, a, b)]
    got = getattr(tinyt, op)(*given, beta=beta, alpha=alpha)
    assert got.dtype is dtype
    assert got.tolist() == tinyt.from_numpy(want).to(dtype).tolist()


def test_gradients_of_scaled_sums_of_halves() -> None:
    input, a, b = (tinyt.ones(2, 2).half().requires_grad_() for _ in range(3))
    tinyt.addmm(input, a, b, beta=3, alpha=0.5).sum().backward()
    for x, want in ((input, 3), (a, 1), (b, 1)):
        assert x.grad is not None
        assert x.grad.dtype is tinyt.float16
        assert x.grad.tolist() == [[want] * 2] * 2
