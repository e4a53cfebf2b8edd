"""Layers and reductions of `torch` with the arguments of PyTorch's own kernels, as `native.py`.

>>> import tinyt
>>> x, w = tinyt.ones(1, 1, 3), tinyt.ones(1, 1, 2)
>>> tinyt.convolution(x, w, None, [1], [0], [1], False, [0], 1)
tensor([[[2., 2.]]])
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tinyt import ops
from tinyt._capture import recorder
from tinyt._tensor import dtype_by_name
from tinyt.nn import functional as F
from tinyt.nn.rnn import run_layers
from tinyt.nn.rnn_cells import State, Weights
from tinyt.nn.utils.rnn import lengths_of
from tinyt.tensor import Tensor

# ---- convolution


def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Tensor:
    """`conv1d` to `conv3d`, or `conv_transpose1d` to `conv_transpose3d`, by the weight's rank."""
    spatial = weight.dim() - 2
    if not 1 <= spatial <= 3:
        raise RuntimeError(f"convolution: weight must have 3 to 5 dimensions, got {weight.dim()}")
    name = f"conv_transpose{spatial}d" if transposed else f"conv{spatial}d"
    function: Callable[..., Tensor] = ops.EXPORTS[name]
    more = {"output_padding": output_padding} if transposed else {}
    return function(input, weight, bias, stride, padding, dilation=dilation, groups=groups, **more)


def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(`nn.functional.embedding_bag`, the bag of each index, the sizes of the bags, and, of mode
    2, the index of each largest value); ``mode`` is 0 sum, 1 mean, 2 max.

    The last three are what PyTorch's backward needs. Where it leaves them out, for sums, they are
    computed here too; of the other modes the last is the sizes or the indices.
    """
    out = F.embedding_bag(
        indices,
        weight,
        offsets,
        scale_grad_by_freq=scale_grad_by_freq,
        mode=("sum", "mean", "max")[mode],
        per_sample_weights=per_sample_weights,
        include_last_offset=include_last_offset,
        padding_idx=padding_idx,
    )
    bags, int64 = out.shape[0], dtype_by_name("int64")
    starts = offsets.to(int64)
    places = ops.arange(indices.shape[0], device=indices.device)
    bag = (places.unsqueeze(1) >= starts[:bags].unsqueeze(0)).sum(1) - 1
    if padding_idx is None:
        used = ops.ones(indices.shape[0], dtype=int64, device=indices.device)
    else:
        used = (indices != padding_idx % weight.shape[0]).to(int64)
    sizes = ops.zeros(bags, dtype=int64, device=bag.device).index_add(0, bag, used)
    if mode != 2:
        return out, bag, sizes, sizes
    rows = weight.detach()[indices]
    hits = (rows == out.detach()[bag]) & (used != 0).unsqueeze(1)
    # The first position in a bag that has the largest value; 0 for an empty one.
    last = indices.shape[0]
    position = ops.where(hits, places.unsqueeze(1), last)
    first = ops.full((bags, rows.shape[1]), last, dtype=int64, device=bag.device).scatter_reduce(
        0, bag.unsqueeze(1).expand(position.shape), position, "amin"
    )
    padded = ops.cat([indices.to(int64), ops.zeros(1, dtype=int64, device=indices.device)])
    return out, bag, sizes, padded[first]


# ---- recurrent layers


def _weights(
    mode: str, params: Sequence[Tensor], biases: bool, layers: int, directions: int
) -> list[list[Weights]]:
    each = len(params) // (layers * directions)
    least = 4 if biases else 2
    if len(params) != layers * directions * each or each not in (least, least + 1):
        raise RuntimeError(
            f"{mode.lower()}: expected {layers * directions * least} parameters, got {len(params)}"
        )
    if each > least and mode != "LSTM":
        raise RuntimeError(f"{mode.lower()}: only lstm takes projections")
    found: list[list[Weights]] = []
    for layer in range(layers):
        found.append([])
        for direction in range(directions):
            at = (layer * directions + direction) * each
            mine = list(params[at : at + each])
            projection = mine.pop() if each > least else None
            b_ih, b_hh = mine[2:] if biases else (None, None)
            found[-1].append((mine[0], mine[1], b_ih, b_hh, projection))
    return found


def _recurrent(mode: str, args: tuple[Any, ...]) -> tuple[Tensor, State]:
    """(outputs, last states), of arguments as `lstm` has them."""
    packed = isinstance(args[3], (list, tuple))
    if packed:
        data, batch_sizes, hx, params, biases, layers, dropout, train, bidirectional = args
    else:
        data, hx, params, biases, layers, dropout, train, bidirectional, turn = args
    first: State = tuple(hx) if mode == "LSTM" else (hx,)
    weights = _weights(mode, params, biases, layers, 2 if bidirectional else 1)
    if packed:
        return run_layers(mode, data, lengths_of(batch_sizes), first, weights, dropout, train)
    if data.dim() != 3 or 0 in data.shape[:2]:
        raise RuntimeError(
            f"{mode.lower()}: input must have three dimensions, at least one step and one row, "
            f"got {tuple(data.shape)}"
        )
    x = data.transpose(0, 1) if turn else data
    times, rows, features = x.shape
    flat, last = run_layers(
        mode, x.reshape(times * rows, features), [rows] * times, first, weights, dropout, train
    )
    out = flat.reshape(times, rows, flat.shape[1])
    return (out.transpose(0, 1) if turn else out), last


def lstm(
    input: Tensor,
    hx: Any,
    params: Any,
    has_biases: Any,
    num_layers: Any,
    dropout: Any,
    train: Any,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """`nn.LSTM` as a function: (outputs, last hidden states, last memories).

    ``hx`` is the first states, ``params`` weights and biases in the layer's order. Of packed
    sequences, by position: data, batch_sizes, hx, params, has_biases, num_layers, dropout, train,
    bidirectional.
    """
    args = (input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)
    out, (hidden, memory) = _recurrent("LSTM", args)
    return out, hidden, memory


def _function(mode: str, layer: str) -> Callable[..., tuple[Tensor, Tensor]]:
    def function(
        input: Tensor,
        hx: Any,
        params: Any,
        has_biases: Any,
        num_layers: Any,
        dropout: Any,
        train: Any,
        bidirectional: bool,
        batch_first: bool,
    ) -> tuple[Tensor, Tensor]:
        args = (
            input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first,
        )  # fmt: skip
        out, (hidden,) = _recurrent(mode, args)
        return out, hidden

    function.__name__ = function.__qualname__ = mode.lower()
    function.__doc__ = f"`nn.{layer}` as a function, with `lstm`'s arguments; one state."
    return function


gru = _function("GRU", "GRU")
rnn_tanh = _function("RNN_TANH", "RNN")
rnn_relu = _function("RNN_RELU", "RNN")

# ---- reductions of parts

_IDENTITIES = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}
_SCATTERED = {"max": "amax", "min": "amin", "mean": "sum"}


def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Tensor:
    """Sums, means, products or extremes of parts of ``data`` that follow each other along ``axis``.

    Args:
        data: floating-point.
        reduce: "sum", "mean", "prod", "max" or "min".
        lengths: how long the parts are, in the last of its ``axis + 1`` dimensions; those before
            are dimensions of ``data``.
        offsets: where the parts begin, and the last ends, in the place of ``lengths``.
        initial: counts as a value of every part, but not in the length that a mean divides by. An
            empty part is that value, or without it 0, NaN, 1, -inf or inf.
        indices: must be None.
        unsafe: leaves the checks of ``lengths`` out; they are made anyway.

    Raises:
        RuntimeError: for another name, lengths that are negative or do not fill ``data``.

    >>> import tinyt
    >>> x = tinyt.tensor([1.0, 2.0, 5.0])
    >>> tinyt.segment_reduce(x, "max", lengths=tinyt.tensor([2, 1]))
    tensor([2., 5.])
    """
    if reduce not in _IDENTITIES:
        raise RuntimeError(
            f"segment_reduce: reduce must be one of {', '.join(_IDENTITIES)}, got {reduce!r}"
        )
    if not data.dtype.is_floating_point:
        raise NotImplementedError(f"segment_reduce: data must be floating, got {data.dtype.name}")
    if indices is not None or (lengths is None and offsets is None):
        raise RuntimeError("segment_reduce: lengths or offsets must be given, and no indices")
    if lengths is None:
        assert offsets is not None
        cuts = offsets.to(dtype_by_name("int64"))
        data = data.narrow(axis, 0, int(cuts.max().item())) if cuts.numel() else data
        lengths = cuts.diff(dim=-1)
    lengths = lengths.to(dtype_by_name("int64"))
    axis = axis % data.dim() if data.dim() else axis
    outer, size = tuple(data.shape[:axis]), data.shape[axis]
    if tuple(lengths.shape[:-1]) != outer or lengths.dim() != axis + 1:
        raise RuntimeError(
            f"segment_reduce: lengths must have shape {(*outer, 'parts')}, got "
            f"{tuple(lengths.shape)}"
        )
    # A compiled function's values are not known when it is recorded.
    if recorder() is None and (
        bool((lengths < 0).any()) or not bool((lengths.sum(-1) == size).all())
    ):
        raise RuntimeError(
            f"segment_reduce: lengths must not be negative and fill {size} elements of data"
        )
    return _segments(data, reduce, lengths.reshape(-1), initial, axis).reshape(
        *outer, lengths.shape[-1], *data.shape[axis + 1 :]
    )


def _segments(
    data: Tensor, reduce: str, lengths: Tensor, initial: float | None, axis: int
) -> Tensor:
    """[parts, rest] of all parts in a row."""
    rest = math.prod(data.shape[axis + 1 :])
    rows = data.reshape(math.prod(data.shape[: axis + 1]), rest)
    extreme = reduce in ("max", "min")
    start = _IDENTITIES[reduce] if initial is None or extreme else initial
    parts = ops.repeat_interleave(
        ops.arange(lengths.shape[0], device=lengths.device), lengths, output_size=rows.shape[0]
    )
    found = ops.full(
        (lengths.shape[0], rest), start, dtype=data.dtype, device=data.device
    ).scatter_reduce(
        0,
        parts.unsqueeze(1).expand(rows.shape),
        rows,
        _SCATTERED.get(reduce, reduce),
        include_self=not extreme,
    )
    if extreme and initial is not None:  # which takes no share of the gradient
        found = ops.where(found < initial if reduce == "max" else found > initial, initial, found)
    if reduce != "mean":
        return found
    count = lengths.unsqueeze(1).to(data.dtype)
    return found / (count if initial is None else count.clamp(min=1))


EXPORTS: dict[str, Any] = {
    f.__name__: f
    for f in (convolution, embedding_bag, lstm, gru, rnn_tanh, rnn_relu, segment_reduce)
}
__all__ = ["EXPORTS"]
