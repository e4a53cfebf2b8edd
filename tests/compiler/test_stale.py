"""What changes after the first call: eager's value, a new program or a CaptureError."""

from __future__ import annotations

import copy
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

import tinyt
from tinyt import Tensor, autograd, nn
from tinyt.compiler.api import compile

FACTOR = 2.0
TABLE = {"scale": [1.0, {"deep": 3.0}]}


def helper(x: Tensor, shift: float = 1.0, *, scale: float = 2.0) -> Tensor:
    return x * scale + shift


def other(x: Tensor, shift: float = 1.0, *, scale: float = 2.0) -> Tensor:
    return x - 1.0


class Config:
    """Attributes of an instance, of its class, and behind a property."""

    kind = "double"
    slots: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.value, self.items, self._hidden = 2.0, [1.0, 2.0], 5.0

    @property
    def hidden(self) -> float:
        return self._hidden

    def method(self, x: Tensor) -> Tensor:
        return x * self.value


class Scaled(nn.Linear):
    """A subclass, whose attributes may hide its base's."""


class Operators:
    """Methods that are called through operators, and read what a closure holds."""

    def __init_subclass__(cls, held: SimpleNamespace) -> None:
        cls.__getitem__ = lambda self, i: held.value  # type: ignore[attr-defined]
        cls.__mul__ = lambda self, x: x * held.value  # type: ignore[attr-defined]
        cls.__len__ = lambda self: int(held.value)  # type: ignore[attr-defined]
        cls.__iter__ = lambda self: iter([held.value])  # type: ignore[attr-defined]
        cls.__enter__ = lambda self: held.value  # type: ignore[attr-defined]
        cls.__exit__ = lambda self, *exc: None  # type: ignore[attr-defined]


class AttributeDict(dict[str, Any]):
    __getattr__ = dict.__getitem__


class Slotted:
    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 2.0


def check(function: Callable[[Tensor], Any], changes: list[Callable[[], Any]]) -> None:
    """A compiled function is captured, and has eager's values after every change."""
    compiled = compile(function)
    x = tinyt.tensor([1.0, 2.0])
    for i, change in enumerate([lambda: None, *changes]):
        change()
        for _ in range(3):
            try:
                got = compiled(x).tolist()
            except tinyt.CaptureError:
                assert i > 0
                continue
            assert got == function(x).tolist()


def cases() -> dict[str, Callable[[], tuple[Callable[[Tensor], Any], list[Callable[[], Any]]]]]:
    """name -> (function, changes after its calls)."""

    def in_globals() -> Any:
        return lambda x: x * FACTOR, [lambda: globals().update(FACTOR=3.0)]

    def in_closure() -> Any:
        factor = 2.0

        def change() -> None:
            nonlocal factor
            factor = 4.0

        return lambda x: x * factor, [change]

    def in_container() -> Any:
        held = {"a": [1.0, 2.0]}
        return lambda x: x * held["a"][1], [
            lambda: held["a"].__setitem__(1, 5.0),
            lambda: held.update(a=[0.0, 7.0]),
        ]

    def deep() -> Any:
        return lambda x: x * TABLE["scale"][1]["deep"], [
            lambda: TABLE["scale"][1].update(deep=9.0),
        ]

    def loop_over_list() -> Any:
        held = [1.0, 2.0]

        def function(x: Tensor) -> Tensor:
            for value in held:
                x = x * value
            return x

        return function, [lambda: held.append(3.0), held.clear]

    def attribute() -> Any:
        held = Config()
        return lambda x: x * held.value, [lambda: setattr(held, "value", 3.0)]

    def attribute_through_local() -> Any:
        held = SimpleNamespace(inner=Config())

        def function(x: Tensor) -> Tensor:
            inner = held.inner
            return x * inner.value

        return function, [
            lambda: setattr(held.inner, "value", 3.0),
            lambda: setattr(held, "inner", SimpleNamespace(value=4.0)),
        ]

    def attribute_of_class() -> Any:
        held = Config()

        def change() -> None:
            Config.kind = "none"

        def restore() -> None:
            Config.kind = "double"

        return lambda x: x * (2.0 if held.kind == "double" else 0.0), [change, restore]

    def behind_property() -> Any:
        held = Config()
        return lambda x: x * held.hidden, [lambda: setattr(held, "_hidden", 3.0)]

    def behind_method() -> Any:
        held = Config()
        return lambda x: held.method(x), [lambda: setattr(held, "value", 3.0)]

    def slot() -> Any:
        held = Slotted()
        return lambda x: x * held.value, [lambda: setattr(held, "value", 3.0)]

    def default() -> Any:
        def function(x: Tensor) -> Tensor:
            return helper(x)

        return function, [
            lambda: setattr(helper, "__defaults__", (3.0,)),
            lambda: setattr(helper, "__kwdefaults__", {"scale": 7.0}),
            lambda: setattr(helper, "__defaults__", (1.0,)),
            lambda: setattr(helper, "__kwdefaults__", {"scale": 2.0}),
        ]

    def code() -> Any:
        def inner(x: Tensor) -> Tensor:
            return x * 2

        def changed(x: Tensor) -> Tensor:
            return x * 3

        return lambda x: inner(x), [lambda: setattr(inner, "__code__", changed.__code__)]

    def function_in_container() -> Any:
        held = [helper]
        return lambda x: held[0](x), [lambda: held.__setitem__(0, other)]

    def captured_tensor() -> Any:
        held = {"t": tinyt.ones(2)}
        return lambda x: x * held["t"], [
            lambda: held["t"].fill_(5.0),
            lambda: held.update(t=tinyt.full((2,), 7.0)),
        ]

    def branch() -> Any:
        held = SimpleNamespace(flag=True)
        return lambda x: x * 2 if held.flag else x * 3, [lambda: setattr(held, "flag", False)]

    def attribute_by_name() -> Any:
        held, name = Config(), "value"
        return lambda x: x * getattr(held, name), [lambda: setattr(held, "value", 3.0)]

    def attributes_by_names() -> Any:
        held = SimpleNamespace(a=2.0, b=SimpleNamespace(c=3.0))

        def function(x: Tensor) -> Tensor:
            for names in (("a",), ("b", "c")):
                found: Any = held
                for name in names:
                    found = getattr(found, name)
                x = x * found
            return x

        return function, [*to_seven(held, "a"), *to_seven(held.b, "c")]

    def instance_dict() -> Any:
        held = Config()
        return lambda x: x * held.__dict__["value"], to_seven(held)

    def attribute_by_constant_name() -> Any:
        held = SimpleNamespace(inner=Config(), parts=[Config()])

        def function(x: Tensor) -> Tensor:
            y = x * getattr(getattr(held, "inner"), "value")  # noqa: B009
            return y * getattr(held.parts[len(held.parts) - 1], "value", 1.0)

        return function, [*to_seven(held.inner), *to_seven(held.parts[0])]

    def attribute_that_comes_to_be() -> Any:
        held = SimpleNamespace()
        return lambda x: x * (2.0 if hasattr(held, "value") else 3.0), to_seven(held)

    def attribute_in_a_variable_that_comes_to_be() -> Any:
        held, name = SimpleNamespace(), "value"
        return lambda x: x * (2.0 if hasattr(held, name) else 3.0), to_seven(held)

    def attribute_of_an_item_that_comes_to_be() -> Any:
        held, i = SimpleNamespace(parts=[SimpleNamespace()]), int("0")
        change = [lambda: setattr(held.parts[0], "value", 5.0)]
        return lambda x: x * getattr(held.parts[i], "value", 1.0), change

    def attribute_of_a_result_that_comes_to_be() -> Any:
        held = SimpleNamespace()

        def get() -> Any:
            return held

        change = [lambda: setattr(held, "value", 5.0)]
        return lambda x: x * (2.0 if hasattr(get(), "value") else 1.0), change

    def long_chain_behind_an_item() -> Any:
        inner = SimpleNamespace(r=[{"b": [1.0, 2.0]}])
        held, i = SimpleNamespace(parts=[SimpleNamespace(p=SimpleNamespace(q=inner))]), int("0")
        change = [lambda: inner.r[0]["b"].__setitem__(1, 8.0)]
        return lambda x: x * held.parts[i].p.q.r[0]["b"][1], change

    def long_chain_behind_a_name_in_a_variable() -> Any:
        inner = SimpleNamespace(c=2.0)
        held = SimpleNamespace(kid=SimpleNamespace(o=SimpleNamespace(b=inner)))
        name = "kid"
        return lambda x: x * getattr(held, name).o.b.c, to_seven(inner, "c")

    def returned_object() -> Any:
        held = Config()

        def get() -> Config:
            return held

        return lambda x: x * get().value, [lambda: setattr(held, "value", 3.0)]

    def to_seven(held: Any, name: str = "value") -> list[Callable[[], Any]]:
        return [lambda: setattr(held, name, 7.0)]

    def hook() -> Any:
        held, w = SimpleNamespace(value=2.0), tinyt.ones(2, requires_grad=True)
        w.register_hook(lambda g: g * held.value)

        def function(x: Tensor) -> Any:
            w.grad = None
            (w * x).sum().backward()
            return w.grad

        return function, to_seven(held)

    def hook_that_is_an_object() -> Any:
        class Hook:
            value = 2.0

            def __call__(self, g: Tensor) -> Tensor:
                return g * self.value

        hook, w = Hook(), tinyt.ones(2, requires_grad=True)
        w.register_hook(hook)

        def function(x: Tensor) -> Any:
            w.grad = None
            (w * x).sum().backward()
            return w.grad

        return function, to_seven(hook)

    def hook_after_accumulation() -> Any:
        held, w = SimpleNamespace(value=2.0), tinyt.ones(2, requires_grad=True)
        w.register_post_accumulate_grad_hook(lambda p: p.grad.mul_(held.value))

        def function(x: Tensor) -> Any:
            w.grad = None
            (w * x).sum().backward()
            return w.grad

        return function, to_seven(held)

    def backward_of_a_function() -> Any:
        held, w = SimpleNamespace(value=2.0), tinyt.ones(2, requires_grad=True)

        class Scale(autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Tensor) -> Tensor:
                return x * 2.0

            @staticmethod
            def backward(ctx: Any, g: Tensor) -> Tensor:
                return g * held.value

        def function(x: Tensor) -> Any:
            w.grad = None
            Scale.apply(w * x).sum().backward()
            return w.grad

        return function, to_seven(held)

    def closure_behind_property() -> Any:
        held = SimpleNamespace(value=2.0)

        class Behind:
            value = property(lambda self: held.value)

        behind = Behind()
        return lambda x: x * behind.value, to_seven(held)

    def closure_behind_init() -> Any:
        held = SimpleNamespace(value=2.0)

        class Behind:
            def __init__(self) -> None:
                self.value = held.value

        return lambda x: x * Behind().value, to_seven(held)

    def closures_behind_operators() -> Any:
        held = SimpleNamespace(value=2.0)

        class Behind(Operators, held=held):
            pass

        behind: Any = Behind()

        def function(x: Tensor) -> Tensor:
            with behind as value:
                return x * behind[0] + behind * x + len(behind) + sum(behind) + value

        return function, to_seven(held)

    def closure_behind_context() -> Any:
        held = SimpleNamespace(value=2.0)

        @contextmanager
        def context() -> Iterator[float]:
            yield held.value

        def function(x: Tensor) -> Tensor:
            with context() as value:
                return x * value

        return function, to_seven(held)

    def closures_of_one_code() -> Any:
        def scaled(held: Any) -> Callable[[Tensor], Tensor]:
            return lambda x: x * held.value

        held = [Slotted(), Slotted()]
        functions = [scaled(part) for part in held]

        def function(x: Tensor) -> Tensor:
            for part in functions:
                x = part(x)
            return x

        return function, [*to_seven(held[1]), *to_seven(held[0])]

    def closure_in_closure() -> Any:
        factor = 2.0

        def outer(x: Tensor) -> Tensor:
            def inner() -> Tensor:
                return x * factor

            return inner()

        def change() -> None:
            nonlocal factor
            factor = 4.0

        return lambda x: outer(x), [change]

    def wants_gradient() -> Any:
        p = tinyt.ones(2)
        return lambda x: x * (2.0 if p.requires_grad else 1.0), [lambda: p.requires_grad_()]

    def shape() -> Any:
        held = SimpleNamespace(t=tinyt.ones(3))
        return lambda x: x * held.t.shape[0] + held.t.numel() + held.t.stride()[0], [
            lambda: setattr(held.t, "data", tinyt.ones(5)),
            lambda: setattr(held.t, "data", tinyt.ones(10)[::2]),
        ]

    def dtype() -> Any:
        held = SimpleNamespace(t=tinyt.ones(3))
        return lambda x: x.to(held.t.dtype) / 3.0, [
            lambda: setattr(held.t, "data", tinyt.ones(3, dtype=tinyt.float64)),
        ]

    def parameters() -> Any:
        net = nn.Linear(2, 2)
        return lambda x: x * sum(p.numel() for p in net.parameters() if p.requires_grad), [
            lambda: net.weight.requires_grad_(False),
        ]

    def named_parameters() -> Any:
        net = nn.Linear(2, 2)

        def function(x: Tensor) -> Tensor:
            for _, p in net.named_parameters():
                if p.requires_grad:
                    x = x * 2.0
            return x

        return function, [lambda: net.weight.requires_grad_(False)]

    def ordered_dict() -> Any:
        held = OrderedDict(a=2.0, b=3.0)

        def function(x: Tensor) -> Tensor:
            for value in held.values():
                x = (x + value) * value
            return x

        return function, [lambda: held.move_to_end("a"), lambda: held.update(b=9.0)]

    def subclasses_of_containers() -> Any:
        ordered = OrderedDict(a=Slotted())
        default = defaultdict(dict, a={"b": Slotted()})
        queue = deque([Slotted()])
        return lambda x: x * ordered["a"].value * default["a"]["b"].value * queue[-1].value, [
            *to_seven(ordered["a"]),
            *to_seven(default["a"]["b"]),
            *to_seven(queue[-1]),
        ]

    def attributes_in_dict() -> Any:
        held = AttributeDict(a=2.0, b=AttributeDict(c=3.0))
        return lambda x: x * held.a + held.b.c, [
            lambda: held.b.update(c=9.0),
            lambda: held.update(a=5.0),
        ]

    def buffers() -> Any:
        held = bytearray(b"\x01\x02")
        return lambda x: x * held[0], [lambda: held.__setitem__(0, 7)]

    def unpacked() -> Any:
        held = SimpleNamespace(t=(1.0, (2.0, [3.0, 4.0])))

        def function(x: Tensor) -> Tensor:
            a, (b, (c, d)) = held.t
            return x * a + b * c - d

        return function, [lambda: held.t[1][1].__setitem__(0, 11.0)]

    def hidden_attribute_of_class() -> Any:
        class Base:
            factor = 2.0

        class Derived(Base):
            def method(self, x: Tensor) -> Tensor:
                return x * self.factor

        held = Derived()
        return lambda x: held.method(x), [*to_seven(Derived, "factor")]

    def method_of_library() -> Any:
        net = Scaled(2, 2)
        return lambda x: net(x).detach(), [
            lambda: setattr(Scaled, "forward", lambda self, x: x * 9.0),
            lambda: delattr(Scaled, "forward"),
        ]

    def walrus() -> Any:
        held = [Slotted(), Slotted()]
        return lambda x: x * (o := held[1]).value + o.value, to_seven(held[1])

    def either() -> Any:
        held, chosen = SimpleNamespace(a=Slotted(), b=Slotted()), [1]
        return lambda x: x * (held.b if len(chosen) else held.a).value, to_seven(held.b)

    def item_of_display() -> Any:
        held = SimpleNamespace(a=Slotted(), b=Slotted())
        return lambda x: x * (held.a, held.b)[1].value, to_seven(held.b)

    def copied() -> Any:
        held = SimpleNamespace(inner=Config(), value=2.0)
        return lambda x: x * copy.copy(held).value * copy.deepcopy(held).inner.value, [
            *to_seven(held),
            *to_seven(held.inner),
        ]

    return {f.__name__: f for f in locals().values() if f is not to_seven}


ON_A_LINE = {
    "set and read": "o = held[1]; return x * o.value",
    "for": "for o in held: x = x * o.value\n    return x",
    "functions": "for f in [o.method for o in held]: x = f(x)\n    return x",
    "while": "i = 0\n    while i < 2: o = held[i]; x = x * o.value; i += 1\n    return x",
}


@pytest.mark.parametrize("name", ON_A_LINE)
def test_a_change_of_what_a_line_sets_and_reads_is_seen(name: str) -> None:
    held = [Config(), Config()]
    names: dict[str, Any] = {"held": held}
    exec(f"def function(x):\n    {ON_A_LINE[name]}", names)
    check(names["function"], [lambda: setattr(held[1], "value", 7.0)])


def test_a_change_of_what_matches_is_seen() -> None:
    held: Any = {"kind": "a", "inner": {"value": 2.0}}

    def function(x: Tensor) -> Any:
        match held:
            case {"kind": "a", "inner": {"value": value}}:
                return x * value
            case _:
                return x

    check(function, [lambda: held["inner"].update(value=5.0), lambda: held.update(kind="b")])


@pytest.mark.parametrize("name", list(cases()))
def test_a_change_is_seen(name: str) -> None:
    check(*cases()[name]())


def test_a_function_that_changes_what_it_reads_is_refused() -> None:
    held = SimpleNamespace(count=0)

    @compile
    def function(x: Tensor) -> Tensor:
        held.count += 1
        return x * 2.0

    with pytest.raises(tinyt.CaptureError, match=r"test_stale\.py:\d+.*'count'"):
        function(tinyt.ones(2))


@pytest.mark.parametrize("name", ["count", "later"])
def test_a_function_that_sets_an_attribute_by_its_name_is_refused(name: str) -> None:
    held = SimpleNamespace(count=0.0)

    def count(x: Tensor) -> Tensor:
        setattr(held, "count", getattr(held, "count") + 1.0)  # noqa: B009, B010
        return x * 2.0

    def later(x: Tensor) -> Tensor:
        setattr(held, "later", object())  # noqa: B010
        return x * 2.0

    with pytest.raises(tinyt.CaptureError, match="the function changes what it reads"):
        compile(count if name == "count" else later)(tinyt.ones(2))


def made_in_the_call() -> dict[str, Callable[[Tensor], Any]]:
    """name -> a function that changes what it makes itself."""
    outside = Config()

    class Counter:
        def __init__(self, count: float = 0.0) -> None:
            self.count = count

        def __enter__(self) -> Counter:
            self.count += 1.0
            return self

        def __exit__(self, *exc: object) -> None:
            self.count -= 1.0

    def instance(x: Tensor) -> Tensor:
        counter = Counter(outside.value)
        for _ in range(3):
            counter.count += 1.0
            x = x * counter.count
        return x

    def context(x: Tensor) -> Tensor:
        with Counter() as counter:
            return x * counter.count

    def closure(x: Tensor) -> Tensor:
        held, count = [x], 0

        def add(y: Tensor) -> None:
            nonlocal count
            count += 1
            held.append(y * count)

        for y in (x, x + 1.0):
            add(y)
        return sum(held) * len(held) * count

    def class_statement(x: Tensor) -> Tensor:
        class Total:
            value = 0.0

            def add(self) -> None:
                Total.value += 1.0

        for _ in range(2):
            Total().add()
        return x * Total.value

    def hook(x: Tensor) -> Any:
        seen: list[Tensor] = []
        w = tinyt.ones(2, requires_grad=True)
        y = w * x
        y.register_hook(lambda g: seen.append(g * outside.value))
        y.sum().backward()
        return seen.pop()

    def generator(x: Tensor) -> Tensor:
        held: dict[str, list[Any]] = {"a": []}

        def parts() -> Iterator[Tensor]:
            for i in range(3):
                held["a"].append(i)
                yield x * len(held["a"])

        return sum(parts())

    def by_name(x: Tensor) -> Tensor:
        counter = SimpleNamespace(count=1.0, held=OrderedDict(a=1.0))
        setattr(counter, "count", getattr(counter, "count") + 1.0)  # noqa: B009, B010
        counter.held["a"] += vars(counter)["count"]
        return x * counter.count * copy.copy(counter).held["a"]

    def evaluated(x: Tensor) -> Any:
        return eval("x * outside.value", {"x": x, "outside": outside})

    return {f.__name__: f for f in locals().values() if f not in (outside, Counter)}


@pytest.mark.parametrize("name", made_in_the_call())
def test_what_a_call_makes_may_change(name: str) -> None:
    function = made_in_the_call()[name]
    compiled = compile(function)
    x = tinyt.tensor([1.0, 2.0])
    for _ in range(4):
        assert compiled(x).tolist() == function(x).tolist()
    assert compiled.cache_info().currsize == 1


def test_a_backward_hook_of_a_module_is_captured_once() -> None:
    held = SimpleNamespace(value=2.0)
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].register_full_backward_hook(lambda m, inputs, outputs: (outputs[0] * held.value,))

    def function(x: Tensor) -> Any:
        net.zero_grad()
        net(x).sum().backward()
        return net[0].weight.grad

    def forward(x: Tensor) -> Any:
        for p in net.parameters():
            p.grad = None
        (net(x) * 2.0).sum().backward()
        return net[0].bias.grad

    for call in (function, forward):
        check(call, [lambda: setattr(held, "value", 3.0)])
