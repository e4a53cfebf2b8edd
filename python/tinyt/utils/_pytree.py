"""Trees of Python's containers: taken apart into leaves, and put together again.

PyTorch's `torch.utils._pytree`. Nodes are tuples, lists, dicts (in the order of their keys'
insertion), `OrderedDict`, `defaultdict`, `deque`, named tuples, structured results of functions
such as `max`, and what `register_pytree_node` adds; everything else, None too, is a leaf.

>>> from tinyt.utils import _pytree as pytree
>>> leaves, spec = pytree.tree_flatten({"a": [1, 2], "b": (3,)})
>>> leaves
[1, 2, 3]
>>> pytree.tree_unflatten([x * 10 for x in leaves], spec)
{'a': [10, 20], 'b': (30,)}
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

from tinyt.return_types import StructSequence

T = TypeVar("T")
Context = Any
PyTree = Any
IsLeaf = Callable[[Any], bool] | None
FlattenFunc = Callable[[Any], tuple[list[Any], Context]]
UnflattenFunc = Callable[[Iterable[Any], Context], Any]
KeyPath = tuple[Any, ...]


class SequenceKey(NamedTuple):
    """A step into a sequence."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """The child of a tree."""
        return sequence[self.idx]


class MappingKey(NamedTuple):
    """A step into a mapping."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """The child of a tree."""
        return mapping[self.key]


class GetAttrKey(NamedTuple):
    """A step to an attribute."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """The child of a tree."""
        return getattr(obj, self.name)


class NodeDef(NamedTuple):
    """How nodes of one type come apart and together."""

    type: type
    flatten_fn: FlattenFunc
    unflatten_fn: UnflattenFunc
    keys_fn: Callable[[Any], Iterable[Any]] | None


# By type.
SUPPORTED_NODES: dict[type, NodeDef] = {}


def register_pytree_node(
    cls: type,
    flatten_fn: FlattenFunc,
    unflatten_fn: UnflattenFunc,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable[[Context], Any] | None = None,
    from_dumpable_context: Callable[[Any], Context] | None = None,
    flatten_with_keys_fn: Callable[[Any], tuple[list[tuple[Any, Any]], Context]] | None = None,
) -> None:
    """Makes instances of a class nodes of trees.

    Args:
        cls: the class itself; its subclasses stay leaves.
        flatten_fn: gives the children and what else is needed to put a node together.
        unflatten_fn: puts a node together from children and that.
        flatten_with_keys_fn: the same as `flatten_fn` with pairs of a key and a child.
        serialized_type_name, to_dumpable_context, from_dumpable_context: PyTorch's; not used.

    Raises ValueError where the class is registered already.
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    keys = None
    if flatten_with_keys_fn is not None:

        def keys(node: Any, with_keys: Any = flatten_with_keys_fn) -> Iterable[Any]:
            return [key for key, _ in with_keys(node)[0]]

    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, keys)


_register_pytree_node = register_pytree_node


def _deregister_pytree_node(cls: type) -> None:
    """Makes instances of a class leaves again."""
    del SUPPORTED_NODES[cls]


def register_constant(cls: type) -> None:
    """Makes instances of a class nodes without children: they are part of the structure."""
    register_pytree_node(
        cls, lambda x: ([], x), lambda _, x: x, flatten_with_keys_fn=lambda x: ([], x)
    )


def register_dataclass(
    cls: type,
    *,
    field_names: list[str] | None = None,
    drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:
    """Makes instances of a dataclass nodes, whose children are the fields."""
    if not dataclasses.is_dataclass(cls):
        raise TypeError(f"register_dataclass: {cls.__name__} is no dataclass")
    names = [f.name for f in dataclasses.fields(cls) if f.init]
    names = [n for n in (field_names or names) if n not in (drop_field_names or ())]

    def flatten(node: Any) -> tuple[list[Any], Context]:
        return [getattr(node, name) for name in names], names

    def unflatten(children: Iterable[Any], known: Context) -> Any:
        return cls(**dict(zip(known, children, strict=True)))

    def with_keys(node: Any) -> tuple[list[tuple[Any, Any]], Context]:
        return [(GetAttrKey(name), getattr(node, name)) for name in names], names

    register_pytree_node(cls, flatten, unflatten, flatten_with_keys_fn=with_keys)


def _register(
    cls: type,
    flatten: FlattenFunc,
    unflatten: UnflattenFunc,
    keys: Callable[[Any], Iterable[Any]],
) -> None:
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten, unflatten, keys)


def _indices(node: Any) -> Iterable[Any]:
    return map(SequenceKey, range(len(node)))


def _mapping_keys(node: Any) -> Iterable[Any]:
    return map(MappingKey, node)


_register(tuple, lambda x: (list(x), None), lambda c, _: tuple(c), _indices)
_register(list, lambda x: (list(x), None), lambda c, _: list(c), _indices)
_register(
    dict,
    lambda x: (list(x.values()), list(x)),
    lambda c, keys: dict(zip(keys, c, strict=True)),
    _mapping_keys,
)
_register(
    OrderedDict,
    lambda x: (list(x.values()), list(x)),
    lambda c, keys: OrderedDict(zip(keys, c, strict=True)),
    _mapping_keys,
)
_register(
    defaultdict,
    lambda x: (list(x.values()), [x.default_factory, list(x)]),
    lambda c, known: defaultdict(known[0], zip(known[1], c, strict=True)),
    _mapping_keys,
)
_register(deque, lambda x: (list(x), x.maxlen), lambda c, size: deque(c, maxlen=size), _indices)


class _NamedTuple:
    """Stands for all named tuples in the table of nodes."""


_register(
    _NamedTuple,
    lambda x: (list(x), type(x)),
    lambda c, kind: kind(*c),
    lambda x: map(GetAttrKey, x._fields),
)


class _Structured:
    """Stands for all results with named fields, as of `max`."""


_register(
    _Structured,
    lambda x: (list(x), type(x)),
    lambda c, kind: kind(list(c)),
    lambda x: _indices(x),
)


def is_namedtuple_class(cls: type) -> bool:
    """Whether a class was made by `collections.namedtuple` or `typing.NamedTuple`."""
    fields = getattr(cls, "_fields", None)
    return issubclass(cls, tuple) and isinstance(fields, tuple)


def is_namedtuple(obj: Any) -> bool:
    """Whether an object, or a class, is a named tuple."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


_is_namedtuple_instance = is_namedtuple_instance = is_namedtuple


def is_structseq(obj: Any) -> bool:
    """Whether an object, or a class, is a result with named fields."""
    return issubclass(obj if isinstance(obj, type) else type(obj), StructSequence)


def _node_of(tree: Any) -> NodeDef | None:
    """How a value comes apart; None for a leaf."""
    kind = type(tree)
    found = SUPPORTED_NODES.get(kind)
    if found is None and issubclass(kind, tuple):
        if issubclass(kind, StructSequence):
            found = SUPPORTED_NODES[_Structured]
        elif is_namedtuple_class(kind):
            found = SUPPORTED_NODES[_NamedTuple]
    return found


class TreeSpec:
    """The structure of a tree: the type of a node, what it needs besides children, and theirs.

    A leaf has type None. Equal structures are equal, and have one hash where their contexts do.
    """

    def __init__(self, type: Any, context: Context, children_specs: list[TreeSpec]) -> None:
        self.type = type
        self.context = context
        self.children_specs = children_specs
        self.num_children = len(children_specs)
        self.num_leaves: int = 1 if type is None else sum(c.num_leaves for c in children_specs)
        self.num_nodes: int = 1 + sum(c.num_nodes for c in children_specs)

    def is_leaf(self) -> bool:
        """Whether the tree is a leaf alone."""
        return self.type is None

    def children(self) -> list[TreeSpec]:
        """The structures of the children."""
        return list(self.children_specs)

    def child(self, index: int) -> TreeSpec:
        """The structure of one child."""
        return self.children_specs[index]

    def flatten_up_to(self, tree: PyTree) -> list[PyTree]:
        """The parts of a tree that lie where this structure has its leaves."""
        out: list[PyTree] = []
        self._flatten_up_to(tree, out)
        return out

    def _flatten_up_to(self, tree: PyTree, out: list[PyTree]) -> None:
        if self.type is None:
            out.append(tree)
            return
        node = _node_of(tree)
        if node is None or _public_type(node, tree) is not self.type:
            raise ValueError(f"Type mismatch; expected {self.type!r}, but got {type(tree)!r}.")
        children, context = node.flatten_fn(tree)
        if len(children) != self.num_children:
            raise ValueError(
                f"Node arity mismatch; expected {self.num_children}, but got {len(children)}."
            )
        if self.type in (dict, OrderedDict, defaultdict):
            known = self.context[1] if self.type is defaultdict else self.context
            if set(known) != set(tree):
                raise ValueError(f"Node keys mismatch; expected {known}, but got {list(tree)}.")
            children = [tree[key] for key in known]
        elif context != self.context:
            raise ValueError(
                f"Node context mismatch; expected {self.context!r}, but got {context!r}."
            )
        for spec, child in zip(self.children_specs, children, strict=True):
            spec._flatten_up_to(child, out)

    def unflatten(self, leaves: Iterable[Any]) -> PyTree:
        """The tree of this structure with these leaves."""
        given = leaves if isinstance(leaves, (list, tuple)) else list(leaves)
        if len(given) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(given)} but the spec refers "
                f"to a pytree that holds {self.num_leaves} items ({self})."
            )
        return self._built(iter(given))

    def _built(self, leaves: Iterator[Any]) -> PyTree:
        if self.type is None:
            return next(leaves)
        children = [spec._built(leaves) for spec in self.children_specs]
        return _definition(self.type).unflatten_fn(children, self.context)

    def __eq__(self, other: object) -> bool:
        return other is self or (
            isinstance(other, TreeSpec)
            and self.type is other.type
            and self.context == other.context
            and self.children_specs == other.children_specs
        )

    def __hash__(self) -> int:
        context = tuple(self.context) if isinstance(self.context, list) else self.context
        if self.type is defaultdict:
            context = (self.context[0], tuple(self.context[1]))
        return hash((self.type, context, tuple(self.children_specs)))

    def __repr__(self) -> str:
        if self.type is None:
            return "*"
        name = self.type.__name__
        children = ", ".join(map(repr, self.children_specs))
        return f"TreeSpec({name}, {self.context!r}, [{children}])"


def LeafSpec() -> TreeSpec:
    """The structure of a leaf."""
    return TreeSpec(None, None, [])


def _public_type(node: NodeDef, tree: Any) -> type:
    return node.type if node.type not in (_NamedTuple, _Structured) else type(tree)


def _definition(kind: type) -> NodeDef:
    found = SUPPORTED_NODES.get(kind)
    if found is not None:
        return found
    return SUPPORTED_NODES[_Structured if is_structseq(kind) else _NamedTuple]


def tree_is_leaf(tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether a value is a leaf; `is_leaf` may say so of a node."""
    return (is_leaf is not None and is_leaf(tree)) or _node_of(tree) is None


_is_leaf = tree_is_leaf


def _flatten(tree: PyTree, leaves: list[Any], is_leaf: IsLeaf) -> TreeSpec:
    node = _node_of(tree)
    if node is None or (is_leaf is not None and is_leaf(tree)):
        leaves.append(tree)
        return LeafSpec()
    children, context = node.flatten_fn(tree)
    return TreeSpec(
        _public_type(node, tree), context, [_flatten(child, leaves, is_leaf) for child in children]
    )


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
    node = _node_of(tree)
    if node is None or (is_leaf is not None and is_leaf(tree)):
        yield tree
        return
    for child in node.flatten_fn(tree)[0]:
        yield from tree_iter(child, is_leaf)


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
    node = _node_of(tree)
    if node is None or (is_leaf is not None and is_leaf(tree)):
        yield path, tree
        return
    if node.keys_fn is None:
        raise ValueError(
            f"Did not find a flatten_with_keys_fn for type: {type(tree)}. Please pass a "
            "flatten_with_keys_fn argument to register_pytree_node."
        )
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
    node = _node_of(tree)
    if node is None or treespec.type is not _public_type(node, tree):
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
