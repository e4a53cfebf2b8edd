"""The safetensors format: named tensors behind a JSON header.

Layout: an unsigned 64-bit little-endian length, a JSON header of that many bytes, the raw values.
The header maps each name to `{"dtype", "shape", "data_offsets": [begin, end]}`, offsets counted
from the end of the header; `"__metadata__"` maps text to text. Values are little-endian in row
order and cover the rest of the file without gap or overlap.

complex128, which the format lacks, is written as F64 with a last dimension of 2 (real, imaginary);
the metadata entry "tinyt.complex128" lists the names of such tensors as JSON. `encodings` says
what the format's other dtypes are read into.

Source: https://huggingface.co/docs/safetensors, section "Format".
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
from collections.abc import Mapping
from typing import Any, BinaryIO

from tinyt import dtypes
from tinyt import io as formats
from tinyt._tensor import view_dtype
from tinyt.io.atomic import atomic_write
from tinyt.io.encodings import NAMES
from tinyt.io.errors import SerializationError
from tinyt.io.files import open_regular, write_all
from tinyt.io.header import (
    COMPLEX,
    METADATA,
    Entry,
    check_coverage,
    parse_header,
    restore_complex,
)
from tinyt.ops import empty
from tinyt.ops.common import on_device
from tinyt.printing import abbreviated
from tinyt.tensor import Tensor, prim

MAX_HEADER_BYTES = 100_000_000
_ALIGNMENT = 8
_CHUNK = 1 << 20  # elements that are converted at a time


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
    text = _header_of(tensors, order, dict(metadata or {}))
    with _destination(path) as file:
        write_all(file, len(text).to_bytes(8, "little"))
        write_all(file, text)
        for name in order:
            if tensors[name].numel():
                dense = tensors[name].detach().contiguous()
                write_all(file, _bytes_of(_canonical(on_device(dense, "cpu"))))


def _header_of(tensors: Mapping[str, Tensor], order: list[str], metadata: dict[str, str]) -> bytes:
    begin, spans = 0, {}
    for name in order:
        end = begin + tensors[name].numel() * tensors[name].element_size()
        spans[name] = [begin, end]
        begin = end
    entries: dict[str, Any] = {}
    pairs = []  # names of the tensors whose elements are stored as pairs
    for name, tensor in tensors.items():
        if name == METADATA:
            raise ValueError(f"save: the name {METADATA!r} is reserved by the format")
        shape = list(tensor.shape)
        if tensor.dtype == dtypes.complex128:
            pairs.append(name)
            shape.append(2)
        dtype = NAMES[dtypes.float64 if tensor.dtype == dtypes.complex128 else tensor.dtype]
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": spans[name]}
    if pairs:
        metadata[COMPLEX] = to_json(pairs)
    try:
        text = to_json({METADATA: metadata, **entries} if metadata else entries).encode()
    except UnicodeEncodeError as error:
        near = error.object[max(error.start - 20, 0) : error.start + 20]
        raise ValueError(
            f"save: text with a lone surrogate cannot be stored as UTF-8: {near!r}"
        ) from None
    text += b" " * (-len(text) % _ALIGNMENT)
    if len(text) > MAX_HEADER_BYTES:
        raise ValueError(f"save: the header would take {len(text)} bytes, over {MAX_HEADER_BYTES}")
    return text


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
        _refuse_foreign(path, file)
        file.seek(0)
        content = _read_header(file, size)
        data_start = 8 + len(content)
        entries, metadata = parse_header(content)
        del content
        check_coverage(entries, size - data_start)
        restore_complex(entries, metadata.pop(COMPLEX, "[]"))
        tensors = {}
        for name, entry in entries.items():
            file.seek(data_start + entry.begin)
            tensors[name] = _read_tensor(file, name, entry)
    return tensors, metadata


def to_json(tree: Any) -> str:
    """Compact JSON."""
    import json  # here: most programs that import tinyt neither save nor load

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
        return open_regular(path)
    if not hasattr(path, "read"):
        raise TypeError(f"load: expected a path or a binary file, got {type(path).__name__}")
    content = path.read()
    if content is None:
        raise BlockingIOError(errno.EAGAIN, "load: the file has no bytes yet")
    if not isinstance(content, bytes):
        raise TypeError("load: the file must be opened in binary mode")
    return io.BytesIO(content)


def _refuse_foreign(path: Any, file: BinaryIO) -> None:
    """SerializationError for a file of another kind that is known."""
    file.seek(0)
    head = file.read(9)
    if head[8:] == b"{" and int.from_bytes(head[:8], "little") <= MAX_HEADER_BYTES:
        return
    kind = formats.foreign.foreign_kind(file)
    if kind is not None:
        name = os.fspath(path) if isinstance(path, (str, os.PathLike)) else "the file"
        raise SerializationError(f"load: {name} {kind}")


def _read_header(file: BinaryIO, size: int) -> bytes:
    """The header's text, whose length is checked before it is believed."""
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
    if len(text) < length:
        raise SerializationError("load: the file ends early, in its header")
    return text


def _read_tensor(file: BinaryIO, name: str, entry: Entry) -> Tensor:
    result = empty(entry.shape, dtype=entry.encoding.dtype, device="cpu")
    if entry.end == entry.begin:
        return result
    if entry.encoding.convert is None:
        _read_into(file, name, _bytes_of(result))
        return _canonical(result)
    _read_converted(file, name, entry, result.numpy().reshape(-1))
    return result


def _read_converted(file: BinaryIO, name: str, entry: Entry, target: Any) -> None:
    """Reads values into an array of another dtype, piece by piece."""
    import numpy as np

    _, itemsize, storage, convert = entry.encoding
    buffer = np.empty(min(target.size, _CHUNK), dtype=storage)
    assert convert is not None
    assert buffer.itemsize == itemsize
    for start in range(0, target.size, _CHUNK):
        piece = buffer[: target.size - start]
        _read_into(file, name, piece.view("u1").data)
        try:
            target[start : start + _CHUNK] = convert(piece)
        except ValueError as error:
            raise SerializationError(f"load: tensor {abbreviated(name)}: {error}") from None


def _read_into(file: BinaryIO, name: str, target: memoryview) -> None:
    """Reads the values straight into memory."""
    done = 0
    while done < target.nbytes:
        count = file.readinto(target[done:])  # type: ignore[attr-defined]
        if not count:
            raise SerializationError(f"load: tensor {abbreviated(name)}: the file ends early")
        done += count


def _bytes_of(tensor: Tensor) -> memoryview:
    """The memory of a contiguous, non-empty tensor."""
    return memoryview(_flat_bytes(tensor))


def _flat_bytes(tensor: Tensor) -> Tensor:
    flat: Tensor = view_dtype(prim.reshape(tensor, (tensor.numel(),)), dtypes.uint8)
    return flat


def _canonical(tensor: Tensor) -> Tensor:
    """A contiguous, non-empty tensor with 1 for every true bool, whatever its byte is."""
    if tensor.dtype != dtypes.bool:
        return tensor
    values = _flat_bytes(tensor)
    if prim.amax(values, (0,), False).item() <= 1:
        return tensor
    true: Tensor = prim.reshape(prim.ne(values, 0), tuple(tensor.shape))
    return true
