"""A device that has no kernel for the operations in HOST2_LACKS, as `tests/unit/test_devices.py`
sets it: for fused rows, which run as their decompositions; for others, which the CPU runs. In a
process of its own, with the library's path in HOST2."""

from __future__ import annotations

import os
import threading
import warnings
from typing import Any

import numpy as np
import pytest

import tinyt
from fused_samples import CALLS
from sampling import flat
from tinyt import _core, decompositions, nn
from tinyt.tensor import prim

FUSED = sorted(decompositions.table())
SHAPES = [(3, 7), (2, 5, 6), (1, 1), (0, 3)]

tinyt.backends.load(os.environ["HOST2"])
PLACE = tinyt.device("host2:1")
FALLS_BACK = os.environ.get("TINYT_HOST_FALLBACK") == "1"
decomposed = pytest.mark.skipif(FALLS_BACK, reason="of decompositions")
on_the_cpu = pytest.mark.skipif(not FALLS_BACK, reason="of the CPU in place of the device")


def calls(name: str, shape: tuple[int, ...]) -> list[tuple[Any, ...]]:
    """The operands that the kernels are compared with, too."""
    rng = np.random.default_rng(5)
    return list(CALLS[name](tinyt.tensor(rng.standard_normal(shape) * 4), rng))


def moved(value: Any, change: Any) -> Any:
    if isinstance(value, tinyt.Tensor):
        return change(value)
    return tuple(moved(x, change) for x in value) if isinstance(value, tuple) else value


def as_float32(x: tinyt.Tensor) -> tinyt.Tensor:
    return x.float() if x.is_floating_point() else x


def permuted(x: tinyt.Tensor) -> tinyt.Tensor:
    """The same elements in another order of memory."""
    return x.transpose(-1, -2).contiguous().transpose(-1, -2) if x.dim() > 1 else x


def equal(got: Any, want: Any) -> None:
    for x, y in zip(flat(got), flat(want), strict=True):
        assert x.device == PLACE
        assert x.is_contiguous()
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x.cpu().numpy(), y.numpy())


def close(got: tinyt.Tensor, want: tinyt.Tensor) -> None:
    tinyt.testing.assert_close(got.cpu(), want)


@decomposed
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", FUSED)
def test_a_fused_row_is_its_decomposition(name: str, shape: tuple[int, ...]) -> None:
    """To the bit, as its operations are the same ones; but for one with a fused row in it."""
    same = close if name == "softmax_nll_input" else equal
    for args in calls(name, shape):
        for change in (lambda x: x, as_float32, permuted):
            own = moved(args, change)
            want = decompositions.table()[name](*own)
            same(getattr(prim, name)(*moved(own, lambda x: x.to(PLACE))), want)


@decomposed
@pytest.mark.parametrize("dtype", [tinyt.float16, tinyt.bfloat16])
def test_halves_are_rounded_once(dtype: tinyt.dtype) -> None:
    F = nn.functional
    x = tinyt.randn(6, 10)
    wide, half = x.to(dtype).float(), x.to(PLACE, dtype)
    for f in (F.gelu, F.silu, F.mish, lambda x: x.softmax(-1), lambda x: x.log_softmax(0)):
        got, want = f(half).cpu(), f(wide).to(dtype)
        assert got.dtype == dtype
        step = tinyt.nextafter(want.abs(), tinyt.full_like(want, float("inf"))) - want.abs()
        assert bool(((got - want).abs() <= step).all())


@decomposed
def test_operands_of_several_dtypes_are_promoted_first() -> None:
    x, target = tinyt.randn(4).half(), tinyt.rand(4)
    got = prim.sigmoid_nll(x.to(PLACE), target.to(PLACE))
    equal(got, decompositions.table()["sigmoid_nll"](x.float(), target))
    number = prim.leaky_relu(x.to(PLACE), 0.1)
    assert number.dtype == tinyt.float16
    equal(number, prim.leaky_relu(x, 0.1))


@decomposed
def test_recordings_are_kept_for_other_sizes() -> None:
    gelu, norm = nn.functional.gelu, nn.functional.layer_norm
    run = [lambda x: gelu(x), lambda x: x.softmax(-1), lambda x: norm(x, x.shape[-1:])]
    for f in run:
        f(tinyt.randn(3, 4, device=PLACE))
    recorded = _core.kept_decompositions()[1]
    for n in range(5, 12):
        for f in run:
            x = tinyt.randn(n, n + 2)
            np.testing.assert_allclose(f(x.to(PLACE)).cpu(), f(x), rtol=1e-5, atol=1e-6)
    assert _core.kept_decompositions()[1] == recorded
    gelu(tinyt.randn(3, device=PLACE))  # of another rank
    assert _core.kept_decompositions()[1] == recorded + 1


@decomposed
def test_a_training_step() -> None:
    def losses(place: tinyt.device) -> list[float]:
        tinyt.manual_seed(1)
        layers = nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3)
        model = nn.Sequential(*layers).to(place)
        optimizer = tinyt.optim.RMSprop(model.parameters(), lr=0.05)
        x, y = tinyt.randn(10, 6).to(place), (tinyt.arange(10) % 3).to(place)
        found = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found

    np.testing.assert_allclose(losses(PLACE), losses(tinyt.device("cpu")), rtol=1e-4)


@decomposed
def test_modes_of_the_thread_do_not_matter() -> None:
    """Gradients, autocast, defaults, a creation device: a recording is made in none of them."""
    x = tinyt.randn(2, 3, 4)
    args = tinyt.tensor(1.0), tinyt.tensor(0.0), 1, True, 1e-5
    want = decompositions.table()["layer_norm_backward"](
        x, x, x[:, :, 0], x[:, :, 1], tinyt.tensor(1.0), 1, True, False, False
    )
    tinyt.set_default_dtype(tinyt.float64)
    try:
        with tinyt.device("host2:0"), tinyt.autocast("cpu", dtype=tinyt.bfloat16):
            there = [t.to(PLACE) for t in (x, x, x[:, :, 0], x[:, :, 1], tinyt.tensor(1.0))]
            there[-1] = tinyt.tensor(1.0, dtype=tinyt.float32, device=PLACE)
            got = prim.layer_norm_backward(*there, 1, True, False, False)
    finally:
        tinyt.set_default_dtype(tinyt.float32)
    equal(got, want)
    leaf = x.to(PLACE).requires_grad_()
    out = prim.layer_norm(leaf, *(a.to(PLACE) for a in args[:2]), *args[2:])[0]
    assert out.grad_fn is not None
    out.sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.device == PLACE


@decomposed
def test_second_derivatives() -> None:
    x = tinyt.randn(5, dtype=tinyt.float64, device=PLACE).requires_grad_()
    assert tinyt.autograd.gradcheck(nn.functional.gelu, (x,))
    assert tinyt.autograd.gradgradcheck(nn.functional.softplus, (x,))


@decomposed
def test_results_into_given_tensors() -> None:
    x, out = tinyt.randn(3, 4), tinyt.empty(4, 3, device=PLACE).t()
    tinyt.softmax(x.to(PLACE), 1, out=out)
    np.testing.assert_allclose(out.cpu(), x.softmax(1), rtol=1e-6)
    there = x.to(PLACE)
    address = there.data_ptr()
    nn.functional.leaky_relu(there, 0.2, inplace=True)
    assert there.data_ptr() == address
    np.testing.assert_array_equal(there.cpu(), nn.functional.leaky_relu(x, 0.2))


@decomposed
def test_several_threads() -> None:
    x = tinyt.randn(4, 4, device=PLACE)
    want = nn.functional.mish(x).cpu()
    found: list[bool] = []

    def run(k: int) -> None:
        for n in range(20):
            y = tinyt.randn(k + 1, n % 3 + 1, device=PLACE)
            nn.functional.hardswish(y).softmax(0)
            found.append(bool((nn.functional.mish(x).cpu() == want).all()))

    threads = [threading.Thread(target=run, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 80
    assert all(found)


@decomposed
def test_a_dtype_without_a_kernel() -> None:
    x = tinyt.randn(4, device=PLACE)
    np.testing.assert_array_equal(tinyt.acosh(x.abs() + 1).cpu(), tinyt.acosh(x.cpu().abs() + 1))
    with pytest.raises(
        NotImplementedError, match=r"acosh: no kernel for float64 on host2:1 \(TINYT_HOST_"
    ):
        tinyt.acosh(x.double())


@decomposed
def test_complex_numbers_without_a_kernel() -> None:
    """Operations on their parts, in the device's memory; an error has both names."""
    x = tinyt.tensor([[1 + 2j, 3 - 1j], [0.5j, -2]])
    y = x.to(PLACE)
    kept = _core.kept_decompositions()[1]
    equal(y * y.T, x * x.T)
    equal(y * y, x * x)
    equal(y[0] * 2.0, x[0] * 2.0)
    assert _core.kept_decompositions()[1] == kept + 2  # one for two matrices, one for a number
    y.mul_(1j)
    equal(y, x * 1j)
    with pytest.raises(
        NotImplementedError,
        match=r"acosh of complex128 by its parts: asinh: no kernel for float64 on host2:1 \(TINYT_",
    ):
        tinyt.acosh(x.to(tinyt.complex128).to(PLACE))


@decomposed
def test_a_step_that_fails_counts_nothing() -> None:
    w, g, m, v = (tinyt.ones(3, device=PLACE) for _ in range(4))
    step = tinyt.tensor(0.0)
    numbers = (0.1, 0.9, 0.99, 1e-8, 0.0)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="adam_step: it fails, as was asked for"):
            _core.adam_step([w], [g], [step], [m], [v], [], *numbers, False, False)
        assert step.item() == 0
    equal(w, tinyt.ones(3))


@decomposed
def test_what_is_left_is_an_error_that_names_it() -> None:
    with pytest.raises(NotImplementedError, match="digamma: no kernel on host2:1"):
        tinyt.digamma(tinyt.ones(3, device=PLACE))
    with pytest.raises(NotImplementedError, match="digamma: no kernel on host2:1"):
        tinyt.ones(3, device=PLACE).digamma_()


@on_the_cpu
def test_the_cpu_runs_what_the_device_does_not() -> None:
    """Once for each operation with a warning."""
    x = tinyt.tensor([[3.0, -1.0, 2.0], [0.0, 5.0, 4.0]])
    there = x.to(PLACE)
    for _ in range(2):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            got = there.t().cos()
        equal(got.contiguous(), x.t().cos().contiguous())
        texts = [str(w.message) for w in seen]
        assert all(w.category is RuntimeWarning for w in seen)
        if texts:
            assert any(t.startswith("cos: no kernel on host2:1: it runs on the CPU") for t in texts)
    assert not texts


@on_the_cpu
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_warning_that_is_an_error() -> None:
    x = tinyt.ones(3).to(PLACE)
    with pytest.raises(RuntimeWarning, match="erfinv: no kernel"):
        tinyt.erfinv(x)


@on_the_cpu
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_every_kind_of_operation_without_any_kernel() -> None:
    x = tinyt.randn(4, 6)
    there = x.to(PLACE)
    equal(there[::2, 1:] @ there[::2, 1:].t(), x[::2, 1:] @ x[::2, 1:].t())
    equal(there.sort(1), x.sort(1))
    equal(there[there > 0], x[x > 0])
    equal((there > 0).nonzero(), (x > 0).nonzero())
    equal(tinyt.cat([there, there.double()]), tinyt.cat([x, x.double()]))
    equal(there * 2 + tinyt.tensor(1.5), x * 2 + tinyt.tensor(1.5))
    equal(tinyt.arange(5, device=PLACE), tinyt.arange(5))
    tinyt.manual_seed(7)
    drawn = tinyt.randn(9, device=PLACE)
    tinyt.manual_seed(7)
    equal(drawn, tinyt.randn(9))
    here = x.clone()
    for t in (here, there):
        t[1:3, ::2] = 7
        t.t()[2:].mul_(-1)
        t.index_add_(0, tinyt.tensor([0, 0], device=t.device), t[2:].clone())
        t[:0] = 1
    equal(there, here)
    weight = tinyt.randn(6, device=PLACE).requires_grad_()
    (there * weight).pow(2).mean().backward()
    assert weight.grad is not None
    np.testing.assert_allclose(
        weight.grad.cpu(), (2 * here * here * weight.detach().cpu()).mean(0) / 6, rtol=1e-5
    )


@on_the_cpu
def test_meta_has_nothing_to_take_there() -> None:
    with pytest.raises(NotImplementedError, match="nonzero: no kernel on meta"):
        tinyt.ones(3, device="meta").nonzero()
