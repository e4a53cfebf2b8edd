"""Computes what depends on constants alone, once: elementwise ops and casts of fills and of
Python's numbers. Numbers that are read anew at every run, and inputs, are none.

What would be an error stays one of the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinyt.compiler.passes.edit import REARRANGING, SCALARS, walk
from tinyt.tensor import prim

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tinyt._tensor import dtype
    from tinyt.compiler.graph.graph import Graph, Node
    from tinyt.compiler.passes.edit import Edit
    from tinyt.tensor import Tensor

_OPS = SCALARS | REARRANGING | {"cast", "fill"}


def run(graph: Graph) -> Graph:
    """The graph with constants as `fill` nodes."""
    known = {i.value: i.tensor for i in graph.inputs if i.weak and i.tensor is not None}
    repeated: dict[int, int] = {}  # what a number is there once more for

    def rule(edit: Edit, node: Node) -> Sequence[int] | None:
        made = node.outputs[0]
        shape, t, *_ = edit.values[made]
        if node.op == "fill":
            known[made] = prim.fill((1,) * len(shape), *node.attrs[1:])
            return None
        if any([v not in known for v in node.inputs]) or 0 in shape:
            return None
        inputs = [known[v] for v in node.inputs]
        if node.op in REARRANGING:
            known[made] = prim.reshape(inputs[0], (1,) * len(shape))
            repeated[made] = repeated.get(node.inputs[0], node.inputs[0])
            return None
        for v in node.inputs:
            edit.hold_number(repeated.get(v, v))
        try:
            number = getattr(prim, node.op)(*inputs, *node.attrs)
        except RuntimeError:
            return None
        found = fill(edit, number, shape, t, edit.device_of(node))
        known[found] = number
        return (found,)

    return walk(graph, rule, _OPS)


def fill(edit: Edit, number: Tensor, shape: tuple[int, ...], t: dtype, device: int) -> int:
    """A value that is one number everywhere."""
    item = number.item()
    real, imag = (item.real, item.imag) if isinstance(item, complex) else (item, 0.0)
    is_float = t.is_floating_point or t.is_complex
    attrs = (), t.number, float(real), 0 if is_float else int(real), float(imag), device
    one = edit.add("fill", (), attrs, (), t)
    return edit.add("expand", (one,), (shape,), shape, t) if shape else one
