"""Transforms and constraints in PyTorch: values, inverses, Jacobians, shapes, edges."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributions

import tinyt
from sampling import to_numpy

R = np.random.default_rng(0)
X = R.normal(size=(2, 3))
SQUARE = R.normal(size=(2, 3, 3))


def tensor(tt: Any, x: Any) -> Any:
    return tt.tensor(np.asarray(x, np.float64))


# A transform from (library, its distributions), and values of its domain.
TRANSFORMS: dict[str, tuple[Any, np.ndarray]] = {
    "exp": (lambda t, D: D.ExpTransform(), X),
    "exp cached": (lambda t, D: D.ExpTransform(cache_size=1), X),
    "abs": (lambda t, D: D.AbsTransform(), X),
    "affine": (lambda t, D: D.AffineTransform(1.0, -2.0), X),
    "affine tensor": (lambda t, D: D.AffineTransform(tensor(t, [1.0, 2, 3]), tensor(t, 0.5)), X),
    "affine event": (lambda t, D: D.AffineTransform(0.5, tensor(t, [1.0, 2, 3]), event_dim=1), X),
    "power": (lambda t, D: D.PowerTransform(tensor(t, [2.0, -1.0, 0.5])), np.abs(X)),
    "sigmoid": (lambda t, D: D.SigmoidTransform(), X * 5),
    "softplus": (lambda t, D: D.SoftplusTransform(), X * 5),
    "tanh": (lambda t, D: D.TanhTransform(), X),
    "softmax": (lambda t, D: D.SoftmaxTransform(), X),
    "stick": (lambda t, D: D.StickBreakingTransform(), X),
    "corr": (lambda t, D: D.CorrCholeskyTransform(), X / 2),
    "lower cholesky": (lambda t, D: D.LowerCholeskyTransform(), SQUARE),
    "positive definite": (lambda t, D: D.PositiveDefiniteTransform(), SQUARE),
    "cdf": (lambda t, D: D.CumulativeDistributionTransform(D.Normal(0.0, 1.0)), X),
    "compose": (lambda t, D: D.ComposeTransform([D.AffineTransform(0.1, 2.0), D.ExpTransform(),
                                                 D.PowerTransform(tensor(t, 0.5))]), X),
    "compose stick": (lambda t, D: D.ComposeTransform([D.AffineTransform(0.1, 2.0),
                                                       D.StickBreakingTransform()]), X),
    "compose cached": (lambda t, D: D.ComposeTransform([D.TanhTransform(), D.ExpTransform()],
                                                       cache_size=1), X),
    "identity": (lambda t, D: D.identity_transform, X),
    "independent": (lambda t, D: D.IndependentTransform(D.ExpTransform(), 1), X),
    "reshape": (lambda t, D: D.ReshapeTransform((3,), (1, 3)), X),
    "cat": (lambda t, D: D.CatTransform([D.ExpTransform(), D.TanhTransform()], 1, [1, 2]), X),
    "cat last": (lambda t, D: D.CatTransform([D.ExpTransform(), D.TanhTransform()], -1, [2, 1]), X),
    "stack": (lambda t, D: D.StackTransform([D.ExpTransform(), D.SigmoidTransform()]), X),
    "stack last": (lambda t, D: D.StackTransform([D.ExpTransform(), D.TanhTransform(),
                                                  D.identity_transform], -1), X),
    "inverse": (lambda t, D: D.ExpTransform().inv, np.exp(X)),
    "inverse of compose": (lambda t, D: D.ComposeTransform(
        [D.AffineTransform(0.1, 2.0), D.SigmoidTransform()]).inv, np.full((2, 3), 0.3)),
}  # fmt: skip
every_transform = pytest.mark.parametrize("name", TRANSFORMS)


@pytest.fixture(autouse=True)
def _double_by_default() -> Any:
    """PyTorch makes constants of the default dtype inside some transforms."""
    before = torch.get_default_dtype()
    for tt in (tinyt, torch):
        tt.set_default_dtype(tt.float64)
    yield
    tinyt.set_default_dtype(tinyt.float32)
    torch.set_default_dtype(before)


def close(got: Any, want: Any, rtol: float = 1e-9) -> None:
    assert tuple(got.shape) == tuple(want.shape)
    np.testing.assert_allclose(to_numpy(got.detach()), want.detach().numpy(), rtol=rtol, atol=1e-12)


def asked(function: Any) -> Any:
    """A result, or the class of the error."""
    try:
        return function()
    except Exception as error:
        return type(error)


def same_kind(got: Any, want: Any) -> bool:
    """Whether both are errors, ours of PyTorch's class."""
    if not isinstance(want, type):
        return False
    assert isinstance(got, type)
    assert issubclass(got, want)
    return True


@every_transform
def test_values_inverses_and_jacobians(name: str) -> None:
    make, x = TRANSFORMS[name]
    found = []
    for tt in (tinyt, torch):
        t = make(tt, tt.distributions)
        value = tensor(tt, x).requires_grad_()
        y = t(value)
        slope = asked(lambda t=t, value=value, y=y: t.log_abs_det_jacobian(value, y))
        # Not the cached one.
        back = t.inv(y.detach().clone())
        gradient = tt.autograd.grad((y * y).sum(), value)[0]
        found.append((y, slope, back, gradient, t.forward_shape(value.shape)))
    for got, want in zip(*found, strict=True):
        if not same_kind(got, want):
            close(got, want, 1e-7) if hasattr(want, "detach") else None
    assert tuple(found[0][-1]) == tuple(found[1][-1])


@every_transform
def test_facts(name: str) -> None:
    make, _ = TRANSFORMS[name]
    ours, theirs = make(tinyt, tinyt.distributions), make(torch, torch.distributions)
    assert bool(ours.bijective) == bool(theirs.bijective)
    for fact in ("event_dim", "sign"):
        got, want = (asked(lambda t=t, fact=fact: getattr(t, fact)) for t in (ours, theirs))
        if not same_kind(got, want):
            assert np.array_equal(np.asarray(got), np.asarray(want))
    for side in ("domain", "codomain"):
        a, b = getattr(ours, side), getattr(theirs, side)
        assert a.event_dim == b.event_dim
        assert a.is_discrete == b.is_discrete
        assert type(a).__name__.strip("_") in (type(b).__name__.strip("_"), "Independent")
    assert repr(ours) == repr(theirs)
    assert ours == ours
    assert ours.inv.inv == ours


@every_transform
def test_a_cache_keeps_the_pair(name: str) -> None:
    make, x = TRANSFORMS[name]
    t = make(tinyt, tinyt.distributions)
    cached = asked(lambda: t.with_cache(1))
    if isinstance(cached, type):
        assert issubclass(cached, NotImplementedError)
        return
    value = tensor(tinyt, x)
    if name != "identity":
        assert cached.inv(cached(value)) is value


@every_transform
def test_jacobian_is_that_of_the_function(name: str) -> None:
    """By autograd, of one vector or number of the domain."""
    make, x = TRANSFORMS[name]
    t = make(tinyt, tinyt.distributions)
    if not t.bijective or name in ("corr", "stick", "compose stick", "cat", "cat last"):
        return
    value = tensor(tinyt, x)
    y = t(value)
    size = value.numel()
    jacobian = tinyt.autograd.functional.jacobian(t, value).reshape(y.numel(), size)
    _, log_det = np.linalg.slogdet(jacobian.numpy())
    assert t.log_abs_det_jacobian(value, y).sum().item() == pytest.approx(log_det, rel=1e-9)


def test_jacobians_onto_surfaces() -> None:
    """Stick-breaking and correlations: of the entries that are free."""
    D = tinyt.distributions
    x = tensor(tinyt, [0.3, -0.2, 0.9])
    stick = D.StickBreakingTransform()
    free = tinyt.autograd.functional.jacobian(lambda v: stick(v)[:-1], x)
    want = np.linalg.slogdet(free.numpy())[1]
    assert stick.log_abs_det_jacobian(x, stick(x)).item() == pytest.approx(want, rel=1e-9)
    t = D.CorrCholeskyTransform()
    free = tinyt.autograd.functional.jacobian(
        lambda v: D.utils.tril_matrix_to_vec(t(v), diag=-1), x
    )
    want = np.linalg.slogdet(free.numpy())[1]
    assert t.log_abs_det_jacobian(x, t(x)).item() == pytest.approx(want, rel=1e-9)


# ---- constraints

EDGES = np.array([-math.inf, -2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, 2.5, math.inf, math.nan])
CONSTRAINTS: dict[str, tuple[Any, list[Any]]] = {
    **{
        name: (lambda t, c, name=name: getattr(c, name), [EDGES])
        for name in ("boolean", "nonnegative", "nonnegative_integer", "positive",
                     "positive_integer", "real", "unit_interval")
    },
    "greater_than": (lambda t, c: c.greater_than(0.5), [EDGES]),
    "greater_than_eq": (lambda t, c: c.greater_than_eq(0.5), [EDGES]),
    "less_than": (lambda t, c: c.less_than(0.5), [EDGES]),
    "interval": (lambda t, c: c.interval(-0.5, 2), [EDGES]),
    "half_open": (lambda t, c: c.half_open_interval(-0.5, 2), [EDGES]),
    "integer_interval": (lambda t, c: c.integer_interval(-1, 2), [EDGES]),
    "tensor bound": (lambda t, c: c.greater_than(tensor(t, [0.0, 1.0])), [np.ones((3, 2))]),
    "real_vector": (lambda t, c: c.real_vector, [EDGES, np.zeros((2, 0)), np.zeros((2, 3))]),
    "independent": (lambda t, c: c.independent(c.positive, 2), [X, np.abs(X), np.ones((2, 1, 2))]),
    "simplex": (lambda t, c: c.simplex, [[0.5, 0.5], [1.0, 0.0], [1.5, -0.5], [0.5, 0.4],
                                         [[0.5, 0.5 + 1e-7], [math.nan, 1.0]]]),
    "one_hot": (lambda t, c: c.one_hot, [[0.0, 1], [1.0, 1], [0.0, 0], [0.5, 0.5]]),
    "multinomial": (lambda t, c: c.multinomial(3), [[1.0, 2], [2.0, 2], [-1.0, 2], [0.0, 0]]),
    "lower_triangular": (lambda t, c: c.lower_triangular, [np.tril(SQUARE), SQUARE]),
    "lower_cholesky": (lambda t, c: c.lower_cholesky,
                       [np.tril(SQUARE), np.tril(np.abs(SQUARE)), np.eye(2), np.zeros((2, 2))]),
    "corr_cholesky": (lambda t, c: c.corr_cholesky,
                      [np.eye(2), np.linalg.cholesky([[1, 0.3], [0.3, 1]]), 2 * np.eye(2)]),
    "square": (lambda t, c: c.square, [SQUARE, X]),
    "symmetric": (lambda t, c: c.symmetric, [SQUARE, SQUARE + SQUARE.swapaxes(1, 2), np.eye(2)]),
    "positive_semidefinite": (lambda t, c: c.positive_semidefinite,
                              [np.eye(2), np.zeros((2, 2)), -np.eye(2), SQUARE]),
    "positive_definite": (lambda t, c: c.positive_definite,
                          [np.eye(2), np.zeros((2, 2)), -np.eye(2), SQUARE,
                           np.stack([np.eye(3), np.diag([1.0, -1, 1])])]),
    "cat": (lambda t, c: c.cat([c.positive, c.real], -1, [1, 2]), [X, np.abs(X)]),
    "stack": (lambda t, c: c.stack([c.positive, c.real, c.boolean], -1), [X, np.ones((2, 3))]),
}  # fmt: skip


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_constraints(name: str) -> None:
    make, values = CONSTRAINTS[name]
    ours = make(tinyt, tinyt.distributions.constraints)
    theirs = make(torch, torch.distributions.constraints)
    for fact in ("event_dim", "is_discrete"):
        assert getattr(ours, fact) == getattr(theirs, fact)
    assert repr(ours).replace("tinyt.", "torch.") == repr(theirs)
    for value in values:
        got, want = ours.check(tensor(tinyt, value)), theirs.check(tensor(torch, value))
        assert got.dtype is tinyt.bool
        np.testing.assert_array_equal(to_numpy(got), want.numpy())


REGISTERED = ("real", "positive", "nonnegative", "unit_interval", "simplex", "corr_cholesky",
              "real_vector", "lower_cholesky", "positive_definite", "greater_than", "less_than",
              "interval", "half_open", "independent", "cat", "tensor bound")  # fmt: skip


@pytest.mark.parametrize("table", ["biject_to", "transform_to"])
@pytest.mark.parametrize("name", REGISTERED)
def test_the_registry(table: str, name: str) -> None:
    made = CONSTRAINTS.get(name)
    found = []
    for tt in (tinyt, torch):
        c = tt.distributions.constraints
        constraint = made[0](tt, c) if made else getattr(c, name)
        registry = getattr(tt.distributions, table)
        found.append(asked(lambda registry=registry, constraint=constraint: registry(constraint)))
    ours, theirs = found
    if same_kind(ours, theirs):
        return
    x = SQUARE if ours.domain.event_dim == 2 else X
    x = x[:, :2] if name == "tensor bound" else x
    y = ours(tensor(tinyt, x))
    close(y, theirs(tensor(torch, x)), 1e-9)
    constraint = (
        made[0](tinyt, tinyt.distributions.constraints)
        if made
        else getattr(tinyt.distributions.constraints, name)
    )
    assert constraint.check(y).all()


def test_registering_a_constraint() -> None:
    for tt in (tinyt, torch):
        D = tt.distributions

        class Mine(type(D.constraints.real)):  # type: ignore[misc]
            pass

        registry = D.constraint_registry.ConstraintRegistry()

        @registry.register(Mine)
        def _(constraint: Any, D: Any = D) -> Any:
            return D.ExpTransform()

        assert isinstance(registry(Mine()), D.ExpTransform)
        with pytest.raises(NotImplementedError, match="Cannot transform"):
            registry(D.constraints.real)
        with pytest.raises(TypeError, match="Expected constraint"):
            registry.register(3, lambda c: c)


def test_triangles() -> None:
    for diag in (-2, -1, 0):
        size = 4
        count = sum(max(0, i + 1 + diag) for i in range(size))
        vec = np.arange(2.0 * count).reshape(2, count) + 1
        ours, theirs = (tt.distributions.utils for tt in (tinyt, torch))
        a, b = (
            ours.vec_to_tril_matrix(tensor(tinyt, vec), diag),
            theirs.vec_to_tril_matrix(tensor(torch, vec), diag),
        )
        close(a, b)
        close(ours.tril_matrix_to_vec(a, diag), theirs.tril_matrix_to_vec(b, diag))
