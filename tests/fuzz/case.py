"""A drawn graph: its inputs and steps, as a function and as a program's text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import tinyt
import tinyt.nn.functional as F
from fuzz import steps as own
from tinyt import Tensor

ROOTS = {"tinyt": tinyt, "F": F, "Tensor": Tensor}


@dataclass(frozen=True)
class Ref:
    """The value of an input (they come first) or step."""

    number: int


@dataclass(frozen=True)
class NetRef:
    """A network of the case."""

    number: int


@dataclass(frozen=True)
class DType:
    """A dtype among arguments."""

    name: str


@dataclass(frozen=True)
class Input:
    """An array in a memory layout; or a function of `steps` applied to an earlier input."""

    values: np.ndarray | None
    dtype: str = ""
    layout: str = "contiguous"
    grad: bool = False
    of: int = -1
    how: str = ""


@dataclass(frozen=True)
class Step:
    """A call: a dotted name, a function of `steps`, or ("row", name of an operation)."""

    call: str | tuple[str, str]
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Body:
    """A function among arguments. Its values are those it is given, those it reads from outside
    (``outer``), and those of its steps, which number them in this order; some are returned."""

    given: int
    outer: tuple[Ref, ...]
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """Inputs, networks (arguments of `steps.Net`), steps, and the values that are returned."""

    inputs: tuple[Input, ...]
    nets: tuple[tuple[str, bool], ...]
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """A nested value with its references changed; of a body those to what is outside."""
    if isinstance(value, (Ref, NetRef, DType)):
        return change(value)
    if isinstance(value, Body):
        return replace(value, outer=mapped(value.outer, change))
    if isinstance(value, (tuple, list)):
        return type(value)(mapped(x, change) for x in value)
    if isinstance(value, slice):
        return value
    if isinstance(value, dict):
        return {key: mapped(x, change) for key, x in value.items()}
    return value


def callee(call: str | tuple[str, str]) -> Callable[..., Any]:
    """What a step calls."""
    if isinstance(call, tuple):
        return own.row(call[1])
    root, _, rest = call.partition(".")
    found: Any = ROOTS[root] if rest else getattr(own, root)
    for name in rest.split(".") if rest else ():
        found = getattr(found, name)
    return found


def run_step(step: Step, values: list[Any], nets: list[own.Net]) -> Any:
    """The value of a step."""

    def value(ref: Any) -> Any:
        if isinstance(ref, DType):
            return getattr(tinyt, ref.name)
        return values[ref.number] if isinstance(ref, Ref) else nets[ref.number]

    def argument(x: Any) -> Any:
        return (
            body_of(x, [value(ref) for ref in x.outer]) if isinstance(x, Body) else mapped(x, value)
        )

    args = [argument(x) for x in step.args]
    return callee(step.call)(*args, **mapped(dict(step.kwargs), value))


def body_of(body: Body, outer: list[Any]) -> Callable[..., list[Any]]:
    """The function of a body."""

    def function(*given: Any) -> list[Any]:
        values = [*given, *outer]
        for step in body.steps:
            values.append(run_step(step, values, []))
        return [values[i] for i in body.outputs]

    return function


def function_of(case: Case, nets: list[own.Net]) -> Callable[..., Any]:
    """The function: its steps, one after the other."""
    steps, outputs = case.steps, case.outputs

    def function(*inputs: Tensor) -> Any:
        values: list[Any] = list(inputs)
        for step in steps:
            values.append(run_step(step, values, nets))
        return [values[i] for i in outputs]

    return function


def inputs_of(case: Case, call: int = 0) -> list[Tensor]:
    """The arguments of a call."""
    found: list[Tensor] = []
    for x in case.inputs:
        if x.values is None:
            found.append(getattr(own, x.how)(found[x.of]))
            continue
        found.append(own.tensor(own.varied(x.values, call), x.dtype, x.layout, x.grad))
    return found


def nets_of(case: Case) -> list[own.Net]:
    """The networks as they are in the beginning."""
    return [own.Net(*args) for args in case.nets]


# ---- text


def text(case: Case, note: str = "") -> str:
    """A program that shows the failure."""
    lines = [f"# {line}" for line in note.splitlines()]
    lines += [
        "# Run with tests/ on PYTHONPATH.",
        "from fuzz.check import compare",
        "from fuzz.steps import *",
        "",
        "",
        "def inputs(call):",
    ]
    for i, x in enumerate(case.inputs):
        if x.values is None:
            lines.append(f"    v{i} = {x.how}(v{x.of})")
            continue
        more = f", {x.layout!r}, {x.grad}" if x.grad or x.layout != "contiguous" else ""
        lines.append(f"    v{i} = tensor(varied({_array(x.values)}, call), {x.dtype!r}{more})")
    names = ", ".join(f"v{i}" for i in range(len(case.inputs)))
    lines += [f"    return [{names}]", "", "", "def function(nets):", f"    def step({names}):"]
    lines += _lines(case.steps, [f"v{i}" for i in range(len(case.inputs))], case.outputs, "v", 8)
    nets = ", ".join(f"Net({name!r}, {autocast})" for name, autocast in case.nets)
    lines += ["", "    return step", "", "", f"print(compare(function, inputs, lambda: [{nets}]))"]
    return "\n".join(lines)


def _lines(
    steps: Sequence[Step], known: list[str], outputs: Sequence[int], letter: str, indent: int
) -> list[str]:
    """The statements of a function whose first values have these names."""
    lines, names, space = [], list(known), " " * indent
    for step in steps:
        name = f"{letter}{len(names)}"
        args = []
        for x in step.args:
            if isinstance(x, Body):
                own = f"{name}_{len(args)}"
                given = [f"{own}_{i}" for i in range(x.given)]
                lines.append(f"{space}def {own}({', '.join(given)}):")
                inner = [*given, *(names[ref.number] for ref in x.outer)]
                lines += _lines(x.steps, inner, x.outputs, f"{own}_", indent + 4)
                args.append(own)
            else:
                args.append(_text(x, names))
        args += [f"{k}={_text(x, names)}" for k, x in step.kwargs]
        call = f"row({step.call[1]!r})" if isinstance(step.call, tuple) else step.call
        lines.append(f"{space}{name} = {call}({', '.join(args)})")
        names.append(name)
    return [*lines, f"{space}return [{', '.join(names[i] for i in outputs)}]"]


def _array(values: np.ndarray) -> str:
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        listed = repr(values.tolist()).replace("nan", "np.nan").replace("inf", "np.inf")
    else:
        listed = repr(values.tolist())
    if values.size == 0:
        return f"np.zeros({values.shape}, {values.dtype.name!r})"
    return f"np.array({listed}, {values.dtype.name!r})"


def _text(value: Any, names: Sequence[str]) -> str:
    if isinstance(value, Ref):
        return names[value.number]
    if isinstance(value, NetRef):
        return f"nets[{value.number}]"
    if isinstance(value, DType):
        return f"tinyt.{value.name}"
    if isinstance(value, tuple):
        return f"({', '.join(_text(x, names) for x in value)}{',' if len(value) == 1 else ''})"
    if isinstance(value, list):
        return f"[{', '.join(_text(x, names) for x in value)}]"
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return f"float({str(value)!r})"
    return repr(value)
