"""Which containers are nodes of trees, and how each comes apart and together."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from tinyt.return_types import StructSequence

Context = Any
FlattenFunc = Callable[[Any], tuple[list[Any], Context]]
UnflattenFunc = Callable[[Iterable[Any], Context], Any]


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


def node_of(tree: Any) -> NodeDef | None:
    """How a value comes apart; None for a leaf."""
    kind = type(tree)
    found = SUPPORTED_NODES.get(kind)
    if found is None and issubclass(kind, tuple):
        if issubclass(kind, StructSequence):
            found = SUPPORTED_NODES[_Structured]
        elif is_namedtuple_class(kind):
            found = SUPPORTED_NODES[_NamedTuple]
    return found


def public_type(node: NodeDef, tree: Any) -> type:
    """The type that the structure of a tree names for a node."""
    return node.type if node.type not in (_NamedTuple, _Structured) else type(tree)


def definition_of(kind: type) -> NodeDef:
    """How nodes of a type that a structure names come apart and together."""
    found = SUPPORTED_NODES.get(kind)
    if found is not None:
        return found
    return SUPPORTED_NODES[_Structured if is_structseq(kind) else _NamedTuple]
