"""Gradients beside writes: of what was overwritten, of kept gradients, of ``x.data``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tinyt
from tinyt.autograd.graph import saved_tensors_hooks

WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "slice": lambda u, v: u.__setitem__(slice(None), v),
    "ellipsis": lambda u, v: u.__setitem__(Ellipsis, v),
    "number": lambda u, v: u.__setitem__(slice(None), 3.0),
    "copy_": lambda u, v: u.copy_(v),
    "copy_constant": lambda u, v: u.copy_(v.detach()),
    "fill_": lambda u, v: u.fill_(2.0),
    "fill_tensor": lambda u, v: u.fill_(v.sum()),
    "zero_": lambda u, v: u.zero_(),
    "normal_": lambda u, v: u.normal_(),
    "uniform_": lambda u, v: u.uniform_(),
    "bernoulli_": lambda u, v: u.bernoulli_(),
    "exponential_": lambda u, v: u.exponential_(),
    "lt_": lambda u, v: u.lt_(2.0),
    "logical_not_": lambda u, v: u.logical_not_(),
    "floor_divide_": lambda u, v: u.floor_divide_(2.0),
    "view": lambda u, v: u.view(3).copy_(v),
}


@pytest.mark.parametrize("name", WRITES)
def test_what_a_whole_write_replaced_has_zero_gradient(name: str) -> None:
    x = tinyt.tensor([1.0, 2.0, 3.0], requires_grad=True)
    v = tinyt.ones(3, requires_grad=True)
    u = x * 2
    WRITES[name](u, v)
    assert u.requires_grad
    u.sum().backward()
    assert x.grad.tolist() == [0.0, 0.0, 0.0]
    if name in ("slice", "ellipsis", "copy_", "view"):
        assert v.grad.tolist() == [1.0, 1.0, 1.0]


def test_a_write_keeps_other_gradients_of_what_it_replaced() -> None:
    x = tinyt.tensor([1.0, 2.0], requires_grad=True)
    u = x * 2
    before = u * 3
    u.zero_()
    (before + u).sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]


def test_second_derivative_after_a_whole_write() -> None:
    x = tinyt.tensor([2.0], requires_grad=True)
    v = x**3
    u = x * 1
    u.copy_(v)
    (g,) = tinyt.autograd.grad(u.sum(), x, create_graph=True)
    (h,) = tinyt.autograd.grad(g, x)
    assert (g.item(), h.item()) == (12.0, 12.0)


@pytest.mark.parametrize("write", [lambda y: y.mul_(3), lambda y: y.zero_().add_(1)])
def test_retained_gradient_is_that_of_the_last_value(write: Any) -> None:
    x = tinyt.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    y.retain_grad()
    write(y)
    y.sum().backward()
    assert y.grad.tolist() == [1.0, 1.0]


def test_retained_gradient_after_a_write_to_a_part() -> None:
    x = tinyt.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    y.retain_grad()
    y[:1].zero_()
    (y * y).sum().backward()
    assert y.grad.tolist() == [0.0, 8.0]
    assert x.grad.tolist() == [0.0, 16.0]


def test_retained_gradient_of_a_view_after_a_write_to_its_base() -> None:
    x = tinyt.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    part = y[:1]
    part.retain_grad()
    y.mul_(3)
    (part * part).sum().backward()
    assert part.grad.tolist() == [12.0]
    assert x.grad.tolist() == [72.0, 0.0]


def test_hook_stays_with_the_value_it_was_put_on() -> None:
    x = tinyt.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    seen: list[Any] = []
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.retain_grad()
    y.mul_(3)
    y.sum().backward()
    assert (seen, y.grad.tolist()) == ([[3.0, 3.0]], [1.0, 1.0])


def test_writes_through_data_do_not_count() -> None:
    x = tinyt.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    z = y * y
    y.data.add_(1)
    y.view(2).data[0] = 5.0
    assert (y._version, y.data._version) == (0, 2)
    z.sum().backward()  # 2 y, of what y is now, times 3
    assert x.grad.tolist() == [30.0, 42.0]


def test_other_writes_count_beside_those_through_data() -> None:
    x = tinyt.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    z = y * y
    y.data.add_(1)
    y.detach().add_(1)
    assert y._version == 1
    with pytest.raises(RuntimeError, match=r"modified by an inplace operation.*version 1"):
        z.sum().backward()


def data_of_another() -> tinyt.Tensor:
    return tinyt.ones(2).data


def data_replaced_by_itself() -> tinyt.Tensor:
    x = tinyt.ones(2)
    x.data = x.data
    return x


@pytest.mark.parametrize("make", [data_of_another, data_replaced_by_itself])
def test_data_has_a_version_of_its_own(make: Callable[[], tinyt.Tensor]) -> None:
    x = make()
    w = tinyt.ones(2, requires_grad=True)
    y = w * x
    x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_lazy_write_through_data() -> None:
    x = tinyt.tensor([1.0, 2.0], requires_grad=True)
    with tinyt.lazy():
        y = x * 3
        z = (y * y).sum()
        y.data.add_(1)
        z.backward()
    assert x.grad.tolist() == [24.0, 42.0]


@pytest.mark.parametrize("in_place", [False, True])
def test_index_fill_counts_a_repeated_position_once(in_place: bool) -> None:
    x = tinyt.zeros(3, 2, requires_grad=True)
    v = tinyt.tensor(2.0, requires_grad=True)
    index = tinyt.tensor([0, 0, -2])
    y = (x * 1).index_fill_(0, index, v) if in_place else x.index_fill(0, index, v)
    assert y.tolist() == [[2.0, 2.0], [2.0, 2.0], [0.0, 0.0]]
    y.sum().backward()
    assert v.grad.item() == 4.0
    assert x.grad.tolist() == [[0.0, 0.0], [0.0, 0.0], [1.0, 1.0]]


class Cube(tinyt.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 3 * x * x * g


@pytest.mark.parametrize("leaf", [True, False])
@pytest.mark.parametrize("function", [lambda a: a**3, Cube.apply])
def test_what_saved_tensors_hooks_give_is_used(function: Any, leaf: bool) -> None:
    """Hooks that do not give back what they got show in every derivative: 3 (2 a)², 12 (2 a)."""
    x = tinyt.tensor(1.5, dtype=tinyt.float64, requires_grad=True)
    a = x if leaf else x * 1
    with saved_tensors_hooks(lambda t: t * 2, lambda t: t):
        y = function(a)
    (first,) = tinyt.autograd.grad(y, a, retain_graph=True)
    (g,) = tinyt.autograd.grad(y, a, create_graph=True)
    (h,) = tinyt.autograd.grad(g, a)
    assert (first.item(), g.item()) == (27.0, 27.0)
    assert h.item() == 18.0  # of 3 t² at what the hooks gave, t = 2 a, as in PyTorch


@pytest.mark.parametrize("leaf", [True, False])
@pytest.mark.parametrize(
    "function", [lambda a: a * a * a * a, lambda a: a**4, lambda a: a.square().square()]
)
def test_saved_tensors_hooks_keep_the_graph(function: Any, leaf: bool) -> None:
    x = tinyt.tensor(2.0, requires_grad=True)
    a = x if leaf else x * 1
    with saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        y = function(a)
    (g,) = tinyt.autograd.grad(y, a, create_graph=True)
    (h,) = tinyt.autograd.grad(g, a)
    assert (g.item(), h.item()) == (32.0, 48.0)


@pytest.mark.parametrize("function", [lambda a: a**3, Cube.apply])
def test_a_pack_hook_may_compute_with_tensors_that_require_grad(function: Any) -> None:
    scale = tinyt.tensor([4.0], requires_grad=True)
    modes: list[bool] = []

    def pack(t: Any) -> Any:
        modes.append(tinyt.is_grad_enabled())
        with tinyt.enable_grad():
            return (t * scale).detach()

    x = tinyt.tensor([2.0], requires_grad=True)
    with saved_tensors_hooks(pack, lambda t: t / 4):
        y = function(x)
        assert tinyt.is_grad_enabled()
    y.backward()
    assert (x.grad.tolist(), scale.grad, set(modes)) == ([12.0], None, {False})


@pytest.mark.parametrize("function", [lambda a: a**3, Cube.apply])
def test_a_pack_hook_must_not_write_to_what_is_saved(function: Any) -> None:
    x = tinyt.tensor([2.0], requires_grad=True) * 1
    with (
        saved_tensors_hooks(lambda t: t.mul_(2), lambda t: t),
        pytest.raises(RuntimeError, match="modifying its input in place"),
    ):
        function(x)
    assert tinyt.is_grad_enabled()


def unrecorded_view(y: Any) -> Any:
    with tinyt.no_grad():
        return y[0:1]


VIEW_WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "number": lambda v, x: v.mul_(2),
    "tensor": lambda v, x: v.mul_(x[:1]),
    "assign": lambda v, x: v.copy_(x[:1]),
    "fill": lambda v, x: v.fill_(1),
    "bracket": lambda v, x: v.__setitem__(0, 1.0),
    "mask": lambda v, x: v.__setitem__(v > 0, 1.0),
    "view of it": lambda v, x: v[:].mul_(2),
}


@pytest.mark.parametrize("write", VIEW_WRITES)
def test_a_write_through_a_view_made_without_recording_is_refused(write: str) -> None:
    """The tape of the base would not have it; nothing is written."""
    x = tinyt.tensor([1.0, 2.0], requires_grad=True)
    y = x * 1
    v = unrecorded_view(y)
    with pytest.raises(RuntimeError, match=r"view .* was created in no_grad mode"):
        VIEW_WRITES[write](v, x)
    assert y.tolist() == [1.0, 2.0]
    with tinyt.no_grad():
        VIEW_WRITES[write](v, x)
    (y * 3).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3.0, 3.0]


def test_views_made_without_recording_of_what_is_not_recorded_are_written() -> None:
    x, y = tinyt.tensor([3.0], requires_grad=True), tinyt.ones(2)
    v = unrecorded_view(y)
    v.mul_(2)
    v.mul_(x)
    v.mul_(x)
    (y * y).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [4 * 4 * 3**3]  # of (2 x²)² + 1
