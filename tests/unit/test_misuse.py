"""Calls that only a fault or malice makes, and that once crashed: each is an ordinary error."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tinyt
from tinyt import _autograd, _capture, _tensor, data
from tinyt.amp import GradScaler
from tinyt.nn.parallel.scatter_gather import gather, scatter, scatter_kwargs
from tinyt.tensor import node_of
from tinyt.utils import _pytree as pytree
from tinyt.utils.checkpoint import checkpoint


def methods_of_extension_types() -> list[tuple[type, str]]:
    function = type(_capture.describe)
    modules = (_tensor, _autograd, _capture)
    kinds = [x for module in modules for x in vars(module).values() if isinstance(x, type)]
    return [
        (kind, name)
        for kind in dict.fromkeys(kinds)
        for name, method in sorted(vars(kind).items())
        if kind.__module__ in {x.__name__ for x in modules} and type(method) is function
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
    node: Any = node_of(tinyt.ones(2, 3, requires_grad=True) * 2)
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


def held_in_itself() -> list[Any]:
    items: list[Any] = [1]
    items.append(items)
    mapping: dict[str, Any] = {}
    mapping["a"] = mapping
    deep: list[Any] = [tinyt.ones(2)]
    for _ in range(5000):
        deep = [deep]
    return [items, mapping, (items,), deep, {"x": deep}]


@pytest.mark.parametrize(
    "wrong", held_in_itself(), ids=["list", "dict", "tuple", "deep", "in dict"]
)
def test_containers_without_end(wrong: Any) -> None:
    """Whatever walks through nested arguments has an end."""
    nested_deep = "contains itself, or is nested more than 200 deep"
    x = tinyt.ones(2, requires_grad=True)
    for call in (
        lambda: data.default_collate([wrong, wrong]),
        lambda: data.default_convert(wrong),
        lambda: next(iter(data.DataLoader([wrong], batch_size=None))),
        lambda: checkpoint(lambda *given: x * 2, wrong, use_reentrant=False),
        lambda: checkpoint(lambda x, y: x * 2, x, y=wrong, use_reentrant=False),
        lambda: scatter(wrong, ["cpu"]),
        lambda: scatter_kwargs((x, wrong), {}, ["cpu", "cpu"]),
        lambda: pytree.tree_flatten(wrong),
        lambda: pytree.tree_leaves(wrong),
        lambda: pytree.tree_map(lambda leaf: leaf, wrong),
        lambda: pytree.tree_leaves_with_path(wrong),
    ):
        with pytest.raises(ValueError, match=nested_deep):
            call()
    with pytest.raises(ValueError, match=r"contains itself|must be a Tensor"):
        GradScaler("cpu").scale(wrong)
    with pytest.raises((ValueError, TypeError), match=r"contains itself|not iterable"):
        gather([wrong, wrong], "cpu")

    class Casting(tinyt.autograd.Function):
        @staticmethod
        @tinyt.amp.custom_fwd(device_type="cpu", cast_inputs=tinyt.float32)
        def forward(ctx: Any, x: tinyt.Tensor, more: Any) -> tinyt.Tensor:
            return x * 2

    with (
        tinyt.autocast("cpu"),
        pytest.raises(ValueError, match=nested_deep),
    ):
        Casting.apply(x, wrong)
    for sizes in (tinyt.zeros, tinyt.ones(3).reshape):
        with pytest.raises(TypeError, match="sizes must be integers, got"):
            sizes([wrong])


@pytest.mark.parametrize("wrong", held_in_itself()[:1] + held_in_itself()[2:4])
def test_a_state_without_end(wrong: Any) -> None:
    optimizer = tinyt.optim.SGD([tinyt.ones(2, requires_grad=True)], lr=0.1, momentum=0.9)
    saved = optimizer.state_dict() | {"state": {0: {"momentum_buffer": wrong}}}
    with pytest.raises(ValueError, match="contains itself"):
        optimizer.load_state_dict(saved)


def test_a_row_of_a_matrix_is_a_matrix() -> None:
    class Matrix:
        def __iter__(self) -> Iterator[Matrix]:
            yield self

    with pytest.raises(ValueError, match="contains itself"):
        GradScaler("cpu").scale(Matrix())


def test_nested_as_deep_as_programs_go() -> None:
    nested: Any = np.ones(2, np.float32)
    for _ in range(150):
        nested = [nested]
    batch = data.default_collate([nested, nested])
    alone = data.default_convert(nested)
    for _ in range(150):
        batch, alone = batch[0], alone[0]
    assert tuple(batch.shape) == (2, 2)
    assert isinstance(alone, tinyt.Tensor)


def test_formats_and_layouts_do_not_change() -> None:
    for constant, name in ((tinyt.strided, "strided"), (tinyt.channels_last, "channels_last")):
        for change in (
            lambda x: setattr(x, "name", x),
            lambda x: delattr(x, "name"),
            lambda x: x.__init__("other"),
        ):
            with pytest.raises(AttributeError, match="cannot be"):
                change(constant)
        assert repr(constant) == f"tinyt.{name}"
        assert copy.deepcopy(constant) is constant


def test_states_that_pickle_makes_are_not_settable() -> None:
    program = tinyt.compile(abs)
    assert not hasattr(type(program), "__setstate__")
    assert tinyt.equal(pickle.loads(pickle.dumps(program))(-tinyt.ones(2)), tinyt.ones(2))


def test_counters_that_were_set_count_on() -> None:
    program = tinyt.compile(lambda x: x * 2)
    program.misses = program.hits = 2**63 - 1
    for _ in range(3):
        program(tinyt.ones(2))
    assert program.misses + program.hits == 2**64 + 1
    with pytest.raises(OverflowError):
        program.misses = -1
