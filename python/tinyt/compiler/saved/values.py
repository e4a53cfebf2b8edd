"""What a program file says in JSON of Python's values: arguments and results with their leaves left
out, as `tinyt._capture.describe` has them.

A leaf is null. Containers are ``["list", [...]]``, ``["tuple", [...]]``, ``["slice", [...]]``,
``["dict", [[key, value], ...]]`` and ``["OrderedDict", ...]``; a value that is part of a program is
``["value", [type, ...]]``.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tinyt._capture import ByIdentity
from tinyt._tensor import device
from tinyt._tensor import dtype as DType
from tinyt.dtypes import ALL
from tinyt.nesting import deeper

_SEQUENCES: dict[str, type] = {"list": list, "tuple": tuple, "slice": slice}
_DTYPES = {x.name: x for x in ALL}

Json = Any


def encode(description: Any, where: str) -> Json:
    """The JSON of a description.

    NotImplementedError for what a file does not hold: objects, and containers of other classes.
    """
    if description is None:
        return None
    kind = description[0]
    if kind == "value":
        return ["value", encode_value(description[2], where)]
    if kind == "object":
        held = description[1].held
        if type(held) is DType:
            return ["value", ["dtype", held.name]]
        raise _refusal(where, type(held))
    if kind.__name__ in _SEQUENCES and kind is _SEQUENCES[kind.__name__]:
        return [kind.__name__, [encode(x, where) for x in description[1]]]
    is_ordered = kind is OrderedDict and description[3] in (None, False)
    if kind is dict or is_ordered:
        items = [[encode_value(key, where), encode(x, where)] for key, x in description[1]]
        return [kind.__name__, items]
    raise _refusal(where, kind)


def encode_value(value: Any, where: str) -> Json:
    """The JSON of a value that never changes."""
    kind = type(value)
    encoder = _ENCODERS.get(kind)
    if encoder is None:
        raise _refusal(where, kind)
    return [kind.__name__, *encoder(value)]


def _refusal(where: str, kind: type) -> NotImplementedError:
    return NotImplementedError(
        f"save: {where} is or holds an object of type {kind.__name__}, which a file does not hold; "
        "let the function come to it otherwise, and take and return tensors and plain values in "
        "lists, tuples and dicts"
    )


_ENCODERS: dict[type, Callable[[Any], list[Any]]] = {
    type(None): lambda _: [],
    bool: lambda x: [x],
    int: lambda x: [x],
    float: lambda x: [x.hex()],
    str: lambda x: [x],
    complex: lambda x: [x.real.hex(), x.imag.hex()],
    bytes: lambda x: [x.hex()],
    range: lambda x: [x.start, x.stop, x.step],
    type(...): lambda _: [],
    device: lambda x: [str(x)],
    DType: lambda x: [x.name],
}


def decode(node: Json, depth: int = 0) -> Any:
    """The description that a JSON value stands for.

    ValueError, TypeError or KeyError where it stands for none.
    """
    if node is None:
        return None
    depth = deeper("load", depth)
    kind, content = node
    if kind == "value":
        value = decode_value(content)
        if type(value) is DType:
            return "object", ByIdentity(value)
        return "value", type(value), value
    if kind in _SEQUENCES:
        parts = tuple([decode(x, depth) for x in content])
        if kind == "slice" and len(parts) != 3:
            raise ValueError(f"a slice has 3 parts, not {len(parts)}")
        return _SEQUENCES[kind], parts
    items = tuple([(decode_value(key), decode(x, depth)) for key, x in content])
    if len({repr(key) for key, _ in items}) != len(items):
        raise ValueError("a key is there twice")
    if kind == "dict":
        return dict, items
    if kind == "OrderedDict":
        return OrderedDict, items, None, None, OrderedDict
    raise ValueError(f"there is no container {kind!r:.80}")


def decode_value(node: Json) -> Any:
    """The value that a JSON value stands for."""
    kind, *content = node
    return _DECODERS[kind](*content)


def _exactly(kind: type) -> Callable[[Any], Any]:
    def checked(x: Any) -> Any:
        if type(x) is not kind:
            raise TypeError(f"expected {kind.__name__}, got {type(x).__name__}")
        return x

    return checked


_int = _exactly(int)
_DECODERS: dict[str, Callable[..., Any]] = {
    "NoneType": lambda: None,
    "bool": _exactly(bool),
    "int": _int,
    "float": float.fromhex,
    "str": _exactly(str),
    "complex": lambda re, im: complex(float.fromhex(re), float.fromhex(im)),
    "bytes": bytes.fromhex,
    "range": lambda *parts: range(*map(_int, parts)),
    "ellipsis": lambda: ...,
    "device": lambda x: device(x),
    "dtype": _DTYPES.__getitem__,
}


def leaves_in(description: Any) -> int:
    """How many leaves a description leaves out."""
    if description is None:
        return 1
    if description[0] in ("value", "object"):
        return 0
    if issubclass(description[0], dict):
        return sum(leaves_in(x) for _, x in description[1])
    return sum(map(leaves_in, description[1]))


def signature(description: Any, facts: Sequence[Any]) -> str:
    """How a function was called: "f(float32[2, 3], scale=float)", with the kinds of leaves."""
    args, kwargs = description
    leaves = iter([_leaf_text(x) for x in facts])
    parts = [_text(x, leaves) for x in args[1]]
    parts += [f"{key}={_text(x, leaves)}" for key, x in kwargs[1]]
    return f"({', '.join(parts)})"


def _leaf_text(fact: Any) -> str:
    if isinstance(fact, type):
        return fact.__name__
    _, _, t, shape, *_ = fact.row()
    return f"{ALL[t].name}{list(shape)}"


def _text(description: Any, leaves: Iterator[str]) -> str:
    if description is None:
        return next(leaves)
    kind = description[0]
    if kind == "value":
        return f"{description[2]!r:.40}"
    if kind == "object":
        return f"{description[1].held!r:.40}"
    if issubclass(kind, dict):
        inside = ", ".join(f"{key!r}: {_text(x, leaves)}" for key, x in description[1])
        return f"{{{inside}}}"
    inside = ", ".join(_text(x, leaves) for x in description[1])
    if kind is slice:
        return f"slice({inside})"
    return f"[{inside}]" if kind is list else f"({inside})"
