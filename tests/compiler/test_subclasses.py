"""Tuples, dicts and tensors of classes of the user's own as arguments and results."""

from __future__ import annotations

import time
from collections import Counter, OrderedDict, defaultdict
from typing import Any, NamedTuple

import pytest

import tinyt
from tinyt import CaptureError, Tensor, nn
from tinyt.compiler.api import compile


class Out(OrderedDict[str, Any]):
    """As results of models: the first argument is no mapping."""

    def __init__(self, loss: Any = None, logits: Any = None) -> None:
        super().__init__()
        if loss is not None:
            self["loss"] = loss
        if logits is not None:
            self["logits"] = logits


class Scaled(dict[str, Any]):
    """Its constructor changes what it is given."""

    def __init__(self, items: Any) -> None:
        super().__init__({key: value * 2 for key, value in dict(items).items()})


class Keyed(dict[str, Any]):
    def __init__(self, *, key: Any) -> None:
        super().__init__(key=key)


class Shown(dict[str, Any]):
    """Gives its items in another form than it holds them."""

    def __getitem__(self, key: str) -> Any:
        return super().__getitem__(key) + 1


class Pair(tuple[Any, ...]):
    def __new__(cls, one: Any, other: Any) -> Pair:
        return super().__new__(cls, (one, other))


class Doubled(tuple[Any, ...]):
    def __new__(cls, items: Any) -> Doubled:
        return super().__new__(cls, [x * 2 for x in items])


class Named(NamedTuple):
    x: Any
    n: int = 3


class Slotted(dict[str, Any]):
    __slots__ = ("note",)


def same(got: Any, want: Any) -> bool:
    if isinstance(want, Tensor):
        return isinstance(got, Tensor) and got.tolist() == want.tolist()
    if type(got) is not type(want):
        return False
    if isinstance(want, dict):
        pairs = zip(dict.items(got), dict.items(want), strict=True)
        if not all(a == b and same(x, y) for (a, x), (b, y) in pairs):
            return False
    elif isinstance(want, (tuple, list)):
        parts = type(want).__mro__[-2].__iter__  # of Python's own, whatever a subclass makes of it
        if not all(map(same, parts(got), parts(want))):
            return False
    else:
        return bool(got == want)
    return same(getattr(got, "__dict__", None), getattr(want, "__dict__", None))


def with_attributes(x: Tensor) -> Any:
    out = OrderedDict(x=x)
    out.note, out.scale, out.more = "note", x * 3, (x, 1)  # type: ignore[attr-defined]
    return out


MAKERS: dict[str, Any] = {
    "Out": lambda x: Out(x, x + 1),
    "Scaled": lambda x: Scaled({"a": x}),
    "Keyed": lambda x: Keyed(key=x),
    "Shown": lambda x: Shown(a=x),
    "Pair": lambda x: Pair(x, 2),
    "Doubled": lambda x: Doubled([x]),
    "Named": lambda x: Named(x),
    "defaultdict": lambda x: defaultdict(list, a=x),
    "Counter": lambda x: Counter(a=3, b=1),
    "attributes": with_attributes,
    "nested": lambda x: [Out(Pair(x, Named(x)))],
    "Size": lambda x: x.shape,
    "struct": lambda x: time.gmtime(0),
}


@pytest.mark.parametrize("name", MAKERS)
def test_results(name: str) -> None:
    def function(x: Tensor) -> Any:
        return MAKERS[name](x * 2)

    compiled = compile(function)
    for i in range(4):
        x = tinyt.full((2,), float(i))
        assert same(compiled(x), function(x))
    assert compiled.cache_info().misses == 1


@pytest.mark.parametrize("name", MAKERS)
def test_arguments(name: str) -> None:
    def function(value: Any) -> Any:
        return value, tinyt.zeros(1)

    compiled = compile(function)
    for i in range(4):
        x = tinyt.full((2,), float(i))
        assert same(compiled(MAKERS[name](x)), function(MAKERS[name](x)))
    assert compiled.cache_info().misses == 1


def test_attributes_of_a_dict_are_read() -> None:
    compiled = compile(lambda batch: batch["x"] * batch.scale if batch.on else batch["x"])
    for i in range(6):
        batch: Any = OrderedDict(x=tinyt.ones(2))
        batch.scale, batch.on = tinyt.full((2,), float(i)), i % 2 == 0
        assert compiled(batch).tolist() == ([i, i] if batch.on else [1, 1])
    plain: Any = OrderedDict(x=tinyt.ones(2))
    with pytest.raises(AttributeError):
        compiled(plain)


def test_setting_attributes_of_a_dict_is_an_error() -> None:
    def sets(batch: Any) -> Tensor:
        batch.note = [1]
        return batch["x"] * 2

    with pytest.raises(CaptureError, match=r"changes argument 'batch' at \.__dict__"):
        compile(sets)(OrderedDict(x=tinyt.ones(2)))


def test_metadata_of_a_state_dict() -> None:
    model = nn.Linear(2, 2)
    compiled = compile(lambda x: (model(x), model.state_dict())[1])
    for _ in range(3):
        got: Any = compiled(tinyt.ones(1, 2))
        assert got._metadata == model.state_dict()._metadata  # type: ignore[attr-defined]


def test_slots_are_an_error() -> None:
    with pytest.raises(CaptureError, match=r"Slotted cannot be made anew.*__slots__"):
        compile(lambda x: Slotted(x=x))(tinyt.ones(1))
    with pytest.raises(CaptureError, match="Slotted cannot be made anew"):
        compile(lambda x: x["x"] * 2)(Slotted(x=tinyt.ones(1)))


class Tagged(Tensor):
    """A class of the user's own."""


def asks(x: Tensor) -> Tensor:
    if isinstance(x, nn.Parameter):
        return x * 2
    if isinstance(x, Tagged):
        return x * 3
    return x * getattr(x, "m", 1)


def frozen(x: Tensor) -> Tensor:
    return nn.Parameter(x, requires_grad=False)


def tagged(x: Tensor) -> Tensor:
    x.__class__ = Tagged
    return x


def marked(x: Tensor) -> Tensor:
    x.m = 5  # type: ignore[attr-defined]
    return x


def marked_otherwise(x: Tensor) -> Tensor:
    x.m = tinyt.full((2,), 4.0)  # type: ignore[attr-defined]
    return x


@pytest.mark.parametrize("make", [frozen, tagged, marked, marked_otherwise, Tensor.clone])
def test_class_and_attributes_of_an_argument(make: Any) -> None:
    compiled = compile(asks)
    for i in range(4):
        x = make(tinyt.full((2,), float(i)))
        assert compiled(x).tolist() == asks(x).tolist()


def test_other_classes_and_attributes_are_captured_anew() -> None:
    def six(x: Tensor) -> Tensor:
        x.m = 6  # type: ignore[attr-defined]
        return x

    for makers in ((marked, six), (marked, Tensor.clone), (frozen, tagged, Tensor.clone)):
        compiled = compile(asks)
        for make in (*makers, *makers):
            x = make(tinyt.ones(2))
            assert compiled(x).tolist() == asks(x).tolist()


def test_setting_attributes_of_an_argument_is_an_error() -> None:
    def sets(x: Tensor) -> Tensor:
        x.m = [7]  # type: ignore[attr-defined]
        return x * 2

    for make in (Tensor.clone, marked):
        with pytest.raises(CaptureError, match="sets attributes of an argument"):
            compile(sets)(make(tinyt.ones(2)))
