"""`save` and `load`: nested Python data with tensors, in a safetensors file.

A plain `dict[str, Tensor]` becomes an ordinary safetensors file that other programs read. For
anything else the tensors are stored under flat names ("model.conv1.weight") and the nesting as
JSON in the file's metadata. No code is stored and none is run.

JSON encoding of the nesting: None, bool, int, finite float, text and lists stand for themselves;
everything else is an object with one key, its tag:

    {"tensor": name}  {"dict": {text: value}}  {"items": [[key, value], ...]}
    {"tuple": [...]}  {"float": "inf" | "-inf" | "nan"}
    {"state_dict": [dict, its attribute _metadata]}

The `_metadata` of a `state_dict()` that is saved alone is an entry of the file's metadata, and so
are the devices of tensors that were not on the CPU.
"""

from __future__ import annotations

import math
import os
import sys
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO

from tinyt._tensor import device
from tinyt.io import safetensors
from tinyt.io.errors import SerializationError
from tinyt.io.header import parse_json
from tinyt.printing import abbreviated
from tinyt.tensor import Tensor

__all__ = [
    "SerializationError",
    "add_safe_globals",
    "clear_safe_globals",
    "default_restore_location",
    "get_safe_globals",
    "load",
    "safe_globals",
    "save",
]

_OBJECT = "tinyt.object"
_VERSIONS = "tinyt.state_dict"  # the _metadata of a plain dict
_DEVICES = "tinyt.devices"  # by name, those of tensors that were not on the CPU
_MAX_DEPTH = 100
_MAX_CONTAINERS = 2**22  # a hostile nesting has one for every three bytes
_SPECIAL_FLOATS = ("inf", "-inf", "nan")


def save(
    obj: Any,
    f: str | os.PathLike[str] | BinaryIO,
    pickle_module: Any = None,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Writes `obj` to `f`; to a path whole or not at all.

    The content goes to a file beside the path, is synced and then renamed, so an interruption
    leaves the old file. A file that is replaced keeps its permissions, and its owner where that
    is allowed; a symbolic link keeps pointing; a FIFO or a device is written to as `open` does.
    Gradients, `requires_grad` and sharing of memory are not stored: each tensor is written on its
    own, and a `Parameter` comes back as a `Tensor`. complex128, which safetensors lacks, is
    stored as F64 with a last dimension of 2 (other programs see that) and comes back as it was.

    Args:
        obj: any nesting of dict, list, tuple, str, int, float, bool, None and Tensor; dict keys
            may be str, int, float, bool or None. Real numbers of NumPy (`np.float32(1)`) are
            stored as Python's. Subclasses are stored as their base (an
            `OrderedDict` as dict, a named tuple as tuple), but what `Module.state_dict` returns
            comes back as an `OrderedDict` with its `_metadata`, the versions of the modules.
        f: a path, or a binary file that is open for writing (`io.BytesIO` is one).
        pickle_module, pickle_protocol, and the others: PyTorch's; no effect, as nothing is pickled.

    Raises:
        TypeError: for another type, naming where it is; nothing is written then.
        ValueError: for nesting deeper than 100, as data that contains itself has, for more than
            4,194,304 (2**22) lists, tuples and dicts, for a header beyond 100 MB, and for text
            that UTF-8 cannot hold.
        OSError: if the file cannot be written.
    """
    encoder = _Encoder()
    if _is_plain(obj):
        versions = _versions_of(obj)
        tree = safetensors.to_json(encoder.encode(versions, "_metadata", 0))
        if encoder.tensors:
            raise TypeError("save: the _metadata of a state dict must not hold tensors")
        facts = {} if versions is None else {_VERSIONS: tree}
        safetensors.write(f, obj, facts | _devices_of(obj))
        return
    tree = safetensors.to_json(encoder.encode(obj, "", 0))
    _check_containers(tree, "save", ValueError)
    safetensors.write(f, encoder.tensors, {_OBJECT: tree} | _devices_of(encoder.tensors))


def load(
    f: str | os.PathLike[str] | BinaryIO,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = True,
    mmap: bool | None = None,
    encoding: str = "ASCII",
    errors: str = "strict",
    fix_imports: bool = True,
) -> Any:
    """Reads what `save` wrote; from another safetensors file, the dict of its tensors.

    Args:
        f: a path, or a binary file, of which all that follows is read.
        map_location: where tensors are put: a device or its name; a dict from names of devices
            where they were to others; a function that is called with the storage of each tensor, on
            the CPU, and the name of the device where it was, and returns a storage where it is to
            be, or None. None: where they were.
        pickle_module, weights_only, mmap, encoding, errors, fix_imports: PyTorch's; no effect, as
            nothing is unpickled.

    Dtypes that tinyt lacks are converted without loss: U16 to int32, U32 to int64, U64 to int64 if
    every value fits, and F8_E4M3, F8_E5M2, F8_E8M0, F8_E4M3FNUZ and F8_E5M2FNUZ to float32. F4 and
    F6 are refused.

    The file is distrusted: its header is checked as a whole first, no memory beyond its size (four
    times that of 8-bit floats) is taken for tensors, and no code is run.

    Raises:
        SerializationError: if the file is damaged or breaks the format's rules.
        OSError: if it cannot be read, or if a path is no regular file (a FIFO, a device).
        RuntimeError: if map_location names a device that is not there.
    """
    if isinstance(map_location, (str, device)):
        device(map_location).require_present()
    elif not (isinstance(map_location, Mapping) or map_location is None or callable(map_location)):
        raise TypeError(
            "load: map_location must be a device, its name, a dict of them, a function or None, "
            f"got {type(map_location).__name__}"
        )
    tensors, metadata = safetensors.read(f)
    _move(tensors, metadata.pop(_DEVICES, "{}"), map_location)
    if _VERSIONS in metadata:
        tree = metadata[_VERSIONS]
        _check_containers(tree, "load", SerializationError)
        return _with_versions(tensors, _decode(parse_json(tree, "the versions"), {}, 0))
    if _OBJECT not in metadata:
        return tensors
    tree = metadata.pop(_OBJECT)
    _check_containers(tree, "load", SerializationError)
    return _decode(parse_json(tree, "the nesting"), tensors, 0)


def _devices_of(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """The entry of the metadata for tensors that are not on the CPU; none where all are."""
    places = {name: str(x.device) for name, x in tensors.items() if not x.is_cpu}
    return {_DEVICES: safetensors.to_json(places)} if places else {}


def _move(tensors: dict[str, Tensor], recorded: str, map_location: Any) -> None:
    """Puts tensors where they were, or where a map_location says."""
    places = parse_json(recorded, "the devices")
    if not isinstance(places, dict) or not all(
        name in tensors and isinstance(place, str) for name, place in places.items()
    ):
        raise SerializationError("load: the devices must be names, by those of tensors")
    if "meta" in places.values():
        raise SerializationError("load: a tensor on meta has no elements that a file could hold")
    if not places and map_location is None:
        return
    for name, x in tensors.items():
        tensors[name] = _moved(x, places.get(name, "cpu"), map_location)


def _moved(x: Tensor, place: str, map_location: Any) -> Tensor:
    if callable(map_location):
        storage = map_location(x.untyped_storage(), place)
        if storage is not None:
            if not hasattr(storage, "data_ptr"):
                raise TypeError(
                    "load: map_location must return a storage or None, got "
                    f"{type(storage).__name__}"
                )
            return x.to(storage.device)
    elif isinstance(map_location, Mapping):
        place = map_location.get(place, place)
    elif map_location is not None:
        place = map_location
    try:
        device(place).require_present()
    except RuntimeError as error:
        raise RuntimeError(
            f"load: a tensor was to be put on {place!r}, where it was or by map_location; pass "
            f"another map_location ({error})"
        ) from None
    return x.to(place)


def _plain_number(obj: Any) -> Any:
    """A real number of NumPy as Python's; anything else as it is."""
    numpy = sys.modules.get("numpy")  # who has one of its numbers has imported it
    if numpy is None or not isinstance(obj, (numpy.bool_, numpy.integer, numpy.floating)):
        return obj
    return float(obj) if isinstance(obj, numpy.floating) else obj.item()


def _is_plain(obj: Any) -> bool:
    """Whether `obj` needs no nesting: a dict from text to tensors."""
    return (
        isinstance(obj, Mapping)
        and len(obj) > 0
        and all(isinstance(key, str) and key != "__metadata__" for key in obj)
        and all(isinstance(value, Tensor) for value in obj.values())
    )


def _versions_of(obj: Mapping[Any, Any]) -> Mapping[str, Any] | None:
    """The `_metadata` of a state dict; None of other dicts."""
    versions = getattr(obj, "_metadata", None)
    return versions if isinstance(versions, Mapping) and versions else None


def _with_versions(values: Any, versions: Any) -> OrderedDict[str, Any]:
    """A state dict with its `_metadata`."""
    fits = isinstance(values, dict) and isinstance(versions, dict)
    if not fits or not all(
        isinstance(path, str) and isinstance(facts, dict) for path, facts in versions.items()
    ):
        raise SerializationError("load: the versions of a state dict must be dicts by module path")
    state: Any = OrderedDict(values)
    state._metadata = OrderedDict(versions)
    return state  # type: ignore[no-any-return]


def _check_containers(text: str, action: str, error: type[Exception]) -> None:
    """Bounds the lists and objects of a JSON text before they are built."""
    if text.count("[") + text.count("{") > _MAX_CONTAINERS:  # with those within strings
        count = sum(part.count("[") + part.count("{") for part in _outside_strings(text))
        if count > _MAX_CONTAINERS:
            raise error(
                f"{action}: the nesting has {count} lists, tuples and dicts, the limit is "
                f"{_MAX_CONTAINERS}; store large lists of numbers as tensors"
            )


def _outside_strings(text: str) -> Iterator[str]:
    position = 0
    while (quote := text.find('"', position)) >= 0:
        yield text[position:quote]
        while True:
            quote = text.find('"', quote + 1)
            if quote < 0:
                return
            before = quote
            while text[before - 1] == "\\":
                before -= 1
            if (quote - before) % 2 == 0:  # not escaped
                break
        position = quote + 1
    yield text[position:]


class _Encoder:
    """Turns nested data into JSON values and collects its tensors under unique names."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}

    def encode(self, obj: Any, path: str, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise ValueError(f"save: nested deeper than {_MAX_DEPTH} at {abbreviated(path)}")
        obj = _plain_number(obj)
        if obj is None or isinstance(obj, bool):
            return obj
        if isinstance(obj, Tensor):
            return {"tensor": self._add(obj, path)}
        if isinstance(obj, str):
            return str(obj)
        if isinstance(obj, int):
            return int(obj)
        if isinstance(obj, float):
            return float(obj) if math.isfinite(obj) else {"float": repr(float(obj))}
        if isinstance(obj, Mapping):
            values = self._encode_dict(obj, path, depth)
            if (versions := _versions_of(obj)) is None:
                return values
            facts = self.encode(versions, _join(path, "_metadata"), depth + 1)
            return {"state_dict": [values, facts]}
        if isinstance(obj, (list, tuple)):
            items = [self.encode(v, _join(path, i), depth + 1) for i, v in enumerate(obj)]
            return items if isinstance(obj, list) else {"tuple": items}
        raise TypeError(
            f"save: cannot store an object of type {type(obj).__name__} at {_where(path)}"
        )

    def _encode_dict(self, obj: Mapping[Any, Any], path: str, depth: int) -> Any:
        for key in obj:
            if key is not None and not isinstance(_plain_number(key), (str, int, float)):
                raise TypeError(
                    "save: dict keys must be str, int, float, bool or None, "
                    f"got {type(key).__name__} at {_where(path)}"
                )
        values = [
            (_plain_number(key), self.encode(v, _join(path, key), depth + 1))
            for key, v in obj.items()
        ]
        if all(isinstance(key, str) for key, _ in values):
            return {"dict": dict(values)}
        return {"items": [[self.encode(key, path, depth + 1), value] for key, value in values]}

    def _add(self, tensor: Tensor, path: str) -> str:
        stem = path if path and path != "__metadata__" else "tensor"
        name, count = stem, 1
        while name in self.tensors:
            count += 1
            name = f"{stem}#{count}"
        self.tensors[name] = tensor
        return name


def _join(path: str, key: Any) -> str:
    return f"{path}.{key}" if path else str(key)


def _where(path: str) -> str:
    return (path if len(path) <= 80 else path[:77] + "...") or "the top level"


def _decode(node: Any, tensors: Mapping[str, Tensor], depth: int) -> Any:
    """What a JSON value stands for; lists and objects are reused for the result."""
    if depth > _MAX_DEPTH:
        raise SerializationError(f"load: nested deeper than {_MAX_DEPTH}")
    if isinstance(node, list):
        return _decode_list(node, tensors, depth)
    if not isinstance(node, dict):
        return node
    if len(node) != 1:
        raise SerializationError("load: an object of the nesting must have one tag")
    tag, value = next(iter(node.items()))
    if tag == "tensor" and isinstance(value, str) and value in tensors:
        return tensors[value]
    if tag == "float" and value in _SPECIAL_FLOATS:
        return float(value)
    if tag == "dict" and isinstance(value, dict):
        for key, item in value.items():
            value[key] = _decode(item, tensors, depth + 1)
        return value
    if tag == "tuple" and isinstance(value, list):
        return tuple(_decode_list(value, tensors, depth))
    if tag == "items" and isinstance(value, list):
        return _decode_items(value, tensors, depth)
    if tag == "state_dict" and isinstance(value, list) and len(value) == 2:
        return _with_versions(*[_decode(item, tensors, depth + 1) for item in value])
    raise SerializationError(
        f"load: bad object {{{abbreviated(tag)}: {abbreviated(value)}}} in the nesting"
    )


def _decode_list(items: list[Any], tensors: Mapping[str, Tensor], depth: int) -> list[Any]:
    for i, item in enumerate(items):
        if isinstance(item, (list, dict)):
            items[i] = _decode(item, tensors, depth + 1)
    return items


def _decode_items(pairs: list[Any], tensors: Mapping[str, Tensor], depth: int) -> dict[Any, Any]:
    result: dict[Any, Any] = {}
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2:
            raise SerializationError("load: an entry of 'items' must be a [key, value] pair")
        key = _decode(pair[0], tensors, depth + 1)
        if key is not None and not isinstance(key, (str, int, float)):
            raise SerializationError(f"load: {type(key).__name__} is no dict key")
        result[key] = _decode(pair[1], tensors, depth + 1)
    if len(result) != len(pairs):
        raise SerializationError("load: a dict key occurs more than once")
    return result


# ---- what PyTorch may unpickle: kept for programs that say so, no effect

_safe_globals: list[Any] = []


def default_restore_location(storage: Any, location: str) -> Any:
    """The storage on a device; RuntimeError for one that is not there."""
    return storage.to(location)


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Kept, no effect: nothing is unpickled."""
    _safe_globals.extend(x for x in safe_globals if x not in _safe_globals)


def get_safe_globals() -> list[Any]:
    """What `add_safe_globals` was given."""
    return list(_safe_globals)


def clear_safe_globals() -> None:
    """Forgets what `add_safe_globals` was given."""
    _safe_globals.clear()


@contextmanager
def safe_globals(safe_globals: list[Any]) -> Iterator[None]:
    """A block with more of them; no effect."""
    before = get_safe_globals()
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _safe_globals[:] = before
