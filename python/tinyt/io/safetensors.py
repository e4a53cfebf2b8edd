"""The safetensors format: named tensors behind a JSON header.

Layout: an unsigned 64-bit little-endian length, a JSON header of that many bytes, the raw values.
The header maps each name to `{"dtype", "shape", "data_offsets": [begin, end]}`, offsets counted
from the end of the header; `"__metadata__"` maps text to text. Values are little-endian in row
order and cover the rest of the file without gap or overlap.

Source: https://huggingface.co/docs/safetensors, section "Format".
"""

from __future__ import annotations

import contextlib
import io
import math
import os
from collections.abc import Mapping
from typing import Any, BinaryIO, NamedTuple

from tinyt import dtypes
from tinyt.io.atomic import atomic_write
from tinyt.ops import empty
from tinyt.tensor import Tensor

MAX_HEADER_BYTES = 100_000_000
_MAX_ELEMENTS = 2**63 - 1
_MAX_RANK = 64
_ALIGNMENT = 8

_DTYPES = {
    "BOOL": dtypes.bool,
    "U8": dtypes.uint8,
    "I8": dtypes.int8,
    "I16": dtypes.int16,
    "I32": dtypes.int32,
    "I64": dtypes.int64,
    "F16": dtypes.float16,
    "BF16": dtypes.bfloat16,
    "F32": dtypes.float32,
    "F64": dtypes.float64,
    "C64": dtypes.complex64,
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_METADATA = "__metadata__"


class SerializationError(RuntimeError):
    """A file that is damaged, or is not what it claims to be."""


class _Entry(NamedTuple):
    dtype: Any
    shape: tuple[int, ...]
    begin: int
    end: int


def write(
    path: str | os.PathLike[str] | BinaryIO,
    tensors: Mapping[str, Tensor],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Writes `tensors` to `path` in place of what was there, at once and synced to disk.

    Args:
        path: the file; an open one is written from where it stands, and not synced.
        tensors: by name; the order is kept.
        metadata: text to store beside them.

    Raises:
        TypeError: for a dtype that the format does not have.
        ValueError: for the reserved name "__metadata__" or a header beyond 100 MB.
    """
    # Widest dtype first: with the header padded to 8 bytes every tensor starts aligned.
    order = sorted(tensors, key=lambda name: -tensors[name].element_size())
    begin, spans = 0, {}
    for name in order:
        end = begin + tensors[name].numel() * tensors[name].element_size()
        spans[name] = (begin, end)
        begin = end
    header: dict[str, Any] = {} if not metadata else {_METADATA: dict(metadata)}
    for name, tensor in tensors.items():
        if name == _METADATA:
            raise ValueError(f"save: the name {_METADATA!r} is reserved by the format")
        if tensor.dtype not in _NAMES:
            raise TypeError(
                f"save: tensor {name!r} has dtype {tensor.dtype}, which safetensors lacks"
            )
        header[name] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": list(spans[name]),
        }
    text = to_json(header).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    if len(text) > MAX_HEADER_BYTES:
        raise ValueError(f"save: the header would take {len(text)} bytes, over {MAX_HEADER_BYTES}")
    with _destination(path) as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for name in order:
            if tensors[name].numel():
                tensor = tensors[name].detach().contiguous()
                if tensor.dtype == dtypes.bool:  # whose bytes may be any: 0 and 1 in files
                    tensor = tensor.to(dtypes.uint8)
                file.write(_bytes_of(tensor))


def read(path: str | os.PathLike[str] | BinaryIO) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Reads `(tensors, metadata)`; of an open file, all that follows where it stands.

    The header is checked as a whole before any memory is taken for tensors, and they take as much
    as the file holds.

    Raises:
        SerializationError: if the file breaks the format's rules anywhere.
        OSError: if it cannot be read.
    """
    with _source(path) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        header, data_start = _read_header(file, size)
        metadata = _check_metadata(header.pop(_METADATA, {}))
        entries = {name: _check_entry(name, entry) for name, entry in header.items()}
        _check_coverage(entries, size - data_start)
        tensors = {}
        for name, entry in entries.items():
            file.seek(data_start + entry.begin)
            tensors[name] = _read_tensor(file, name, entry)
    return tensors, metadata


def to_json(tree: Any) -> str:
    """Compact JSON."""
    import json  # here and below: most programs that import tinyt neither save nor load

    return json.dumps(tree, ensure_ascii=False, separators=(",", ":"))


def _destination(
    path: str | os.PathLike[str] | BinaryIO,
) -> contextlib.AbstractContextManager[BinaryIO]:
    if isinstance(path, (str, os.PathLike)):
        return atomic_write(path)
    if not hasattr(path, "write"):
        raise TypeError(f"save: expected a path or a binary file, got {type(path).__name__}")
    return contextlib.nullcontext(path)


def _source(path: str | os.PathLike[str] | BinaryIO) -> BinaryIO:
    if isinstance(path, (str, os.PathLike)):
        return open(path, "rb")
    if not hasattr(path, "read"):
        raise TypeError(f"load: expected a path or a binary file, got {type(path).__name__}")
    content = path.read()
    if not isinstance(content, bytes):
        raise TypeError("load: the file must be opened in binary mode")
    return io.BytesIO(content)


def parse_json(text: str | bytes, what: str) -> Any:
    """Parses strict JSON: no repeated keys, no NaN or Infinity, no bottomless nesting."""
    import json

    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:  # ValueError includes bad UTF-8 and bad JSON
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise SerializationError(f"load: {what} is not valid JSON: {reason}") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"key {twice!r} occurs more than once")
    return result


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


def _read_header(file: BinaryIO, size: int) -> tuple[dict[str, Any], int]:
    """The parsed header and the position where the data starts."""
    prefix = file.read(8)
    if len(prefix) < 8:
        raise SerializationError(f"load: a file needs at least 8 bytes, this one has {size}")
    length = int.from_bytes(prefix, "little")
    if length > MAX_HEADER_BYTES:
        raise SerializationError(
            f"load: the header claims {length} bytes, the limit is {MAX_HEADER_BYTES}"
        )
    if length > size - 8:
        raise SerializationError(
            f"load: the header claims {length} bytes, but only {size - 8} follow"
        )
    text = file.read(length)
    if not text.startswith(b"{"):
        raise SerializationError("load: the header does not start with '{'")
    header = parse_json(text, "the header")
    if not isinstance(header, dict):
        raise SerializationError("load: the header is not a JSON object")
    return header, 8 + length


def _check_metadata(metadata: Any) -> dict[str, str]:
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise SerializationError("load: __metadata__ must map text to text")
    return metadata


def _check_entry(name: str, entry: Any) -> _Entry:
    """One header entry, checked on its own."""
    where = f"load: tensor {name!r}:"
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise SerializationError(f"{where} entry must have dtype, shape and data_offsets alone")
    if not isinstance(entry["dtype"], str) or entry["dtype"] not in _DTYPES:
        raise SerializationError(f"{where} unknown dtype {_shortened(entry['dtype'])}")
    shape, offsets = entry["shape"], entry["data_offsets"]
    if not _are_sizes(shape) or len(shape) > _MAX_RANK:
        raise SerializationError(
            f"{where} shape must be a list of at most {_MAX_RANK} non-negative integers, "
            f"got {_shortened(shape)}"
        )
    if not _are_sizes(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise SerializationError(
            f"{where} data_offsets must be [begin, end] with 0 <= begin <= end, "
            f"got {_shortened(offsets)}"
        )
    dtype = _DTYPES[entry["dtype"]]
    # Sizes beside a 0 count as well: strides are products of them.
    if math.prod(max(size, 1) for size in shape) * dtype.itemsize > _MAX_ELEMENTS:
        raise SerializationError(f"{where} shape {_shortened(shape)} overflows 64 bits")
    needed = math.prod(shape) * dtype.itemsize
    if needed != offsets[1] - offsets[0]:
        raise SerializationError(
            f"{where} {entry['dtype']} of shape {_shortened(shape)} needs {needed} bytes, "
            f"data_offsets {_shortened(offsets)} give {offsets[1] - offsets[0]}"
        )
    return _Entry(dtype, tuple(shape), offsets[0], offsets[1])


def _are_sizes(values: Any) -> bool:
    return isinstance(values, list) and all(
        type(value) is int and 0 <= value <= _MAX_ELEMENTS for value in values
    )


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _check_coverage(entries: Mapping[str, _Entry], available: int) -> None:
    """Every byte of the data section belongs to exactly one tensor."""
    position = 0
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].begin, item[1].end)):
        if entry.begin != position:
            fault = "overlaps the tensor before it" if entry.begin < position else "leaves a gap"
            raise SerializationError(
                f"load: tensor {name!r}: data at byte {entry.begin} {fault}, expected {position}"
            )
        position = entry.end
    if position != available:
        raise SerializationError(
            f"load: the tensors take {position} bytes of data, the file holds {available}"
        )


def _read_tensor(file: BinaryIO, name: str, entry: _Entry) -> Tensor:
    """Reads the values straight into the tensor's own memory."""
    result = empty(entry.shape, dtype=entry.dtype)
    if entry.end == entry.begin:
        return result
    target = _bytes_of(result)
    done = 0
    while done < target.size:
        count = file.readinto(target[done:])  # type: ignore[attr-defined]
        if not count:
            raise SerializationError(f"load: tensor {name!r}: the file ends early")
        done += count
    return result


def _bytes_of(tensor: Tensor) -> Any:
    """The memory of a contiguous, non-empty tensor as a NumPy array of bytes."""
    if tensor.dtype == dtypes.bfloat16:  # NumPy has no such dtype
        tensor = tensor.view(dtypes.int16)
    return tensor.numpy().reshape(-1).view("uint8")
