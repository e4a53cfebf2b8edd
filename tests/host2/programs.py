"""Compiled functions on a device whose memory the host cannot read: run by
`tests/unit/test_devices.py`, in a process of its own, with the library's path in HOST2."""

import os

import numpy as np
import pytest

import tinyt
from tinyt import nn

tinyt.backends.load(os.environ["HOST2"])
PLACE, OTHER, CPU = (tinyt.device(name) for name in ("host2:1", "host2:0", "cpu"))
FUSES = os.environ.get("HOST2_FUSES") != "0"


def same(x, expected, place=PLACE):
    assert x.device == place
    np.testing.assert_array_equal(x.detach().cpu().numpy(), np.asarray(expected.detach().cpu()))


def both(function, *args, place=PLACE):
    """The same bits compiled there, compiled here, and as written here; twice, with other values
    the second time."""
    there, here = tinyt.compile(function), tinyt.compile(function)
    for factor in (1.0, 0.5, 2.0):
        given = [x * factor for x in args]
        want = function(*given)
        same(there(*[x.to(place) for x in given]), want, place)
        same(here(*given), want, CPU)
    assert there.cache_info().currsize == 1
    return there


@pytest.mark.parametrize("place", [PLACE, OTHER])
def test_chains_and_rows(place):
    x = tinyt.randn(5, 70)
    f = both(lambda x: ((x * 2 + 1).tanh() - x.exp()).sum(1), x, place=place)
    if FUSES and "HOST2_LACKS" not in os.environ:
        assert len(f.report().rows) == 1 or "HOST2_BUFFERS" in os.environ
    both(lambda x: (x - x.mean(1, keepdim=True)) / x.var(1, keepdim=True), x, place=place)
    both(lambda x: x.t().contiguous() @ x, x, place=place)
    both(lambda x, y: tinyt.where(x > y, x, y.half().float()), x, x.flip(0), place=place)


def test_arguments_that_lie_anywhere():
    whole = tinyt.randn(6, 12)
    f = tinyt.compile(lambda x, y: (x * y, tinyt.view_as_complex(y.clone().reshape(-1, 2)) * 1j))
    for seen in (
        lambda w: (w[1:3], w[4:]),
        lambda w: (w[:, 1:5], w[:, 5:9]),
        lambda w: (w.t()[2:6], w.t()[3:7]),
        lambda w: (w.view(-1)[1:13].view(3, 4), w.view(-1)[3:15].view(3, 4)),
    ):
        for w in (whole, whole * 2):
            x, y = seen(w)
            pairs = tinyt.view_as_complex(y.clone().reshape(-1, 2)) * 1j
            got = f(*seen(w.to(PLACE)))
            same(got[0], x * y)
            same(got[1], pairs)


def test_writes_and_versions():
    x, state = tinyt.randn(8), tinyt.zeros(8)
    hidden = state.to(PLACE)

    def step(x, state):
        state.mul_(0.9).add_(x)
        x[2:4] = 7.0
        return state[1:] * 2

    f = tinyt.compile(step)
    for _ in range(4):
        there = x.to(PLACE)
        got, want = f(there, hidden), step(x, state)
        same(got, want)
        same(hidden, state)
        same(there, x)


def test_several_devices_in_one_program():
    a, b = tinyt.randn(4, 4), tinyt.randn(4, 4)

    def f(a, b):
        c = (a.to(OTHER) * 3).exp() + b.to(OTHER)
        d = (a @ a).to(CPU) + 1
        return c.to(PLACE) @ d.to(PLACE), c.sum(), d

    compiled = tinyt.compile(f)
    for factor in (1.0, 0.5):
        given = (a * factor).to(PLACE), b * factor
        for got, want in zip(compiled(*given), f(*given), strict=True):
            same(got, want, want.device)
    assert compiled.cache_info().currsize == 1
    with pytest.raises(tinyt.DeviceError, match="one device"):
        tinyt.compile(lambda x, y: x + y)(given[0], given[1])
    compiled(given[0].to(OTHER), given[1])  # another program
    assert compiled.cache_info().currsize == 2


def test_what_passes_made_for_one_device_is_not_anothers():
    f = tinyt.compile(lambda x: nn.functional.pad(x, (2, 0))[:, :2].clone())  # a fill of a pass's
    for place in (CPU, CPU, PLACE, OTHER, CPU):
        for n in (3, 4):
            same(f(tinyt.randn(n, 5).to(place)), tinyt.zeros(n, 2), place)


def test_numbers_and_constants():
    def f(x, scale):
        return x * scale + tinyt.tensor([1.0, 2.0, 3.0], device=x.device)

    compiled = tinyt.compile(f)
    x = tinyt.tensor([1.0, -2.0, 4.0])
    for scale in (2.0, 3.0, 2.5):
        same(compiled(x.to(PLACE), scale), f(x, scale))
    # 0-d tensors beside others, read anew; of the device as numbers of Python's.
    zero, there = tinyt.tensor(2.0), tinyt.tensor(2.0, device=PLACE)
    for make in (lambda x: x / zero, lambda x: x / there, lambda x: x / there.item()):
        compiled = tinyt.compile(make)
        for n in (2.0, 5.0, 3.0):
            zero.fill_(n)
            there.fill_(n)
            same(compiled(x.to(PLACE)), x / n)
        assert compiled.cache_info().currsize == 1


def test_random_numbers_are_those_of_the_cpu():
    def f(x):
        return nn.functional.dropout(x, 0.5) + tinyt.rand_like(x)

    there, x = tinyt.compile(f), tinyt.ones(100)
    for _ in range(3):
        tinyt.manual_seed(3)
        want = f(x)
        tinyt.manual_seed(3)
        same(there(x.to(PLACE)), want)


@pytest.mark.parametrize("make", [tinyt.optim.SGD, tinyt.optim.AdamW])
@pytest.mark.parametrize("verify", [False, True])
def test_training(make, verify):
    def network():
        tinyt.manual_seed(0)
        return nn.Sequential(
            nn.Conv2d(1, 4, 3, bias=False),
            nn.BatchNorm2d(4),
            nn.GELU(),
            nn.Flatten(),
            nn.Linear(64, 10),
        )

    def steps(place):
        model = network().to(place)
        optimizer = make(model.parameters(), lr=0.01)

        def step(x, y):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        return model, step

    (here, step), (hidden, other) = steps(CPU), steps(PLACE)
    compiled = tinyt.compile(other, verify=verify)
    x, y = tinyt.randn(5, 1, 6, 6), tinyt.tensor([1, 9, 0, 3, 3])
    exact = not os.environ.keys() & {"HOST2_BUFFERS", "HOST2_LACKS"}  # else by decompositions
    for _ in range(4):
        got, want = compiled(x.to(PLACE), y.to(PLACE)), step(x, y)
        np.testing.assert_allclose(got.item(), want.item(), rtol=0 if exact else 1e-4)
    for p, q in zip(hidden.parameters(), here.parameters(), strict=True):
        if exact:
            same(p, q)
        np.testing.assert_allclose(p.detach().cpu(), q.detach(), rtol=1e-3, atol=1e-4)
    if not verify:
        assert compiled.cache_info().currsize == 1


def test_control_flow():
    def f(x):
        y = tinyt.cond(x.sum() > 0, lambda v: v * 2, lambda v: v - 1, (x,))
        (n,) = tinyt.while_loop(lambda n: n.sum() < 50, lambda n: (n * 2 + 1,), (y.abs(),))
        carry, ys = tinyt.scan(lambda c, v: (c + v, c * v), n[0], n)
        return carry, ys

    compiled = tinyt.compile(f)
    for x in (tinyt.ones(3, 4), -tinyt.ones(3, 4), tinyt.full((3, 4), 0.25)):
        for got, want in zip(compiled(x.to(PLACE)), f(x), strict=True):
            same(got, want)


def test_gradients_of_a_result():
    f = tinyt.compile(lambda x: (x.sin() * x).sum(1))
    for _ in range(3):
        x = tinyt.randn(3, 4)
        found = []
        for place in (CPU, PLACE):
            leaf = x.detach().to(place).requires_grad_()
            f(leaf).backward(tinyt.tensor([1.0, 2.0, 3.0], device=place))
            found.append(leaf.grad)
        same(found[1], found[0])


def test_memory_is_the_devices_and_known_before():
    x = tinyt.randn(100, 1000, device=PLACE)
    f = tinyt.compile(lambda x: ((x @ x.t()).exp() + 1) @ x)
    f(x)
    assert f.peak_bytes >= 4 * 100 * 100 + 4 * 100 * 1000
    tinyt.memory.empty_cache(PLACE)
    tinyt.memory.reset_peak(PLACE)
    before = tinyt.memory.statistics(PLACE)["current_bytes"]
    cpu = tinyt.memory.statistics()["peak_bytes"]
    f(x)
    assert tinyt.memory.statistics(PLACE)["peak_bytes"] - before <= f.peak_bytes
    if not FUSES:
        assert tinyt.memory.statistics()["peak_bytes"] == cpu
    tinyt.memory.set_limit(before + 1000, PLACE)
    try:
        with pytest.raises(tinyt.OutOfMemoryError):
            f(x)
    finally:
        tinyt.memory.set_limit(0, PLACE)
    assert f(x).shape == (100, 1000)
    measured = f.measure(x)
    assert measured.shape == (100, 1000)
    assert "matmul" in str(f.report())


def test_custom_operations_see_their_tensors_there():
    @tinyt.library.custom_op("host2::twice", mutates_args=())
    def twice(x: tinyt.Tensor) -> tinyt.Tensor:
        assert x.device == PLACE
        return x * 2

    @twice.register_fake
    def _(x):
        return tinyt.empty_like(x)

    f = tinyt.compile(lambda x: twice(x + 1) * 3)
    for n in (1.0, 2.0):
        same(f(tinyt.full((3,), n, device=PLACE)), tinyt.full((3,), (n + 1) * 6))


def test_rewrites_with_custom_operations_stay_where_they_were_tried():
    seen = []

    @tinyt.library.custom_op("host2::thrice", mutates_args=())
    def thrice(x: tinyt.Tensor) -> tinyt.Tensor:
        seen.append(x.device)
        return x * 3

    @thrice.register_fake
    def _(x):
        return tinyt.empty_like(x)

    x = tinyt.randn(3)
    with tinyt.compiler.rewrite(lambda x: x.exp() * 3.0, lambda x: thrice(x.exp())):
        for place in (CPU, PLACE):
            seen.clear()
            f = tinyt.compile(lambda x: x.exp() * 3.0)
            f(x.to(place))
            same(f(x.to(place)), x.exp() * 3.0, place)
            assert (CPU in seen) == (place == CPU)


@pytest.mark.parametrize(
    ("replacement", "elsewhere"),
    [
        (lambda x: x.sin() + x.sin(), True),
        (lambda x: x.sin() + x.sin() * x.new_ones(3), True),
        (lambda x: x.sin() + x.sin() * tinyt.tensor([1.0, 1.0, 1.0]), False),
        (lambda x: (x.sin() + x.sin()).to(PLACE).to(CPU), False),
    ],
)
def test_rewrites_go_to_other_devices_unless_they_hold_one(replacement, elsewhere):
    x = tinyt.randn(2, 3)

    def pattern(x):
        return x.sin() * 2.0

    with tinyt.compiler.rewrite(pattern, replacement, shapes=[[(2, 3)]], dtypes=[tinyt.float32]):
        for place in (CPU, PLACE, OTHER):
            f = tinyt.compile(pattern)
            for _ in range(3):
                same(f(x.to(place)), pattern(x), place)
            assert ("add" in str(f.report())) == (elsewhere or place == CPU)


def test_a_custom_operation_is_where_its_fake_is():
    @tinyt.library.custom_op("host2::away", mutates_args=())
    def away(x: tinyt.Tensor) -> tinyt.Tensor:
        return (x * 2).cpu()

    @away.register_fake
    def _(x):
        return tinyt.empty_like(x)

    f = tinyt.compile(lambda x: away(x) + 1)
    same(f(tinyt.ones(3)), tinyt.full((3,), 3.0), CPU)
    with pytest.raises(RuntimeError, match=r"on cpu, its fake float32 .* on host2:1"):
        f(tinyt.ones(3, device=PLACE))


def test_an_error_of_the_device_has_its_words():
    f = tinyt.compile(lambda x, i: x[i] * 2)
    x = tinyt.arange(4.0, device=PLACE)
    same(f(x, tinyt.tensor([3, 0], device=PLACE)), tinyt.tensor([6.0, 0.0]))
    with pytest.raises(IndexError, match="out of range"):
        f(x, tinyt.tensor([9, 0], device=PLACE))
    same(f(x, tinyt.tensor([1, 2], device=PLACE)), tinyt.tensor([2.0, 4.0]))
