"""Sequences of different lengths: padded batches and packed ones, under PyTorch's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tinyt import _tensor
from tinyt.dtypes import int64
from tinyt.ops import cat, full, index_select, stack, tensor
from tinyt.tensor import Tensor


class PackedSequence(NamedTuple):
    """Sequences without padding, time step by time step, longest first.

    `data` (sum of the lengths, *) holds batch_sizes[t] rows of each time step t; the indices map
    the batch's order to the sorted one and back (None: it is sorted).
    """

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None = None
    unsorted_indices: Tensor | None = None

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same with its data converted."""
        return self._replace(data=self.data.to(*args, **kwargs))


_KNOWN = "_lengths"  # an attribute of tensors that a recording makes: (version, values)


def _tensor_of(lengths: list[int]) -> Tensor:
    """Lengths as a tensor, of which a recording knows the values."""
    out = tensor(lengths, dtype=int64)
    if _tensor.recorder() is not None:
        setattr(out, _KNOWN, (out._version, tuple(lengths)))
    return out


def lengths_of(lengths: Tensor | Sequence[int]) -> list[int]:
    """Numbers of elements; of an argument of a compiled function its values, each of which has a
    program of its own."""
    recorder = _tensor.recorder()
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
        sorted_indices = tensor(order, dtype=int64)
        unsorted_indices = tensor(_inverse(order), dtype=int64)
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
            fill = full((batch - n, *rest), padding_value, dtype=row.dtype)
            row = cat([row, fill])
        rows.append(row)
        begin += n
    for _ in range(times, total_length or times):
        rows.append(full((batch, *rest), padding_value, dtype=sequence.data.dtype))
    padded = stack(rows)
    lengths = _tensor_of([sum(n > i for n in steps) for i in range(batch)])
    if sequence.unsorted_indices is not None:
        padded = index_select(padded, 1, sequence.unsorted_indices)
        lengths = index_select(lengths, 0, sequence.unsorted_indices)
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
            fill = full((longest - x.shape[0], *x.shape[1:]), padding_value, dtype=x.dtype)
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
