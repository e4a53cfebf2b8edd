"""The JSON header of a safetensors file, parsed entry by entry.

A general JSON parser builds whatever a hostile header holds, an object for every two bytes, before
anything can be checked. This one knows the header's form, keeps one `Entry` for each tensor, and
stops at the first token that does not belong there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from tinyt import dtypes
from tinyt.io.encodings import ENCODINGS, Encoding
from tinyt.io.errors import SerializationError
from tinyt.printing import abbreviated

METADATA = "__metadata__"
COMPLEX = "tinyt.complex128"
_MAX_ELEMENTS = 2**63 - 1
_MAX_RANK = 64
# An entry that needs more is mostly blanks.
_ENTRY_WINDOW = 8192

_S = r"[ \t\n\r]*"
_NUMBER = r"(?:0|[1-9][0-9]{0,18})"
# The form that writers use. Repetitions of groups are bounded, as each one takes memory.
_ENTRY = (
    rf'\{{{_S}"dtype"{_S}:{_S}"([A-Z0-9_]{{1,16}})"{_S},'
    rf'{_S}"shape"{_S}:{_S}\[{_S}((?:{_NUMBER}(?:{_S},{_S}{_NUMBER}){{0,64}})?){_S}\]{_S},'
    rf'{_S}"data_offsets"{_S}:{_S}\[{_S}({_NUMBER}){_S},{_S}({_NUMBER}){_S}\]{_S}\}}'
)
_PLAIN_STRING = r'"([^"\\\x00-\x1f]*)"'  # without escapes
_SURROGATE = "[\ud800-\udfff]"


class Entry(NamedTuple):
    """One tensor of a file: how and where its values are stored."""

    encoding: Encoding
    shape: tuple[int, ...]
    begin: int
    end: int


def parse_header(content: bytes) -> tuple[dict[str, Entry], dict[str, str]]:
    """The entries and the metadata of a header, each entry checked on its own.

    Raises:
        SerializationError: if the text is not UTF-8, not JSON, or breaks the format's rules.
    """
    if not content.startswith(b"{"):
        raise SerializationError("load: the header does not start with '{'")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        reason = f"{error.reason} at byte {error.start}"
    else:
        return _Parser(text).parse()
    raise SerializationError(f"load: the header is not valid JSON: not UTF-8: {reason}")


def parse_json(text: str, what: str) -> Any:
    """Parses strict JSON: no repeated keys, no NaN or Infinity, no bottomless nesting."""
    import json  # here and below: most programs that import tinyt neither save nor load

    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        reason = _reason(error)
    # Raised out here, so that it does not hold the text through the parser's error.
    raise SerializationError(f"load: {what} is not valid JSON: {reason}")


class _Parser:
    """A cursor in the text of a header."""

    def __init__(self, text: str) -> None:
        import json

        self._text, self._at = text, 0
        decoder = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)
        self._decode = decoder.raw_decode
        # Here, as compiling takes a millisecond; `re` keeps them.
        self._match_entry = re.compile(_ENTRY).match
        self._match_string = re.compile(_PLAIN_STRING).match
        self._match_gap = re.compile(_S).match

    def parse(self) -> tuple[dict[str, Entry], dict[str, str]]:
        entries: dict[str, Entry] = {}
        metadata: dict[str, str] | None = None
        for name in self._keys():
            if name in entries or (name == METADATA and metadata is not None):
                raise self._repeated(name)
            if name == METADATA:
                metadata = self._metadata()
            else:
                entries[name] = self._entry(name)
        self._skip()
        if self._at != len(self._text):
            raise self._invalid("extra data")
        return entries, metadata or {}

    def _keys(self) -> Iterator[str]:
        """Yields the keys of an object, with the cursor at the value; it must be consumed."""
        self._at += 1  # the brace
        if self._next() == "}":
            self._at += 1
            return
        while True:
            if self._next() != '"':
                raise self._invalid("expecting a key in double quotes")
            name = self._string()
            if self._next() != ":":
                raise self._invalid("expecting ':'")
            self._at += 1
            yield name
            sign = self._next()
            self._at += 1
            if sign == "}":
                return
            if sign != ",":
                self._at -= 1
                raise self._invalid("expecting ',' or '}'")

    def _metadata(self) -> dict[str, str]:
        metadata: dict[str, str] = {}
        if self._next() != "{":
            raise SerializationError("load: __metadata__ must map text to text")
        for name in self._keys():
            if name in metadata:
                raise self._repeated(name)
            if self._next() != '"':
                raise SerializationError("load: __metadata__ must map text to text")
            metadata[name] = self._string()
        return metadata

    def _entry(self, name: str) -> Entry:
        first = self._next()
        if not first:
            raise self._invalid("the text ends")
        if first != "{":
            raise SerializationError(
                f"load: tensor {abbreviated(name)}: "
                "entry must have dtype, shape and data_offsets alone"
            )
        match = self._match_entry(self._text, self._at)
        if match is None:
            return _check_entry(name, self._unusual_entry(name))
        self._at = match.end()
        dtype, sizes, begin, end = match.groups()
        shape = [int(size) for size in sizes.split(",")] if sizes else []
        return _check_entry(
            name, {"dtype": dtype, "shape": shape, "data_offsets": [int(begin), int(end)]}
        )

    def _unusual_entry(self, name: str) -> Any:
        """An entry with its fields in another order, or a wrong one."""
        window = self._text[self._at : self._at + _ENTRY_WINDOW]
        try:
            value, size = self._decode(window)
        except (ValueError, RecursionError) as error:
            reason = _reason(error)
        else:
            self._at += size
            return value
        if len(window) == _ENTRY_WINDOW:
            reason += f", or it has over {_ENTRY_WINDOW} characters"
        raise SerializationError(
            f"load: the header is not valid JSON: tensor {abbreviated(name)}: {reason}"
        )

    def _string(self) -> str:
        start = self._at
        match = self._match_string(self._text, start)
        if match is not None:
            self._at = match.end()
            return match[1]
        try:
            value, self._at = self._decode(self._text, start)
        except ValueError as error:
            reason = _reason(error)
        else:
            if re.search(_SURROGATE, value):  # from an escape: no text that UTF-8 can hold
                raise self._invalid("a lone surrogate", start)
            return str(value)
        raise SerializationError(f"load: the header is not valid JSON: {reason}")

    def _skip(self) -> None:
        match = self._match_gap(self._text, self._at)
        assert match is not None
        self._at = match.end()

    def _next(self) -> str:
        """The next character that is not blank, not consumed; "" at the end."""
        self._skip()
        return self._text[self._at : self._at + 1]

    def _invalid(self, problem: str, at: int | None = None) -> SerializationError:
        where = self._at if at is None else at
        return SerializationError(
            f"load: the header is not valid JSON: {problem} at character {where}"
        )

    def _repeated(self, name: str) -> SerializationError:
        return SerializationError(
            f"load: the header is not valid JSON: key {abbreviated(name)} occurs more than once"
        )


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return str(error).replace("int_max_str_digits", "digits")[:200]


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"key {abbreviated(twice)} occurs more than once")
    return result


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


def _check_entry(name: str, entry: dict[str, Any]) -> Entry:
    """One header entry, checked on its own."""
    where = f"load: tensor {abbreviated(name)}:"
    if set(entry) != {"dtype", "shape", "data_offsets"}:
        raise SerializationError(f"{where} entry must have dtype, shape and data_offsets alone")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in ENCODINGS:
        raise SerializationError(
            f"{where} unknown dtype {abbreviated(dtype)}; readable are {', '.join(ENCODINGS)}"
        )
    # A stored complex128 tensor has a dimension more than the tensor.
    if not _are_sizes(shape) or len(shape) > _MAX_RANK + (dtype == "F64"):
        raise SerializationError(
            f"{where} shape must be a list of at most {_MAX_RANK} non-negative integers, "
            f"got {abbreviated(shape)}"
        )
    if not _are_sizes(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise SerializationError(
            f"{where} data_offsets must be [begin, end] with 0 <= begin <= end, "
            f"got {abbreviated(offsets)}"
        )
    encoding = ENCODINGS[dtype]
    # Sizes beside a 0 count as well: strides are products of them.
    most = math.prod(max(size, 1) for size in shape)
    if most * max(encoding.itemsize, encoding.dtype.itemsize) > _MAX_ELEMENTS:
        raise SerializationError(f"{where} shape {abbreviated(shape)} overflows 64 bits")
    needed = math.prod(shape) * encoding.itemsize
    if needed != offsets[1] - offsets[0]:
        raise SerializationError(
            f"{where} {dtype} of shape {abbreviated(shape)} needs {needed} bytes, "
            f"data_offsets {abbreviated(offsets)} give {offsets[1] - offsets[0]}"
        )
    return Entry(encoding, tuple(shape), offsets[0], offsets[1])


def _are_sizes(values: Any) -> bool:
    return isinstance(values, list) and all(
        type(value) is int and 0 <= value <= _MAX_ELEMENTS for value in values
    )


def check_coverage(entries: dict[str, Entry], available: int) -> None:
    """Checks that every byte of the data section belongs to exactly one tensor."""
    position = 0
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].begin, item[1].end)):
        if entry.begin != position:
            fault = "overlaps the tensor before it" if entry.begin < position else "leaves a gap"
            raise SerializationError(
                f"load: tensor {abbreviated(name)}: data at byte {entry.begin} {fault}, "
                f"expected {position}"
            )
        position = entry.end
    if position != available:
        raise SerializationError(
            f"load: the tensors take {position} bytes of data, the file holds {available}"
        )


def restore_complex(entries: dict[str, Entry], text: str) -> None:
    """Makes entries of complex128 of those F64 entries whose names `text` lists as JSON."""
    names = parse_json(text, f"the metadata {COMPLEX!r}")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise SerializationError(f"load: the metadata {COMPLEX!r} must be a list of names")
    for name in names:
        entry = entries.get(name)
        if entry is None or entry.encoding.dtype != dtypes.float64 or entry.shape[-1:] != (2,):
            raise SerializationError(
                f"load: the metadata {COMPLEX!r} names {abbreviated(name)}, "
                "which is no F64 tensor with a last dimension of 2"
            )
        encoding = Encoding(dtypes.complex128, 2 * entry.encoding.itemsize)
        entries[name] = Entry(encoding, entry.shape[:-1], entry.begin, entry.end)
    for name, entry in entries.items():
        if len(entry.shape) > _MAX_RANK:
            raise SerializationError(
                f"load: tensor {abbreviated(name)}: shape must have at most {_MAX_RANK} dimensions"
            )
