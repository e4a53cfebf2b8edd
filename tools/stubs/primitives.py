"""Signatures of primitives, from the op table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stubs.text import Function
from tinyt import _core

KINDS = {
    "i": "int",
    "b": "bool",
    "f": "float",
    "I": "_Sizes",
    "t": "DType | int",
    "d": "Device | str | int | None",
}


def operand_list(row: Mapping[str, Any]) -> list[str]:
    """Tensor parameters of a primitive. Scalar ops with several take numbers too."""
    count = row["inputs"]
    if count < 0:
        return ["tensors: Sequence[Tensor]"]
    mixed = "Tensor | Scalar" if row["kind"] == "scalar" else "Tensor"
    if "predicate_first" in row["flags"]:
        return ["condition: Tensor", f"input: {mixed}", f"other: {mixed}"]
    if count in (3, 4) and row["kind"] == "scalar":
        return [f"{n}: {mixed}" for n in ("input", "other", "third", "fourth")[:count]]
    if count == 3:
        return ["input: Tensor", "index: Tensor", "source: Tensor", "/"]
    if count > 3:
        return [f"input: {mixed}", *(f"operand{i}: {mixed}" for i in range(1, count)), "/"]
    return [f"{n}: {mixed if count > 1 else 'Tensor'}" for n in ("input", "other")[:count]]


def attribute_list(row: Mapping[str, Any]) -> list[str]:
    """Parameters of a primitive that are no tensors: ``name:kind[=default]`` in the table."""
    out = []
    words = row["attributes"].split()
    for word in words:
        name, _, rest = word.partition(":")
        kind, _, default = rest.partition("=")
        if default and kind == "b":
            default = str(default != "0")
        elif default and kind == "f":
            default = str(float(default))
        elif kind == "d" and word == words[-1]:
            default = "None"
        out.append(f"{name}: {KINDS[kind]}" + (f" = {default}" if default else ""))
    return out


def primitive(row: Mapping[str, Any], name: str = "", form: str = "function") -> Function:
    """A row of the op table as a function, a method of Tensor or an in-place method."""
    parameters = operand_list(row) + attribute_list(row)
    if form == "member":
        parameters = ["self", *parameters]
    elif form != "function":
        parameters[0] = "self"
    # Several outputs, or a result that shares its input's memory, cannot be written elsewhere.
    if form != "in_place" and row["outputs"] == 1 and "view" not in row["flags"]:
        parameters += ["*", "out: Tensor | None = None"]
    results = ", ".join(["Tensor"] * row["outputs"])
    returns = "Tensor" if row["outputs"] == 1 else f"tuple[{results}]"
    return Function(name or row["name"], parameters, returns)


OP_ROWS = {row["name"]: row for row in _core.op_table()}
