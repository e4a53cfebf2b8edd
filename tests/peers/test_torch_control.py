"""Control flow beside PyTorch's: values, gradients, how results are nested, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch._higher_order_ops import scan, while_loop

import tinyt
from tinyt.compiler.api import compile

pytestmark = pytest.mark.filterwarnings("ignore")

LIBRARIES = {
    "torch": (torch, torch.cond, scan, while_loop),
    "tinyt": (tinyt, tinyt.cond, tinyt.scan, tinyt.while_loop),
}


def inputs(lib: Any) -> list[Any]:
    """Leaves of shapes (3, 4), (4, 4), (5, 3, 4), (4,)."""
    rng = np.random.default_rng(0)
    shapes = (3, 4), (4, 4), (5, 3, 4), (4,)
    arrays = [rng.standard_normal(shape, np.float32) for shape in shapes]
    return [lib.from_numpy(a).clone().requires_grad_() for a in arrays]


def shape_of(x: Any) -> Any:
    """How a value is nested, with shapes."""
    if isinstance(x, dict):
        return {key: shape_of(value) for key, value in x.items()}
    if isinstance(x, (tuple, list)):
        return type(x)(map(shape_of, x))
    return tuple(x.shape) if hasattr(x, "shape") else x


def leaves_of(x: Any) -> list[Any]:
    if isinstance(x, dict):
        return [leaf for value in x.values() for leaf in leaves_of(value)]
    return (
        [leaf for value in x for leaf in leaves_of(value)] if isinstance(x, (tuple, list)) else [x]
    )


def scanned(lib: Any, scan: Any, init: Any, w: Any, xs: Any, v: Any) -> Any:
    def step(c: Any, x: Any) -> Any:
        h = lib.tanh(c["h"] @ w + x["x"])
        return {"h": h, "n": c["n"] + 1}, (h * v, [x["x"] + h])

    start = {"h": init, "n": lib.zeros(2)}
    return scan(step, start, {"x": xs}, dim=0, reverse=False)


def scanned_back(lib: Any, scan: Any, init: Any, w: Any, xs: Any, v: Any) -> Any:
    return scan(lambda c, x: (lib.sin(c @ w) * x, (c * v).sum(-1)), init, xs.transpose(0, 1), dim=1,
                reverse=True)  # fmt: skip


def chosen(lib: Any, cond: Any, x: Any, w: Any, xs: Any, v: Any) -> Any:
    return cond(x.sum() > 0, lambda x: (x.sin() @ w, {"a": x * 2}), lambda x: (x * v, {"a": x + v}),
                (x,))  # fmt: skip


def chosen_otherwise(lib: Any, cond: Any, x: Any, w: Any, xs: Any, v: Any) -> Any:
    return chosen(lib, cond, -lib.abs(x), w, xs, v)


CASES: dict[str, tuple[Callable[..., Any], int]] = {
    "scan": (scanned, 2),
    "scan along a dimension, reversed": (scanned_back, 2),
    "cond, true": (lambda lib, f, x, *rest: chosen(lib, f, lib.abs(x), *rest), 1),
    "cond, false": (chosen_otherwise, 1),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients(case: str, compiled: bool) -> None:
    function, number = CASES[case]
    found = []
    for name, (lib, *functions) in LIBRARIES.items():
        tensors = inputs(lib)

        def run(*tensors: Any, lib: Any = lib, operation: Any = functions[number - 1]) -> Any:
            result = function(lib, operation, *tensors)
            wanting = [x for x in leaves_of(result) if x.requires_grad]
            loss = sum((x * x).sum() for x in wanting)
            slopes = lib.autograd.grad(loss, tensors, allow_unused=True)
            return tuple(x.detach() for x in leaves_of(result)), slopes, shape_of(result)

        if compiled and name == "tinyt":
            run = compile(run)
            run(*tensors)
        values, slopes, shape = run(*tensors)
        found.append(([x.numpy() for x in values], slopes, shape))
    (values, slopes, shape), (others, other_slopes, other_shape) = found
    assert shape == other_shape
    for x, y in zip(values, others, strict=True):
        np.testing.assert_allclose(x, y, rtol=2e-5, atol=1e-5)
    for x, y in zip(slopes, other_slopes, strict=True):
        # Where no path leads to a leaf, PyTorch has None or zeros.
        x, y = (np.zeros(1) if g is None else g.numpy() for g in (x, y))
        np.testing.assert_allclose(*np.broadcast_arrays(x, y), rtol=2e-4, atol=1e-4)


@pytest.mark.parametrize("start", [0.5, 200.0])
def test_loops(start: float) -> None:
    found = []
    for lib, *_, loop in LIBRARIES.values():
        found.append(
            loop(
                lambda i, x: x.sum() < 100,
                lambda i, x: (
                    (i + 1, {"x": x["x"] * 1.5}) if isinstance(x, dict) else (i + 1, x * 1.5)
                ),
                (lib.tensor(0), lib.full((3,), start)),
            )
        )
    assert shape_of(found[0]) == shape_of(found[1])
    for x, y in zip(*found, strict=True):
        np.testing.assert_array_equal(x.numpy(), y.numpy())


WRONG: dict[str, Callable[..., Any]] = {
    "pred of two": lambda lib, cond, scan, loop, c, xs: cond(
        c[0, :2] > 0, lambda x: x + 1, lambda x: x * 2, (c,)
    ),
    "branches of two dtypes": lambda lib, cond, scan, loop, c, xs: cond(
        c.sum() > 0, lambda x: x + 1, lambda x: x.double(), (c,)
    ),
    "no slices": lambda lib, cond, scan, loop, c, xs: scan(lambda c, x: (c + x, c * 1), c, xs[:0]),
    "no dimension": lambda lib, cond, scan, loop, c, xs: scan(
        lambda c, x: (c + x, c * 1), c, xs, dim=5
    ),
    "no init": lambda lib, cond, scan, loop, c, xs: scan(lambda c, x: (c, x * 1), (), xs),
    "init of a number": lambda lib, cond, scan, loop, c, xs: scan(
        lambda c, x: (c + x, c * 1), 1.0, xs
    ),
    "carry of another dtype": lambda lib, cond, scan, loop, c, xs: scan(
        lambda c, x: (c.double() + 1, c * 1), c, xs
    ),
    "carry of another shape": lambda lib, cond, scan, loop, c, xs: scan(
        lambda c, x: (c[:1] + 1, c * 1), c, xs
    ),
    "condition of many": lambda lib, cond, scan, loop, c, xs: loop(
        lambda c: c + 1, lambda c: (c + 1,), (c,)
    ),
    "loop that changes a dtype": lambda lib, cond, scan, loop, c, xs: loop(
        lambda c: c.sum() < 90, lambda c: (c.double() + 1,), (c,)
    ),
}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("case", WRONG)
def test_errors(case: str, library: str) -> None:
    lib, *functions = LIBRARIES[library]
    kind = IndexError if case == "no dimension" else RuntimeError
    with pytest.raises(kind):
        WRONG[case](lib, *functions, lib.ones(3, 4), lib.ones(5, 3, 4))
