"""Sequences of different lengths: padded batches and packed ones, under PyTorch's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tinyt import _capture
from tinyt.dtypes import float16, float32, float64, int8, int16, int32, int64, uint8
from tinyt.ops import arange, cat, empty_like, full, index_select, stack, tensor
from tinyt.ops.convert import cuda_device
from tinyt.tensor import Tensor


class _Fields(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_Fields):
    """Sequences without padding, time step by time step, longest first.

    `data` (sum of the lengths, *) holds batch_sizes[t] rows of each time step t; the indices map
    the batch's order to the sorted one and back (None: it is sorted). Where one of them is given
    the other is computed.

    >>> import tinyt
    >>> packed = pack_sequence([tinyt.ones(2), tinyt.zeros(3)], enforce_sorted=False)
    >>> packed.double().data.dtype, packed.is_cuda
    (tinyt.float64, False)
    """

    __slots__ = ()

    def __new__(
        cls,
        data: Tensor,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        """ValueError where `batch_sizes` is not on the CPU."""
        if batch_sizes is None:
            if not isinstance(data, (list, tuple)) or len(data) != 2:
                raise AssertionError(
                    "PackedSequence: data and batch_sizes are needed, or one pair of them"
                )
            data, batch_sizes = data
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes.device.type != "cpu":
            raise ValueError("batch_sizes should always be on CPU")
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same with its data converted, and its indices where they are; itself where nothing
        changes."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        first, second = (
            None if x is None else x.to(data.device)
            for x in (self.sorted_indices, self.unsorted_indices)
        )
        return self._replace(data=data, sorted_indices=first, unsorted_indices=second)

    def cpu(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same on the CPU."""
        return self.to(*args, **{"device": "cpu", **kwargs})

    def cuda(self, device: Any = None, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same on a CUDA device, by default the current one; RuntimeError where it is not
        there."""
        return self.to(cuda_device(device), *args, **kwargs)

    def double(self) -> PackedSequence:
        """The same with data of float64."""
        return self.to(dtype=float64)

    def float(self) -> PackedSequence:
        """The same with data of float32."""
        return self.to(dtype=float32)

    def half(self) -> PackedSequence:
        """The same with data of float16."""
        return self.to(dtype=float16)

    def long(self) -> PackedSequence:
        """The same with data of int64."""
        return self.to(dtype=int64)

    def int(self) -> PackedSequence:
        """The same with data of int32."""
        return self.to(dtype=int32)

    def short(self) -> PackedSequence:
        """The same with data of int16."""
        return self.to(dtype=int16)

    def char(self) -> PackedSequence:
        """The same with data of int8."""
        return self.to(dtype=int8)

    def byte(self) -> PackedSequence:
        """The same with data of uint8."""
        return self.to(dtype=uint8)

    def pin_memory(self) -> PackedSequence:
        """The same: `Tensor.pin_memory` of each part."""
        parts = (None if x is None else x.pin_memory() for x in (self[0], *self[2:]))
        data, *indices = parts
        return type(self)(data, self.batch_sizes, *indices)  # type: ignore[arg-type]

    @property
    def is_cuda(self) -> bool:
        """Whether the data is on a CUDA device."""
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        """Whether the data is in pinned memory."""
        return self.data.is_pinned()


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The positions of 0, 1, ... in a permutation (n,) of int64; None for None.

    >>> import tinyt
    >>> invert_permutation(tinyt.tensor([2, 0, 1])).tolist()
    [1, 2, 0]
    """
    if permutation is None:
        return None
    positions = arange(permutation.shape[0], dtype=permutation.dtype, device=permutation.device)
    return empty_like(permutation).scatter(0, permutation, positions)


_KNOWN = "_lengths"  # an attribute of tensors that a recording makes: (version, values)


def _tensor_of(lengths: list[int]) -> Tensor:
    """Lengths as a tensor, of which a recording knows the values."""
    out = tensor(lengths, dtype=int64, device="cpu")  # as in PyTorch, wherever the data are
    if _capture.recorder() is not None:
        setattr(out, _KNOWN, (out._version, tuple(lengths)))
    return out


def lengths_of(lengths: Tensor | Sequence[int]) -> list[int]:
    """Numbers of elements; of an argument of a compiled function its values, each of which has a
    program of its own."""
    recorder = _capture.recorder()
    if recorder is not None and isinstance(lengths, Tensor):
        version, known = vars(lengths).get(_KNOWN, (None, ()))
        if version == lengths._version:
            return list(known)
        recorder.want_values(lengths)
    return [int(n) for n in (lengths.tolist() if isinstance(lengths, Tensor) else lengths)]


def _order(lengths: list[int]) -> list[int]:
    """Positions of the sequences, longest first; equal ones keep their order."""
    return sorted(range(len(lengths)), key=lambda i: -lengths[i])


def _inverse(order: list[int]) -> list[int]:
    found = [0] * len(order)
    for new, old in enumerate(order):
        found[old] = new
    return found


def pack_padded_sequence(
    input: Tensor,
    lengths: Tensor | Sequence[int],
    batch_first: bool = False,
    enforce_sorted: bool = True,
) -> PackedSequence:
    """Packs a padded batch (time, batch, *), or (batch, time, *) if ``batch_first``.

    With ``enforce_sorted`` the lengths must not increase. RuntimeError for a length that is not
    between 1 and the number of time steps.
    """
    sizes = lengths_of(lengths)
    if batch_first:
        input = input.transpose(0, 1)
    times, batch = input.shape[0], input.shape[1]
    if len(sizes) != batch:
        raise RuntimeError(
            f"pack_padded_sequence: expected {batch} lengths, one per sequence, got {len(sizes)}"
        )
    if any(not 1 <= n <= times for n in sizes):
        raise RuntimeError(
            f"pack_padded_sequence: lengths must be between 1 and {times}, got {sizes}"
        )
    order = _order(sizes)
    sorted_indices = unsorted_indices = None
    if not enforce_sorted:
        sorted_indices = tensor(order, dtype=int64, device=input.device)
        unsorted_indices = tensor(_inverse(order), dtype=int64, device=input.device)
        input = index_select(input, 1, sorted_indices)
        sizes = [sizes[i] for i in order]
    elif sizes != sorted(sizes, reverse=True):
        raise RuntimeError(
            "pack_padded_sequence: lengths must be in decreasing order when enforce_sorted is "
            f"True, got {sizes}; pass enforce_sorted=False to sort them"
        )
    steps = [sum(n > t for n in sizes) for t in range(max(sizes, default=0))]
    data = cat([input[t, :n] for t, n in enumerate(steps)])
    return PackedSequence(data, _tensor_of(steps), sorted_indices, unsorted_indices)


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The padded batch of a packed one, and the lengths, in the order before sorting."""
    steps = lengths_of(sequence.batch_sizes)
    times, batch = len(steps), steps[0]
    if total_length is not None and total_length < times:
        raise ValueError(
            f"pad_packed_sequence: total_length {total_length} is less than the longest sequence, "
            f"{times}"
        )
    rest = tuple(sequence.data.shape[1:])
    rows, begin = [], 0
    for n in steps:
        row = sequence.data[begin : begin + n]
        if n < batch:
            fill = full((batch - n, *rest), padding_value, dtype=row.dtype, device=row.device)
            row = cat([row, fill])
        rows.append(row)
        begin += n
    for _ in range(times, total_length or times):
        rows.append(
            full(
                (batch, *rest),
                padding_value,
                dtype=sequence.data.dtype,
                device=sequence.data.device,
            )
        )
    padded = stack(rows)
    lengths = _tensor_of([sum(n > i for n in steps) for i in range(batch)])
    if sequence.unsorted_indices is not None:
        padded = index_select(padded, 1, sequence.unsorted_indices)
        lengths = index_select(lengths, 0, sequence.unsorted_indices.cpu())
    return (padded.transpose(0, 1) if batch_first else padded), lengths


def pad_sequence(
    sequences: Tensor | Sequence[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Sequences (length, *) as one batch (longest, batch, *), filled up with ``padding_value``."""
    if padding_side not in ("left", "right"):
        raise RuntimeError(
            f"pad_sequence: padding_side must be 'left' or 'right', got {padding_side!r}"
        )
    parts = list(sequences)
    if not parts:
        raise RuntimeError("pad_sequence: received an empty list of sequences")
    longest = max(x.shape[0] for x in parts)
    rows = []
    for x in parts:
        if x.shape[0] < longest:
            fill = full(
                (longest - x.shape[0], *x.shape[1:]), padding_value, dtype=x.dtype, device=x.device
            )
            x = cat([x, fill] if padding_side == "right" else [fill, x])
        rows.append(x)
    return stack(rows, 0 if batch_first else 1)


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False
) -> list[Tensor]:
    """The sequences of a padded batch."""
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    return [padded_sequences[i, :n] for i, n in enumerate(lengths_of(lengths))]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Packs sequences (length, *)."""
    lengths = [x.shape[0] for x in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences (length, *) of a packed batch, in the order before sorting.

    >>> import tinyt
    >>> packed = pack_sequence([tinyt.ones(1), tinyt.zeros(2)], enforce_sorted=False)
    >>> [x.tolist() for x in unpack_sequence(packed)]
    [[1.0], [0.0, 0.0]]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
