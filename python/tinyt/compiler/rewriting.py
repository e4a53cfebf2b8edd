"""`tinyt.compiler.rewrite`: users' own simplifications, verified when they are registered."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from math import inf, prod
from typing import TYPE_CHECKING

from tinyt._autograd import GradMode
from tinyt._core import CaptureError
from tinyt.compiler.capture.recording import recording
from tinyt.compiler.graph.graph import FLOW, OPS, Graph
from tinyt.compiler.passes.rewrites import REGISTERED, Registered, Shape, Types
from tinyt.dtypes import finfo, float32
from tinyt.tensor import Tensor, prim

if TYPE_CHECKING:
    from tinyt._tensor import dtype

Function = Callable[..., Tensor]

# Shapes that arguments are drawn with where none are given: each for all of them.
_SHAPES = ((), (5,), (4, 6), (2, 3, 4), (1, 7), (1024,))


class Rewrite(Registered):
    """A registered pattern and its replacement. ``remove()``, or the end of a ``with`` block, ends
    it for what is captured later."""

    def __init__(self, pattern: Function, replacement: Function, any_shape: bool) -> None:
        self.pattern, self.replacement = pattern, replacement
        self.forms = []
        self._known: dict[Types, tuple[Shape, Shape] | None] = {}
        # What replacements with custom operations are put at: what samples have shown of them.
        self._any_shape = any_shape
        self._shown: set[Hashable] = set()

    def __enter__(self) -> Rewrite:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Functions that are captured from now on are not rewritten. Nothing where it is done."""
        if self in REGISTERED:
            REGISTERED.remove(self)

    def at(self, types: Types) -> tuple[Shape, Shape] | None:
        """Pattern and replacement for such arguments; None where one of them takes others, or the
        results are of other shapes or dtypes."""
        if types not in self._known:
            try:
                both = _shape_of(self.pattern, types), _shape_of(self.replacement, types)
            except (RuntimeError, ValueError, TypeError, IndexError):
                self._known[types] = None
            else:
                same = _type_of(both[0]) == _type_of(both[1])
                asked = not _has_custom_op(both[1]) or self._kind(types) in self._shown
                self._known[types] = both if same and asked else None
        return self._known[types]

    def show(self, types: Types) -> None:
        """Notes that pattern and replacement agree on such arguments."""
        self._shown.add(self._kind(types))

    def _kind(self, types: Types) -> Hashable:
        return tuple([t for _, t in types]) if self._any_shape else types


def rewrite(
    pattern: Function,
    replacement: Function,
    *,
    shapes: Sequence[Sequence[Sequence[int]]] | None = None,
    dtypes: Sequence[dtype] = (float32,),
    samples: Sequence[Sequence[Tensor]] = (),
    tolerance: float | None = None,
) -> Rewrite:
    """Lets compiled functions compute ``replacement`` where they compute ``pattern``.

    Both are functions of the same tensors that return one tensor, written with any operations
    (numbers in them count as they are). Wherever a function that is captured from now on does what
    ``pattern`` does, with arguments of any shape and dtype, and nothing else reads what it computes
    on the way, the replacement takes its place::

        tinyt.compiler.rewrite(lambda x: x.exp().log(), lambda x: x, tolerance=1e-6)

    First both are run on samples: values drawn for every one of ``shapes`` (each a shape for every
    argument; by default some in which all are equal) and ``dtypes``, special ones such as -0.0,
    infinities and NaN among them, and ``samples`` themselves. ValueError where the results are not
    equal to the bit (payloads of NaN aside); with a ``tolerance``, where they differ by more than
    that, relative to the larger one or 1. With a tolerance, compiled functions no longer have
    eager's bits. ValueError also where the pattern draws random numbers, writes to its arguments,
    reads none of an argument, or computes nothing, and where the replacement draws random numbers,
    runs control flow or cannot be recorded.

    Returns the `Rewrite`, whose ``remove()`` ends it; ``with rewrite(...):`` does at the end of the
    block.
    """
    count = _arguments(pattern)
    if _arguments(replacement) != count:
        raise ValueError(
            f"rewrite: the pattern takes {count} tensors, the replacement {_arguments(replacement)}"
        )
    made = Rewrite(pattern, replacement, shapes is None)
    refused = "no sample"
    for sample in (*samples, *_drawn(count, shapes, dtypes)):
        if len(sample) != count:
            raise ValueError(f"rewrite: a sample has {len(sample)} tensors, not {count}")
        want = _run(pattern, sample)
        if isinstance(want, str):
            if shapes is not None:
                raise ValueError(f"rewrite: the pattern does not take {_types(sample)}: {want}")
            refused = want
            continue
        got = _run(replacement, sample)
        if isinstance(got, str):
            raise ValueError(f"rewrite: the replacement does not take {_types(sample)}: {got}")
        _compare(want, got, sample, tolerance)
        types = tuple((tuple(x.shape), x.dtype) for x in sample)
        form = _shape_of(pattern, types)
        _check(form)
        _check_replacement(replacement, types)
        made.show(types)
        if not any(_ops(form) == _ops(other) for other in made.forms):
            made.forms.append(form)
    if not made.forms:
        raise ValueError(
            f"rewrite: the pattern takes none of the drawn arguments ({refused}); give shapes, "
            "dtypes or samples"
        )
    REGISTERED.append(made)
    return made


def _arguments(function: Function) -> int:
    """How many tensors a function takes."""
    code = getattr(function, "__code__", None)
    if code is None or code.co_kwonlyargcount or code.co_flags & 0x0C:  # *args, **kwargs
        raise ValueError(f"rewrite: needs plain functions of a number of tensors, got {function!r}")
    bound = getattr(function, "__self__", None) is not None
    return int(code.co_argcount) - bound


def _drawn(
    count: int, shapes: Sequence[Sequence[Sequence[int]]] | None, dtypes: Sequence[dtype]
) -> Iterator[list[Tensor]]:
    """Arguments of these shapes and dtypes, one after another."""
    every = [(shape,) * count for shape in _SHAPES] if shapes is None else shapes
    for t in dtypes:
        for each in every:
            for turn in range(4):
                yield [_values(shape, t, turn, k) for k, shape in enumerate(each)]


def _special(t: dtype) -> list[float]:
    """Values that tell functions apart."""
    some = [0.0, 1.0, 2.0, 3.0, 5.0, 100.0]
    if not (t.is_floating_point or t.is_complex):
        return some if t.itemsize == 1 else [*some, -1.0, -2.0, -7.0]
    facts = finfo(t)
    some += [0.5, 0.1, 1.5, 7.25, facts.max, facts.tiny, facts.tiny * 0.75, facts.eps, 1 / 3]
    return [*some, *(-x for x in some), float("inf"), -float("inf"), float("nan")]


def _values(shape: Sequence[int], t: dtype, turn: int, place: int) -> Tensor:
    """In the first turn a row of usual numbers, then special ones: of two arguments with as many
    elements as there are pairs, all pairs."""
    special = _special(t)
    n = len(special)
    row = []
    for e in range(prod(shape)):
        if turn == 0:
            row.append(((e * 37 + place * 11) % 101 - 50) / 16)
        else:
            row.append(special[(e // n**place * (1 + place // 2) + 5 * turn) % n])
    if not (t.is_floating_point or t.is_complex):
        row = [abs(int(x)) if t.itemsize == 1 else int(x) for x in row]
    flat = prim.fill((len(row),), t, 0.0, 0, 0.0)
    for k, x in enumerate(row):
        flat[k] = x
    return prim.reshape(flat, tuple(shape))


def _run(function: Function, sample: Sequence[Tensor]) -> Tensor | str:
    """The result on a sample, which stays as it is; what is wrong where there is none."""
    with GradMode(False):
        given = [prim.copy(x) for x in sample]
        try:
            result = function(*given)
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            return str(error)
    if not isinstance(result, Tensor):
        kind = type(result).__name__
        raise ValueError(f"rewrite: the functions must return one tensor, got {kind}")
    if not all(_same_bits(x, y) for x, y in zip(sample, given, strict=True)):
        raise ValueError("rewrite: the functions must not write to their arguments")
    return result


def _types(sample: Sequence[Tensor]) -> str:
    return ", ".join(f"{x.dtype.name}{list(x.shape)}" for x in sample)


def _same_bits(x: Tensor, y: Tensor) -> bool:
    return _first_difference(x, y, None) is None


def _compare(want: Tensor, got: Tensor, sample: Sequence[Tensor], tolerance: float | None) -> None:
    types = _types(sample)
    if (want.dtype, want.shape) != (got.dtype, got.shape):
        raise ValueError(
            f"rewrite: of {types} the pattern makes {want.dtype.name}{list(want.shape)}, the "
            f"replacement {got.dtype.name}{list(got.shape)}"
        )
    at = _first_difference(want, got, tolerance)
    if at is not None:
        values = ", ".join(str(_element(x, at, want)) for x in sample)
        rule = "bits" if tolerance is None else f"values within {tolerance}"
        raise ValueError(
            f"rewrite: pattern and replacement must have the same {rule}; of {types} (there "
            f"{values}) element {at} is {_element(want, at, want)} and {_element(got, at, want)}"
        )


def _element(x: Tensor, at: int, like: Tensor) -> object:
    """An element by its number; of an argument of another shape nothing in particular."""
    if x.shape != like.shape:
        return "..."
    return prim.reshape(x.detach(), (x.numel(),))[at].item()


def _first_difference(want: Tensor, got: Tensor, tolerance: float | None) -> int | None:
    """The number of the first element that differs; NaN is NaN."""
    a, b = (prim.reshape(x.detach(), (x.numel(),)).tolist() for x in (want, got))
    for i, (x, y) in enumerate(zip(a, b, strict=True)):
        if repr(x) == repr(y):
            continue
        size = max(1.0, abs(x), abs(y))
        if tolerance is None or size == inf or not abs(x - y) <= tolerance * size:
            return i
    return None


def _shape_of(function: Function, types: Types) -> Shape:
    """The graph of a function of such arguments."""
    with recording() as (core, _), GradMode(False):
        given = [prim.fill(shape, t.number, 0.0, 0, 0.0) for shape, t in types]
        core.add_output(function(*given))
        del given
    graph = Graph.from_core(core)
    arguments = tuple(node.outputs[0] for node in graph.nodes[: len(types)])
    return Shape(graph, arguments, graph.outputs[0].value)


def _type_of(shape: Shape) -> object:
    return shape.graph.values[shape.output][:2]


def _ops(shape: Shape) -> list[object]:
    return [(node.op, node.inputs, node.outputs) for node in shape.graph.nodes]


def _has_custom_op(form: Shape) -> bool:
    return any(node.op not in OPS for node in form.graph.nodes)


def _check_replacement(replacement: Function, types: Types) -> None:
    """ValueError where it cannot be put into a graph."""
    try:
        form = _shape_of(replacement, types)
    except CaptureError as error:
        raise ValueError(f"rewrite: the replacement cannot be recorded: {error}") from error
    if form.graph.writes:
        raise ValueError("rewrite: the replacement writes to memory that is there")
    for node in form.graph.nodes:
        if node.op in FLOW or (node.op in OPS and "random" in OPS[node.op]["flags"]):
            raise ValueError(f"rewrite: {node.op} cannot be part of a replacement")


def _check(form: Shape) -> None:
    """ValueError where a pattern cannot be looked for."""
    graph = form.graph
    if form.output in form.arguments or graph.values[form.output].node < 0:
        raise ValueError("rewrite: the pattern computes nothing")
    if graph.writes:
        raise ValueError("rewrite: the pattern writes to memory that is there")
    read, waiting = set(), [form.output]
    while waiting:
        v = waiting.pop()
        read.add(v)
        if graph.values[v].node >= 0:
            waiting += [x for x in graph.nodes[graph.values[v].node].inputs if x not in read]
    for k, v in enumerate(form.arguments):
        if v not in read:
            raise ValueError(f"rewrite: the pattern does not read its argument {k}")
    for node in graph.nodes:
        if node.op not in OPS or "random" in OPS[node.op]["flags"]:
            raise ValueError(f"rewrite: {node.op} cannot be part of a pattern")
