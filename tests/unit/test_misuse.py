"""Calls that only a fault or malice makes, and that once crashed: each is an ordinary error."""

from __future__ import annotations

from typing import Any

import pytest

import tinyt
from tinyt import _tensor
from tinyt.amp import GradScaler


def methods_of_extension_types() -> list[tuple[type, str]]:
    function = type(_tensor.describe)
    kinds = [x for x in vars(_tensor).values() if isinstance(x, type)]
    return [
        (kind, name)
        for kind in dict.fromkeys(kinds)
        for name, method in sorted(vars(kind).items())
        if kind.__module__ == "tinyt._tensor" and type(method) is function
    ]


def test_methods_check_their_first_argument() -> None:
    methods = methods_of_extension_types()
    assert len(methods) > 80
    for kind, name in methods:
        for wrong in (3, None, object(), "text"):
            if isinstance(wrong, kind):
                continue
            with pytest.raises(TypeError, match="first argument must be a"):
                getattr(kind, name)(wrong)
        with pytest.raises(TypeError):
            getattr(kind, name)()


def test_methods_of_the_right_object_are_called_as_before() -> None:
    x = tinyt.tensor([3.0])
    assert tinyt.Tensor.item(x) == x.item() == 3.0
    assert tinyt.Tensor.numel(tinyt.nn.Parameter(x)) == 1
    assert list(map(tinyt.Tensor.dim, [x, x.reshape(1, 1)])) == [1, 2]
    node = (tinyt.ones(2, 3, requires_grad=True) * 2).grad_fn
    assert type(node).name(node) == node.name() == "MulBackward0"
    with pytest.raises(TypeError, match="Node"):
        type(node).name(x)


def test_arguments_that_contain_themselves() -> None:
    items: list[Any] = [1]
    items.append(items)
    mapping: dict[str, Any] = {}
    mapping["a"] = mapping
    program = tinyt.compile(lambda x: tinyt.ones(2))
    for wrong in (items, mapping, (items,), [[[mapping]]]):
        with pytest.raises(ValueError, match="contains itself"):
            program(wrong)
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    with pytest.raises(ValueError, match="200 deep"):
        program(deep)
    nested: list[Any] = [tinyt.ones(2)]
    for _ in range(100):
        nested = [nested]
    for _ in range(2):
        assert tinyt.equal(program(nested), tinyt.ones(2))


def test_data_that_contains_itself_in_a_compiled_function() -> None:
    def function(x: tinyt.Tensor) -> tinyt.Tensor:
        items: list[Any] = [1]
        items.append(items)
        return x + tinyt.tensor(items)

    for f in (function, tinyt.compile(function)):
        with pytest.raises((ValueError, TypeError, RuntimeError)):
            f(tinyt.ones(2))


@pytest.mark.parametrize("mode", [3, None, "yes", tinyt.ones(2)], ids=repr)
def test_anomaly_mode_is_a_bool(mode: Any) -> None:
    with pytest.raises(TypeError, match="set_detect_anomaly: mode must be True or False"):
        tinyt.autograd.set_detect_anomaly(mode)
    with pytest.raises(TypeError, match="check_nan must be"):
        tinyt.autograd.detect_anomaly(check_nan=mode).__enter__()
    assert tinyt.is_anomaly_enabled() is False


def test_a_text_has_no_scale() -> None:
    with pytest.raises(ValueError, match="must be a Tensor or an iterable"):
        GradScaler("cpu").scale("text")
