"""Steps over all parameters in one call: the bits of one parameter after another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sampling
import tinyt
from tinyt import _core, nn, ops, optim
from tinyt.compiler import record
from tinyt.tensor import prim

OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "maximize": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("Adam", {"weight_decay": 0.1, "maximize": True}),
    ("Adam", {"lr": 0.05, "betas": (0.4, 0.95), "amsgrad": True}),
    ("AdamW", {"lr": 0.05, "weight_decay": 0.2}),
    ("RMSprop", {"weight_decay": 0.1, "maximize": True}),
    ("RMSprop", {"lr": 0.05, "alpha": 0.3, "momentum": 0.5, "centered": True}),
    ("Adagrad", {"lr": 0.5, "lr_decay": 0.1, "initial_accumulator_value": 0.3}),
    ("Adagrad", {"weight_decay": 0.1, "maximize": True}),
]
DTYPES = ["float32", "float64", "float16", "bfloat16"]


def assert_same_bits(got: Any, want: Any, what: str) -> None:
    """NumPy lacks bfloat16: as float32, which holds every value of it."""
    assert got.dtype == want.dtype
    wide = [x.float() if x.dtype is tinyt.bfloat16 else x for x in (got, want)]
    sampling.assert_same_bits(wide[0], wide[1], what)


def one_by_one(name: str) -> type[optim.Optimizer]:
    """The optimiser without its batched step: the oracle."""

    def update_all(self: Any, batch: Any, group: Any) -> range:
        return range(len(batch.params))

    return type(name, (getattr(optim, name),), {"_update_all": update_all})


def laid_out(x: Any, layout: int) -> Any:
    """The values of `x` in other strides: contiguous, transposed, every second, with an offset."""
    if layout == 1 and x.dim() > 1:
        return x.transpose(0, -1).contiguous().transpose(0, -1)
    if layout == 2:
        return ops.stack([x, x], x.dim())[..., 0]
    return ops.cat([x.reshape(-1)[:1], x.reshape(-1)])[1:].reshape(x.shape) if layout == 3 else x


def values(rng: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Numbers of very different sizes, some of them 0."""
    x = rng.standard_normal(shape) * 10.0 ** rng.integers(-6, 3, shape)
    return tinyt.tensor(np.where(rng.random(shape) < 0.1, 0, x)).to(dtype)


def steps(
    kind: type[Any],
    options: dict[str, Any],
    shapes: list[tuple[int, ...]],
    dtype: str,
    layouts: list[int],
    count: int = 3,
) -> list[Any]:
    """Parameters and states after some steps."""
    rng, wanted = np.random.default_rng(5), getattr(tinyt, dtype)
    params = [
        nn.Parameter(laid_out(values(rng, shape, wanted), layouts[i % len(layouts)]))
        for i, shape in enumerate(shapes)
    ]
    optimizer = kind(params, **options)
    for step in range(count):
        for i, param in enumerate(params):
            grad = values(rng, param.shape, wanted)
            # In each step another one has no gradient.
            left_out = len(params) > 1 and i == step
            param.grad = None if left_out else laid_out(grad, layouts[(i + 1) % len(layouts)])
        optimizer.step()
    kept = optimizer.state_dict()["state"]
    return [p.detach() for p in params] + [
        kept[i][key].reshape(-1) for i in sorted(kept) for key in sorted(kept[i])
    ]


def assert_equal_steps(got: list[Any], want: list[Any], what: str) -> None:
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert_same_bits(a, b, what)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "options"), OPTIONS)
def test_bits_of_one_after_another(name: str, options: dict[str, Any], dtype: str) -> None:
    shapes = [(3, 5), (), (0, 4), (1,), (17,), (2, 3, 4), (530,)]
    args = options, shapes, dtype, [0, 1, 2, 3]
    want = steps(one_by_one(name), *args)
    assert_equal_steps(steps(getattr(optim, name), *args), want, f"{name} {options}")


@given(
    case=st.sampled_from(OPTIONS),
    dtype=st.sampled_from(DTYPES),
    shapes=st.lists(st.lists(st.integers(0, 9), max_size=3).map(tuple), min_size=1, max_size=6),
    layouts=st.lists(st.integers(0, 3), min_size=1, max_size=4),
)
def test_bits_over_shapes(
    case: tuple[str, dict[str, Any]],
    dtype: str,
    shapes: list[tuple[int, ...]],
    layouts: list[int],
) -> None:
    name, options = case
    args = options, shapes, dtype, layouts
    want = steps(one_by_one(name), *args, count=2)
    assert_equal_steps(steps(getattr(optim, name), *args, count=2), want, f"{case}")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop", "Adagrad"])
def test_threads_and_long_lists(name: str, dtype: str) -> None:
    """Chunks that begin and end within tensors, and hundreds of tensors in one."""
    shapes = [(20000,), (), (130, 257), *[(n % 7,) for n in range(300)], (50001,)]
    options = {"lr": 0.1, "momentum": 0.9} if name == "SGD" else {"weight_decay": 0.1}
    args = options, shapes, dtype, [0]
    tinyt.set_num_threads(1)
    want = steps(one_by_one(name), *args, count=2)
    for threads in (1, 2, 3, 7):
        tinyt.set_num_threads(threads)
        assert_equal_steps(steps(getattr(optim, name), *args, count=2), want, f"{threads} threads")


@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop", "Adagrad"])
def test_special_values(name: str) -> None:
    """Infinities and NaNs, and numbers at the ends of half's range."""
    special = [np.inf, -np.inf, np.nan, 0.0, -0.0, 65504, 65519, 6e-8, 3e-8, 6.1e-5, -1e-4, 1e30]
    for dtype in DTYPES:
        results = []
        for kind in (getattr(optim, name), one_by_one(name)):
            param = nn.Parameter(tinyt.tensor(special).to(getattr(tinyt, dtype)))
            optimizer = kind([param], lr=0.5)
            for shift in range(4):
                param.grad = tinyt.tensor(np.roll(special, shift)).to(param.dtype)
                optimizer.step()
            results.append([param.detach()])
        assert_equal_steps(*results, f"{name} {dtype}")


def test_versions_count_the_writes() -> None:
    param = nn.Parameter(ops.ones(3))
    optimizer = optim.Adam([param])
    loss = (param * param).sum()
    param.grad = ops.ones(3)
    version = param._version
    optimizer.step()
    assert param._version > version
    assert all(value._version > 0 for value in optimizer.state[param].values())
    assert param.is_leaf
    assert param.grad_fn is None
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_one_call_for_all_parameters() -> None:
    """A step allocates nothing once the states exist."""
    params = [nn.Parameter(ops.ones(n)) for n in (3, 5, 0)]
    for name in ("SGD", "Adam", "RMSprop", "Adagrad"):
        optimizer = getattr(optim, name)(params)
        for param in params:
            param.grad = ops.ones(*param.shape)
        optimizer.step()
        before = tinyt.memory.statistics()["allocations"]
        optimizer.step()
        assert tinyt.memory.statistics()["allocations"] == before, name


def test_parameters_that_share_memory() -> None:
    """Views of one storage: one after another where they overlap, together where they do not."""
    results = []
    for kind in (optim.AdamW, one_by_one("AdamW")):
        for cuts in ((0, 4, 4, 8), (0, 6, 2, 8)):
            whole = tinyt.arange(8, dtype=tinyt.float32)
            params = [whole[cuts[0] : cuts[1]], whole[cuts[2] : cuts[3]]]
            optimizer = kind(params, lr=0.5)
            for param in params:
                param.grad = param.detach()  # the gradient is the parameter's own memory
            optimizer.step()
            results.append(whole)
    assert_equal_steps(results[:2], results[2:], "shared")


def test_state_of_another_dtype_or_shape() -> None:
    results = []
    for kind in (optim.SGD, one_by_one("SGD")):
        params = [nn.Parameter(ops.ones(3).to(tinyt.bfloat16)), nn.Parameter(ops.ones(2, 3))]
        optimizer = kind(params, lr=0.3, momentum=0.7)
        optimizer.state[params[0]]["momentum_buffer"] = ops.full((3,), 1 / 3)
        for param in params:
            param.grad = ops.ones_like(param)
        optimizer.step()
        optimizer.step()
        results.append([param.detach() for param in params])
    assert_equal_steps(*results, "mixed")
    params = [nn.Parameter(ops.ones(3))]
    adam = optim.Adam(params)
    params[0].grad = ops.ones(3)
    adam.step()
    adam.state[params[0]]["exp_avg"] = ops.ones(2)
    with pytest.raises(RuntimeError, match="shape"):
        adam.step()


def test_memory_that_must_not_be_written() -> None:
    frozen = np.ones(3, dtype=np.float32)
    frozen.flags.writeable = False
    fixed = ops.from_numpy(frozen)
    free = nn.Parameter(ops.ones(3))
    for bad, message in ((fixed, "read-only"), (ops.ones(1).expand(3), "several indices")):
        bad.requires_grad_()
        for name in ("SGD", "Adam", "RMSprop", "Adagrad"):
            optimizer = getattr(optim, name)([free, bad])
            free.grad = bad.grad = ops.ones(3)
            with pytest.raises(RuntimeError, match=message):
                optimizer.step()
            assert free.tolist() == [1, 1, 1]
        bad.grad = None


def test_lists_of_different_lengths() -> None:
    one = [ops.ones(1)]
    with pytest.raises(ValueError, match="one gradient for each of the 1 parameters, got 0"):
        _core.sgd_step(one, [], [], [], 0.1, 0.0, 0.0, 0.0, False, False)
    with pytest.raises(ValueError, match="one state tensor for each of the 1 parameters, got 2"):
        _core.sgd_step(one, one, one * 2, [True], 0.1, 0.9, 0.0, 0.0, False, False)
    with pytest.raises(ValueError, match="one counter for each of the 1 parameters, got 0"):
        _core.adagrad_step(one, one, [], one, 0.1, 0.0, 0.0, 0.0, False)
    with pytest.raises(RuntimeError, match="float32 or float64, got int64"):
        prim.sum_squares([tinyt.arange(3)])
    with pytest.raises(RuntimeError, match="must have one dtype, got float32 and float64"):
        prim.sum_squares([ops.ones(1), ops.ones(1, dtype=tinyt.float64)])
    with pytest.raises(ValueError, match="at least one tensor"):
        prim.sum_squares([])


def test_state_survives_a_step_that_fails_halfway() -> None:
    good, bad = (nn.Parameter(ops.ones(3)) for _ in range(2))
    optimizer = optim.SGD([good, bad], momentum=0.9)
    optimizer.state[bad]["momentum_buffer"] = ops.ones(2)
    for param in (good, bad):
        param.grad = ops.ones(3)
    with pytest.raises(RuntimeError, match="shape"):
        optimizer.step()
    assert optimizer.state[good]["momentum_buffer"].tolist() == [1, 1, 1]
    assert bad.tolist() == [1, 1, 1]


def test_recorded_step_equals_eager() -> None:
    def make() -> tuple[Any, Any]:
        param = nn.Parameter(ops.ones(5))
        param.grad = ops.full((5,), 0.3)
        return param, optim.SGD([param], lr=0.1, momentum=0.9, weight_decay=0.1)

    def step(optimizer: Any) -> Any:
        optimizer.step()
        return optimizer.param_groups[0]["params"][0] * 1

    (eager, first), (param, second) = make(), make()
    for _ in range(2):  # the second has the momentum already
        first.step()
    second.step()
    recording = record(step, second)
    recording.run()
    assert_same_bits(param.detach(), eager.detach(), "recorded")


def test_empty_batches() -> None:
    param = nn.Parameter(ops.ones(3))
    for name in ("SGD", "Adam", "RMSprop", "Adagrad"):
        optimizer = getattr(optim, name)([param])
        optimizer.step()
        assert param.tolist() == [1, 1, 1]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_total_norm_has_the_bits_of_single_norms(dtype: str) -> None:
    rng = np.random.default_rng(2)
    shapes: list[tuple[int, ...]] = [(), (0, 3), (4096,), (4097,), (130, 257), (33, 1000), (7,)]
    tensors = [values(rng, shape, getattr(tinyt, dtype)) for shape in shapes]
    tensors.append(values(rng, (300, 50), getattr(tinyt, dtype)).t())
    singles = ops.stack([(x.abs() * x.abs()).sum().sqrt() for x in tensors])
    want = (singles * singles).sum().sqrt()
    for threads in (1, 2, 3, 7):
        tinyt.set_num_threads(threads)
        assert_same_bits(nn.utils.get_total_norm(tensors), want, f"{threads} threads")


@pytest.mark.parametrize("dtype", DTYPES)
def test_clipping_has_the_bits_of_single_products(dtype: str) -> None:
    rng = np.random.default_rng(2)
    params = [nn.Parameter(ops.zeros(n, dtype=getattr(tinyt, dtype))) for n in (3, 0, 700)]
    grads = [values(rng, tuple(param.shape), param.dtype) for param in params]
    for param, grad in zip(params, grads, strict=True):
        param.grad = grad.clone()
    total = nn.utils.clip_grad_norm_(params, 2.0)
    wide = [grad.float() if grad.element_size() == 2 else grad for grad in grads]
    norm = nn.utils.get_total_norm(wide)  # of halves not rounded before the products are
    assert_same_bits(total, norm.to(total.dtype), dtype)
    factor = (2.0 / (norm + 1e-6)).clamp(max=1.0)
    for param, grad in zip(params, wide, strict=True):
        assert_same_bits(param.grad, (grad * factor).to(param.dtype), dtype)


def test_recorded_clipping_equals_eager() -> None:
    def make() -> Any:
        params = [nn.Parameter(ops.zeros(n)) for n in (3, 5)]
        for param in params:
            param.grad = ops.full(param.shape, 2.5)
        return params

    eager, params = make(), make()
    nn.utils.clip_grad_norm_(eager, 1.0)
    record(lambda: nn.utils.clip_grad_norm_(params, 1.0)).run()
    for param, other in zip(params, eager, strict=True):
        assert_same_bits(param.grad, other.grad, "clipped")
