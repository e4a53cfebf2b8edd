"""Trees of Python's containers: taken apart into leaves, and put together again.

PyTorch's `torch.utils._pytree`. Nodes are tuples, lists, dicts (in the order of their keys'
insertion), `OrderedDict`, `defaultdict`, `deque`, named tuples, structured results of functions
such as `max`, and what `register_pytree_node` adds; everything else, None too, is a leaf. A
container that contains itself raises ValueError.

>>> from tinyt.utils import _pytree as pytree
>>> leaves, spec = pytree.tree_flatten({"a": [1, 2], "b": (3,)})
>>> leaves
[1, 2, 3]
>>> pytree.tree_unflatten([x * 10 for x in leaves], spec)
{'a': [10, 20], 'b': (30,)}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tinyt.nesting import deeper
from tinyt.utils._pytree.nodes import (
    SUPPORTED_NODES,
    Context,
    FlattenFunc,
    GetAttrKey,
    MappingKey,
    NodeDef,
    SequenceKey,
    UnflattenFunc,
    _deregister_pytree_node,
    _register_pytree_node,
    is_namedtuple,
    is_namedtuple_class,
    is_namedtuple_instance,
    is_structseq,
    node_of,
    public_type,
    register_constant,
    register_dataclass,
    register_pytree_node,
)
from tinyt.utils._pytree.spec import LeafSpec, TreeSpec

PyTree = Any
IsLeaf = Callable[[Any], bool] | None
KeyPath = tuple[Any, ...]

__all__ = [
    "SUPPORTED_NODES",
    "Context",
    "FlattenFunc",
    "GetAttrKey",
    "KeyPath",
    "LeafSpec",
    "MappingKey",
    "NodeDef",
    "PyTree",
    "SequenceKey",
    "TreeSpec",
    "UnflattenFunc",
    "_broadcast_to_and_flatten",
    "_deregister_pytree_node",
    "_register_pytree_node",
    "is_namedtuple",
    "is_namedtuple_class",
    "is_namedtuple_instance",
    "is_structseq",
    "key_get",
    "keystr",
    "map_only",
    "register_constant",
    "register_dataclass",
    "register_pytree_node",
    "tree_all",
    "tree_all_only",
    "tree_any",
    "tree_any_only",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_is_leaf",
    "tree_iter",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_",
    "tree_map_only",
    "tree_map_only_",
    "tree_map_with_path",
    "tree_structure",
    "tree_unflatten",
]


def tree_is_leaf(tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether a value is a leaf; `is_leaf` may say so of a node."""
    return (is_leaf is not None and is_leaf(tree)) or node_of(tree) is None


_is_leaf = tree_is_leaf


def _flatten(tree: PyTree, leaves: list[Any], is_leaf: IsLeaf, depth: int = 0) -> TreeSpec:
    node = node_of(tree)
    if node is None or (is_leaf is not None and is_leaf(tree)):
        leaves.append(tree)
        return LeafSpec()
    depth = deeper("pytree", depth)
    children, context = node.flatten_fn(tree)
    specs = [_flatten(child, leaves, is_leaf, depth) for child in children]
    return TreeSpec(public_type(node, tree), context, specs)


def tree_flatten(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """(leaves, structure) of a tree."""
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves, is_leaf)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> PyTree:
    """The tree of a structure with these leaves; ValueError for another number of them."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            "tree_unflatten(leaves, treespec): Expected `treespec` to be instance of TreeSpec but "
            f"got item of type {type(treespec)}."
        )
    return treespec.unflatten(leaves)


def tree_iter(tree: PyTree, is_leaf: IsLeaf = None) -> Iterator[Any]:
    """The leaves of a tree, one after another."""
    return _iter(tree, is_leaf, 0)


def _iter(tree: PyTree, is_leaf: IsLeaf, depth: int) -> Iterator[Any]:
    node = node_of(tree)
    if node is None or (is_leaf is not None and is_leaf(tree)):
        yield tree
        return
    depth = deeper("pytree", depth)
    for child in node.flatten_fn(tree)[0]:
        yield from _iter(child, is_leaf, depth)


def tree_leaves(tree: PyTree, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves of a tree."""
    return list(tree_iter(tree, is_leaf))


def tree_structure(tree: PyTree, is_leaf: IsLeaf = None) -> TreeSpec:
    """The structure of a tree."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """A tree of what a function makes of the leaves of one, or of several of one structure."""
    leaves, spec = tree_flatten(tree, is_leaf)
    columns = [leaves, *(spec.flatten_up_to(rest) for rest in rests)]
    return spec.unflatten([func(*row) for row in zip(*columns, strict=True)])


def tree_map_(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """Calls a function on the leaves; the tree itself."""
    leaves, spec = tree_flatten(tree, is_leaf)
    columns = [leaves, *(spec.flatten_up_to(rest) for rest in rests)]
    for row in zip(*columns, strict=True):
        func(*row)
    return tree


def _matches(kinds: Any) -> Callable[[Any], bool]:
    """Whether a leaf is of these types; a function decides for itself."""
    if isinstance(kinds, (type, tuple)) or not callable(kinds):
        return lambda x: isinstance(x, kinds)
    return kinds  # type: ignore[no-any-return]


def map_only(kinds: Any, /) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """A decorator: the function on leaves of these types, others as they are."""
    fits = _matches(kinds)

    def decorate(func: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda x: func(x) if fits(x) else x

    return decorate


def tree_map_only(
    kinds: Any, /, func: Callable[[Any], Any], tree: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """`tree_map` over leaves of these types; the others stay."""
    return tree_map(map_only(kinds)(func), tree, is_leaf=is_leaf)


def tree_map_only_(
    kinds: Any, /, func: Callable[[Any], Any], tree: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """`tree_map_` over leaves of these types."""
    return tree_map_(map_only(kinds)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether all leaves satisfy a predicate."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether a leaf satisfies a predicate."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(
    kinds: Any, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None
) -> bool:
    """Whether all leaves of these types satisfy a predicate."""
    fits = _matches(kinds)
    return all(pred(x) for x in tree_iter(tree, is_leaf) if fits(x))


def tree_any_only(
    kinds: Any, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None
) -> bool:
    """Whether a leaf of these types satisfies a predicate."""
    fits = _matches(kinds)
    return any(pred(x) for x in tree_iter(tree, is_leaf) if fits(x))


def _paths(tree: PyTree, path: KeyPath, is_leaf: IsLeaf) -> Iterator[tuple[KeyPath, Any]]:
    node = node_of(tree)
    if node is None or (is_leaf is not None and is_leaf(tree)):
        yield path, tree
        return
    if node.keys_fn is None:
        raise ValueError(
            f"Did not find a flatten_with_keys_fn for type: {type(tree)}. Please pass a "
            "flatten_with_keys_fn argument to register_pytree_node."
        )
    deeper("pytree", len(path))
    children, _ = node.flatten_fn(tree)
    for key, child in zip(node.keys_fn(tree), children, strict=True):
        yield from _paths(child, (*path, key), is_leaf)


def tree_leaves_with_path(tree: PyTree, is_leaf: IsLeaf = None) -> list[tuple[KeyPath, Any]]:
    """Pairs of the keys that lead to a leaf, and the leaf."""
    return list(_paths(tree, (), is_leaf))


def tree_flatten_with_path(
    tree: PyTree, is_leaf: IsLeaf = None
) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """`tree_leaves_with_path` and the structure."""
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """`tree_map` of a function whose first argument is the keys that lead to the leaf."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    columns = [spec.flatten_up_to(rest) for rest in rests]
    others = zip(*columns, strict=True) if columns else iter([()] * len(pairs))
    rows = zip(pairs, others, strict=True)
    return spec.unflatten([func(path, leaf, *rest) for (path, leaf), rest in rows])


def keystr(kp: KeyPath) -> str:
    """A path as Python writes it.

    >>> from tinyt.utils import _pytree as pytree
    >>> [pytree.keystr(path) for path, _ in pytree.tree_leaves_with_path({"a": [1, 2]})]
    ["['a'][0]", "['a'][1]"]
    """
    return "".join(map(str, kp))


def key_get(obj: Any, kp: KeyPath) -> Any:
    """What a path leads to."""
    for key in kp:
        obj = key.get(obj)
    return obj


def _broadcast_to_and_flatten(
    tree: PyTree, treespec: TreeSpec, is_leaf: IsLeaf = None
) -> list[Any] | None:
    """The leaves of a tree, each as often as the structure has leaves below it; None where the tree
    is no beginning of the structure."""
    if tree_is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    node = node_of(tree)
    if node is None or treespec.type is not public_type(node, tree):
        return None
    children, context = node.flatten_fn(tree)
    if len(children) != treespec.num_children or context != treespec.context:
        return None
    out: list[Any] = []
    for child, spec in zip(children, treespec.children_specs, strict=True):
        part = _broadcast_to_and_flatten(child, spec, is_leaf)
        if part is None:
            return None
        out += part
    return out
