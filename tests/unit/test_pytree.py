"""`tinyt.utils._pytree`: containers taken apart and put together."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinyt
from tinyt.utils import _pytree as pytree

Point = namedtuple("Point", ["x", "y"])

LEAVES = st.one_of(st.integers(), st.none(), st.text(max_size=2), st.floats(allow_nan=False))
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=2), inner, max_size=3),
        st.dictionaries(st.integers(), inner, max_size=3).map(OrderedDict),
        st.lists(inner, max_size=3).map(lambda x: deque(x, maxlen=5)),
        st.tuples(inner, inner).map(lambda x: Point(*x)),
    ),
    max_leaves=12,
)


@given(TREES)
def test_apart_and_together(tree: Any) -> None:
    leaves, spec = pytree.tree_flatten(tree)
    again = pytree.tree_unflatten(leaves, spec)
    assert again == tree
    assert type(again) is type(tree)
    assert pytree.tree_structure(again) == spec
    assert hash(pytree.tree_structure(again)) == hash(spec)
    assert len(leaves) == spec.num_leaves
    assert pytree.tree_leaves(tree) == leaves
    paths = pytree.tree_leaves_with_path(tree)
    assert [leaf for _, leaf in paths] == leaves
    assert all(pytree.key_get(tree, path) is leaf for path, leaf in paths)
    doubled = pytree.tree_map(lambda a, b: (a, b), tree, tree)
    assert pytree.tree_leaves(doubled) == [x for leaf in leaves for x in (leaf, leaf)]


def test_order_and_kinds() -> None:
    tree = {"b": 1, "a": [2, None], "c": defaultdict(list, k=Point(3, (4,)))}
    leaves, spec = pytree.tree_flatten(tree)
    assert leaves == [1, 2, None, 3, 4]
    again = pytree.tree_unflatten([0] * 5, spec)
    assert again["c"].default_factory is list
    assert again["c"]["k"] == Point(0, (0,))
    assert list(again) == ["b", "a", "c"]
    found = tinyt.max(tinyt.tensor([[1.0, 2.0]]), 1)
    mapped = pytree.tree_map(lambda x: x + 1, found)
    assert type(mapped) is type(found)
    assert mapped.values.tolist() == [3.0]


def test_leaves_by_choice_and_type() -> None:
    tree = [1, (2, "a"), {"k": 3.5}]
    assert pytree.tree_leaves(tree, is_leaf=lambda x: isinstance(x, tuple)) == [1, (2, "a"), 3.5]
    assert pytree.tree_map_only(int, lambda x: -x, tree) == [-1, (-2, "a"), {"k": 3.5}]
    assert pytree.tree_map_only((int, float), lambda x: -x, tree) == [-1, (-2, "a"), {"k": -3.5}]
    assert pytree.tree_any(lambda x: x == "a", tree)
    assert not pytree.tree_all(lambda x: x == "a", tree)
    assert pytree.tree_all_only(int, lambda x: x < 3, tree)
    assert pytree.tree_any_only(str, lambda x: x == "a", tree)
    seen: list[Any] = []
    assert pytree.tree_map_(seen.append, tree) is tree
    assert seen == [1, 2, "a", 3.5]


def test_paths() -> None:
    tree = {"a": [1, 2], "b": Point(3, 4)}
    paths = [pytree.keystr(path) for path, _ in pytree.tree_leaves_with_path(tree)]
    assert paths == ["['a'][0]", "['a'][1]", "['b'].x", "['b'].y"]
    named = pytree.tree_map_with_path(lambda path, x, y: (pytree.keystr(path), x + y), tree, tree)
    assert named["a"][1] == ("['a'][1]", 4)


@pytest.fixture
def registered() -> Iterator[type]:
    class Pair:
        def __init__(self, a: Any, b: Any) -> None:
            self.a, self.b = a, b

    pytree.register_pytree_node(
        Pair, lambda p: ([p.a, p.b], None), lambda children, _: Pair(*children)
    )
    yield Pair
    pytree._deregister_pytree_node(Pair)


def test_nodes_of_ones_own(registered: Any) -> None:
    made = pytree.tree_map(lambda x: x * 2, [registered(1, {"k": 2})])
    assert (made[0].a, made[0].b) == (2, {"k": 4})
    with pytest.raises(ValueError, match="already registered"):
        pytree.register_pytree_node(registered, lambda p: ([], None), lambda c, _: None)
    with pytest.raises(ValueError, match="flatten_with_keys_fn"):
        pytree.tree_leaves_with_path(registered(1, 2))


def test_dataclass_and_constant() -> None:
    @dataclasses.dataclass
    class Batch:
        x: int
        y: list[int]

    class Fixed:
        pass

    pytree.register_dataclass(Batch)
    pytree.register_constant(Fixed)
    try:
        fixed = Fixed()
        leaves, spec = pytree.tree_flatten([Batch(1, [2]), fixed])
        assert leaves == [1, 2]
        again = pytree.tree_unflatten([3, 4], spec)
        assert again == [Batch(3, [4]), fixed]
        assert pytree.keystr(pytree.tree_leaves_with_path(again)[1][0]) == "[0].y[0]"
    finally:
        pytree._deregister_pytree_node(Batch)
        pytree._deregister_pytree_node(Fixed)


def test_errors() -> None:
    spec = pytree.tree_structure([1, {"a": 2}])
    with pytest.raises(ValueError, match="length 1 but the spec"):
        pytree.tree_unflatten([1], spec)
    with pytest.raises(TypeError, match="TreeSpec"):
        pytree.tree_unflatten([1], [1])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Type mismatch"):
        pytree.tree_map(lambda a, b: a, [1, {"a": 2}], [1, [2]])
    with pytest.raises(ValueError, match="arity mismatch"):
        pytree.tree_map(lambda a, b: a, [1], [1, 2])
    with pytest.raises(ValueError, match="keys mismatch"):
        pytree.tree_map(lambda a, b: a, {"a": 1}, {"b": 1})
    assert pytree.tree_map(lambda a, b: (a, b), {"a": 1, "b": 2}, {"b": 3, "a": 4}) == {
        "a": (1, 4),
        "b": (2, 3),
    }


def test_broadcast() -> None:
    spec = pytree.tree_structure([1, (2, 3)])
    assert pytree._broadcast_to_and_flatten(0, spec) == [0, 0, 0]
    assert pytree._broadcast_to_and_flatten([0, 1], spec) == [0, 1, 1]
    assert pytree._broadcast_to_and_flatten([0, (1, 2)], spec) == [0, 1, 2]
    assert pytree._broadcast_to_and_flatten([0], spec) is None


def test_compiled() -> None:
    def step(tree: Any) -> Any:
        return pytree.tree_map(lambda x: x * 2 + 1, tree)

    run = tinyt.compile(step)
    tree = {"a": tinyt.rand(3), "b": [tinyt.rand(2)]}
    for _ in range(3):
        got, want = run(tree), step(tree)
        assert tinyt.equal(got["a"], want["a"])
        assert tinyt.equal(got["b"][0], want["b"][0])
    assert run.cache_info().hits >= 1
