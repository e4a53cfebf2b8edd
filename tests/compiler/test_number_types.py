"""Floats of a recorded call are of a class of their own, which the function must not notice."""

from __future__ import annotations

import array
import contextlib
import datetime
import decimal
import fractions
import json
import marshal
import math
import operator
import statistics
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinyt
from tinyt import Tensor
from tinyt.compiler.api import compile
from unseen import unseen


def same(function: Callable[..., Any], *rates: float) -> None:
    """Requires eager's results at every call, and their types."""
    compiled = compile(function)
    x = tinyt.tensor([1.0, 2.0])
    for rate in rates:
        got, want = compiled(x, rate), function(x, rate)
        assert repr(got) == repr(want)
        assert [type(y) for y in got] == [type(y) for y in want]


MADE: dict[str, Callable[[float], Any]] = {
    "mean": lambda r: statistics.mean([r, 1.0]),
    "nested": lambda r: {"a": [statistics.mean([r, 2.0])]},
}


@pytest.mark.parametrize("name", MADE)
def test_a_float_of_the_class_of_an_argument_is_returned(name: str) -> None:
    same(lambda x, r: (x * r, MADE[name](r), r), 2.0, 2.0, 2.0, 4.0, 3.0)


class Rates:
    """Has floats, and gives them."""

    def __init__(self) -> None:
        self.rate, self.rates = 2.0, [1.0, 2.0]

    def get(self) -> float:
        return self.rate

    def is_float(self) -> bool:
        return type(self.rate) is float


def by_branch(x: Tensor, r: float) -> Any:
    if type(r) is not float:
        raise TypeError("no float")
    return x * r, r


def by_name(x: Tensor, r: float) -> Any:
    kind = type(r)
    return x * r, kind.__name__, kind(3.5)


def by_match(x: Tensor, r: float) -> Any:
    match type(r) if r else None:
        case kind if kind is float:
            return x * 2, r
    return x, r


ASKED: dict[str, Callable[..., Any]] = {
    "is": lambda x, r: (x * (2.0 if type(r) is float else 3.0), r),
    "equals": lambda x, r: (x * (2.0 if type(r) == float else 3.0), r),  # noqa: E721
    "in": lambda x, r: (x * (2.0 if type(r) in (int, float) else 3.0), r * 2),
    "table": lambda x, r: (x * {float: 2.0, int: 3.0}.get(type(r), 5.0), r),
    "class": lambda x, r: (x * (2.0 if r.__class__ is float else 3.0), r),
    "makes": lambda x, r: (x * type(r)(3.5), type(r)(4.5)),
    "class makes": lambda x, r: (x * r.__class__(3.5), r.__class__(4.5)),
    "computed": lambda x, r: (x * (2.0 if type(r * 2) is float else 3.0), r),
    "loop": lambda x, r: (x * sum([type(v) is float for v in (r, 1.0)]), r),
    "map": lambda x, r: (x * (2.0 if list(map(type, [r])) == [float] else 3.0), r),
    "body": lambda x, r: (
        tinyt.cond(x.sum() > 0, lambda x: x * (type(r) is float), lambda x: x * r, (x,)), r,
    ),
    "branch": by_branch,
    "name": by_name,
    "match": by_match,
}  # fmt: skip


@pytest.mark.parametrize("name", ASKED)
def test_the_type_of_an_argument(name: str) -> None:
    same(ASKED[name], 2.0, 2.0, 2.0, 3.0, 2.0, 0.5, -1.0)


HELD: dict[str, Callable[[Tensor, Rates], Any]] = {
    "attribute": lambda x, o: x * o.rate * (2.0 if type(o.rate) is float else 3.0),
    "inside": lambda x, o: x * o.rate * (2.0 if o.is_float() else 3.0),
    "given": lambda x, o: x * o.rate * (2.0 if type(o.get()) is float else 3.0),
    "item": lambda x, o: x * o.rates[1] * (2.0 if type(o.rates[1]) is float else 3.0),
    "items": lambda x, o: x * o.rates[1] * sum(type(v) is float for v in o.rates),
    "class": lambda x, o: x * o.rate * (2.0 if o.rate.__class__ is float else 3.0),
    "class given": lambda x, o: x * o.rate * (2.0 if o.get().__class__ is float else 3.0),
}


@pytest.mark.parametrize("name", HELD)
def test_the_type_of_a_float_that_changes(name: str) -> None:
    function, rates = HELD[name], Rates()
    compiled = compile(lambda x: function(x, rates))
    x = tinyt.tensor([1.0, 2.0])
    for rate in (2.0, 2.0, 3.0, 3.0, 4.0, 5.0, 5.0, 2.0):
        rates.rate = rates.rates[1] = rate
        assert compiled(x).tolist() == function(x, rates).tolist()


def test_a_line_that_asks_for_no_type_of_a_float_leaves_it_live() -> None:
    compiled = compile(lambda x, r: x * r if isinstance(r, float) else x)
    for rate in (2.0, 3.0, 4.0, 5.0):
        compiled(tinyt.ones(2), rate)
    assert compiled.cache_info().currsize == 1


def test_the_type_of_an_item_of_a_tensor_is_refused() -> None:
    """It is read anew at every run."""
    weight = tinyt.ones(1)

    def step(x: Tensor) -> Any:
        value = weight.item()
        return x * (2.0 if type(value) is float else 3.0)

    with pytest.raises(tinyt.CaptureError, match=r"asks for a type.*test_number_types\.py:\d+"):
        compile(step)(tinyt.ones(2))


EXACT = 2**53 + 1  # no double
OTHERS: dict[str, Callable[[Tensor, float], Any]] = {
    "r // x": lambda x, r: (r // x, x * r),
    "x // r": lambda x, r: (x // r, x * r),
    "r % x": lambda x, r: (r % x, x * r),
    "x % r": lambda x, r: (x % r, x * r),
    "r // array": lambda x, r: (x * float((r // np.array([2.0, 0.3]))[1]),),
    "r % array": lambda x, r: (x * float((r % np.array([2.0, 0.3]))[1]),),
    "array // r": lambda x, r: (x * float((np.array([2.0, 0.3]) // r)[0]),),
    "divmod": lambda x, r: (x * divmod(r, 0.4)[1], x * divmod(7, r)[0]),
    "huge": lambda x, r: (x * r, r < 10**400, r > -(10**400), r == 10**400, r != 10**400),
    "exact": lambda x, r: (x * r, r == EXACT, r < EXACT, r >= EXACT, r != EXACT, r == 2**60),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_float_beside_what_is_none(name: str) -> None:
    same(OTHERS[name], 2.5, 2.5, 2.5, 1.25, float(2**53), float(2**53), 3.5)


def test_what_a_float_is_not_divided_by() -> None:
    def step(x: Tensor, r: float) -> list[str]:
        said = []
        for call in (lambda: r // "a", lambda: r % None, lambda: divmod([], r), lambda: 1j // r):
            try:
                call()  # type: ignore[no-untyped-call]
            except TypeError as error:
                said.append(str(error).replace("tinyt._capture.Number", "float"))
        return said

    same(step, 2.5, 2.5, 2.5)


@pytest.mark.parametrize("pair", [(0.0, -0.0), (-0.0, 0.0), (float("nan"), 1.0)])
def test_signs_of_zeros_and_nan(pair: tuple[float, float]) -> None:
    """A use that only C sees: the value is part of the call then."""

    def step(x: Tensor, r: float) -> tuple[Tensor, Tensor]:
        return x + r, x * (2.0 if math.copysign(1.0, r) < 0 else 3.0)

    same(step, *pair, *pair, pair[1], pair[0], 1.5)


# What takes the value of a float in C, where only `__float__` and its like are seen.
IN_C: dict[str, Callable[[float], Any]] = {
    "math": lambda r: (math.sqrt(r), math.isclose(r, 2.0), math.frexp(r), math.isnan(r)),
    "rounding": lambda r: (
        math.floor(r),
        math.ceil(r),
        math.trunc(r),
        round(r),
        round(r, 1),
        int(r),
    ),
    "formats": lambda r: (f"{r:.3f}", "%g" % r, f"{r}", str(r), repr(r), "%d" % r),  # noqa: UP031
    "struct": lambda r: struct.pack("d", r),
    "json": lambda r: json.dumps({"rate": [r, r * 2]}),
    "array": lambda r: array.array("d", [r, r + 1]).tolist(),
    "decimal": lambda r: str(decimal.Decimal(r)),
    "fraction": lambda r: str(fractions.Fraction(r)),
    "time": lambda r: str(datetime.timedelta(seconds=r)),
    "methods": lambda r: (r.hex(), r.is_integer(), r.as_integer_ratio(), r.real, r.imag),
    "sums": lambda r: (sum([r, 1.0]), max(r, 2.5), min(r, 2.5), sorted([r, 1.5]), math.fsum([r])),
    "a key": lambda r: {2.0: "two", 3.0: "three"}.get(r, "other"),
    "other types": lambda r: (int(r), bool(r), complex(r), r * 1j, (-r) ** 0.5),
    "a scalar of NumPy": lambda r: repr((np.float32(2) * r, r + np.float64(1), np.float64(r))),
    "a function of NumPy": lambda r: repr((np.sqrt(r), np.maximum(r, 2.5), np.isscalar(r))),
    "an array of NumPy": lambda r: (np.array([r, 1.0]).tolist(), np.full(2, r).tolist()),
    "arithmetic of arrays": lambda r: ((np.ones(2) * r).tolist(), (r / np.ones(2)).tolist()),
}


@pytest.mark.parametrize("name", IN_C)
def test_a_float_in_code_of_c(name: str) -> None:
    same(lambda x, r: (x * r, r, IN_C[name](r)), 2.0, 2.0, 3.0, 2.0, 0.25, 3.0)


def test_a_float_that_is_kept_is_a_float_afterwards() -> None:
    class Kept:
        last: float

    kept, table, rows, seen, own = Kept(), {}, [0.0], set[float](), 0.0

    @compile
    def step(x: Tensor, r: float) -> Tensor:
        setattr(kept, "last", r * 2)  # noqa: B010
        table.update(last=r)
        operator.setitem(rows, 0, r)
        seen.update([r * 3])
        nonlocal own
        own = r * 4
        return x * r

    for rate in (2.0, 2.0, 3.0):
        try:
            step(tinyt.ones(1), rate)
        except tinyt.CaptureError as error:
            assert "changes what it reads" in str(error)  # noqa: PT017
    for value in (kept.last, table["last"], rows[0], *seen, own):
        assert type(value) is float
        json.dumps(value)


def test_a_call_is_run_once_and_recorded_once() -> None:
    count = unseen(range(100))

    def step(x: Tensor, r: float) -> Tensor:
        count()
        return x * (r * 2 + 1)

    compiled = compile(step)
    for rate in (2.0, 3.0, 4.0, 4.0):
        assert compiled(tinyt.ones(1), rate).item() == rate * 2 + 1
    assert count() == 2


@pytest.mark.parametrize("how", [dict.__setitem__, lambda d, k, v: d.update({k: v})])
def test_options_that_are_set_unseen(how: Callable[..., None]) -> None:
    w = tinyt.ones(1, requires_grad=True)
    optimizer = tinyt.optim.SGD([w], 0.5)

    @compile
    def step() -> None:
        how(optimizer.param_groups[0], "lr", 0.5)
        w.sum().backward()
        optimizer.step()

    with pytest.raises(tinyt.CaptureError, match="sets 'lr', from which a program reads a number"):
        step()


NUMBERS = st.one_of(st.integers(-3, 3), st.booleans(), st.sampled_from([0.5, -1.5, 2.0, 1e300]))
VALUES = st.sampled_from([1.0, 2.0, -0.5, 3.0])
BINARY = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv]
BINARY += [operator.mod, operator.pow, max, min, divmod]
COMPARED = [operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge]


@settings(max_examples=60, deadline=None)
@given(
    program=st.lists(
        st.tuples(
            st.sampled_from([*BINARY, *COMPARED, operator.neg, abs]),
            st.integers(0, 9),
            st.one_of(NUMBERS, st.integers(4, 9).map(lambda i: ("made", i))),
            st.booleans(),
        ),
        max_size=5,
    ),
    values=st.lists(
        st.tuples(*[st.sampled_from([1.0, 2.0, -0.5, 3.0])] * 2), min_size=2, max_size=5
    ),
)
def test_any_arithmetic_of_floats(program: list[Any], values: list[tuple[float, float]]) -> None:
    """As Python computes it at every call, whatever was captured at earlier ones."""

    def step(x: Tensor, r: float, s: float) -> Any:
        made: list[Any] = [r, s]
        for function, left, right, is_reflected in program:
            a = made[left % len(made)]
            b = made[right[1] % len(made)] if isinstance(right, tuple) else right
            try:
                if function in (operator.neg, abs):
                    made.append(function(a))
                else:
                    made.append(function(b, a) if is_reflected else function(a, b))
            except (ZeroDivisionError, OverflowError, TypeError):
                made.append(7)
        return x * 2, *made

    compiled = compile(step)
    x = tinyt.ones(1)
    for r, s in values:
        assert repr(compiled(x, r, s)) == repr(step(x, r, s))


def caught(x: Tensor, r: float) -> Any:
    try:
        return x * len(json.dumps([r]))
    except TypeError:
        return -x


def suppressed(x: Tensor, r: float) -> Any:
    with contextlib.suppress(TypeError, ValueError):
        return x * float(marshal.loads(marshal.dumps(r)))
    return -x


def overflows(x: Tensor, r: float) -> Any:
    try:
        return x * r**400.0
    except OverflowError:
        return -x


def in_a_thread(x: Tensor, r: float) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return x * pool.submit(lambda v: v * 2 if v > 1 else v, r).result()


CAUGHT: dict[str, Callable[[Tensor, float], Any]] = {
    "caught": caught,
    "suppressed": suppressed,
    "overflows": overflows,
    "in a thread": in_a_thread,
    "another text": lambda x, r: x * len(json.dumps({"r": r}, default=str)),
    "keys": lambda x, r: {r: x * 2, (r, 1): x},
}


@pytest.mark.parametrize("name", CAUGHT)
def test_what_takes_nothing_but_a_float(name: str) -> None:
    """And what another thread does with one: the call is recorded with floats by value."""
    compiled = compile(CAUGHT[name])
    x = tinyt.ones(2)
    for rate in (10.0, 10.0, 0.5, 0.125, 10.0):
        assert repr(compiled(x, rate)) == repr(CAUGHT[name](x, rate))


def test_a_size_in_code_that_takes_nothing_but_an_int() -> None:
    compiled = compile(lambda x: caught(x, x.shape[0]), dynamic=True)
    for n in (3, 3, 4, 12, 5):
        assert compiled(tinyt.ones(n)).tolist() == caught(tinyt.ones(n), n).tolist()


def test_a_learning_rate_in_code_that_takes_nothing_but_a_float() -> None:
    def train(wrap: Callable[..., Any]) -> list[float]:
        w = tinyt.ones(1, requires_grad=True)
        optimizer = tinyt.optim.SGD([w], 0.5)

        def step() -> Tensor:
            optimizer.zero_grad()
            loss = caught(w, optimizer.param_groups[0]["lr"]).sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        call, losses = wrap(step), []
        for rate in (0.5, 0.5, 0.25, 0.125, 0.125):
            optimizer.param_groups[0]["lr"] = rate
            losses.append(call().item())
        return losses

    assert train(compile) == train(lambda f: f)


@pytest.mark.parametrize(
    "keep", [lambda o, r: setattr(o, "last", r), lambda o, r: o.rows.append(r)]
)
def test_a_float_that_the_function_keeps_is_no_secret(keep: Callable[..., None]) -> None:
    kept = Rates()
    kept.rows = []  # type: ignore[attr-defined]

    def step(x: Tensor, r: float) -> Tensor:
        keep(kept, r)
        return x * r

    with pytest.raises(tinyt.CaptureError, match="changes what it reads"):
        compile(step)(tinyt.ones(1), 2.0)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (1, 0, 3, 2), (3, 2, 1, 0)])
def test_an_argument_of_a_class_of_floats(order: tuple[int, ...]) -> None:
    """A program of one class does not stand for calls with another one."""

    def scale(x: Tensor, s: float) -> Tensor:
        return x * 2 if type(s) is np.float64 else s.__rmul__(x) if type(s) is Own else s * x

    class Own(float):
        def __rmul__(self, x: Any) -> Any:
            return x * 3

    compiled = compile(scale)
    numbers = [np.float64(5), 3.0, np.float64(7), Own(4)]
    for i in [*order, *order]:
        assert compiled(tinyt.ones(2), numbers[i]).equal(scale(tinyt.ones(2), numbers[i]))


def test_an_argument_of_a_class_of_floats_is_read_anew() -> None:
    compiled = compile(lambda x, lr: x * lr)
    for lr in np.linspace(0.1, 1, 9):
        assert compiled(tinyt.ones(2), lr).tolist() == (tinyt.ones(2) * lr).tolist()
    assert compiled.cache_info().currsize == 1
