"""`TreeSpec`: the structure of a tree without its leaves."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from tinyt.utils._pytree.nodes import Context, definition_of, node_of, public_type


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

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """The parts of a tree that lie where this structure has its leaves."""
        out: list[Any] = []
        self._flatten_up_to(tree, out)
        return out

    def _flatten_up_to(self, tree: Any, out: list[Any]) -> None:
        if self.type is None:
            out.append(tree)
            return
        node = node_of(tree)
        if node is None or public_type(node, tree) is not self.type:
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

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The tree of this structure with these leaves."""
        given = leaves if isinstance(leaves, (list, tuple)) else list(leaves)
        if len(given) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(given)} but the spec refers "
                f"to a pytree that holds {self.num_leaves} items ({self})."
            )
        return self._built(iter(given))

    def _built(self, leaves: Iterator[Any]) -> Any:
        if self.type is None:
            return next(leaves)
        children = [spec._built(leaves) for spec in self.children_specs]
        return definition_of(self.type).unflatten_fn(children, self.context)

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
