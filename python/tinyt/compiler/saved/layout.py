"""What a program file has beside tensors: one JSON text in the metadata of a safetensors file.

The words of each program are an int64 tensor of the file (serialized_graph.h says what they are).
`SCHEMA` is the form of the JSON; what it says of numbers is checked where they are used.
"""

from __future__ import annotations

from typing import Any

FORMAT = 1
METADATA = "tinyt.program"
MOST_NAME = 200  # characters of the function's name
OWN = "tinyt."  # what names of the file's own tensors begin with
WORDS, GRADIENTS = "tinyt.words.", "tinyt.grad."


class ListOf:
    """A list of such items."""

    def __init__(self, item: Any) -> None:
        self.item = item


class Row:
    """A list of exactly these items."""

    def __init__(self, *items: Any) -> None:
        self.items = items


class DictOf:
    """Texts to such values."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Optional:
    """Such a value, or null."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Either:
    """One of several forms."""

    def __init__(self, *forms: Any) -> None:
        self.forms = forms


class Anything:
    """Read by `values.decode`, which checks it."""


_INTS = ListOf(int)
_LEAF = Row(str, int)  # "argument" or "leaf", and which one
_FACT = Either(str, Row(str, _INTS, _INTS, int, int))
_RESULT = Either(int, _LEAF, Row(int, Either(int, _LEAF), _INTS, _INTS, _INTS, int))
_BACKWARD = {
    "error": Optional(str),
    "roots": _INTS,
    "spent": _INTS,
    "outputs": int,
    "shapes": ListOf(Row(_INTS, str, int)),
    "targets": ListOf(Row(Optional(_LEAF), int, int, int)),
}
_PROGRAM = {
    "operations": ListOf(str),
    "memories": ListOf(str),
    "modes": int,
    "arguments": Row(Anything(), Anything()),
    "facts": ListOf(_FACT),
    "sources": ListOf(Either(Row(str, int), Row(str, int, _FACT), Row(str, _LEAF, _FACT))),
    "numbers": ListOf(Either(int, str)),
    "draws": ListOf(Row(int, int)),
    "result": Anything(),
    "no_grad": ListOf(_LEAF),
    "set_grads": ListOf(Row(_LEAF, int, Optional(_LEAF))),
    "results": ListOf(Row(int, _RESULT)),
    "backward": Optional(_BACKWARD),
}
_LEAF_ROW = {
    "memory": str,
    "dtype": str,
    "place": Row(_INTS, _INTS, int),
    "parameter": bool,
    "requires_grad": bool,
    "grad": Optional(str),  # the tensor of the file that it has, where a program reads one
}
SCHEMA = {
    "format": int,
    "version": str,
    "name": str,
    "memories": DictOf(str),
    "leaves": ListOf(_LEAF_ROW),
    "tensors": DictOf(Either(int, str)),  # by their names: leaves, or whole memories
    "numbers": DictOf(str),
    "generators": ListOf(Optional(Row(int, int))),
    "devices": DictOf(str),
    "programs": ListOf(_PROGRAM),
}


def fits(value: Any, form: Any) -> bool:
    """Whether a JSON value has a form."""
    if isinstance(form, type):
        fits_in_64_bits = not isinstance(value, int) or abs(value) < 2**63
        return type(value) is form and fits_in_64_bits
    if isinstance(form, dict):
        is_dict = isinstance(value, dict) and value.keys() == form.keys()
        return is_dict and all(fits(value[key], part) for key, part in form.items())
    if isinstance(form, ListOf):
        if form.item is str:  # hundreds of names
            return isinstance(value, list) and set(map(type, value)) <= {str}
        return isinstance(value, list) and all(fits(x, form.item) for x in value)
    if isinstance(form, Row):
        is_row = isinstance(value, list) and len(value) == len(form.items)
        return is_row and all(map(fits, value, form.items))
    if isinstance(form, DictOf):
        return isinstance(value, dict) and all(fits(x, form.value) for x in value.values())
    if isinstance(form, Optional):
        return value is None or fits(value, form.value)
    if isinstance(form, Either):
        return any(fits(value, x) for x in form.forms)
    return True


def one_line(name: str) -> str:
    """A function's name as files have it: one printable line, of at most `MOST_NAME` characters.

    >>> one_line("f\\n#error")
    'f?#error'
    """
    return "".join(c if c.isprintable() else "?" for c in name[:MOST_NAME])
