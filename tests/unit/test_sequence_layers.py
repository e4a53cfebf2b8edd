"""Layers of several inputs or outputs, against PyTorch's layers with the same weights."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tinyt

torch = pytest.importorskip("torch")


def to_tinyt(value: Any) -> Any:
    """A tinyt copy of PyTorch tensors, alone or in containers."""
    if isinstance(value, torch.Tensor):
        return tinyt.from_numpy(value.detach().numpy().copy())
    if isinstance(value, (tuple, list)):
        return type(value)(to_tinyt(v) for v in value)
    if isinstance(value, dict):
        return {k: to_tinyt(v) for k, v in value.items()}
    return value


def tensors(value: Any) -> Iterator[Any]:
    """The tensors of a result that may be a tuple of tuples of them."""
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors(item)
    elif value is not None:
        yield value


def leaves(value: Any, found: list[Any]) -> Any:
    """The same arguments with every float tensor asking for a gradient."""
    if isinstance(value, (tuple, list)):
        return type(value)(leaves(v, found) for v in value)
    if hasattr(value, "requires_grad") and value.dtype.is_floating_point:
        value = value.detach().clone().requires_grad_()
        found.append(value)
    return value


def compare(make: Callable[[Any], Any], *inputs: Any, training: bool = True, **kwargs: Any) -> None:
    """Outputs and all gradients of the layer that make(nn) builds; in float64."""
    torch.manual_seed(1)
    theirs = make(torch.nn).double().train(training)
    for param in theirs.parameters():  # zeros would hide a missing bias
        torch.nn.init.uniform_(param, -0.5, 0.5)
    ours = make(tinyt.nn).to(tinyt.float64).train(training)
    state = OrderedDict((k, to_tinyt(v)) for k, v in theirs.state_dict().items())
    assert list(ours.state_dict()) == list(state)
    ours.load_state_dict(state)
    gradients = []
    outputs = []
    for layer, args, options in (
        (theirs, inputs, kwargs),
        (ours, to_tinyt(inputs), to_tinyt(kwargs)),
    ):
        found: list[Any] = []
        results = list(tensors(layer(*leaves(args, found), **options)))
        outputs.append([t.detach().numpy() for t in results])
        total = sum(((i + 1) * (t * t).sum() for i, t in enumerate(results)), 0)
        total.backward()
        found += list(layer.parameters())
        gradients.append([None if x.grad is None else x.grad.numpy() for x in found])
    for want, got in zip(outputs[0], outputs[1], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-11)
    for want, got in zip(gradients[0], gradients[1], strict=True):
        if want is None or got is None:
            assert want is got or not np.any(want if got is None else got)
        else:
            np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-9)
    assert repr(ours) == repr(theirs)


def rand(*shape: int) -> Any:
    return torch.randn(*shape, dtype=torch.float64)


@pytest.mark.parametrize("bias", [True, False])
def test_bilinear(bias: bool) -> None:
    compare(lambda nn: nn.Bilinear(3, 4, 2, bias=bias), rand(5, 3), rand(5, 4))
    compare(lambda nn: nn.Bilinear(3, 4, 2, bias=bias), rand(2, 5, 3), rand(2, 5, 4))


# ------------------------------------------------------------------ attention and transformers

BLOCKED = torch.triu(torch.ones(4, 4), 1).bool()
PADDED = torch.tensor([[False, False, False, True], [False, True, False, False]])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bias": False, "batch_first": True},
        {"add_bias_kv": True, "add_zero_attn": True},
        {"kdim": 5, "vdim": 3},
    ],
    ids=str,
)
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("masked", [False, True])
def test_multihead_attention(options: Any, need_weights: bool, masked: bool) -> None:
    first = options.get("batch_first", False)

    def sequence(time: int, features: int) -> Any:
        return rand(2, time, features) if first else rand(time, 2, features)

    masks: dict[str, Any] = {}
    if masked:
        masks = {"attn_mask": BLOCKED[:3], "key_padding_mask": PADDED}
    compare(
        lambda nn: nn.MultiheadAttention(8, 2, **options),
        sequence(3, 8),
        sequence(4, options.get("kdim", 8)),
        sequence(4, options.get("vdim", 8)),
        need_weights=need_weights,
        **masks,
    )


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("to_itself", [True, False])
def test_attention_of_the_same_inputs(
    to_itself: bool, batch_first: bool, bias: bool, need_weights: bool
) -> None:
    """Query, key and value are one tensor, or key and value are: their projections are one."""

    def make(nn: Any) -> Any:
        class Layer(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.attention = nn.MultiheadAttention(8, 2, bias=bias, batch_first=batch_first)

            def forward(self, x: Any, y: Any, mask: Any) -> Any:
                y = x if to_itself else y
                return self.attention(x, y, y, need_weights=need_weights, attn_mask=mask)

        return Layer()

    x, y = rand(2, 4, 8), rand(2, 4, 8)
    if not batch_first:
        x, y = x.transpose(0, 1), y.transpose(0, 1)
    compare(make, x, y, BLOCKED)


def test_multihead_attention_of_one_sequence() -> None:
    def make(nn: Any) -> Any:
        return nn.MultiheadAttention(4, 2)

    compare(make, *(rand(3, 4) for _ in range(3)), average_attn_weights=False)
    compare(make, *(rand(3, 4) for _ in range(3)), need_weights=False, attn_mask=rand(2, 3, 3))


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_transformer_encoder(norm_first: bool, activation: str) -> None:
    def make(nn: Any) -> Any:
        layer = nn.TransformerEncoderLayer(
            8, 2, 12, 0.0, activation, batch_first=True, norm_first=norm_first
        )
        return nn.TransformerEncoder(layer, 2, nn.LayerNorm(8), enable_nested_tensor=False)

    compare(make, rand(2, 4, 8))
    compare(make, rand(2, 4, 8), mask=BLOCKED, is_causal=True)
    compare(make, rand(2, 4, 8), src_key_padding_mask=PADDED)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("norm_first", [False, True])
def test_transformer(norm_first: bool) -> None:
    def make(nn: Any) -> Any:
        return nn.Transformer(8, 2, 1, 2, 12, dropout=0.0, norm_first=norm_first, bias=norm_first)

    mask = torch.nn.Transformer.generate_square_subsequent_mask(4, dtype=torch.float64)
    compare(make, rand(5, 2, 8), rand(4, 2, 8), tgt_mask=mask)
    compare(
        make, rand(4, 2, 8), rand(4, 2, 8), src_key_padding_mask=PADDED,
        memory_key_padding_mask=PADDED, tgt_mask=BLOCKED, memory_mask=BLOCKED,
    )  # fmt: skip


def test_subsequent_mask() -> None:
    theirs = torch.nn.Transformer.generate_square_subsequent_mask(3)
    ours = tinyt.nn.Transformer.generate_square_subsequent_mask(3)
    np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (AssertionError, "divisible", lambda nn: nn.MultiheadAttention(5, 2)),
        (ValueError, "embed_dim=0", lambda nn: nn.MultiheadAttention(0, 2)),
        (RuntimeError, "tanh", lambda nn: nn.TransformerEncoderLayer(4, 2, activation="tanh")),
        (RuntimeError, "input_size", lambda nn: nn.LSTM(3, 4)(rand32(nn, 2, 1, 5))),
        (ValueError, "4D", lambda nn: nn.GRU(3, 4)(rand32(nn, 2, 1, 5, 3))),
        (ValueError, "dropout", lambda nn: nn.RNN(3, 4, dropout=2.0)),
        (ValueError, "nonlinearity", lambda nn: nn.RNN(3, 4, nonlinearity="sin")),
        (ValueError, "proj_size|hidden_size", lambda nn: nn.LSTM(3, 4, proj_size=4)),
    ],
)
def test_wrong_layers(error: type[Exception], message: str, call: Any) -> None:
    with pytest.raises(error):
        call(torch.nn)
    with pytest.raises(error, match=message):
        call(tinyt.nn)


def rand32(nn: Any, *shape: int) -> Any:
    return (tinyt if nn is tinyt.nn else torch).ones(*shape)


# ------------------------------------------------------------------ recurrent layers

KINDS: list[tuple[str, dict[str, Any]]] = [
    ("RNN", {}),
    ("RNN", {"nonlinearity": "relu", "num_layers": 2, "bias": False}),
    ("GRU", {}),
    ("GRU", {"num_layers": 2, "bidirectional": True, "batch_first": True}),
    ("LSTM", {}),
    ("LSTM", {"num_layers": 2, "bidirectional": True, "proj_size": 3}),
    ("LSTM", {"bias": False, "batch_first": True}),
]


def states(name: str, options: Any, batch: tuple[int, ...]) -> Any:
    """First states of such a layer."""
    layers = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    hidden = rand(layers, *batch, options.get("proj_size", 5))
    return (hidden, rand(layers, *batch, 5)) if name == "LSTM" else hidden


@pytest.mark.parametrize(("name", "options"), KINDS, ids=str)
def test_recurrent_layer(name: str, options: Any) -> None:
    def make(nn: Any) -> Any:
        return getattr(nn, name)(4, 5, **options)

    x = rand(2, 6, 4) if options.get("batch_first") else rand(6, 2, 4)
    compare(make, x)
    compare(make, x, states(name, options, (2,)))
    compare(make, rand(6, 4))
    compare(make, rand(6, 4), states(name, options, ()))


@pytest.mark.parametrize("name", ["RNNCell", "GRUCell", "LSTMCell"])
@pytest.mark.parametrize("bias", [True, False])
def test_recurrent_cell(name: str, bias: bool) -> None:
    def make(nn: Any) -> Any:
        return getattr(nn, name)(4, 5, bias=bias)

    pair = name == "LSTMCell"
    compare(make, rand(3, 4))
    compare(make, rand(3, 4), (rand(3, 5), rand(3, 5)) if pair else rand(3, 5))
    compare(make, rand(4), (rand(5), rand(5)) if pair else rand(5))


@pytest.mark.parametrize("lengths", [[5, 3, 2], [2, 5, 3], [4, 4, 4], [1, 2, 5]], ids=str)
@pytest.mark.parametrize("batch_first", [False, True])
def test_packing(lengths: list[int], batch_first: bool) -> None:
    theirs, ours = torch.nn.utils.rnn, tinyt.nn.utils.rnn
    x = rand(3, 5, 2) if batch_first else rand(5, 3, 2)
    want = theirs.pack_padded_sequence(x, lengths, batch_first, enforce_sorted=False)
    got = ours.pack_padded_sequence(to_tinyt(x), lengths, batch_first, enforce_sorted=False)
    for mine, other in zip(want, got, strict=True):
        np.testing.assert_array_equal(other.numpy(), mine.numpy())
    for total in (None, 7):
        expected = theirs.pad_packed_sequence(want, batch_first, -1.0, total)
        actual = ours.pad_packed_sequence(got, batch_first, -1.0, total)
        for mine, other in zip(expected, actual, strict=True):
            np.testing.assert_array_equal(other.numpy(), mine.numpy())
    parts = [rand(n, 2) for n in lengths]
    for side in ("left", "right"):
        padded = theirs.pad_sequence(parts, batch_first, 9.0, side)
        found = ours.pad_sequence(to_tinyt(parts), batch_first, 9.0, side)
        np.testing.assert_array_equal(found.numpy(), padded.numpy())
    back = ours.unpad_sequence(to_tinyt(padded), tinyt.tensor(lengths), batch_first)
    for mine, other in zip(parts, back, strict=True):
        np.testing.assert_array_equal(other.numpy(), mine.numpy())
    packed = ours.pack_sequence(to_tinyt(parts), enforce_sorted=False)
    np.testing.assert_array_equal(
        packed.data.numpy(), theirs.pack_sequence(parts, enforce_sorted=False).data.numpy()
    )


@pytest.mark.parametrize(("name", "options"), KINDS, ids=str)
@pytest.mark.parametrize("lengths", [[5, 3, 2], [2, 5, 3]], ids=str)
def test_recurrent_layer_on_packed_sequences(name: str, options: Any, lengths: Any) -> None:
    first = options.get("batch_first", False)
    torch.manual_seed(2)
    theirs = getattr(torch.nn, name)(4, 5, **options).double()
    ours = getattr(tinyt.nn, name)(4, 5, **options).to(tinyt.float64)
    ours.load_state_dict({k: to_tinyt(v) for k, v in theirs.state_dict().items()})
    x, hx = (rand(3, 5, 4) if first else rand(5, 3, 4)), states(name, options, (3,))
    results = []
    for layer, rnn, value, state in (
        (theirs, torch.nn.utils.rnn, x, hx),
        (ours, tinyt.nn.utils.rnn, to_tinyt(x), to_tinyt(hx)),
    ):
        value.requires_grad_()
        packed = rnn.pack_padded_sequence(value, lengths, first, enforce_sorted=False)
        output, last = layer(packed, state)
        padded, sizes = rnn.pad_packed_sequence(output, first)
        assert sizes.tolist() == lengths
        found = [padded, *tensors(last)]
        sum((t * t).sum() for t in found).backward()
        results.append([t.detach().numpy() for t in found] + [value.grad.numpy()])
    for mine, other in zip(*results, strict=True):
        np.testing.assert_allclose(other, mine, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(
    ("error", "message", "lengths"),
    [
        (RuntimeError, r"decreasing order.*\[2, 3\]", [2, 3]),
        (RuntimeError, r"2 lengths.*3", [3, 2, 1]),
        (RuntimeError, r"between 1 and 4.*\[4, 0\]", [4, 0]),
        (RuntimeError, r"between 1 and 4.*\[5, 2\]", [5, 2]),
    ],
)
def test_wrong_lengths(error: type[Exception], message: str, lengths: list[int]) -> None:
    with pytest.raises(error, match=message):
        tinyt.nn.utils.rnn.pack_padded_sequence(tinyt.ones(4, 2, 1), lengths)


def test_dropout_between_layers() -> None:
    """In training only, and not after the last layer."""
    tinyt.manual_seed(0)
    layer = tinyt.nn.LSTM(3, 4, num_layers=2, dropout=0.5)
    x = tinyt.ones(5, 2, 3)
    assert not np.array_equal(layer(x)[0].detach().numpy(), layer(x)[0].detach().numpy())
    layer.eval()
    np.testing.assert_array_equal(layer(x)[0].detach().numpy(), layer(x)[0].detach().numpy())
    with pytest.warns(UserWarning, match="num_layers greater than 1"):
        tinyt.nn.LSTM(3, 4, dropout=0.5)
