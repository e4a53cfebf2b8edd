"""Samplers: the order in which a loader visits a dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from typing import Generic, TypeVar

from tinyt.dtypes import float64
from tinyt.ops import as_tensor, multinomial, randint, randperm, tensor
from tinyt.random import Generator, default_generator
from tinyt.tensor import Tensor

Index = TypeVar("Index", covariant=True)

_PIECE = 1 << 16  # samples drawn at a time; a multiple of the elements of a counter


def _by_pieces(
    count: int,
    generator: Generator | None,
    draw: Callable[[int, Generator], Tensor],
    piece: int = _PIECE,
) -> Iterator[int]:
    """The values of `draw(count, generator)`, with memory for `piece` of them.

    All counters are taken first: whatever else draws in between, the values and the state of the
    generator are those of one draw.
    """
    if count >= 2**63:
        raise ValueError(f"num_samples should be below 2**63, but got num_samples={count}")
    stream = Generator()
    position = (generator or default_generator).take(-(-count // 4))
    stream.set_state(tensor(position, device="cpu"))
    for start in range(0, count, piece):
        yield from draw(min(piece, count - start), stream).tolist()


class Sampler(Generic[Index]):
    """Base class: a subclass defines `__iter__` over indices and `__len__`."""

    def __init__(self, data_source: Sized | None = None) -> None:
        """`data_source` is for PyTorch's older subclasses; not used."""

    def __iter__(self) -> Iterator[Index]:
        raise NotImplementedError(f"{type(self).__name__} must define __iter__")


class SequentialSampler(Sampler[int]):
    """0, 1, 2, ..."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """A new random order at each pass.

    Args:
        data_source: what is sampled; only its length counts.
        replacement: whether an index may come up twice.
        num_samples: how many indices to draw; all by default.
        generator: source of randomness; the default generator if None.
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got {replacement!r}")
        if num_samples is not None and (not isinstance(num_samples, int) or num_samples <= 0):
            raise ValueError(
                f"num_samples should be a positive integer value, but got num_samples={num_samples}"
            )
        self.data_source = data_source
        self.replacement = replacement
        self.generator = generator
        self._num_samples = num_samples

    @property
    def num_samples(self) -> int:
        """How many indices a pass gives."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        total, wanted = len(self.data_source), self.num_samples
        if total == 0:
            return
        if self.replacement:
            yield from _by_pieces(
                wanted, self.generator, lambda n, stream: randint(total, (n,), generator=stream)
            )
            return
        while wanted > 0:
            order = randperm(total, generator=self.generator).tolist()
            yield from order[:wanted]
            wanted -= total

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices in a new random order at each pass."""

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices drawn with probabilities in proportion to `weights`.

    Args:
        weights: one for each sample; they need not sum to 1.
        num_samples: how many indices to draw.
        replacement: whether an index may come up twice.
        generator: source of randomness; the default generator if None.
    """

    def __init__(
        self,
        weights: Sequence[float] | Tensor,
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            raise ValueError(
                f"num_samples should be a positive integer value, but got num_samples={num_samples}"
            )
        if not isinstance(replacement, bool):
            raise ValueError(
                f"replacement should be a boolean value, but got replacement={replacement}"
            )
        self.weights = as_tensor(weights, dtype=float64)
        if self.weights.dim() != 1:
            raise ValueError(
                "weights should be a 1d sequence but given weights have shape "
                f"{tuple(self.weights.shape)}"
            )
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        def drawn(count: int, stream: Generator | None) -> Tensor:
            return multinomial(self.weights, count, self.replacement, generator=stream)

        if not self.replacement:
            yield from drawn(self.num_samples, self.generator).tolist()
            return
        # Every piece sums the weights anew.
        piece = max(_PIECE, -(-self.weights.numel() // 4) * 4)
        yield from _by_pieces(self.num_samples, self.generator, drawn, piece)

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of `batch_size` indices from another sampler; the last may be shorter."""

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(
                f"batch_size should be a positive integer value, but got batch_size={batch_size}"
            )
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        batch: list[int] = []
        for index in self.sampler:
            batch.append(index)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self) -> int:
        count = len(self.sampler)  # type: ignore[arg-type]
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
