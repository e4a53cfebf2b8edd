"""What docs/compile.md lists under "What is constant", and the way out of each."""

from __future__ import annotations

import copy
import dataclasses
import sys
from collections import ChainMap, UserDict, UserList
from collections.abc import Callable
from operator import attrgetter
from types import MappingProxyType, ModuleType, SimpleNamespace
from typing import Any

import pytest

import tinyt
from tinyt.compiler.api import compile


@dataclasses.dataclass
class Point:
    """An object with an attribute."""

    value: float = 2.0


class Base:
    """A class with a method that a subclass extends."""

    kind = 2.0

    def rate(self) -> float:
        return 2.0


class Derived(Base):
    """Calls a method of its base."""

    def rate(self) -> float:
        return super().rate() + 1.0


class Other(Derived):
    """Another class for an object."""

    kind = 7.0


def limits() -> dict[str, Callable[[], tuple[Callable[[], float], Callable[[], Any]]]]:
    """name -> (a function that reads a number, and a change of it that a program does not see)."""

    def to_seven(held: Any) -> Callable[[], Any]:
        return lambda: setattr(held, "value", 7.0)

    def computed_name() -> Any:
        held, name = Point(), "val"
        return lambda: getattr(held, name + "ue"), to_seven(held)

    def variables() -> Any:
        held = Point()
        return lambda: vars(held)["value"], to_seven(held)

    def attribute_getter() -> Any:
        held, get = Point(), attrgetter("value")
        return lambda: get(held), to_seven(held)

    def copied() -> Any:
        held = Point()

        def read() -> Any:
            made = copy.copy(held)
            return made.value

        return read, to_seven(held)

    def copied_deep() -> Any:
        held = [[Point()]]

        def read() -> Any:
            made = copy.deepcopy(held)
            return made[0][0].value

        return read, to_seven(held[0][0])

    def dataclass() -> Any:
        held = Point()
        return lambda: dataclasses.asdict(held)["value"], to_seven(held)

    def formatted() -> Any:
        held = SimpleNamespace(value=2.0)
        return lambda: float(f"{held}"[-4:-1]), to_seven(held)

    def matched() -> Any:
        held = Point()

        def read() -> Any:
            match held:
                case Point(value=found):
                    return found

        return read, to_seven(held)

    def user_dict() -> Any:
        held = UserDict(a=2.0)
        return lambda: held["a"], lambda: held.update(a=7.0)

    def user_list() -> Any:
        held = UserList([2.0])
        return lambda: held[0], lambda: held.__setitem__(0, 7.0)

    def chain_map() -> Any:
        held = ChainMap({"a": 2.0})
        return lambda: held["a"], lambda: held.update(a=7.0)

    def mapping_proxy() -> Any:
        table = {"a": 2.0}
        held = MappingProxyType(table)
        return lambda: held["a"], lambda: table.update(a=7.0)

    def view() -> Any:
        table = {"a": 2.0}
        held = table.values()
        return lambda: sum(held), lambda: table.update(a=7.0)

    def item_of_a_kept_method() -> Any:
        table = {"a": Point()}
        get = table.get
        return lambda: get("a").value, to_seven(table["a"])  # type: ignore[union-attr]

    def method_of_super() -> Any:
        held = Derived()
        return held.rate, lambda: setattr(Base, "rate", lambda self: 7.0)

    def class_of_an_object() -> Any:
        held = Derived()
        return lambda: held.kind, lambda: setattr(held, "__class__", Other)

    def imported_name() -> Any:
        module: Any = sys.modules.setdefault("tinyt_test_rates", ModuleType("tinyt_test_rates"))
        module.value = 2.0

        def read() -> Any:
            from tinyt_test_rates import value  # type: ignore[import-not-found]

            return value

        return read, to_seven(module)

    return {f.__name__: f for f in locals().values() if f is not to_seven}


@pytest.mark.parametrize("name", list(limits()))
def test_a_change_is_not_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Base, "rate", Base.rate)  # put back afterwards
    read, change = limits()[name]()
    x = tinyt.ones(1)
    compiled = compile(lambda x: x * read())
    passed = compile(lambda x, rate: x * rate)
    before = read()
    for _ in range(3):
        assert compiled(x).item() == passed(x, read()).item() == before
    change()
    after = read()
    assert after != before
    assert compiled(x).item() == before
    assert compiled.cache_info().misses == 1
    # The ways out: an argument, or to forget the program.
    assert passed(x, read()).item() == after
    compiled.cache_clear()
    for _ in range(3):
        assert compiled(x).item() == after
