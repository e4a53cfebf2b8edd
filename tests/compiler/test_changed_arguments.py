"""Lists and dicts among the arguments: a program changes none, so that the function must not."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable
from datetime import timedelta
from decimal import Context, Decimal
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tinyt
from tinyt import CaptureError, Tensor
from tinyt.compiler.api import compile


def grows(x: Tensor, cache: Any) -> Tensor:
    cache["k"] = tinyt.cat([cache["k"], x])
    return cache["k"].sum()


def adds_a_key(x: Tensor, cache: Any) -> Tensor:
    cache["new"] = 1
    return x * 2


def pops(x: Tensor, cache: Any) -> Tensor:
    return x + cache.pop("k").sum()


def clears(x: Tensor, cache: Any) -> Tensor:
    cache.clear()
    return x * 2


def moves_to_the_end(x: Tensor, cache: Any) -> Tensor:
    cache["k"] = cache.pop("k")
    return x * 2


def nested(x: Tensor, cache: Any) -> Tensor:
    cache["rows"][1]["a"] = x * 2
    return x * 3


def appends(x: Tensor, hidden: Any) -> Tensor:
    hidden.append(x)
    return x * 2


def appends_a_number(x: Tensor, hidden: Any) -> Tensor:
    hidden.append(1)
    return x * 2


def replaces(x: Tensor, hidden: Any) -> Tensor:
    hidden[0] = x * 2
    return x * 2


def reverses(x: Tensor, hidden: Any) -> Tensor:
    hidden.reverse()
    return x * 2


def sorts(x: Tensor, hidden: Any) -> Tensor:
    hidden.sort(key=len, reverse=True)
    return x * 2


def dict_of(kind: Any = dict) -> Any:
    made = kind()
    made.update(k=tinyt.ones(2), rows=[0, {"a": 1.5}], name="n")
    return made


def list_of() -> Any:
    return [tinyt.ones(2), tinyt.ones(3)]


DICTS = [grows, adds_a_key, pops, clears, moves_to_the_end, nested]
LISTS = [appends, appends_a_number, replaces, reverses, sorts]


@pytest.mark.parametrize("function", DICTS)
@pytest.mark.parametrize("kind", [dict, OrderedDict, lambda: defaultdict(list)])
def test_a_dict_that_the_function_changes(function: Callable[..., Any], kind: Any) -> None:
    for by_name in (False, True):
        compiled, cache = compile(function), dict_of(kind)
        args, kwargs = ([], {"cache": cache}) if by_name else ([cache], {})
        said = r"changes argument 'cache'.*return what is new.*the call has run"
        with pytest.raises(CaptureError, match=said):
            compiled(tinyt.ones(2), *args, **kwargs)
        want = dict_of(kind)  # eager has run once, on the caller's own
        function(tinyt.ones(2), want)
        assert list(cache) == list(want)


@pytest.mark.parametrize("function", LISTS)
def test_a_list_that_the_function_changes(function: Callable[..., Any]) -> None:
    with pytest.raises(CaptureError, match="changes argument 'hidden'"):
        compile(function)(tinyt.ones(2), list_of())


def test_where_it_is_changed() -> None:
    with pytest.raises(CaptureError, match=r"changes argument 'cache' at \['rows'\]\[1\]\['a'\],"):
        compile(nested)(tinyt.ones(2), dict_of())


def test_a_default_that_comes_to_be() -> None:
    def step(x: Tensor, table: Any) -> Tensor:
        return x * len(table["missing"])

    with pytest.raises(CaptureError, match="changes argument 'table'"):
        compile(step)(tinyt.ones(2), defaultdict(list, a=1))


def test_names_of_a_method_and_of_what_has_none() -> None:
    class Model:
        def step(self, x: Tensor, rows: Any) -> Tensor:
            rows.append(1)
            return x * 2

    with pytest.raises(CaptureError, match="changes argument 'rows'"):
        compile(Model().step)(tinyt.ones(2), [])

    def several(*args: Any) -> Tensor:
        args[1].append(1)
        return args[0] * 2

    with pytest.raises(CaptureError, match="changes argument 1,"):
        compile(several)(tinyt.ones(2), [])


def test_a_later_capture_that_changes_one() -> None:
    """With a second program, whose function runs on copies alone."""

    def step(x: Tensor, rows: list[Any], add: bool) -> Tensor:
        if add:
            rows.append(x)
        return x * 2

    compiled, rows = compile(step), []
    for _ in range(3):
        compiled(tinyt.ones(2), rows, False)
    with pytest.raises(CaptureError, match="changes argument 'rows'"):
        compiled(tinyt.ones(2), rows, True)
    assert not rows


def test_what_is_as_it_was_may_be_changed_in_between() -> None:
    def step(x: Tensor, rows: list[Any], table: dict[str, Any], **more: Any) -> Any:
        rows.append(x)
        rows.pop()
        kept = table["rate"]
        table["rate"] = 2.0
        table["rate"] = kept
        own = more.pop("own")  # a dict of the function's own
        rows = [*rows, own]
        part, pair = table["part"], table["pair"]
        return x * table["rate"] + own, [*rows], {**table}, part, pair

    compiled = compile(step)
    for n in range(4):
        x, own = tinyt.full((2,), float(n)), tinyt.ones(2)
        table = {"rate": 0.5 + n, "part": slice(0, 2), "pair": (1, (x, None))}
        got = compiled(x, [x], table, own=own)
        assert got[0].tolist() == (x * (0.5 + n) + 1).tolist()
        assert [y.tolist() for y in got[1]] == [x.tolist(), own.tolist()]
    assert compiled.cache_info().hits >= 2


def test_a_tensor_that_is_written_in_place_is_no_change() -> None:
    def step(x: Tensor, cache: dict[str, Tensor]) -> Tensor:
        cache["k"].add_(x)
        return cache["k"] * 2

    compiled, cache = compile(step), {"k": tinyt.zeros(2)}
    for n in range(1, 5):
        assert compiled(tinyt.ones(2), cache).tolist() == [2.0 * n] * 2
    assert cache["k"].tolist() == [4.0] * 2


@pytest.mark.parametrize(
    ("value", "other"),
    [
        (lambda: np.int64(3), np.int64(4)),
        (lambda: np.float32("nan"), np.float32(-0.0)),
        (lambda: np.float32(0.0), np.float32(-0.0)),
        (lambda: np.bool_(True), True),
        (lambda: np.int64(3), np.int32(3)),
        (lambda: np.str_("mean"), "mean"),
        (lambda: np.datetime64("2026-01-01"), np.datetime64("2026-01-01", "s")),
        (lambda: range(3), range(4)),
        (lambda: range(0, 3, 2), range(0, 4, 2)),
        (lambda: range(5, 5), range(0)),
        (lambda: Decimal("NaN"), Decimal("sNaN")),
        (lambda: Decimal("3"), Decimal("3.0")),
        (lambda: Fraction(1, 2), Fraction(1, 3)),
        (lambda: timedelta(1), timedelta(2)),
        (lambda: tinyt.device("cpu"), tinyt.device("meta")),
    ],
)
def test_equal_values_are_one_program(value: Callable[[], Any], other: Any) -> None:
    """As arguments and as attributes; a value that differs in class or bits is another one."""
    compiled = compile(lambda x, value: x * 2)
    for _ in range(3):
        compiled(tinyt.ones(2), value())
    assert compiled.cache_info().misses == 1
    compiled(tinyt.ones(2), other)
    assert compiled.cache_info().misses == 2
    holder = SimpleNamespace(value=value())
    compiled = compile(lambda x: x * (2 if holder.value is not None else 1))
    for _ in range(3):
        holder.value = value()
        compiled(tinyt.ones(2))
    assert compiled.cache_info().misses == 1
    holder.value = other
    compiled(tinyt.ones(2))
    assert compiled.cache_info().misses == 2


def test_attributes_of_a_number_of_a_class_of_its_own() -> None:
    class Rate(float):
        scale = 1.0

    class Count(int):
        scale = 1.0

    for kind in (Rate, Count):
        one, other = kind(2), kind(2)
        other.scale = 5.0
        compiled = compile(lambda x, n: x * n.scale)
        for n in (one, one, other, one):
            assert compiled(tinyt.ones(2), n).tolist() == [n.scale] * 2
        one.scale = 7.0
        assert compiled(tinyt.ones(2), one).tolist() == [7.0] * 2


def test_a_decimal_context_is_an_object() -> None:
    held = SimpleNamespace(context=Context(prec=3))
    compiled = compile(lambda x: x * held.context.prec)
    compiled(tinyt.ones(1))
    compiled(tinyt.ones(1))
    held.context = Context(prec=5)
    assert compiled(tinyt.ones(1)).item() == 5
