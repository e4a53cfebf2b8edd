"""What is read of objects that a call gives, a held method is of, or a class holds."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tinyt
from tinyt import Tensor
from tinyt.compiler.api import compile


def held() -> Any:
    """An object of objects, with containers."""
    part = SimpleNamespace(b=2.0, c=SimpleNamespace(d=SimpleNamespace(e=2.0)), log=[2.0])
    return SimpleNamespace(a=part, table={"x": {"y": 2.0}}, parts=[part])


class Behind:
    """Gives an object through a property, a method, and an attribute that is not there."""

    def __init__(self, found: Any) -> None:
        self._found = found

    @property
    def found(self) -> Any:
        return self._found

    def get(self) -> Any:
        return self._found

    def pair(self) -> Any:
        return self._found, 1.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._found, name)


GIVEN: dict[str, tuple[Callable[[Behind], Any], Callable[[Any], Any]]] = {
    "method": (lambda f: f.get().a.b, lambda o: setattr(o.a, "b", 7.0)),
    "property": (lambda f: f.found.a.b, lambda o: setattr(o.a, "b", 7.0)),
    "replaced": (lambda f: f.found.a.b, lambda o: setattr(o, "a", SimpleNamespace(b=7.0))),
    "lambda": (lambda f: (lambda: f._found)().a.b, lambda o: setattr(o.a, "b", 7.0)),
    "lookup": (lambda f: f.a.c.d.e, lambda o: setattr(o.a.c.d, "e", 7.0)),
    "items": (lambda f: f.get().table["x"]["y"], lambda o: o.table["x"].update(y=7.0)),
    "deep": (lambda f: f.get().a.c.d.e, lambda o: setattr(o.a.c.d, "e", 7.0)),
    "computed item": (lambda f: f.get().parts[int("0")].b, lambda o: setattr(o.a, "b", 7.0)),
    "contents": (lambda f: sum(f.get().a.log), lambda o: o.a.log.append(7.0)),
    "pair": (lambda f: f.pair()[0].a.b, lambda o: setattr(o.a, "b", 7.0)),
}  # fmt: skip


@pytest.mark.parametrize("name", GIVEN)
def test_a_change_of_what_a_call_gives_is_seen(name: str) -> None:
    read, change = GIVEN[name]
    found = held()
    behind = Behind(found)
    compiled = compile(lambda x: x * read(behind))
    for i in range(6):
        if i == 3:
            change(found)
        assert compiled(tinyt.ones(2)).tolist() == [read(behind)] * 2


def test_what_a_call_gives_may_be_long() -> None:
    """Longer than what is followed anywhere else."""
    chain = last = SimpleNamespace()
    for _ in range(4):
        last.inner = SimpleNamespace()
        last = last.inner
    last.value = 2.0
    compiled = compile(lambda x: x * (lambda: chain)().inner.inner.inner.inner.value)
    for value in (2.0, 2.0, 2.0, 5.0):
        last.value = value
        assert compiled(tinyt.ones(1)).item() == value


def count_through_a_call(found: Any) -> Callable[[Tensor], Any]:
    behind = Behind(found)

    def step(x: Tensor) -> Tensor:
        behind.get().a.b += 1.0
        return x * 2

    return step


def append_through_a_method(found: Any) -> Callable[[Tensor], Any]:
    append = found.a.log.append
    return lambda x: (x * 2, append(1.0))


def append_through_a_list(found: Any) -> Callable[[Tensor], Any]:
    calls = [found.a.log.append]
    return lambda x: (x * 2, [call(1.0) for call in calls])


def append_through_a_partial(found: Any) -> Callable[[Tensor], Any]:
    append = partial(found.a.log.append, 1.0)
    return lambda x: (x * 2, append())


def append_through_a_call(found: Any) -> Callable[[Tensor], Any]:
    behind = Behind(found)
    return lambda x: (x * 2, behind.found.a.log.append(1.0))


REFUSED = [
    count_through_a_call, append_through_a_call, append_through_a_method, append_through_a_list,
    append_through_a_partial,
]  # fmt: skip


@pytest.mark.parametrize("make", REFUSED)
def test_what_changes_through_a_call_is_refused(make: Callable[[Any], Any]) -> None:
    with pytest.raises(tinyt.CaptureError, match="the function changes what it reads"):
        compile(make(held()))(tinyt.ones(2))


METHODS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], Callable[[Any], Any]]] = {
    "get": (lambda o: o.table.get, lambda f: f("x")["y"], lambda o: o.table.update(x={"y": 7.0})),
    "wrapper": (lambda o: o.a.log.__getitem__, lambda f: f(0), lambda o: o.a.log.reverse()),
    "length": (lambda o: o.a.log.__len__, lambda f: f(), lambda o: o.a.log.append(7.0)),
    "partial": (
        lambda o: partial(o.table["x"].get, "y"), lambda f: f(),
        lambda o: o.table["x"].update(y=7.0),
    ),
    "array": (lambda o: o.array.sum, lambda f: float(f()), lambda o: o.array.fill(7.0)),
}  # fmt: skip


@pytest.mark.parametrize("name", METHODS)
def test_a_change_behind_a_method_of_c_is_seen(name: str) -> None:
    make, read, change = METHODS[name]
    found = held()
    found.array = np.array([1.0, 1.0])
    found.a.log.append(3.0)
    method = make(found)
    compiled = compile(lambda x: x * read(method))
    for i in range(6):
        if i == 3:
            change(found)
        assert compiled(tinyt.ones(2)).tolist() == [read(method)] * 2


@pytest.mark.parametrize("values", [itertools.count(), iter([2.0] * 9)])
def test_a_method_of_an_iterator_is_refused(values: Any) -> None:
    for following in (values.__next__, partial(next, values)):
        with pytest.raises(
            tinyt.CaptureError, match=f"the iterator of type {type(values).__name__}"
        ):
            compile(lambda x, call=following: x * call())(tinyt.ones(2))


class Counted:
    """Counts its instances, and what they do."""

    count: Any = 0
    table: dict[str, Any] = {"a": 2.0}  # noqa: RUF012

    def by_type(self) -> None:
        type(self).count += 1

    def by_class(self) -> None:
        self.__class__.count += 1

    def sets(self) -> None:
        self.__class__.count = object()

    def fills(self) -> None:
        type(self).table["a"] = object()


@pytest.mark.parametrize("name", ["by_type", "by_class", "sets", "fills"])
@pytest.mark.parametrize("is_made", [False, True])
def test_a_class_that_is_changed_through_an_instance_is_refused(name: str, is_made: bool) -> None:
    Counted.count, Counted.table = 0, {"a": 2.0}
    counted = Counted()

    def step(x: Tensor) -> Tensor:
        getattr(Counted() if is_made else counted, name)()
        return x * 2

    with pytest.raises(tinyt.CaptureError, match="the function changes what it reads"):
        compile(step)(tinyt.ones(2))


CLASSES: dict[str, Callable[[Any], Any]] = {
    "type": lambda o: type(o).count,
    "class": lambda o: o.__class__.count,
    "item": lambda o: type(o).table["a"],
    "class item": lambda o: o.__class__.table["a"],
}


@pytest.mark.parametrize("name", CLASSES)
def test_a_change_of_a_class_behind_an_instance_is_seen(name: str) -> None:
    Counted.count, Counted.table = 2, {"a": 2.0}
    counted, read = Counted(), CLASSES[name]
    compiled = compile(lambda x: x * read(counted))
    for i in range(6):
        if i == 3:
            Counted.count, Counted.table["a"] = 7, 7.0
        assert compiled(tinyt.ones(2)).tolist() == [read(counted)] * 2
