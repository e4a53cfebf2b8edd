"""Packed sequences are arguments and results of compiled functions: the batch sizes are known by
their values, of which each has a program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

import tinyt
import tinyt.nn.functional as F
from sampling import assert_same_bits, flat
from tinyt import CaptureError, Tensor, nn, optim
from tinyt.compiler.api import compile
from tinyt.nn.utils.rnn import (
    PackedSequence,
    pack_padded_sequence,
    pack_sequence,
    pad_packed_sequence,
    unpad_sequence,
)

SIZE = 4
LENGTHS = ([5, 3, 2], [5, 4, 1], [5, 3, 2], [3, 3, 3], [5, 4, 1])


def padded(seed: int, times: int = 5, batch: int = 3) -> Tensor:
    return tinyt.randn(times, batch, SIZE, generator=tinyt.Generator().manual_seed(seed))


def packed(seed: int, lengths: Sequence[int], **options: Any) -> PackedSequence:
    return pack_padded_sequence(padded(seed, max(lengths)), list(lengths), **options)


def network(kind: type[nn.Module] = nn.LSTM, **options: Any) -> Any:
    tinyt.manual_seed(0)
    return kind(SIZE, 3, **options)  # type: ignore[call-arg]


def assert_same(got: Any, want: Any) -> None:
    """The same structures of the same types, with the same bits."""
    assert type(got) is type(want)
    if isinstance(want, Tensor):
        assert_same_bits(got, want)
    elif isinstance(want, (tuple, list)):
        for one, other in zip(got, want, strict=True):
            assert_same(one, other)
    else:
        assert got == want


KINDS = [
    (nn.LSTM, {}), (nn.GRU, {}), (nn.RNN, {}), (nn.LSTM, {"num_layers": 2, "bidirectional": True}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "options"), KINDS)
@pytest.mark.parametrize("enforce_sorted", [True, False])
def test_layers(kind: type[nn.Module], options: dict[str, Any], enforce_sorted: bool) -> None:
    layer = network(kind, **options)

    @compile
    def run(sequence: PackedSequence) -> Any:
        return layer(sequence)

    with tinyt.no_grad():
        for seed, lengths in enumerate(LENGTHS):
            lengths = lengths if enforce_sorted else [*lengths[1:], lengths[0]]
            for again in range(2):
                sequence = packed(2 * seed + again, lengths, enforce_sorted=enforce_sorted)
                got, want = run(sequence), layer(sequence)
                assert_same(got, want)
                assert isinstance(got[0], PackedSequence)
                assert got[0].batch_sizes is sequence.batch_sizes
    assert run.cache_info().misses == 3
    assert "other values, which the function is captured for" in run.explain()


def padded_again(sequence: PackedSequence) -> Any:
    return pad_packed_sequence(sequence, padding_value=-1.0, total_length=7)


def doubled(sequence: PackedSequence) -> Any:
    return sequence.to(tinyt.float64), sequence._replace(data=sequence.data * 2)


def only_data(sequence: PackedSequence) -> Any:
    return sequence.data.sum() + sequence.batch_sizes.sum()


def nested(sequence: PackedSequence) -> Any:
    return [sequence, (sequence.data + 1, {"steps": len(sequence)}["steps"])]


@pytest.mark.parametrize("function", [padded_again, doubled, only_data, nested])
def test_functions(function: Callable[..., Any]) -> None:
    compiled = compile(function)
    for seed, lengths in enumerate(LENGTHS):
        sequence = packed(seed, lengths)
        got, want = compiled(sequence), function(sequence)
        assert_same([*flat(got)], [*flat(want)])


@pytest.mark.parametrize("enforce_sorted", [True, False])
@pytest.mark.parametrize("as_tensor", [True, False])
def test_packing_inside(enforce_sorted: bool, as_tensor: bool) -> None:
    layer = network()

    def run(x: Tensor, lengths: Any) -> Any:
        sequence = pack_padded_sequence(x, lengths, enforce_sorted=enforce_sorted)
        out, _ = layer(sequence)
        return *pad_packed_sequence(out), sequence, unpad_sequence(x, [2, 1, 1])  # type: ignore[arg-type]

    compiled = compile(run)
    with tinyt.no_grad():
        for seed, lengths in enumerate([*LENGTHS, *LENGTHS]):
            lengths = lengths if enforce_sorted else [*lengths[1:], lengths[0]]
            given = tinyt.tensor(lengths) if as_tensor else lengths
            x = padded(seed)
            assert_same(compiled(x, given), run(x, given))
    assert compiled.cache_info().misses == 3


def test_packing_sequences_of_their_own() -> None:
    def run(*sequences: Tensor) -> PackedSequence:
        return pack_sequence([x * 2 for x in sequences], enforce_sorted=False)

    compiled = compile(run)
    for seed in range(6):
        rows = [padded(seed, n)[:, 0] for n in LENGTHS[seed % 2]]
        assert_same(compiled(*rows), run(*rows))
    assert compiled.cache_info().misses == 2


def test_training() -> None:
    """Whole steps, and a forward pass whose backward pass runs outside."""
    sides = []
    for wrap in (lambda f: f, compile):
        layer = network(num_layers=2)
        sgd = optim.SGD(layer.parameters(), 0.1)

        def step(
            sequence: PackedSequence, labels: Tensor, layer: Any = layer, sgd: Any = sgd
        ) -> Any:
            sgd.zero_grad()
            _, (hidden, _) = layer(sequence)
            loss = F.cross_entropy(hidden[-1], labels)
            loss.backward()
            sgd.step()
            return loss.detach()

        sides.append((wrap(step), wrap(lambda s, layer=layer: layer(s)[0]), layer))
    for seed, lengths in enumerate([*LENGTHS, *LENGTHS]):
        sequence = packed(seed, lengths)
        labels = tinyt.tensor([0, 1, 2])
        losses, grads = [], []
        for step, forward, layer in sides:
            losses.append(step(sequence, labels))
            layer.zero_grad()
            forward(sequence).data.square().sum().backward()
            grads.append([p.grad.clone() for p in layer.parameters()])
        assert_same(losses[1], losses[0])
        assert_same(grads[1], grads[0])
        for p, q in zip(*(layer.parameters() for *_, layer in sides), strict=True):
            assert_same_bits(p.detach(), q.detach())


def test_verified() -> None:
    layer = network()
    compiled = compile(lambda s: layer(s)[0].data.sum(), verify=True)
    for seed in range(3):
        compiled(packed(seed, LENGTHS[0]))
    assert compiled.verifications()


def test_batch_sizes_that_change_in_place() -> None:
    """A program stands for the values, not for the tensor."""
    compiled = compile(padded_again)
    one, other = (packed(0, LENGTHS[i]) for i in (0, 1))
    sizes = one.batch_sizes.clone()
    for source in (one, one, other, one, other):
        sizes.resize_(source.batch_sizes.shape).copy_(source.batch_sizes)
        sequence = one._replace(data=source.data, batch_sizes=sizes)
        assert_same(compiled(sequence), padded_again(sequence))


def test_one_tensor_of_batch_sizes_for_several() -> None:
    def run(x: PackedSequence, y: PackedSequence) -> Any:
        same = x.batch_sizes is y.batch_sizes
        return pad_packed_sequence(x)[0] + pad_packed_sequence(y)[0], same

    compiled = compile(run)
    for seed in range(6):
        x = packed(seed, LENGTHS[seed % 2])
        y = x._replace(data=x.data * 3) if seed < 4 else packed(seed, LENGTHS[seed % 2])
        assert_same(compiled(x, y), run(x, y))


def test_dynamic_sizes() -> None:
    layer = network()
    compiled = compile(lambda s: layer(s)[0].data, dynamic=True)
    with tinyt.no_grad():
        for seed, lengths in enumerate(
            [[5, 3, 2], [5, 3, 2], [4, 4], [6, 3, 1, 1], [5, 3, 2], [4, 4]]
        ):
            sequence = pack_padded_sequence(padded(seed, 6, len(lengths)), lengths)
            assert_same_bits(compiled(sequence), layer(sequence)[0].data)


def test_what_is_refused() -> None:
    def writes(sequence: PackedSequence) -> Any:
        pad_packed_sequence(sequence)
        sequence.batch_sizes.add_(0)
        return sequence.data

    def computes(x: Tensor, lengths: Tensor) -> Any:
        return pack_padded_sequence(x, lengths + 0)

    sequence = packed(0, LENGTHS[0])

    def shows(sequence: PackedSequence) -> Any:
        pad_packed_sequence(sequence)
        return sequence.batch_sizes[1:]

    for function in (writes, shows):
        with pytest.raises(CaptureError, match=r"known by its values, .*; use a clone"):
            compile(function)(sequence)
    with pytest.raises(CaptureError, match="pass the number in as an argument"):
        compile(computes)(padded(0), tinyt.tensor(LENGTHS[0]))


def test_batch_sizes_that_are_changed_inside() -> None:
    """What is known of them is that no more."""

    def changed(x: Tensor) -> Any:
        sequence = pack_padded_sequence(x, [5, 3, 2])
        sequence.batch_sizes.sub_(0)
        return pad_packed_sequence(sequence)

    with pytest.raises(CaptureError, match="pass the number in as an argument"):
        compile(changed)(padded(0))


def test_programs_and_sequences_go() -> None:
    compiled = compile(padded_again, recompile_limit=2)
    for seed in range(2):
        compiled(packed(seed, LENGTHS[0]))
    live = tinyt.memory.live_tensors()
    for seed in range(5):
        compiled(packed(seed, LENGTHS[0]))
    assert tinyt.memory.live_tensors() == live
