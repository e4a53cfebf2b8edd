"""What programs find in PyTorch's functional file, its initialisers and helpers: the same here."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest

import tinyt
from both import close, error_of, plain, ramp

torch = pytest.importorskip("torch")

Case = Callable[[Any], Any]
CASES: list[Case] = []


def case(function: Case) -> Case:
    CASES.append(function)
    return function


@case
def fans(tt: Any) -> Any:
    init = tt.nn.init
    weight = tt.empty(4, 3, 2, 2)
    return (
        init._calculate_fan_in_and_fan_out(weight),
        init._calculate_correct_fan(weight, "FAN_OUT"),
        error_of(lambda: init._calculate_correct_fan(weight, "fan")),
        error_of(lambda: init._calculate_fan_in_and_fan_out(tt.empty(3))),
        init._no_grad_fill_(tt.nn.Parameter(tt.empty(2)), 3.0),
        init._no_grad_zero_(tt.nn.Parameter(tt.empty(2))),
        init._no_grad_uniform_(tt.nn.Parameter(tt.empty(9)), 1.0, 2.0).dtype is tt.float32,
        bool((init._no_grad_trunc_normal_(tt.empty(99), 0.0, 1.0, -1.0, 0.5) <= 0.5).all()),
        bool((init._no_grad_normal_(tt.empty(9), 50.0, 1.0) > 40).all()),
    )


@case
def helpers_of_layers(tt: Any) -> Any:
    utils = tt.nn.modules.utils
    state = OrderedDict({"module.a": 1, "module.b.c": 2, "d": 3})
    state._metadata = OrderedDict({"": 0, "module": 1, "module.b": 2})  # type: ignore[attr-defined]
    utils.consume_prefix_in_state_dict_if_present(state, "module.")
    return (
        utils._pair(1), utils._pair([1, 2]), utils._single(3), utils._triple("ab"),
        utils._quadruple(0), utils._ntuple(5)(1), utils._ntuple(2, "name").__name__,
        utils._reverse_repeat_tuple((1, 2), 2), utils._list_with_default(3, [1]),
        utils._list_with_default([None, 2], [5, 6, 7]),
        error_of(lambda: utils._list_with_default([1, 2], [1, 2])),
        list(state.items()), list(state._metadata.items()),  # type: ignore[attr-defined]
        tt.nn.modules.module._addindent("a\nb\nc", 3), tt.nn.factory_kwargs({"dtype": 1}),
        tt.nn.factory_kwargs(None),
        error_of(lambda: tt.nn.factory_kwargs({"x": 1})),
        error_of(lambda: tt.nn.factory_kwargs({"dtype": 1, "factory_kwargs": {"dtype": 2}})),
    )  # fmt: skip


@case
def reductions(tt: Any) -> Any:
    names = tt.nn._reduction
    flags = [(a, b) for a in (None, True, False) for b in (None, True, False)]
    return (
        [tt.nn.functional._Reduction.get_enum(n) for n in ("none", "mean", "sum")],
        error_of(lambda: names.get_enum("max")),
        [names.legacy_get_string(a, b, emit_warning=False) for a, b in flags],
        [names.legacy_get_enum(a, b, emit_warning=False) for a, b in flags],
    )


@case
def maxima_with_indices(tt: Any) -> Any:
    functional = tt.nn.functional
    found = []
    for n in (1, 2, 3):
        x = ramp(tt, 1, 2, *[5] * n)
        found.append(getattr(functional, f"max_pool{n}d_with_indices")(x, 2, 1))
        found.append(getattr(functional, f"adaptive_max_pool{n}d_with_indices")(x, 2))
        found.append(getattr(functional, f"_max_pool{n}d")(x, 2))
    return found


@case
def fractional(tt: Any) -> Any:
    found = []
    for n in (2, 3):
        pool = getattr(tt.nn.functional, f"fractional_max_pool{n}d")
        layer = getattr(tt.nn, f"FractionalMaxPool{n}d")
        x = ramp(tt, 2, 3, *(7, 6, 8)[:n]).requires_grad_()
        samples = (tt.arange(2 * 3 * n, dtype=tt.float64) * 0.37 % 1).reshape(2, 3, n)
        out, indices = pool(x, 2, 3, return_indices=True, _random_samples=samples)
        (out * ramp(tt, *out.shape)).sum().backward()
        made = layer((2, 3, 2)[:n], output_ratio=0.5, _random_samples=samples)
        found += [out, indices, x.grad, made(x), pool(x, 2, (1, 4, 2)[:n], None, False, samples)]
        one = layer(2, output_size=3, _random_samples=samples[:1], return_indices=True)
        found += [one(x.detach()[0]), list(made.state_dict())]
        found += [
            error_of(lambda pool=pool, x=x: pool(x, 2)),  # type: ignore[misc]
            error_of(lambda layer=layer: layer(2)),  # type: ignore[misc]
            error_of(lambda layer=layer: layer(2, 3, 0.5)),  # type: ignore[misc]
            error_of(lambda layer=layer: layer(2, output_ratio=1.5)),  # type: ignore[misc]
        ]
    return found


@case
def fractional_in_single_precision(tt: Any) -> Any:
    """Where windows begin is found in the draws' own precision."""
    x = ramp(tt, 1, 1, 40, 41).to(tt.float32)
    found = []
    for i in range(20):
        samples = tt.full((1, 1, 2), i / 20 + 0.01)
        found.append(tt.nn.functional.fractional_max_pool2d(x, 2, (13, 17), None, False, samples))
    return found


@case
def over_time(tt: Any) -> Any:
    x = ramp(tt, 5, 2, 3).requires_grad_()
    weight = ramp(tt, 3, 3, 4)
    out = tt.nn.functional.conv_tbc(x, weight, ramp(tt, 4), 1)
    out.sum().backward()
    return out, x.grad, tt.nn.functional.conv_tbc(x, weight, ramp(tt, 4)).is_contiguous()


@case
def parts_of_attention(tt: Any) -> Any:
    functional = tt.nn.functional
    q, k, v = ramp(tt, 2, 1, 4), ramp(tt, 3, 1, 4) + 1, ramp(tt, 3, 1, 4) - 1
    w, b = ramp(tt, 12, 4), ramp(tt, 12)
    mask = tt.tensor([[True, False]])
    check = functional._mha_shape_check
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        numbers = functional._canonical_mask(mask, "m", tt.float32, "o", tt.float32)
    return (
        functional._in_projection_packed(q, q, q, w, b),
        functional._in_projection_packed(q, k, k, w, b),
        functional._in_projection_packed(q, k, v, w),
        functional._in_projection(q, k, v, w[:4], w[4:8], w[8:], b[:4]),
        error_of(lambda: functional._in_projection(q, k, v, w[:3], w[4:8], w[8:])),
        check(q, k, v, None, None, 2),
        check(q[0], k[0], v[0], None, None, 2),
        error_of(lambda: check(q, k[0], v, None, None, 2)),
        error_of(lambda: check(q, k, v, ramp(tt, 1), None, 2)),
        error_of(lambda: check(q, k, v, None, ramp(tt, 1), 2)),
        error_of(lambda: check(q[0], k[0], v[0], None, ramp(tt, 1, 2, 3), 2)),
        numbers,
        functional._canonical_mask(None, "m", None, "o", tt.float32),
        error_of(lambda: functional._canonical_mask(tt.ones(1).long(), "m", None, "o", q.dtype)),
        functional._none_or_dtype(q) is tt.float64,
        error_of(lambda: functional._none_or_dtype(3)),
        error_of(lambda: functional._check_key_padding_mask(mask, 3, 1)),
    )


@case
def small_parts_of_functions(tt: Any) -> Any:
    functional = tt.nn.functional
    table = ramp(tt, 3, 2) * 9
    functional._no_grad_embedding_renorm_(table, tt.tensor([1, 2]), 1.0, 2.0)
    with pytest.warns(UserWarning, match="Implicit dimension"):
        dims = [functional._get_softmax_dim("softmax", n, 3) for n in range(5)]
    dispatched = functional.boolean_dispatch(
        "flag", 1, False, lambda x, flag=False: ("yes", x), lambda x, flag=False: ("no", x), "m",
        "f",
    )  # fmt: skip
    return (
        table,
        dims,
        dispatched(1),
        dispatched(1, True),
        dispatched(1, flag=True),
        error_of(lambda: functional._verify_batch_size([1, 3, 1])),
        error_of(lambda: functional._verify_batch_size([2, 3])),
        error_of(lambda: functional._verify_spatial_size([1, 3, 1])),
        functional._is_integer(3),
        functional._is_integer(3.0),
        functional._is_integer(tt.ones(1).long()),
        error_of(lambda: functional.assert_int_or_pair([1, 2, 3], "x", "{} no")),
        functional._unpool_output_size(ramp(tt, 1, 1, 3, 3), [2, 2], [2, 2], [0, 0], None),
        functional._unpool_output_size(ramp(tt, 1, 1, 3, 3), [2, 2], [2, 2], [0, 0], [7, 5]),
        error_of(
            lambda: functional._unpool_output_size(
                ramp(tt, 1, 1, 3, 3), [2, 2], [2, 2], [0, 0], [9, 5]
            )
        ),
        functional._threshold(ramp(tt, 4), 0.0, 1.0),
        functional.has_torch_function((table,)),
        functional.has_torch_function_variadic(table, table),
    )


@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_parts(function: Case) -> None:
    ours, theirs = plain(function(tinyt)), plain(function(torch))
    assert close(ours, theirs), (ours, theirs)
